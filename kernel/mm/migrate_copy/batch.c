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
 *   read the blocks of its directories anew under a lock of its own (AFS does).
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
#define CREATE_TRACE_POINTS
#include <trace/events/migrate_copy.h>

#include <linux/migrate.h>
#include <linux/migrate_copy.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "internal.h"

/* Base pages of a batch that are copied together; less is copied as it is moved. */
#define MIGRATE_COPY_MIN_PAGES	(SZ_256K / PAGE_SIZE)

/* Base pages of a copy that a team shares when its batches come to an end. */
#define MIGRATE_COPY_SHARED_PAGES	(SZ_512K / PAGE_SIZE)

/*
 * Folio pairs that wait to be copied, and what has been copied so far; lost are
 * those of the last copy that an engine may still have written to after it.
 */
struct migrate_copy_window {
	int reason;
	bool may_share;
	unsigned int asked;
	struct migrate_copy_team *team;
	unsigned int nr;
	unsigned long pages;
	unsigned long folios_done;
	unsigned long pages_done;
	unsigned long helper_pages_done;
	unsigned long engine_pages_done;
	unsigned long lost;
	unsigned long lost_pages;
	struct migrate_copy_pair pairs[MIGRATE_COPY_WINDOW];
};

/* Swap cache and shmem, and the data of regular files. */
static bool mapping_in_batch(struct address_space *mapping)
{
	if (mapping_inaccessible(mapping))
		return false;
	if (mapping->a_ops->migrate_folio == migrate_folio)
		return true;
	return mapping->a_ops->migrate_folio == filemap_migrate_folio &&
	       S_ISREG(mapping->host->i_mode);
}

static bool movable_in_batch(struct folio *src, enum migrate_copy_stat *why)
{
	struct address_space *mapping;

	if (unlikely(__folio_test_movable(src))) {
		*why = MIGRATE_COPY_FALLBACK_MOVABLE;
		return false;
	}

	/* Most folios are anonymous: spare them the call. */
	if (!folio_test_anon(src) || folio_test_swapcache(src)) {
		mapping = folio_mapping(src);
		if (mapping && !mapping_in_batch(mapping)) {
			*why = MIGRATE_COPY_FALLBACK_MAPPING;
			return false;
		}
	}

	if (migrate_copy_broken(MIGRATE_COPY_BREAK_REFS))
		return true;

	/* One more than expected: the reference of the isolation. */
	if (folio_ref_count(src) != folio_expected_ref_count(src) + 1) {
		*why = MIGRATE_COPY_FALLBACK_REFS;
		return false;
	}
	return true;
}

static void unmark(struct folio *dst)
{
	dst->private = (void *)((unsigned long)dst->private &
				~MIGRATE_COPY_DONE);
}

static unsigned long copy_alone(const struct migrate_copy_window *win)
{
	unsigned long failed = 0;
	unsigned int i;

	for (i = 0; i < win->nr; i++) {
		if (i == win->nr / 2)
			migrate_copy_at(MIGRATE_COPY_AT_COPYING);
		if (unlikely(migrate_copy_fails() ||
			     folio_mc_copy(win->pairs[i].dst,
					   win->pairs[i].src)))
			__set_bit(i, &failed);
	}
	cond_resched();
	return failed;
}

static unsigned int chunk_pages(void)
{
	static_assert(MIGRATE_COPY_MIN_CHUNK_KB * SZ_1K >= PAGE_SIZE);

	return READ_ONCE(migrate_copy_chunk_kb) * SZ_1K / PAGE_SIZE;
}

static unsigned long copy_alone_nontemporal(const struct migrate_copy_window *win)
{
	struct migrate_copy_job job;

	migrate_copy_job_init(&job, win->pairs, win->nr, chunk_pages(), true);
	migrate_copy_job_run(&job, NULL, NUMA_NO_NODE, 0);
	return job.failed;
}

