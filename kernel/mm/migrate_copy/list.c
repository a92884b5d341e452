// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of migrate_pages(), of which several CPUs take pieces: batches, towards the
 * end smaller ones, so that all end together; or single hugetlb folios.
 *
 * Which callbacks can bear to be called by other CPUs, at the same time, only those who
 * pass them know: they say so by MIGRATE_ANY_CPU.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/spinlock.h>

#include "internal.h"
#include "pieces.h"

struct migrate_list {
	spinlock_t lock;		/* Protects what follows */
	struct list_head *from;		/* What nobody has taken yet */
	unsigned long nr_left;		/* Its base pages, as far as counted */
	struct list_head left;		/* What could not be migrated */
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

static void list_done(struct migrate_pieces *pieces,
		      struct migrate_piece *piece)
{
	struct migrate_list *list =
		container_of(pieces, struct migrate_list, pieces);

	spin_lock(&list->lock);
	list_splice_tail_init(&piece->folios, &list->left);
	spin_unlock(&list->lock);
}

/**
 * migrate_list_run() - Migrate of a list what can be, with several CPUs.
 * @from: The folios, isolated. Those that are left are to be migrated by one CPU.
 * @get_new_folio: As for migrate_pages().
 * @private: Likewise.
 * @mode: Likewise, without flags.
 * @reason: Likewise.
 * @asked: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @begun: Where what became of those that are not left is noted.
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

	/* Count no further than that tells how many helpers are worth it. */
	nr_enough = 2 * (nr_enough + 1) * READ_ONCE(migrate_copy_batch_pages);
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
	INIT_LIST_HEAD(&list.left);
	list.pieces.isolate = list_isolate;
	list.pieces.done = list_done;
	list.pieces.get_new_folio = get_new_folio;
	list.pieces.private = private;
	list.pieces.mode = mode;
	list.pieces.reason = reason;
	list.pieces.asked = asked;
	list.pieces.begun = begun;
	migrate_pieces_run(&list.pieces, nr_folios, min(list.nr_left, nr_enough));
	list_splice(&list.left, from);
}
