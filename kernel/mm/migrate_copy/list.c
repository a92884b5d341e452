// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of migrate_pages(), of which several CPUs take pieces: batches,
 * which become smaller towards the end so that all CPUs finish together, or
 * single hugetlb folios.
 *
 * Only callers of migrate_pages() know whether other CPUs may call their
 * callbacks concurrently; if so, they pass MIGRATE_ANY_CPU.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/spinlock.h>

#include "internal.h"
#include "pieces.h"

struct migrate_list {
	spinlock_t lock;		/* Protects what follows */
	struct list_head *from;		/* Folios not taken yet */
	unsigned long nr_left;		/* Base pages in it, as far as known */
	struct migrate_pieces pieces;
};

static bool list_isolate(struct migrate_pieces *pieces,
			 struct migrate_piece *piece)
{
	struct migrate_list *list =
		container_of(pieces, struct migrate_list, pieces);
	unsigned long nr_pages = 0, nr_max;
	struct folio *folio, *next;

	spin_lock(&list->lock);
	nr_max = migrate_piece_size(pieces, list->nr_left);
	list_for_each_entry_safe(folio, next, list->from, lru) {
		if (folio_test_hugetlb(folio) && nr_pages)
			break;
		nr_pages += folio_nr_pages(folio);
		list_move_tail(&folio->lru, &piece->folios);
		if (nr_pages >= nr_max || folio_test_hugetlb(folio))
			break;
	}
	list->nr_left -= min(list->nr_left, nr_pages);
	spin_unlock(&list->lock);
	return nr_pages;
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
	list.nr_left = 0;
	list_for_each_entry(folio, from, lru) {
		nr_folios++;
		list.nr_left += folio_nr_pages(folio);
		if (list.nr_left > nr_enough) {
			list.nr_left = ULONG_MAX;
			break;
		}
	}

	spin_lock_init(&list.lock);
	list.from = from;
	list.pieces.isolate = list_isolate;
	list.pieces.done = NULL;
	list.pieces.get_new_folio = get_new_folio;
	list.pieces.private = private;
	list.pieces.mode = mode;
	list.pieces.reason = reason;
	list.pieces.asked = asked;
	list.pieces.begun = begun;
	if (migrate_pieces_run(&list.pieces, nr_folios, min(list.nr_left, nr_enough)))
		list_splice(&list.pieces.left, from);
}
