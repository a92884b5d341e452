// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pieces: several CPUs take parts of a request to move pages and do all the
 * work on them: look-up, isolation, unmapping, copy, mapping.
 *
 * They run ahead of the call and decide nothing: pages that can be moved
 * without waiting are moved, anything unusual is left untouched. The call then
 * processes the remainder as usual, alone and in order, so errors and the
 * status of each page are the same as with one CPU.
 */
#include <linux/cgroup.h>
#include <linux/cleanup.h>
#include <linux/migrate.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/vmstat.h>
#include <trace/events/migrate.h>
#include <trace/events/migrate_copy.h>

#include "internal.h"
#include "pieces.h"

/* How often a folio of a piece is tried before it is left to the call. */
#define PIECE_PASSES	3

/*
 * The most folios unmapped at a time by a CPU that has helpers. With 64, many
 * CPUs move base pages up to a tenth faster, but a task that needs one of the
 * pages waits three times as long.
 */
#define PIECE_FOLIOS	32

/*
 * Take the next folios to unmap together, at least one. A task that needs a
 * page waits until all those unmapped with it are mapped again. The more CPUs
 * unmap pages, the more often that happens, so a CPU that has helpers unmaps
 * fewer at a time. A CPU on its own does not: each batch costs a TLB flush on
 * all CPUs of the process.
 */
static void pieces_cut(struct migrate_pieces *pieces, struct list_head *from,
		       struct list_head *batch)
{
	/* 0 once the work has been retracted. */
	bool alone = atomic_read(&pieces->team.work.busy) <= 1;
	unsigned int most_pages = MIGRATE_COPY_BATCH_PAGES;
	unsigned int most = alone ? most_pages : PIECE_FOLIOS;
	unsigned int nr_pages = 0, nr = 0;
	struct folio *folio;

	if (!alone)
		most_pages /= 4;
	/* Engines want large batches. */
	if (migrate_copy_may_offload(pieces->reason))
		most = most_pages;
	list_for_each_entry(folio, from, lru) {
		nr_pages += folio_nr_pages(folio);
		if (nr++ && (nr > most || nr_pages > most_pages))
			break;
	}
	list_cut_before(batch, from, &folio->lru);
}

/* Hand on the rest of a piece; false if there is none or @to has folios. */
static bool pieces_hand_on(struct migrate_pieces *pieces, struct migrate_piece *from,
			   struct migrate_piece *to)
{
	bool can;

	spin_lock(&pieces->lock);
	can = !list_empty(&from->folios) && list_empty(&to->folios);
	if (can) {
		list_splice_init(&from->folios, &to->folios);
		list_splice_init(&from->failed, &to->failed);
		to->start = from->start;
		to->end = from->end;
		/* The previous owner must not report these folios. */
		from->end = from->start;
	}
	spin_unlock(&pieces->lock);
	return can;
}

/*
 * All idle CPUs may be helping: a task woken on this one then finds no other
 * and waits until the tick, as nothing preempts the kernel before. Make way for
 * it here, where nothing is unmapped.
 */
static void pieces_make_way(void)
{
	if (test_thread_flag(TIF_NEED_RESCHED_LAZY))
		schedule();
}

/*
 * Migrate the folios of a piece without waiting, and move those that fail to
 * piece->failed. Returns false if there is no memory, without a warning: the
 * call may find some for the rest.
 *
 * A helper whose CPU is wanted makes way as soon as nothing is unmapped.
 */
static bool pieces_try(struct migrate_pieces *pieces, struct migrate_piece *piece,
		       struct migrate_pages_stats *stats, bool helper)
{
	new_folio_t *get_new_folio = pieces->get_new_folio;
	struct list_head *from = &piece->folios;
	unsigned long private = pieces->private;
	struct migration_target_control mtc;
	struct migrate_aid aid = {
		.team = &pieces->team,
		.asked = pieces->asked,
		.tries = true,
	};
	struct folio *folio, *folio2;
	LIST_HEAD(split_folios);
	LIST_HEAD(batch);
	int rc;

