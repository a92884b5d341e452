// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pieces: several CPUs take parts of what a system call is to move, and do all of it:
 * look-up, isolation, unmapping, copy, mapping.
 *
 * They go ahead of the call and decide nothing. What needs no waiting is moved, what
 * is odd in any way is left as it was. After them the call does what it has always done,
 * alone and in its own order, with what is left; so errors, and what is told of each
 * page, are those of one CPU.
 */
#include <linux/migrate.h>
#include <linux/sched/clock.h>
#include <trace/events/migrate.h>
#include <trace/events/migrate_copy.h>

#include "internal.h"
#include "pieces.h"

/* How often a folio of a piece is tried, before it is left. */
#define PIECE_PASSES	3

/*
 * Take the next folios that are unmapped together, one at least. A CPU that works
 * beside others unmaps a quarter of a batch: a task waits for a page until all that
 * were unmapped with it are mapped again, and the more CPUs unmap pages, the more
 * often it has to.
 */
static void pieces_cut(struct list_head *from, struct list_head *batch)
{
	unsigned int nr = 0, most = READ_ONCE(migrate_copy_batch_pages) / 4;
	struct folio *folio;

	list_for_each_entry(folio, from, lru) {
		if (nr && nr + folio_nr_pages(folio) > most)
			break;
		nr += folio_nr_pages(folio);
	}
	list_cut_before(batch, from, &folio->lru);
}

/*
 * Migrate folios without waiting for anybody; those that could not be are left. Returns
 * false if there is no memory. Nothing is said of that: who does the rest may find some.
 */
static bool pieces_try(struct list_head *from, struct migrate_pieces *pieces,
		       struct migrate_pages_stats *stats)
{
	new_folio_t *get_new_folio = pieces->get_new_folio;
	unsigned long private = pieces->private;
	struct migration_target_control mtc;
	struct migrate_aid aid = {
		.team = &pieces->team,
		.asked = pieces->asked,
		.tries = true,
	};
	struct folio *folio, *folio2;
	LIST_HEAD(split_folios);
	LIST_HEAD(ret_folios);
	LIST_HEAD(batch);
	int rc;

	if (get_new_folio == alloc_migration_target) {
		mtc = *(struct migration_target_control *)private;
		mtc.gfp_mask |= __GFP_NOWARN;
		private = (unsigned long)&mtc;
	}
	/* In one pass, which waits for no folio lock in any mode. */
	rc = migrate_hugetlbs(from, get_new_folio, NULL, private, pieces->mode,
			      pieces->reason, stats, &ret_folios, &aid);
	aid.no_memory = rc < 0;
	if (rc) {
		list_for_each_entry_safe(folio, folio2, from, lru) {
			if (folio_test_hugetlb(folio))
				list_move_tail(&folio->lru, &ret_folios);
		}
	}
	while (!list_empty(from) && !aid.no_memory) {
		pieces_cut(from, &batch);
		migrate_pages_batch(&batch, get_new_folio, NULL, private,
				    MIGRATE_ASYNC, pieces->reason, &ret_folios,
				    &split_folios, stats,
				    PIECE_PASSES, &aid);
		list_splice_tail_init(&batch, &ret_folios);
	}
	if (!list_empty(&split_folios)) {
		migrate_pages_batch(&split_folios, get_new_folio, NULL, private,
				    MIGRATE_ASYNC, pieces->reason, &ret_folios,
				    NULL, stats, 1, &aid);
		list_splice_tail(&split_folios, &ret_folios);
	}
	list_splice(&ret_folios, from);
	return !aid.no_memory;
}

