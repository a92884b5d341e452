// SPDX-License-Identifier: GPL-2.0-only
/*
 * Batched folio copy: all copies of a migration batch together, between the
 * TLB flush and the move of the first folio.
 *
 * Why a page that is copied here is never stale
 * ---------------------------------------------
 *
 * When a batch gets here, each of its source folios is locked and unmapped
 * everywhere, and the TLB has been flushed. A folio is copied only if, in
 * addition, its reference count is exactly what the isolation, the page cache
 * or swap cache, and PG_private account for. From then on until the folio is
 * moved or unlocked, nobody can write to it:
 *
 * - through a page table: all of them hold migration entries, and a fault on
 *   one waits for the folio lock. The flush has ended every use of an older
 *   translation;
 * - through a pin (O_DIRECT, RDMA, io_uring's fixed buffers, vmsplice): an
 *   existing pin is an additional reference, so the folio is not copied here.
 *   GUP cannot take a new one, because no page table entry maps the folio;
 *   GUP-fast re-reads the entry after taking its reference, and drops the
 *   reference if the entry has changed. memfd_pin_folios() takes its pins from
 *   the page cache, and waits for the folio lock before it returns them;
 * - through the page cache or the swap cache: a lookup can take a reference at
 *   any time, but write(2), truncation and faults lock the folio before they
 *   change or map it. Only regular files are batched: a file system may reread
 *   the blocks of its directories under a lock of its own (AFS does).
 *
 * So the references must be checked before the copy. At the switch it would be
 * too late: the holder of a pin could write after the copy and drop the pin
 * before the switch. The check at the switch remains, because it protects the
 * mapping. If it fails, the copy is void: the mark is dropped, and the next
 * pass starts with a new check.
 *
 * Why nobody sees an incomplete page
 * ----------------------------------
 *
 * Neither the page cache, nor the swap cache, nor a page table refers to a
 * destination before its folio is moved. A buffered read, which takes no folio
 * lock, finds the source, whose content does not change, until the mapping
 * switches to a destination whose content is already complete (see job.c and
 * team.c for the ordering). If a copy fails, the destination is left
 * unmarked; move_to_new_folio() then copies again, and handles errors as usual.
 *
 * What is not batched
 * -------------------
 *
 * Pages with movable_ops, and folios whose address space has a migrate_folio
 * callback of its own: these may need their own locks during the copy, as
 * buffer heads do. They are copied when they are moved.
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>
#include <trace/events/migrate_copy.h>

#include "../migrate.h"
#include "internal.h"

/* Batches of fewer base pages are copied as they are moved. */
#define MIGRATE_COPY_MIN_PAGES	(SZ_256K / PAGE_SIZE)

/*
 * Copies of fewer base pages are not shared with helpers that take batches:
 * these join in only when no batch is left.
 */
#define MIGRATE_COPY_SHARED_PAGES	(SZ_512K / PAGE_SIZE)

/*
 * Folio pairs that wait to be copied, and what has been copied so far.
 */
struct migrate_copy_set {
	int reason;
	bool may_share;
	bool may_offload;
	const struct migrate_aid *aid;
	unsigned int nr;
	unsigned long pages;
	unsigned long folios_done;
	unsigned long pages_done;
	unsigned long helper_pages_done;
	unsigned long engine_pages_done;
	struct migrate_copy_pair pairs[MIGRATE_COPY_SET];
};

/* Swap cache, shmem, and the data of regular files. */
static bool batch_takes_mapping(struct address_space *mapping)
{
	if (mapping_inaccessible(mapping))
		return false;
	if (mapping->a_ops->migrate_folio == migrate_folio)
		return true;
	return mapping->a_ops->migrate_folio == filemap_migrate_folio &&
	       S_ISREG(mapping->host->i_mode);
}

/* Does migration account for all references? */
static bool batch_unpinned(const struct folio *src)
{
	/* One more than expected: isolation holds a reference. */
	if (folio_ref_count(src) != folio_expected_ref_count(src) + 1)
		return false;
	/*
	 * Read the content after the count: the holder of a pin may have written
	 * before it dropped the pin. Pairs with the full barrier of folio_put().
	 */
	smp_rmb();
	return true;
}

/* Can the folio be copied here? */
static bool batch_takes(struct folio *src)
{
	struct address_space *mapping;

	if (unlikely(page_has_movable_ops(&src->page)))
		return false;

	/* Most folios are anonymous: spare them the call. */
	if (!folio_test_anon(src) || folio_test_swapcache(src)) {
		mapping = folio_mapping(src);
		if (mapping && !batch_takes_mapping(mapping))
			return false;
	}

	return batch_unpinned(src);
}