	if (get_new_folio == alloc_migration_target) {
		mtc = *(struct migration_target_control *)private;
		mtc.gfp_mask |= __GFP_NOWARN;
		private = (unsigned long)&mtc;
	}
	/* A single pass, which never waits for a folio lock. */
	rc = migrate_hugetlbs(from, get_new_folio, NULL, private, pieces->mode,
			      pieces->reason, stats, &piece->failed, &aid);
	aid.no_memory = rc < 0;
	if (rc) {
		list_for_each_entry_safe(folio, folio2, from, lru) {
			if (folio_test_hugetlb(folio))
				list_move_tail(&folio->lru, &piece->failed);
		}
	}
	while (!list_empty(from) && !aid.no_memory) {
		pieces_cut(pieces, from, &batch);
		migrate_pages_batch(&batch, get_new_folio, NULL, private,
				    MIGRATE_ASYNC, pieces->reason, &piece->failed,
				    &split_folios, stats,
				    PIECE_PASSES, &aid);
		list_splice_tail_init(&batch, &piece->failed);
		if (list_empty(from) || aid.no_memory)
			break;
		/* Split folios still belong to the piece. */
		if (helper && list_empty(&split_folios) &&
		    !migrate_copy_may_help(&pieces->team.work) &&
		    pieces_hand_on(pieces, piece, &pieces->rest)) {
			count_vm_event(MIGRATE_COPY_RESTS);
			break;
		}
		pieces_make_way();
	}
	if (!list_empty(&split_folios)) {
		migrate_pages_batch(&split_folios, get_new_folio, NULL, private,
				    MIGRATE_ASYNC, pieces->reason, &piece->failed,
				    NULL, stats, 1, &aid);
		list_splice_tail(&split_folios, &piece->failed);
	}
	return !aid.no_memory;
}

/* Do the next piece; false if there is none. */
static bool pieces_next(struct migrate_pieces *pieces, bool helper)
{
	struct migrate_pages_stats *sum = pieces->begun, stats = {};
	struct migrate_piece piece = {};
	struct list_head *folios = &piece.folios;
	bool no_memory = false;

	INIT_LIST_HEAD(folios);
	INIT_LIST_HEAD(&piece.failed);
	if ((list_empty_careful(&pieces->rest.folios) ||
	     !pieces_hand_on(pieces, &pieces->rest, &piece)) &&
	    (READ_ONCE(pieces->no_memory) || !pieces->isolate(pieces, &piece)))
		return false;
	if (list_empty(folios))
		return true;

	if (!READ_ONCE(pieces->no_memory))
		no_memory = !pieces_try(pieces, &piece, &stats, helper);
	list_splice(&piece.failed, folios);
	if (pieces->done)
		pieces->done(pieces, &piece);

	spin_lock(&pieces->lock);
	list_splice_tail(folios, &pieces->left);
	sum->nr_succeeded += stats.nr_succeeded;
	if (helper)
		pieces->helper_pages += stats.nr_succeeded;
	sum->nr_thp_succeeded += stats.nr_thp_succeeded;
	sum->nr_thp_split += stats.nr_thp_split;
	sum->nr_split += stats.nr_split;
	/* Other failures are tried again by the call, and counted then. */
	sum->nr_thp_failed += stats.nr_thp_split;
	if (no_memory)
		WRITE_ONCE(pieces->no_memory, true);
	spin_unlock(&pieces->lock);
	return true;
}

static bool pieces_help(struct migrate_copy_team *team)
{
	return pieces_next(container_of(team, struct migrate_pieces, team), true);
}

/**
 * migrate_pieces_helpers() - Limit the helpers that take pieces of a request.
 * @reason: The migrate_reason of the request.
 * @asked: What it asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @nr_pages: The most base pages it can have.
 *
 * Context: Process context.
 * Return: The most helpers to ask for; 0 if the call does everything alone.
 */
unsigned int migrate_pieces_helpers(int reason, unsigned int asked,
				    unsigned long nr_pages)
{
	return min(migrate_copy_team_size(reason, asked),
		   max(nr_pages / MIGRATE_PIECE_LEAST, 1UL) - 1);
}

/* The target node, or NUMA_NO_NODE if it is not known. */
static int pieces_target_nid(const struct migrate_pieces *pieces)
{
	if (pieces->get_new_folio != alloc_migration_target &&
	    pieces->get_new_folio != alloc_demote_folio)
		return NUMA_NO_NODE;
	return ((struct migration_target_control *)pieces->private)->nid;
}

/* The id of the cgroup that is charged, as in bpf_get_current_cgroup_id(). */
static u64 pieces_cgroup(void)
{
#ifdef CONFIG_CGROUPS
	guard(rcu)();
	return cgroup_id(task_dfl_cgroup(current));
#else
	return 0;
#endif
}

static void pieces_begin(struct migrate_pieces *pieces, unsigned int most,
			 unsigned int max_helpers)
{
	pieces->since = trace_migrate_copy_request_enabled() ? local_clock() : 0;
	pieces->no_memory = false;
	pieces->helper_pages = 0;
	spin_lock_init(&pieces->lock);
	INIT_LIST_HEAD(&pieces->left);
	INIT_LIST_HEAD(&pieces->rest.folios);
	INIT_LIST_HEAD(&pieces->rest.failed);
	pieces->moved = pieces->begun->nr_succeeded;
	/* The first helpers may read this before all have been asked. */
	pieces->nr_cpus = most + 1;
	migrate_copy_team_start(&pieces->team, pieces_help, pieces_target_nid(pieces),
				max_helpers, pieces->asked);
	WRITE_ONCE(pieces->nr_cpus, pieces->team.work.nr_cpus + 1);
	if (!pieces->begun->any)
		trace_mm_migrate_pages_start(pieces->mode, pieces->reason);
	pieces->begun->any = true;
}