/* Do the next piece; false if there is none. */
static bool pieces_next(struct migrate_pieces *pieces, bool helper)
{
	struct migrate_pages_stats *sum = &pieces->begun->stats, stats = {};
	struct migrate_piece piece __uninitialized;
	struct list_head *folios = &piece.iso.folios;
	bool no_memory = false, left;

	if (READ_ONCE(pieces->no_memory))
		return false;
	folio_isolation_init(&piece.iso);
	if (!pieces->isolate(pieces, &piece))
		return false;
	if (list_empty(folios))
		return true;

	no_memory = !pieces_try(folios, pieces, &stats);
	left = !list_empty(folios);
	if (pieces->done)
		pieces->done(pieces, &piece);
	putback_movable_pages(folios);

	spin_lock(&pieces->lock);
	sum->nr_succeeded += stats.nr_succeeded;
	if (helper)
		pieces->helper_pages += stats.nr_succeeded;
	sum->nr_thp_succeeded += stats.nr_thp_succeeded;
	sum->nr_thp_split += stats.nr_thp_split;
	sum->nr_split += stats.nr_split;
	/* What else has failed is attempted again, and counts then. */
	sum->nr_thp_failed += stats.nr_thp_split;
	if (left)
		WRITE_ONCE(pieces->left, true);
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
 * migrate_pieces_helpers() - How many helpers may take pieces of a request.
 * @reason: The migrate_reason of the request.
 * @asked: What it asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @nr_pages: How many base pages it has at most.
 *
 * Context: Process context.
 * Return: The most helpers to ask for; 0 if the call does everything alone.
 */
unsigned int migrate_pieces_helpers(int reason, unsigned int asked,
				    unsigned long nr_pages)
{
	if (nr_pages < 2 * MIGRATE_PIECE_LEAST)
		return 0;
	return min(migrate_copy_team_size(reason, asked),
		   nr_pages / MIGRATE_PIECE_LEAST - 1);
}

/**
 * migrate_pieces_run() - Migrate what can be, with as many CPUs as are worth it.
 * @pieces: What to migrate, and how; all but what belongs to this file is set.
 * @nid: The node that the folios go to, or NUMA_NO_NODE.
 * @nr_folios: How many folios there are, as far as known.
 * @nr_pages: Their base pages.
 *
 * Context: Process context, may sleep; no mmap_lock held. What the helpers did is
 * visible when it returns.
 * Return: false if nothing has been done, as it is not worth it or not allowed.
 * Otherwise @pieces->left says if there is something left.
 */
bool migrate_pieces_run(struct migrate_pieces *pieces, int nid,
			unsigned long nr_folios, unsigned long nr_pages)
{
	unsigned int max_helpers = migrate_pieces_helpers(pieces->reason,
							  pieces->asked,
							  nr_pages);
	unsigned int nr_helpers;
	int before;
	u64 since = trace_migrate_copy_request_enabled() ? local_clock() : 0;

	if (!max_helpers)
		return false;

	pieces->left = false;
	pieces->no_memory = false;
	pieces->helper_pages = 0;
	spin_lock_init(&pieces->lock);
	if (!pieces->begun->any)
		memset(&pieces->begun->stats, 0, sizeof(pieces->begun->stats));
	before = pieces->begun->stats.nr_succeeded;
	/* The first of them may look before all have been asked. */
	pieces->nr_cpus = max_helpers + 1;
	nr_helpers = migrate_copy_team_start(&pieces->team, pieces_help, nid,
					     nr_folios, nr_pages, max_helpers,
					     pieces->asked);
	if (!pieces->team.max_helpers) {
		migrate_copy_team_end(&pieces->team);
		return false;
	}
	WRITE_ONCE(pieces->nr_cpus, nr_helpers + 1);
	if (!pieces->begun->any)
		trace_mm_migrate_pages_start(pieces->mode, pieces->reason);
	pieces->begun->any = true;
	while (pieces_next(pieces, false)) {
		migrate_copy_team_wake_again(&pieces->team);
		WRITE_ONCE(pieces->nr_cpus, pieces->team.work.nr_cpus + 1);
	}
	migrate_copy_team_end(&pieces->team);
	trace_migrate_copy_request(pieces->reason,
				   pieces->begun->stats.nr_succeeded - before,
				   pieces->helper_pages,
				   pieces->team.work.nr_cpus,
				   atomic64_read(&pieces->team.work.helper_ns),
				   since ? local_clock() - since : 0);
	if (pieces->no_memory)
		pieces->left = true;
	return true;
}