static unsigned long batch_copy_alone(const struct migrate_copy_set *set)
{
	unsigned long failed = 0;
	unsigned int i;

	for (i = 0; i < set->nr; i++) {
		if (unlikely(folio_mc_copy(set->pairs[i].dst,
					   set->pairs[i].src)))
			__set_bit(i, &failed);
	}
	cond_resched();
	return failed;
}

static unsigned long batch_copy_nontemporal(const struct migrate_copy_set *set)
{
	struct migrate_copy_job job;

	migrate_copy_job_init(&job, set->pairs, set->nr, MIGRATE_COPY_CHUNK_PAGES, true);
	migrate_copy_job_run(&job, NULL, NUMA_NO_NODE, 0);
	return job.failed;
}

/* How many helpers to wake for the copy; negative if it is not worth sharing. */
static int batch_most_helpers(const struct migrate_copy_set *set)
{
	unsigned int most = READ_ONCE(migrate_copy_max_helpers);

	if (!set->may_share || !most)
		return -1;
	/* Helpers that take batches share copies when no batch is left. */
	if (set->aid->team->started && set->aid->team->next_batch)
		return set->pages >= MIGRATE_COPY_SHARED_PAGES ? 0 : -1;
	/* Helpers stay from one copy to the next: only the first must pay off. */
	if (!set->aid->team->started)
		most = migrate_copy_helpers_for(0, set->pages, most);
	return most ?: -1;
}

static unsigned long batch_copy_shared(struct migrate_copy_set *set,
				       unsigned int max_helpers, bool nontemporal)
{
	struct migrate_copy_job job __uninitialized;
	int nid = folio_nid(set->pairs[0].dst);
	unsigned int woken;

	migrate_copy_job_init(&job, set->pairs, set->nr, MIGRATE_COPY_CHUNK_PAGES,
			      nontemporal);
	job.highpri = migrate_copy_is_highpri(set->aid->asked);
	if (IS_ENABLED(CONFIG_MIGRATE_COPY_ENGINE) && set->may_offload)
		woken = migrate_copy_offload_run(&job, set->pages, set->reason, set->may_share,
						 set->aid->team, max_helpers);
	else
		woken = migrate_copy_job_run(&job, set->aid->team, nid, max_helpers);
	if (max_helpers) {
		count_vm_event(MIGRATE_COPY_REQUESTS);
		if (!woken && !atomic_long_read(&job.helper_pages))
			count_vm_event(MIGRATE_COPY_ALONE);
	}
	set->helper_pages_done += atomic_long_read(&job.helper_pages);
	set->engine_pages_done += job.engine_pages;
	/* Nobody has copied what was lost. */
	set->pages -= job.lost_pages;
	return job.failed;
}

/* Copy the set. Returns one bit for each pair that failed. */
static unsigned long batch_copy_set(struct migrate_copy_set *set)
{
	int nid = folio_nid(set->pairs[0].dst);
	bool nontemporal = migrate_copy_is_nontemporal(set->reason, nid);
	int max_helpers = batch_most_helpers(set);
	unsigned long failed;

	if (max_helpers >= 0 || set->may_offload)
		failed = batch_copy_shared(set, max(max_helpers, 0), nontemporal);
	else if (nontemporal)
		failed = batch_copy_nontemporal(set);
	else
		failed = batch_copy_alone(set);

	set->folios_done += set->nr - hweight_long(failed);
	set->pages_done += set->pages;
	return failed;
}

static void batch_add(struct migrate_copy_set *set, struct folio *dst,
		      struct folio *src)
{
	set->pairs[set->nr].dst = dst;
	set->pairs[set->nr].src = src;
	set->pages += folio_nr_pages(src);
	set->nr++;
}

/* Copy the set, unmark the folios that failed, and empty the set. */
static void batch_copy_and_mark(struct migrate_copy_set *set)
{
	unsigned long failed;
	unsigned int i;

	if (!set->nr)
		return;

	failed = batch_copy_set(set);
	for_each_set_bit(i, &failed, set->nr)
		set->pairs[i].dst->migrate_info &= ~FOLIO_CONTENT_COPIED;
	set->nr = 0;
	set->pages = 0;
}

static void batch_account(const struct migrate_copy_set *set)
{
	unsigned long alone = set->pages_done - set->helper_pages_done -
			      set->engine_pages_done;

	count_vm_events(MIGRATE_COPY_FOLIOS, set->folios_done);
	count_vm_events(MIGRATE_COPY_BYTES_CALLER, alone * PAGE_SIZE);
	count_vm_events(MIGRATE_COPY_BYTES_HELPERS,
			set->helper_pages_done * PAGE_SIZE);
	count_vm_events(MIGRATE_COPY_BYTES_ENGINES,
			set->engine_pages_done * PAGE_SIZE);
	trace_migrate_copy_batch(set->reason, set->folios_done, set->pages_done,
				 set->helper_pages_done, set->engine_pages_done);
}

