/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rest of mm/ needs of page migration: how folios get from the LRU to a list,
 * and how a request is begun by one function and ended by another.
 */
#ifndef _MM_MIGRATE_H
#define _MM_MIGRATE_H

#include <linux/folio_batch.h>
#include <linux/migrate.h>
#include <linux/mm_inline.h>

struct migrate_copy_team;

void folios_del_lru(struct folio_batch *fbatch);

/* Folios on their way from the LRU to a list; their lists are locked for many. */
struct folio_isolation {
	struct list_head *folios;	/* Where they go */
	struct folio_batch lru;		/* Ours, but on the LRU yet */
};

static inline void folio_isolation_init(struct folio_isolation *iso, struct list_head *folios)
{
	iso->folios = folios;
	folio_batch_init(&iso->lru);
}

/* All of them are on the list then. */
static inline void folio_isolation_finish(struct folio_isolation *iso)
{
	folios_del_lru(&iso->lru);
	for (int i = 0; i < folio_batch_count(&iso->lru); i++) {
		struct folio *folio = iso->lru.folios[i];

		list_add_tail(&folio->lru, iso->folios);
		node_stat_mod_folio(folio,
				    NR_ISOLATED_ANON + folio_is_file_lru(folio),
				    folio_nr_pages(folio));
	}
	folio_batch_reinit(&iso->lru);
}

/* Isolate a folio of the LRU that cannot go away; false if somebody else has it. */
static inline bool folio_isolation_add(struct folio_isolation *iso,
				       struct folio *folio)
{
	if (!folio_test_clear_lru(folio))
		return false;
	folio_get(folio);
	if (!folio_batch_add(&iso->lru, folio))
		folio_isolation_finish(iso);
	return true;
}

/**
 * struct migrate_pages_stats - what became of folios
 * @any: Whether there is a request that has begun, and is to be told of.
 * @nr_succeeded: Base pages of those that were migrated, hugetlb ones apart.
 * @nr_failed_pages: Base pages of those that were not. Untried ones do not count.
 * @nr_thp_succeeded: PMD-mapped folios that were migrated.
 * @nr_thp_failed: Those that were not.
 * @nr_thp_split: Those that were split before.
 * @nr_split: Large folios that were split before, these included.
 */
struct migrate_pages_stats {
	bool any;
	int nr_succeeded;
	int nr_failed_pages;
	int nr_thp_succeeded;
	int nr_thp_failed;
	int nr_thp_split;
	int nr_split;
};

/* For migrate_pages(): who helps. */
struct migrate_aid {
	struct migrate_copy_team *team;	/* Who may help to copy */
	unsigned int asked;		/* MIGRATE_MT, MIGRATE_HIGHPRI */
	bool tries;			/* Somebody else does what is left */
	struct anon_vma *anon_vma;	/* Referenced for the folios of a batch */
	bool no_memory;			/* Then: there was none */
};

/* mm/migrate_rmap.c */
struct anon_vma *migrate_get_anon_vma(struct folio *folio, struct migrate_aid *aid);
void migrate_folios_unmap(struct list_head *srcs, struct list_head *dsts,
			  struct list_head *left_srcs,
			  struct list_head *left_dsts);

int migrate_hugetlbs(struct list_head *from, new_folio_t get_new_folio,
		     free_folio_t put_new_folio, unsigned long private,
		     enum migrate_mode mode, enum migrate_reason reason,
		     struct migrate_pages_stats *stats,
		     struct list_head *ret_folios, struct migrate_aid *aid);
int migrate_pages_batch(struct list_head *from, new_folio_t get_new_folio,
			free_folio_t put_new_folio, unsigned long private,
			enum migrate_mode mode, enum migrate_reason reason,
			struct list_head *ret_folios,
			struct list_head *split_folios,
			struct migrate_pages_stats *stats, int nr_pass,
			struct migrate_aid *aid);
int migrate_pages_rest(struct list_head *from, new_folio_t get_new_folio,
		       free_folio_t put_new_folio, unsigned long private,
		       enum migrate_mode mode, int reason,
		       unsigned int *ret_succeeded,
		       struct migrate_pages_stats *stats);
void migrate_begun_end(struct migrate_pages_stats *stats, enum migrate_mode mode,
		       int reason);

#endif /* _MM_MIGRATE_H */
