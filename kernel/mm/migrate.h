/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page migration, for use in mm/ only: isolate folios from the LRU in batches,
 * and begin a request in one function and end it in another.
 */
#ifndef _MM_MIGRATE_H
#define _MM_MIGRATE_H

#include <linux/folio_batch.h>
#include <linux/migrate.h>
#include <linux/mm_inline.h>

struct migrate_copy_team;

void folios_del_lru(struct folio_batch *fbatch);

/* Isolates folios in batches, to take the LRU lock once for many of them. */
struct folio_isolation {
	struct list_head *folios;	/* Isolated folios */
	enum lru_cache_drained drained;	/* For move_pages() */
	struct folio_batch lru;		/* Isolated, but still on LRU lists */
};

static inline void folio_isolation_init(struct folio_isolation *iso, struct list_head *folios)
{
	iso->folios = folios;
	iso->drained = LRU_CACHE_NOT_DRAINED;
	folio_batch_init(&iso->lru);
}

/* Move the folios of the current batch to iso->folios. */
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

/*
 * Isolate a folio that cannot be freed now. Returns false if it is not on
 * the LRU, usually because it has already been isolated.
 */
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
 * struct migrate_pages_stats - outcome of a migration request
 * @any: Whether the request has begun and has not been reported yet.
 * @nr_succeeded: Base pages migrated, including those of hugetlb folios.
 * @nr_failed_pages: Base pages that failed to migrate, including those of
 *	hugetlb folios. Untried folios are not counted.
 * @nr_thp_succeeded: PMD-mappable folios migrated.
 * @nr_thp_failed: PMD-mappable folios that failed to migrate.
 * @nr_thp_split: PMD-mappable folios split before migration.
 * @nr_split: Large folios split before migration, including PMD-mappable ones.
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

/* How several CPUs share a migration request. */
struct migrate_aid {
	struct migrate_copy_team *team;	/* Helpers that may copy */
	unsigned int asked;		/* MIGRATE_MT, MIGRATE_HIGHPRI */
	bool tries;			/* Best effort: the rest is retried */
	bool no_memory;			/* If tries: an allocation failed */
};

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

int migrate_misplaced_folio_check(struct folio *folio,
				  struct vm_area_struct *vma, int node,
				  unsigned long nr_pending);
unsigned int migrate_misplaced_folios(struct list_head *folios,
				      struct mem_cgroup *memcg, int node);

#endif /* _MM_MIGRATE_H */