/* Do helpers take batches of the request? They help to copy when none is left. */
static bool in_team(const struct migrate_copy_window *win)
{
	return win->team->started && win->team->next_batch;
}

/* How many helpers to wake for the copy; sets whether it is worth sharing at all. */
static unsigned int most_helpers(const struct migrate_copy_window *win,
				 bool *shared)
{
	unsigned int most = READ_ONCE(migrate_copy_max_helpers);

	*shared = false;
	if (!win->may_share || !most)
		return 0;
	if (in_team(win)) {
		*shared = win->pages >= MIGRATE_COPY_SHARED_PAGES;
		return 0;
	}
	/* Those that stay from one copy to the next are worth it sooner or later. */
	if (!win->team->started)
		most = migrate_copy_helpers_for(0, win->pages, most);
	if (!most)
		migrate_copy_stat_add(MIGRATE_COPY_ALONE_SMALL, 1);
	*shared = most;
	return most;
}

/* What the window holds, for engines. */
static void describe(const struct migrate_copy_window *win,
		     struct migrate_copy_info *info)
{
	unsigned long most = 0;
	unsigned int i;

	for (i = 0; i < win->nr; i++)
		most = max(most, folio_nr_pages(win->pairs[i].src));
	info->pages = win->pages;
	info->folios = win->nr;
	info->max_folio_pages = most;
	info->dst_nid = folio_nid(win->pairs[0].dst);
	info->src_nid = folio_nid(win->pairs[0].src);
	info->reason = win->reason;
	info->asked = win->asked;
}

static unsigned int run_with_engines(struct migrate_copy_window *win,
				     struct migrate_copy_job *job,
				     unsigned int max_helpers)
{
	struct migrate_copy_info info;
	unsigned long engine_pages = 0;
	unsigned int woken;

	describe(win, &info);
	woken = migrate_copy_offload_run(job, &info, win->team, max_helpers,
					 &engine_pages);
	win->engine_pages_done += engine_pages;
	return woken;
}

static unsigned long copy_shared(struct migrate_copy_window *win,
				 unsigned int max_helpers, int nid,
				 bool nontemporal)
{
	struct migrate_copy_job job __uninitialized;
	unsigned int woken;

	migrate_copy_job_init(&job, win->pairs, win->nr, chunk_pages(),
			      nontemporal);
	job.highpri = migrate_copy_is_highpri(win->asked);
	if (migrate_copy_offloading())
		woken = run_with_engines(win, &job, max_helpers);
	else
		woken = migrate_copy_job_run(&job, win->team, nid, max_helpers);
	if (max_helpers && !woken && !atomic_long_read(&job.helper_pages))
		migrate_copy_stat_add(MIGRATE_COPY_ALONE_BUSY, 1);
	win->helper_pages_done += atomic_long_read(&job.helper_pages);

	migrate_copy_stat_add(MIGRATE_COPY_JOBS, 1);
	migrate_copy_stat_add(MIGRATE_COPY_HELPERS_WOKEN, woken);
	win->lost = job.lost;
	win->lost_pages = job.lost_pages;
	return job.failed;
}

/* Copy what has been collected; returns one bit for each pair that failed. */
static unsigned long copy_window(struct migrate_copy_window *win)
{
	int nid = folio_nid(win->pairs[0].dst);
	bool nontemporal = migrate_copy_is_nontemporal(win->reason, nid);
	unsigned long engines_before = win->engine_pages_done;
	unsigned int max_helpers;
	unsigned long failed, by_cpus;
	bool shared;

	win->lost = 0;
	win->lost_pages = 0;
	max_helpers = most_helpers(win, &shared);
	if (shared || (win->may_share && migrate_copy_offloading()))
		failed = copy_shared(win, max_helpers, nid, nontemporal);
	else if (nontemporal)
		failed = copy_alone_nontemporal(win);
	else
		failed = copy_alone(win);

	/* What was lost was copied by nobody, as far as anybody knows. */
	win->pages -= win->lost_pages;
	by_cpus = win->pages - (win->engine_pages_done - engines_before);
	if (nontemporal)
		migrate_copy_stat_add(MIGRATE_COPY_BYTES_NONTEMPORAL,
				      by_cpus * PAGE_SIZE);
	win->folios_done += win->nr;
	win->pages_done += win->pages;
	if (unlikely(failed)) {
		win->folios_done -= hweight_long(failed);
		migrate_copy_stat_add(MIGRATE_COPY_FALLBACK_FAILED,
				      hweight_long(failed));
	}
	return failed;
}