static void batch_set_init(struct migrate_copy_set *set, int reason,
			   const struct migrate_aid *aid, bool may_offload)
{
	/* A helper that reclaims memory must not recruit others. */
	bool may_ask = aid->team->started || !migrate_copy_is_helper();

	memset(set, 0, offsetof(struct migrate_copy_set, pairs));
	set->reason = reason;
	set->aid = aid;
	set->may_share = may_ask && migrate_copy_may_share(reason, aid->asked);
	set->may_offload = may_ask && may_offload;
}

/*
 * Copying a batch together is worth it only if helpers may share the copy and it
 * is large enough for them; otherwise the first folio just stays unmapped for
 * longer. The same holds for several folios of a piece, because helpers have
 * pieces of their own. The administrator's settings override this, and so do
 * engines.
 */
static bool batch_worth_it(const struct list_head *src_folios, bool may_offload,
			   int reason, const struct migrate_aid *aid)
{
	const struct migrate_copy_team *team = aid->team;
	unsigned long pages = 0;
	struct folio *src;

	if (list_empty(src_folios))
		return false;
	if (READ_ONCE(migrate_copy_mt_page_copy) == MIGRATE_COPY_MT_ALWAYS ||
	    READ_ONCE(migrate_copy_non_temporal) != MIGRATE_COPY_NT_NEVER)
		return true;

	if (team->started && team->next_batch && !list_is_singular(src_folios) &&
	    !may_offload)
		return false;

	list_for_each_entry(src, src_folios, lru) {
		pages += folio_nr_pages(src);
		if (pages >= MIGRATE_COPY_MIN_PAGES)
			return may_offload || migrate_copy_may_share(reason, aid->asked);
	}
	return false;
}

/* noinline: small moves need no set on their stack. */
static noinline void batch_copy(struct list_head *src_folios,
				struct list_head *dst_folios, int reason,
				const struct migrate_aid *aid, bool may_offload)
{
	struct migrate_copy_set set __uninitialized;
	struct folio *src, *dst;

	batch_set_init(&set, reason, aid, may_offload);

	dst = list_first_entry(dst_folios, struct folio, lru);
	list_for_each_entry(src, src_folios, lru) {
		/* Not if it is from an earlier pass, and will not be moved to. */
		if (likely(!migrate_copy_quarantined(dst) && batch_takes(src))) {
			/* Mark early: nobody reads it before the copy. */
			dst->migrate_info |= FOLIO_CONTENT_COPIED;
			batch_add(&set, dst, src);
			if (migrate_copy_set_full(set.nr))
				batch_copy_and_mark(&set);
		} else {
			count_vm_event(MIGRATE_COPY_FALLBACK);
		}
		dst = list_next_entry(dst, lru);
	}
	batch_copy_and_mark(&set);

	batch_account(&set);
}

/**
 * migrate_copy_batch() - Copy the folios of a migration batch together.
 * @src_folios: The source folios, linked by their lru: locked, unmapped, the
 *	TLB flushed.
 * @dst_folios: Their destinations in the same order, linked by their lru:
 *	locked, with the state of the migration in folio->migrate_info.
 * @reason: The migrate_reason of the request.
 * @aid: The helpers of the request. If they take no batches of it, a team that
 *	only copies is started where that is worth it.
 *
 * Sets FOLIO_CONTENT_COPIED in the migrate_info of each destination whose content
 * is complete; the others are copied when they are moved, and so are small
 * batches. The top of this file explains why that is safe.
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing.
 */
void migrate_copy_batch(struct list_head *src_folios, struct list_head *dst_folios,
			int reason, const struct migrate_aid *aid)
{
	bool may_offload = migrate_copy_may_offload(reason);

	if (batch_worth_it(src_folios, may_offload, reason, aid))
		batch_copy(src_folios, dst_folios, reason, aid, may_offload);
}

/**
 * migrate_copy_hugetlb() - Copy one hugetlb folio, shared with helpers.
 * @dst: The folio to copy to, as large as @src.
 * @src: The folio to copy from: locked and unmapped.
 * @reason: The migrate_reason of the request.
 * @aid: As for migrate_copy_batch().
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing.
 * Return: true if the content of @dst is complete; false if it must be copied
 * when the folio is moved.
 */
bool migrate_copy_hugetlb(struct folio *dst, struct folio *src, int reason,
			  const struct migrate_aid *aid)
{
	struct migrate_copy_set set __uninitialized;
	unsigned long failed;

	if (!batch_unpinned(src)) {
		count_vm_event(MIGRATE_COPY_FALLBACK);
		return false;
	}

	/* Not by an engine: see engine.c. */
	batch_set_init(&set, reason, aid, false);
	batch_add(&set, dst, src);
	failed = batch_copy_set(&set);
	batch_account(&set);
	return !failed;
}