static void pieces_end(struct migrate_pieces *pieces)
{
	unsigned long moved;

	migrate_copy_helpers_retract(&pieces->team.work);
	/* A helper may have left the rest of a piece at the very end. */
	while (pieces_next(pieces, false))
		;
	migrate_copy_team_end(&pieces->team);
	moved = pieces->begun->nr_succeeded - pieces->moved;
	count_vm_event(MIGRATE_COPY_REQUESTS);
	if (!pieces->team.work.nr_cpus)
		count_vm_event(MIGRATE_COPY_ALONE);
	count_vm_events(MIGRATE_COPY_PAGES_CALLER, moved - pieces->helper_pages);
	count_vm_events(MIGRATE_COPY_PAGES_HELPERS, pieces->helper_pages);
	trace_migrate_copy_request(pieces->reason, pieces_cgroup(), pieces->team.nid, moved,
				   pieces->helper_pages,
				   pieces->team.work.nr_cpus,
				   atomic64_read(&pieces->team.work.helper_ns),
				   pieces->since ? local_clock() - pieces->since : 0);
}

/**
 * migrate_pieces_run() - Migrate what is possible, on as many CPUs as pay off.
 * @pieces: The request; the caller has set all members not private to pieces.c.
 * @nr_folios: The number of folios, as far as known.
 * @nr_pages: Their base pages.
 *
 * Context: Process context, may sleep; no mmap_lock held. The helpers' changes
 * are visible on return.
 * Return: false if nothing has been done because helpers are not allowed or do
 * not pay off. Otherwise true, and folios may be in @pieces->left.
 */
bool migrate_pieces_run(struct migrate_pieces *pieces, unsigned long nr_folios,
			unsigned long nr_pages)
{
	unsigned int most = migrate_pieces_helpers(pieces->reason, pieces->asked, nr_pages);
	unsigned int max_helpers = migrate_copy_helpers_for(nr_folios, nr_pages, most);

	if (!max_helpers)
		return false;

	pieces_begin(pieces, most, max_helpers);
	while (pieces_next(pieces, false)) {
		pieces_make_way();
		migrate_copy_team_wake(&pieces->team);
		WRITE_ONCE(pieces->nr_cpus, pieces->team.work.nr_cpus + 1);
	}
	pieces_end(pieces);
	return true;
}

/**
 * migrate_pieces_open() - Let helpers begin while the request is being made.
 * @pieces: The request, as for migrate_pieces_run(). Must be closed.
 *
 * Context: Process context, may sleep.
 * Return: false if this caller may not have helpers; nothing is to be closed then.
 */
bool migrate_pieces_open(struct migrate_pieces *pieces)
{
	unsigned int most = migrate_copy_team_size(pieces->reason, pieces->asked);

	if (!most)
		return false;
	pieces_begin(pieces, most, 0);
	pieces->team.max_helpers = most;
	return true;
}

/**
 * migrate_pieces_more() - There is more to do than helpers have begun with.
 * @pieces: The request, open.
 *
 * Context: As for migrate_copy_team_wake(); asks one CPU.
 */
void migrate_pieces_more(struct migrate_pieces *pieces)
{
	struct migrate_copy_team *team = &pieces->team;

	if (team->work.nr_cpus >= team->max_helpers ||
	    !migrate_copy_helpers_wake(&team->work, team->nid, 1))
		migrate_copy_helpers_wake_again(&team->work);
	WRITE_ONCE(pieces->nr_cpus, team->work.nr_cpus + 1);
}

/**
 * migrate_pieces_do() - Do a piece of an open request.
 * @pieces: The request.
 *
 * Context: Process context, may sleep.
 * Return: false if there was none.
 */
bool migrate_pieces_do(struct migrate_pieces *pieces)
{
	bool more = pieces_next(pieces, false);

	pieces_make_way();
	return more;
}

/**
 * migrate_pieces_close() - Finish an open request.
 * @pieces: The request. pieces->left is for the caller, as after a run.
 *
 * Context: Process context, may sleep.
 */
void migrate_pieces_close(struct migrate_pieces *pieces)
{
	while (migrate_pieces_do(pieces))
		;
	pieces_end(pieces);
}