/* Take a pair in, and mark it in advance: nobody looks before it is copied. */
static void add_to_window(struct migrate_copy_window *win, struct folio *dst,
			  struct folio *src)
{
	dst->private = (void *)((unsigned long)dst->private | MIGRATE_COPY_DONE);
	win->pairs[win->nr].dst = dst;
	win->pairs[win->nr].src = src;
	win->pages += folio_nr_pages(src);
	win->nr++;
}

/* Copy the window, take the mark from what failed, make room. */
static void flush_window(struct migrate_copy_window *win)
{
	unsigned long failed;
	unsigned int i;

	if (!win->nr)
		return;

	migrate_copy_at(MIGRATE_COPY_AT_CHECKED);
	/* move_copied_folio() copies if the first of these rules is broken. */
	failed = migrate_copy_broken(MIGRATE_COPY_BREAK_PUBLISH) ||
		 (migrate_copy_broken(MIGRATE_COPY_BREAK_SIGNAL) &&
		  signal_pending(current)) ? 0 : copy_window(win);
	if (migrate_copy_broken(MIGRATE_COPY_BREAK_FAILED))
		failed = 0;
	for_each_set_bit(i, &failed, win->nr)
		unmark(win->pairs[i].dst);
	win->nr = 0;
	win->pages = 0;
}

static void account(const struct migrate_copy_window *win)
{
	unsigned long alone = win->pages_done - win->helper_pages_done -
			      win->engine_pages_done;

	migrate_copy_stat_add(MIGRATE_COPY_BATCHES, 1);
	migrate_copy_stat_add(MIGRATE_COPY_FOLIOS, win->folios_done);
	migrate_copy_stat_add(MIGRATE_COPY_BYTES_CALLER, alone * PAGE_SIZE);
	migrate_copy_stat_add(MIGRATE_COPY_BYTES_HELPERS,
			      win->helper_pages_done * PAGE_SIZE);
	migrate_copy_stat_add(MIGRATE_COPY_BYTES_ENGINES,
			      win->engine_pages_done * PAGE_SIZE);
}

static void window_init(struct migrate_copy_window *win, int reason,
			unsigned int asked, struct migrate_copy_team *team)
{
	win->reason = reason;
	win->asked = asked;
	win->team = team;
	win->may_share = migrate_copy_may_share(reason, asked);
	win->nr = 0;
	win->pages = 0;
	win->folios_done = 0;
	win->pages_done = 0;
	win->helper_pages_done = 0;
	win->engine_pages_done = 0;
}

/*
 * Are there so many base pages that idle CPUs may be worth their while? If not,
 * nothing is won by copying them together, before they are moved, and the first of
 * them is away for longer. So it is with the folios of a piece: helpers have pieces of
 * their own. Unless somebody has decided that it is worth it, or they are to be copied
 * by something else.
 */
static bool worth_batching(const struct list_head *src_folios,
			   const struct migrate_copy_team *team)
{
	unsigned long pages = 0;
	struct folio *src;

	if (list_empty(src_folios))
		return false;
	if (migrate_copy_offloading() ||
	    READ_ONCE(migrate_copy_mt_page_copy) == MIGRATE_COPY_MT_ALWAYS ||
	    READ_ONCE(migrate_copy_min_helper_kb) != MIGRATE_COPY_AUTO ||
	    READ_ONCE(migrate_copy_nontemporal) != MIGRATE_COPY_NT_NEVER)
		return true;

	if (team->started && team->next_batch && !list_is_singular(src_folios))
		return false;

	list_for_each_entry(src, src_folios, lru) {
		pages += folio_nr_pages(src);
		if (pages >= MIGRATE_COPY_MIN_PAGES)
			return true;
	}
	return false;
}

