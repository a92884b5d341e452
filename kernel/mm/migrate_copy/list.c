// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of migrate_pages(), of which several CPUs take pieces: batches,
 * which become smaller towards the end so that all CPUs finish together, or
 * single hugetlb folios.
 *
 * Only callers of migrate_pages() know whether other CPUs may call their
 * callbacks concurrently; if so, they pass MIGRATE_ANY_CPU.
 */
#include <linux/cleanup.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched/clock.h>
#include <linux/spinlock.h>

#include "internal.h"
#include "pieces.h"

/*
 * How long a helper waits for more folios of an open list: reclaim looks at about
 * a hundred in that time, and waking it up again takes half as long.
 */
#define LIST_WAIT_NS	(50 * NSEC_PER_USEC)

/* Wait for folios; false if none are left, or none have come in time. */
static bool list_wait(struct migrate_list *list)
{
	const struct migrate_copy_work *work = &list->pieces.team.work;
	u64 since = local_clock();

	while (list_empty_careful(&list->from)) {
		if (current == work->caller || !READ_ONCE(list->open) || READ_ONCE(work->ends) ||
		    !migrate_copy_may_help(work) ||
		    local_clock() - since > LIST_WAIT_NS)
			return false;
		cpu_relax();
	}
	return true;
}

/*
 * Are these folios neighbours in one page table? Two CPUs would wait for its lock.
 * As the folios are not locked, the answer may be wrong.
 */
static bool one_table(const struct folio *a, const struct folio *b)
{
	return a->mapping == b->mapping &&
	       a->index >> (PMD_SHIFT - PAGE_SHIFT) == b->index >> (PMD_SHIFT - PAGE_SHIFT);
}

static bool list_isolate(struct migrate_pieces *pieces,
			 struct migrate_piece *piece)
{
	struct migrate_list *list =
		container_of(pieces, struct migrate_list, pieces);
	unsigned long nr_pages = 0, nr_max;
	struct folio *folio, *next;
	bool open, more;

	if (READ_ONCE(list->open) && !list_wait(list))
		return false;
	spin_lock(&list->lock);
	open = READ_ONCE(list->open);
	nr_max = open ? MIGRATE_COPY_BATCH_PAGES : migrate_piece_size(pieces, list->nr_left);
	list_for_each_entry_safe(folio, next, &list->from, lru) {
		if (folio_test_hugetlb(folio) && nr_pages)
			break;
		if (open && nr_pages >= MIGRATE_PIECE_LEAST &&
		    !one_table(folio, list_last_entry(&piece->folios, struct folio, lru)))
			break;
		nr_pages += folio_nr_pages(folio);
		list_move_tail(&folio->lru, &piece->folios);
		if (nr_pages >= nr_max || folio_test_hugetlb(folio))
			break;
	}
	list->nr_left -= min(list->nr_left, nr_pages);
	/* Somebody else may have been faster. */
	more = nr_pages || open;
	spin_unlock(&list->lock);
	return more;
}

static void list_init(struct migrate_list *list, new_folio_t *get_new_folio,
		      unsigned long private, enum migrate_mode mode,
		      enum migrate_reason reason, unsigned int asked,
		      struct migrate_pages_stats *begun)
{
	spin_lock_init(&list->lock);
	INIT_LIST_HEAD(&list->from);
	list->nr_left = 0;
	list->open = false;
	INIT_LIST_HEAD(&list->more);
	list->nr_more = 0;
	list->pieces.isolate = list_isolate;
	list->pieces.done = NULL;
	list->pieces.get_new_folio = get_new_folio;
	list->pieces.private = private;
	list->pieces.mode = mode;
	list->pieces.reason = reason;
	list->pieces.asked = asked;
	list->pieces.begun = begun;
	list->pieces.no_memory = false;
}

/**
 * migrate_list_run() - Migrate as much of a list as possible on several CPUs.
 * @from: The isolated folios. Those left in it are up to the caller alone.
 * @get_new_folio: As for migrate_pages().
 * @private: As for migrate_pages().
 * @mode: As for migrate_pages(), without flags.
 * @reason: As for migrate_pages().
 * @asked: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @begun: Statistics of the folios that are not left.
 *
 * Context: Process context, may sleep.
 */
void migrate_list_run(struct list_head *from, new_folio_t *get_new_folio,
		      unsigned long private, enum migrate_mode mode,
		      enum migrate_reason reason, unsigned int asked,
		      struct migrate_pages_stats *begun)
{
	struct migrate_list list __uninitialized;
	unsigned long nr_folios = 0, nr_enough;
	struct folio *folio;

