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
 * - through a page table: there are migration entries in all of them, and a
 *   fault on one waits for the folio lock. The flush has ended every use of
 *   an older translation;
 * - through a pin (O_DIRECT, RDMA, io_uring's fixed buffers, vmsplice): taken
 *   before, it is an additional reference, and the folio is not copied here.
 *   GUP cannot take a new one, for there is no page table entry to take it
 *   from; GUP-fast re-reads the entry after it has taken its reference, and
 *   drops the reference when the entry has changed. memfd_pin_folios() takes
 *   its pins from the page cache; it waits for the folio lock before it hands
 *   them out;
 * - through the page cache or the swap cache: a lookup can take a reference at
 *   any time, but write(2), truncation and faults lock the folio before they
 *   change it or map it. Only regular files are batched: the file system may
 *   read the blocks of its directories again under a lock of its own (AFS does).
 *
 * So the check must come before the copy. At the switch it would be too late:
 * the holder of a pin could write after the copy and drop the pin before the
 * switch. The check at the switch stays all the same, it is what protects the
 * mapping. If it fails, the copy is void: the mark is gone, and the next pass
 * starts again with the check.
 *
 * Why nobody sees a page that is not complete
 * -------------------------------------------
 *
 * Nothing that can be looked up refers to a destination before its folio is
 * moved: neither the page cache, nor the swap cache, nor a page table. A
 * buffered read, which takes no folio lock, finds the source, whose content
 * does not change, until the mapping switches to a destination whose content
 * was complete before (see job.c and helpers.c for the ordering). A failed
 * copy just leaves the destination unmarked; move_to_new_folio() then copies
 * again, and decides as it does without us.
 *
 * What is not batched
 * -------------------
 *
 * Pages with movable_ops, and folios whose address space has a migrate_folio
 * callback of its own: these may rely on locks of their own during the copy,
 * buffer heads for one. They are copied when they are moved, as ever.
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>
#include <trace/events/migrate_copy.h>

#include "../migrate.h"
#include "internal.h"

/* Base pages of a batch that are copied together; less is copied as it is moved. */
#define MIGRATE_COPY_MIN_PAGES	(SZ_256K / PAGE_SIZE)

/* Base pages of a copy that a team shares when its batches come to an end. */
#define MIGRATE_COPY_SHARED_PAGES	(SZ_512K / PAGE_SIZE)

/*
 * Folio pairs that wait to be copied, and what has been copied so far; lost are
 * those of the last copy that an engine may still have written to after it. They are
 * on the stack, unless an engine may have them and there is room for more elsewhere.
 */
struct migrate_copy_set {
	int reason;
	bool may_share;
	bool may_offload;
	const struct migrate_aid *aid;
	struct migrate_copy_room *room;
	struct migrate_copy_pair *pairs;
	unsigned long *failed;
	unsigned int max;
	unsigned int nr;
	unsigned long pages;
	unsigned long folios_done;
	unsigned long pages_done;
	unsigned long helper_pages_done;
	unsigned long engine_pages_done;
	unsigned long lost_pages;
	unsigned long own_failed;
	struct migrate_copy_pair own_pairs[MIGRATE_COPY_SET];
};

/* Swap cache and shmem, and the data of regular files. */
static bool batch_takes_mapping(struct address_space *mapping)
{
	if (mapping_inaccessible(mapping))
		return false;
	if (mapping->a_ops->migrate_folio == migrate_folio)
		return true;
	return mapping->a_ops->migrate_folio == filemap_migrate_folio &&
	       S_ISREG(mapping->host->i_mode);
}

/* Has nobody a reference that migration does not know? */
static bool batch_unpinned(const struct folio *src)
{
	/* One more than expected: the reference of the isolation. */
	if (folio_ref_count(src) != folio_expected_ref_count(src) + 1) {
		count_vm_event(MIGRATE_COPY_FALLBACK_REFS);
		return false;
	}
	/*
	 * Whoever has dropped a pin may have written before: the content is read after
	 * the count.  Pairs with the full barrier of folio_put().
	 */
	smp_rmb();
	return true;
}

/* Is it to be copied here? If not, why that is so is counted. */
static bool batch_takes(struct folio *src)
{
	struct address_space *mapping;

	if (unlikely(page_has_movable_ops(&src->page))) {
		count_vm_event(MIGRATE_COPY_FALLBACK_MOVABLE);
		return false;
	}

	/* Most folios are anonymous: spare them the call. */
	if (!folio_test_anon(src) || folio_test_swapcache(src)) {
		mapping = folio_mapping(src);
		if (mapping && !batch_takes_mapping(mapping)) {
			count_vm_event(MIGRATE_COPY_FALLBACK_MAPPING);
			return false;
		}
	}

	return batch_unpinned(src);
}

static void batch_copy_alone(const struct migrate_copy_set *set)
{
	unsigned int i;

	for (i = 0; i < set->nr; i++) {
		if (unlikely(folio_mc_copy(set->pairs[i].dst,
					   set->pairs[i].src)))
			__set_bit(i, set->failed);
	}
	cond_resched();
}

static unsigned int batch_chunk_pages(void)
{
	return READ_ONCE(migrate_copy_chunk_kb) * SZ_1K / PAGE_SIZE;
}

static void batch_copy_nontemporal(const struct migrate_copy_set *set)
{
	struct migrate_copy_job job;

	migrate_copy_job_init(&job, set->pairs, set->nr, batch_chunk_pages(), true);
	job.failed = set->failed;
	migrate_copy_job_run(&job, NULL, NUMA_NO_NODE, 0);
}

/* How many helpers to wake for the copy; negative if it is not worth sharing at all. */
static int batch_most_helpers(const struct migrate_copy_set *set)
{
	unsigned int most = READ_ONCE(migrate_copy_max_helpers);

	if (!set->may_share || !most)
		return -1;
	/* Helpers that take batches help to copy when none is left. */
	if (set->aid->team->started && set->aid->team->next_batch)
		return set->pages >= MIGRATE_COPY_SHARED_PAGES ? 0 : -1;
	/* Those that stay from one copy to the next are worth it sooner or later. */
	if (!set->aid->team->started)
		most = migrate_copy_helpers_for(0, set->pages, most);
	if (most)
		return most;
	count_vm_event(MIGRATE_COPY_ALONE_SMALL);
	return -1;
}

static unsigned int batch_run_engines(struct migrate_copy_set *set,
				      struct migrate_copy_job *job,
				      unsigned int max_helpers)
{
	const struct migrate_copy_info info = {
		.pages = set->pages,
		.folios = set->nr,
		.dst_nid = folio_nid(set->pairs[0].dst),
		.reason = set->reason,
	};
	unsigned long engine_pages = 0;
	unsigned int woken;

	woken = migrate_copy_offload_run(job, &info, set->aid->team, max_helpers,
					 &engine_pages);
	set->engine_pages_done += engine_pages;
	return woken;
}

static void batch_copy_shared(struct migrate_copy_set *set,
			      unsigned int max_helpers, bool nontemporal)
{
	struct migrate_copy_job job __uninitialized;
	int nid = folio_nid(set->pairs[0].dst);
	unsigned int woken;

	migrate_copy_job_init(&job, set->pairs, set->nr, batch_chunk_pages(),
			      nontemporal);
	job.failed = set->failed;
	job.highpri = migrate_copy_is_highpri(set->aid->asked);
	if (set->may_offload)
		woken = batch_run_engines(set, &job, max_helpers);
	else
		woken = migrate_copy_job_run(&job, set->aid->team, nid, max_helpers);
	if (max_helpers && !woken && !atomic_long_read(&job.helper_pages))
		count_vm_event(MIGRATE_COPY_ALONE_BUSY);
	set->helper_pages_done += atomic_long_read(&job.helper_pages);

	count_vm_event(MIGRATE_COPY_JOBS);
	count_vm_events(MIGRATE_COPY_HELPERS_WOKEN, woken);
	set->lost_pages = job.lost_pages;
}

/* Copy what has been collected; returns how many failed, and notes which. */
static unsigned long batch_copy_set(struct migrate_copy_set *set)
{
	int nid = folio_nid(set->pairs[0].dst);
	bool nontemporal = migrate_copy_is_nontemporal(set->reason, nid);
	unsigned long engines_before = set->engine_pages_done;
	int max_helpers = batch_most_helpers(set);
	unsigned long failed, by_cpus;

	bitmap_zero(set->failed, set->nr);
	set->lost_pages = 0;
	if (max_helpers >= 0 || set->may_offload)
		batch_copy_shared(set, max(max_helpers, 0), nontemporal);
	else if (nontemporal)
		batch_copy_nontemporal(set);
	else
		batch_copy_alone(set);

	/* What was lost was copied by nobody, as far as anybody knows. */
	set->pages -= set->lost_pages;
	by_cpus = set->pages - (set->engine_pages_done - engines_before);
	if (nontemporal)
		count_vm_events(MIGRATE_COPY_BYTES_NONTEMPORAL,
				by_cpus * PAGE_SIZE);
	failed = bitmap_weight(set->failed, set->nr);
	set->folios_done += set->nr - failed;
	set->pages_done += set->pages;
	count_vm_events(MIGRATE_COPY_FALLBACK_FAILED, failed);
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

/* Copy the set, take the mark from what failed, make room. */
static void batch_copy_and_mark(struct migrate_copy_set *set)
{
	unsigned long failed;
	unsigned int i;

	if (!set->nr)
		return;

	failed = batch_copy_set(set);
	if (failed) {
		for_each_set_bit(i, set->failed, set->nr)
			set->pairs[i].dst->migrate_info &= ~FOLIO_CONTENT_COPIED;
	}
	set->nr = 0;
	set->pages = 0;
}

static void batch_account(const struct migrate_copy_set *set)
{
	unsigned long alone = set->pages_done - set->helper_pages_done -
			      set->engine_pages_done;

	count_vm_event(MIGRATE_COPY_BATCHES);
	count_vm_events(MIGRATE_COPY_FOLIOS, set->folios_done);
	count_vm_events(MIGRATE_COPY_BYTES_CALLER, alone * PAGE_SIZE);
	count_vm_events(MIGRATE_COPY_BYTES_HELPERS,
			set->helper_pages_done * PAGE_SIZE);
	count_vm_events(MIGRATE_COPY_BYTES_ENGINES,
			set->engine_pages_done * PAGE_SIZE);
	trace_migrate_copy_batch(set->reason, set->folios_done, set->pages_done,
				 set->helper_pages_done);
}

static void batch_set_init(struct migrate_copy_set *set, int reason,
			   const struct migrate_aid *aid, bool may_offload)
{
	memset(set, 0, offsetof(struct migrate_copy_set, own_pairs));
	set->reason = reason;
	set->aid = aid;
	set->may_share = migrate_copy_may_share(reason, aid->asked);
	set->may_offload = may_offload;
	/* A helper works for others, and starts no team. */
	if (!aid->team->started && migrate_copy_is_helper()) {
		set->may_share = false;
		set->may_offload = false;
	}
	set->pairs = set->own_pairs;
	set->failed = &set->own_failed;
	set->max = MIGRATE_COPY_SET;
}

/* Engines get whole batches: each set is waited for to its end. */
static void batch_set_enlarge(struct migrate_copy_set *set)
{
	set->room = migrate_copy_room_get();
	if (!set->room)
		return;
	set->pairs = set->room->pairs;
	set->failed = set->room->failed;
	set->max = MIGRATE_COPY_LARGE_SET;
}

/*
 * May idle CPUs help, and are there so many base pages that they may be worth their
 * while? If not, nothing is won by copying them together, before they are moved, and
 * the first of them is away for longer. So it is with the folios of a piece: helpers
 * have pieces of their own. Unless somebody has decided that it is worth it, or they
 * are to be copied by something else.
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
	    READ_ONCE(migrate_copy_min_helper_kb) != MIGRATE_COPY_AUTO ||
	    READ_ONCE(migrate_copy_nontemporal) != MIGRATE_COPY_NT_NEVER)
		return true;

	if (team->started && team->next_batch && !list_is_singular(src_folios))
		return may_offload;

	list_for_each_entry(src, src_folios, lru) {
		pages += folio_nr_pages(src);
		if (pages >= MIGRATE_COPY_MIN_PAGES)
			return may_offload || migrate_copy_may_share(reason, aid->asked);
	}
	return may_offload;
}

/* Out of the way of small moves, which need no room for a set. */
static noinline void batch_copy(struct list_head *src_folios,
				struct list_head *dst_folios, int reason,
				const struct migrate_aid *aid, bool may_offload)
{
	struct migrate_copy_set set __uninitialized;
	struct folio *src, *dst;

	batch_set_init(&set, reason, aid, may_offload);
	if (set.may_offload)
		batch_set_enlarge(&set);

	dst = list_first_entry(dst_folios, struct folio, lru);
	list_for_each_entry(src, src_folios, lru) {
		if (unlikely(migrate_copy_quarantined(dst))) {
			/* From an earlier pass. It will not be moved to. */
		} else if (likely(batch_takes(src))) {
			/* Marked in advance: nobody looks before it is copied. */
			dst->migrate_info |= FOLIO_CONTENT_COPIED;
			batch_add(&set, dst, src);
			if (set.nr == set.max)
				batch_copy_and_mark(&set);
		}
		dst = list_next_entry(dst, lru);
	}
	batch_copy_and_mark(&set);
	if (set.room)
		migrate_copy_room_put(set.room);

	batch_account(&set);
}

/**
 * migrate_copy_batch() - Copy the folios of a migration batch together.
 * @src_folios: The source folios, linked by their lru: locked, unmapped, the
 *	TLB flushed.
 * @dst_folios: Their destinations in the same order, linked by their lru:
 *	locked, the record of the migration in folio->migrate_info.
 * @reason: The migrate_reason of the request.
 * @aid: Who helps with the request; if helpers take no batches of it, a team that
 *	helps to copy is started where that is worth it.
 *
 * Each destination whose content is complete gets FOLIO_CONTENT_COPIED set in its
 * migrate_info; the others are to be copied when they are moved. The top of
 * this file says why that is safe. A small batch is left as it is.
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing.
 */
void migrate_copy_batch(struct list_head *src_folios, struct list_head *dst_folios,
			int reason, const struct migrate_aid *aid)
{
	bool may_offload = migrate_copy_may_offload(reason, src_folios);

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
 * Return: true if the content of @dst is complete; if not, it is to be copied when
 * the folio is moved.
 */
bool migrate_copy_hugetlb(struct folio *dst, struct folio *src, int reason,
			  const struct migrate_aid *aid)
{
	struct migrate_copy_set set __uninitialized;
	unsigned long failed;

	if (!batch_unpinned(src))
		return false;

	batch_set_init(&set, reason, aid, migrate_copy_may_offload(reason, NULL));
	batch_add(&set, dst, src);
	failed = batch_copy_set(&set);
	batch_account(&set);
	return !failed;
}

/**
 * migrate_copy_count_void() - Count a copy that was not published.
 *
 * Called when a copied folio could not be moved in the same pass, so that its
 * copy is void.
 *
 * Context: Any.
 */
void migrate_copy_count_void(void)
{
	count_vm_event(MIGRATE_COPY_FALLBACK_VOID);
}