/* Out of the way of small moves, which need no room for a window. */
static noinline void copy_batch(struct list_head *src_folios,
				struct list_head *dst_folios, int reason,
				unsigned int asked,
				struct migrate_copy_team *team)
{
	struct migrate_copy_window win __uninitialized;
	struct folio *src, *dst;

	trace_migrate_copy_start(reason);
	window_init(&win, reason, asked, team);

	dst = list_first_entry(dst_folios, struct folio, lru);
	list_for_each_entry(src, src_folios, lru) {
		enum migrate_copy_stat why;

		if (unlikely(migrate_copy_quarantined(dst))) {
			/* From an earlier pass. It will not be moved to. */
		} else if (likely(movable_in_batch(src, &why))) {
			add_to_window(&win, dst, src);
			if (migrate_copy_window_full(win.nr))
				flush_window(&win);
		} else {
			migrate_copy_stat_add(why, 1);
		}
		dst = list_next_entry(dst, lru);
	}
	flush_window(&win);

	account(&win);
	trace_migrate_copy_end(reason, win.folios_done, win.pages_done,
			       win.helper_pages_done);
}

/**
 * migrate_copy_batch() - Copy the folios of a migration batch together.
 * @src_folios: The source folios, linked by their lru: locked, unmapped, the
 *	TLB flushed.
 * @dst_folios: Their destinations in the same order, linked by their lru:
 *	locked, the record of the migration in folio->private.
 * @reason: The migrate_reason of the request.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @team: The team of the request; if helpers take no batches of it, one that helps
 *	to copy is started where that is worth it.
 *
 * Each destination whose content is complete gets MIGRATE_COPY_DONE set in its
 * private; the others are to be copied when they are moved. The top of
 * this file says why that is safe. A small batch is left as it is.
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing.
 */
void migrate_copy_batch(struct list_head *src_folios,
			struct list_head *dst_folios, int reason,
			unsigned int asked, struct migrate_copy_team *team)
{
	if (worth_batching(src_folios, team))
		copy_batch(src_folios, dst_folios, reason, asked, team);
}

/**
 * migrate_copy_hugetlb() - Copy one hugetlb folio, shared with helpers.
 * @dst: The folio to copy to, as large as @src.
 * @src: The folio to copy from: locked and unmapped.
 * @reason: The migrate_reason of the request.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @team: As for migrate_copy_batch().
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing.
 * Return: true if the content of @dst is complete; if not, it is to be copied when
 * the folio is moved.
 */
bool migrate_copy_hugetlb(struct folio *dst, struct folio *src, int reason,
			  unsigned int asked, struct migrate_copy_team *team)
{
	struct migrate_copy_window win __uninitialized;
	unsigned long failed;

	if (folio_ref_count(src) != folio_expected_ref_count(src) + 1) {
		migrate_copy_stat_add(MIGRATE_COPY_FALLBACK_REFS, 1);
		return false;
	}

	trace_migrate_copy_start(reason);
	migrate_copy_at(MIGRATE_COPY_AT_CHECKED);
	window_init(&win, reason, asked, team);
	win.pairs[0].dst = dst;
	win.pairs[0].src = src;
	win.pages = folio_nr_pages(src);
	win.nr = 1;
	failed = copy_window(&win);
	account(&win);
	trace_migrate_copy_end(reason, win.folios_done, win.pages_done,
			       win.helper_pages_done);
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
	migrate_copy_stat_add(MIGRATE_COPY_FALLBACK_VOID, 1);
}