	nr_enough = migrate_copy_team_size(reason, asked);
	if (!nr_enough)
		return;

	/* Count only as far as it affects the number of helpers. */
	nr_enough = 2 * (nr_enough + 1) * MIGRATE_COPY_BATCH_PAGES;
	list_init(&list, get_new_folio, private, mode, reason, asked, begun);
	list_for_each_entry(folio, from, lru) {
		nr_folios++;
		list.nr_left += folio_nr_pages(folio);
		if (list.nr_left > nr_enough) {
			list.nr_left = ULONG_MAX;
			break;
		}
	}

	list_splice_init(from, &list.from);
	if (migrate_pieces_run(&list.pieces, nr_folios, min(list.nr_left, nr_enough)))
		list_splice_init(&list.pieces.left, from);
	/* What nobody has taken. */
	list_splice_tail(&list.from, from);
}

/**
 * migrate_list_open() - Have folios migrated while others are being chosen.
 * @list: The list. Must be closed.
 * @get_new_folio: As for migrate_pages().
 * @private: As for migrate_pages().
 * @reason: As for migrate_pages(); the mode is MIGRATE_ASYNC.
 * @begun: Statistics of the folios that are not left.
 *
 * Context: Process context.
 * Return: false if this caller may not have helpers.
 */
bool migrate_list_open(struct migrate_list *list, new_folio_t *get_new_folio,
		       unsigned long private, enum migrate_reason reason,
		       struct migrate_pages_stats *begun)
{
	list_init(list, get_new_folio, private, MIGRATE_ASYNC, reason, 0, begun);
	return migrate_copy_team_size(reason, 0);
}

/* Let helpers take what has been collected; the caller does what is too much. */
static void list_publish(struct migrate_list *list)
{
	struct migrate_pieces *pieces = &list->pieces;
	unsigned long most;
	bool behind;

	if (!list->open) {
		if (!migrate_pieces_open(pieces)) {
			pieces->no_memory = true;
			return;
		}
		list->open = true;
	}
	scoped_guard(spinlock, &list->lock) {
		behind = list->nr_left;
		list_splice_tail_init(&list->more, &list->from);
		list->nr_left += list->nr_more;
	}
	list->nr_more = 0;
	if (behind || atomic_read(&pieces->team.work.busy) <= 1)
		migrate_pieces_more(pieces);
	most = (atomic_read(&pieces->team.work.busy) - 1) * MIGRATE_COPY_BATCH_PAGES;
	while (READ_ONCE(list->nr_left) > most && migrate_pieces_do(pieces))
		;
}

/**
 * migrate_list_add() - Add a folio to be migrated.
 * @list: An open list.
 * @folio: The folio, isolated and not locked. Others may free it soon.
 *
 * A page table's folios are taken together, as long as they come one after the
 * other. A helper is asked to join if those there are do not keep up, and the
 * caller takes part if too many folios wait.
 *
 * Context: Process context, may sleep.
 */
void migrate_list_add(struct migrate_list *list, struct folio *folio)
{
	if (list->nr_more >= MIGRATE_PIECE_LEAST &&
	    !one_table(folio, list_last_entry(&list->more, struct folio, lru)))
		list_publish(list);
	list_add_tail(&folio->lru, &list->more);
	list->nr_more += folio_nr_pages(folio);
	if (list->nr_more >= MIGRATE_COPY_BATCH_PAGES)
		list_publish(list);
}

/**
 * migrate_list_flush() - The next folio may not come soon.
 * @list: An open list.
 *
 * Context: Process context, may sleep.
 */
void migrate_list_flush(struct migrate_list *list)
{
	if (list->open && list->nr_more)
		list_publish(list);
}

/**
 * migrate_list_close() - Migrate what is left of an open list.
 * @list: The list.
 * @left: Where folios that have not been migrated are added.
 *
 * Context: Process context, may sleep.
 */
void migrate_list_close(struct migrate_list *list, struct list_head *left)
{
	if (list->open) {
		scoped_guard(spinlock, &list->lock) {
			list_splice_tail_init(&list->more, &list->from);
			list->nr_left += list->nr_more;
			WRITE_ONCE(list->open, false);
		}
		migrate_pieces_close(&list->pieces);
		list_splice(&list->pieces.left, left);
	}
	list_splice_tail(&list->from, left);
	list_splice_tail(&list->more, left);
}
