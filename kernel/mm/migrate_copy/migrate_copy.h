/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batched and shared folio copy for page migration: what mm/migrate.c needs.
 */
#ifndef _MM_MIGRATE_COPY_H
#define _MM_MIGRATE_COPY_H

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mempolicy.h>
#include <linux/migrate_mode.h>
#include <linux/mm.h>
#include <linux/spinlock.h>

/*
 * Mark in dst->migrate_info, next to the folio state that migration records there:
 * the content of the source is in the destination. It holds for one pass over
 * a batch, from migrate_copy_batch() until the folio is moved or put back.
 */
#define FOLIO_CONTENT_COPIED	(IS_ENABLED(CONFIG_MIGRATE_COPY) ? BIT(2) : 0)

struct migrate_aid;

DECLARE_STATIC_KEY_FALSE(migrate_copy_key);
extern unsigned int migrate_copy_batch_pages;

/* The most helpers of one work. */
#define MIGRATE_COPY_MAX_HELPERS	63

/**
 * struct migrate_copy_work - something that several CPUs do step by step
 * @step: Does the next step; returns false when none is left to begin.
 * @batches: Whether steps are batches, not only copies.
 * @highpri: Whether CPUs that are busy may be used, too.
 * @ends: Whether helpers may not begin another step.
 * @caller: The task whose request it is; it waits for the helpers.
 * @busy: How many are at it: the caller, and who was asked and has not left.
 * @left: The last of them has left.
 * @helper_ns: CPU time of helpers, in ns.
 * @looked: When somebody has looked whether all helpers run, in jiffies.
 * @nr_cpus: Length of @cpus.
 * @cpus: The CPUs that were asked; the caller's own.
 *
 * It lives on the stack of the caller. See mm/migrate_copy/helpers.c.
 */
struct migrate_copy_work {
	bool (*step)(struct migrate_copy_work *work);
	bool batches;
	bool highpri;
	bool ends;
	struct task_struct *caller;
	atomic_t busy;
	struct completion left;
	atomic64_t helper_ns;
	unsigned long looked;
	unsigned int nr_cpus;
	u16 cpus[MIGRATE_COPY_MAX_HELPERS];
};

/**
 * struct migrate_copy_team - CPUs that work for one request
 * @started: Whether it has to be brought back.
 * @work: How they are woken and brought back.
 * @next_batch: Migrates the next batch as a helper, see migrate_copy_team_start();
 *	NULL if helpers only copy.
 * @nid: The node whose CPUs are asked first.
 * @max_helpers: The most helpers that are wanted for batches.
 * @scopes: The memalloc scopes of the task that has started it, PF_MEMALLOC*.
 * @nr_jobs: How many jobs there have been.
 * @folio: A large folio to be put by who has time, or NULL. Only the caller sets it.
 * @lock: Protects @jobs.
 * @jobs: What is being copied and may be shared.
 */
struct migrate_copy_team {
	bool started;
	struct migrate_copy_work work;
	bool (*next_batch)(struct migrate_copy_team *team);
	int nid;
	unsigned int max_helpers;
	unsigned int scopes;
	unsigned int nr_jobs;
	struct folio *folio;
	raw_spinlock_t lock;	/* Protects what follows */
	struct list_head jobs;
};

/**
 * migrate_copy_enabled() - Is batched copy switched on?
 *
 * Context: Any. A static branch. The answer may change at any time, also in
 * the middle of a batch, which is harmless: a copy whose mark is not looked at
 * is done again.
 * Return: true when folios are to be copied in batches.
 */
static inline bool migrate_copy_enabled(void)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY) &&
	       static_branch_unlikely(&migrate_copy_key);
}

void migrate_copy_batch(struct list_head *src_folios, struct list_head *dst_folios,
			int reason, const struct migrate_aid *aid);
bool migrate_copy_hugetlb(struct folio *dst, struct folio *src, int reason,
			  const struct migrate_aid *aid);
void migrate_copy_count_void(void);
unsigned int migrate_copy_team_size(int reason, unsigned int asked);
void migrate_copy_team_start(struct migrate_copy_team *team,
			     bool (*next_batch)(struct migrate_copy_team *team),
			     int nid, unsigned int max_helpers, unsigned int asked);
void migrate_copy_team_wake(struct migrate_copy_team *team);
void migrate_copy_team_end(struct migrate_copy_team *team);
void __migrate_copy_team_put(struct migrate_copy_team *team,
			     struct folio *folio);
unsigned int __migrate_copy_asked(void);

/**
 * migrate_copy_max_batch() - How many base pages one batch may hold.
 * @dflt: The limit of page migration itself, in base pages.
 *
 * @dflt is the size of a PMD-mapped folio, which is 512 MB where base pages have
 * 64 KB: hardly any request would be more than one batch, and all of its pages
 * would be unmapped until the last one is copied. A larger folio is a batch of
 * its own in any case.
 *
 * Context: Any.
 * Return: The limit to use, in base pages.
 */
static inline unsigned int migrate_copy_max_batch(unsigned int dflt)
{
	return migrate_copy_enabled() ? READ_ONCE(migrate_copy_batch_pages) : dflt;
}

/**
 * migrate_copy_asked() - What a system call asks migrate_pages() for.
 * @mpol_flags: The flags of the call, MPOL_MF_*.
 *
 * Context: Process context.
 * Return: Flags to be added to the migrate_mode.
 */
static inline unsigned int migrate_copy_asked(unsigned long mpol_flags)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY) && mpol_flags & MPOL_MF_MOVE_MT ?
	       __migrate_copy_asked() : 0;
}

/**
 * migrate_copy_team_put() - Put a folio that has been migrated.
 * @team: The team that helps with copies, or NULL.
 * @folio: The folio, in no list.
 *
 * To free a large folio takes as long as it takes several CPUs to copy it: helpers
 * that have nothing to copy at the moment do it.
 *
 * Context: Process context.
 */
static inline void migrate_copy_team_put(struct migrate_copy_team *team,
					 struct folio *folio)
{
	if (migrate_copy_enabled() && team && team->started &&
	    folio_test_large(folio))
		__migrate_copy_team_put(team, folio);
	else
		folio_put(folio);
}

#ifdef CONFIG_MIGRATE_COPY_ENGINE
DECLARE_STATIC_KEY_FALSE(migrate_copy_engine_key);
bool __migrate_copy_quarantined(struct folio *dst);

/**
 * migrate_copy_quarantined() - May a copy engine still write to a folio?
 * @dst: The destination of a migration.
 *
 * Context: Any. A static branch while no engine is registered.
 * Return: true if a copy to @dst was given up without being stopped, so that
 * nothing may be moved there.
 */
static inline bool migrate_copy_quarantined(struct folio *dst)
{
	return static_branch_unlikely(&migrate_copy_engine_key) &&
	       __migrate_copy_quarantined(dst);
}
#else
static inline bool migrate_copy_quarantined(struct folio *dst)
{
	return false;
}
#endif

#endif /* _MM_MIGRATE_COPY_H */
