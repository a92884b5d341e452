/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batched and shared folio copy for page migration: what mm/migrate.c needs.
 */
#ifndef _LINUX_MIGRATE_COPY_H
#define _LINUX_MIGRATE_COPY_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/migrate_copy_windows.h>
#include <linux/migrate_mode.h>
#include <linux/mm.h>

/*
 * Mark in dst->private, next to the page state that migration records there:
 * the content of the source is in the destination. It holds for one pass over
 * a batch, from migrate_copy_batch() until the folio is moved or put back.
 */
#ifdef CONFIG_MIGRATE_COPY
#define MIGRATE_COPY_DONE	BIT(2)

DECLARE_STATIC_KEY_FALSE(migrate_copy_key);
extern unsigned int migrate_copy_batch_pages;

struct migrate_copy_helper;

/**
 * struct migrate_copy_work - something that several CPUs do step by step
 * @step: Does the next step; returns false when none is left to begin.
 * @sleeps: Whether a step may sleep. If not, helpers take it with preemption
 *	disabled.
 * @highpri: Whether CPUs that are busy may be used, too.
 * @one_queue: Whether helpers with @highpri share slots and workqueue with others.
 * @ends: Whether helpers may not begin another step.
 * @caller: The task whose request it is; it waits for the helpers.
 * @helpers: The helper CPUs this work was offered to; the caller's own.
 * @nr_helpers: Length of @helpers.
 * @helper_ns: CPU time that helpers have spent in steps, in ns.
 *
 * It lives on the stack of the task that migrates: the caller, or for the copies
 * of its batch a helper of the caller. Helpers touch it only between taking and
 * handing back their slot, see mm/migrate_copy/helpers.c.
 */
struct migrate_copy_work {
	bool (*step)(struct migrate_copy_work *work);
	bool sleeps;
	bool highpri;
#ifdef CONFIG_MIGRATE_COPY_JUDGE
	bool one_queue;
#endif
	bool ends;
	struct task_struct *caller;
	struct migrate_copy_helper *helpers;
	unsigned int nr_helpers;
	atomic64_t helper_ns;
};

/**
 * struct migrate_copy_team - CPUs that take whole batches of one request
 * @work: How they are woken and brought back.
 * @next_batch: Migrates the next batch as a helper, see migrate_copy_team_start().
 * @scopes: The memalloc scopes of whoever has started it, PF_MEMALLOC*.
 */
struct migrate_copy_team {
	struct migrate_copy_work work;
	bool (*next_batch)(struct migrate_copy_team *team);
	unsigned int scopes;
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
	return static_branch_unlikely(&migrate_copy_key);
}

void migrate_copy_batch(struct list_head *src_folios,
			struct list_head *dst_folios, int reason,
			unsigned int asked, unsigned int team);
int migrate_copy_hugetlb(struct folio *dst, struct folio *src,
			 enum migrate_mode mode);
void migrate_copy_count_void(void);
unsigned int migrate_copy_team_size(int reason, unsigned int asked);
unsigned int
migrate_copy_team_start(struct migrate_copy_team *team,
			bool (*next_batch)(struct migrate_copy_team *team),
			int nid, unsigned long nr_folios,
			unsigned long nr_pages, unsigned int max_helpers,
			unsigned int asked);
void migrate_copy_team_wake_again(struct migrate_copy_team *team);
void migrate_copy_team_end(struct migrate_copy_team *team);
unsigned int migrate_copy_asked(unsigned long mpol_flags);

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
	if (!migrate_copy_enabled())
		return dflt;
	return READ_ONCE(migrate_copy_batch_pages);
}

#else /* !CONFIG_MIGRATE_COPY */
#define MIGRATE_COPY_DONE	0UL

struct migrate_copy_team {
};

static inline bool migrate_copy_enabled(void)
{
	return false;
}

static inline void migrate_copy_batch(struct list_head *src_folios,
				      struct list_head *dst_folios, int reason,
				      unsigned int asked, unsigned int team)
{
}

static inline int migrate_copy_hugetlb(struct folio *dst, struct folio *src,
				       enum migrate_mode mode)
{
	return folio_mc_copy(dst, src);
}

static inline void migrate_copy_count_void(void)
{
}

static inline unsigned int migrate_copy_team_size(int reason,
						  unsigned int asked)
{
	return 0;
}

static inline unsigned int
migrate_copy_team_start(struct migrate_copy_team *team,
			bool (*next_batch)(struct migrate_copy_team *team),
			int nid, unsigned long nr_folios,
			unsigned long nr_pages, unsigned int max_helpers,
			unsigned int asked)
{
	return 0;
}

static inline void
migrate_copy_team_wake_again(struct migrate_copy_team *team)
{
}

static inline void migrate_copy_team_end(struct migrate_copy_team *team)
{
}

static inline unsigned int migrate_copy_asked(unsigned long mpol_flags)
{
	return 0;
}

static inline unsigned int migrate_copy_max_batch(unsigned int dflt)
{
	return dflt;
}

#endif /* CONFIG_MIGRATE_COPY */

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

#ifdef CONFIG_MIGRATE_COPY_DRAIN_TEST
DECLARE_STATIC_KEY_FALSE(migrate_copy_drains_key);
DECLARE_STATIC_KEY_FALSE(migrate_copy_drains_mapped_key);

/**
 * migrate_copy_drains() - Is the LRU to be drained for every mlocked folio?
 *
 * Context: Any. A static branch, in kernels for tests only.
 * Return: true when a test wants to see what that costs.
 */
static inline bool migrate_copy_drains(void)
{
	return static_branch_unlikely(&migrate_copy_drains_key);
}

/**
 * migrate_copy_drains_mapped() - Is it to be drained for every mapped folio?
 *
 * Context: Any. A static branch, in kernels for tests only.
 * Return: true when a test wants to see what that costs; migrate_copy_drains()
 * is true as well then.
 */
static inline bool migrate_copy_drains_mapped(void)
{
	return static_branch_unlikely(&migrate_copy_drains_mapped_key);
}
#else
static inline bool migrate_copy_drains(void)
{
	return false;
}

static inline bool migrate_copy_drains_mapped(void)
{
	return false;
}
#endif

/* What a benchmark can do without, to see what it is worth. Names in judge.c. */
enum migrate_copy_mechanism {
	MIGRATE_COPY_EARLY_ISOLATION,	/* Begin while move_pages() isolates */
	MIGRATE_COPY_TABLE_ENDS,	/* End batches of a team with a page table */
	MIGRATE_COPY_COST_MODEL,	/* Costs that were measured */
	MIGRATE_COPY_PLACEMENT,		/* CPUs in the order of the topology */
	MIGRATE_COPY_PRIORITY,		/* Slots and a workqueue for each priority */
	MIGRATE_COPY_BATCH_COPY,	/* Copy in batches also without helpers */
	MIGRATE_COPY_ENGINE_MODEL,	/* Chunks by the speed of an engine */
	MIGRATE_COPY_NR_MECHANISMS,
};

#ifdef CONFIG_MIGRATE_COPY_JUDGE
extern unsigned long migrate_copy_left_out;

/**
 * migrate_copy_without() - Does a benchmark want to do without a mechanism?
 * @mechanism: Which one.
 *
 * Context: Any. The answer may change at any time.
 * Return: true if it is to be left out.
 */
static inline bool migrate_copy_without(enum migrate_copy_mechanism mechanism)
{
	return READ_ONCE(migrate_copy_left_out) & BIT(mechanism);
}
#else
static inline bool migrate_copy_without(enum migrate_copy_mechanism mechanism)
{
	return false;
}
#endif

/**
 * migrate_copy_folio() - Copy one folio that no batch has copied.
 * @dst: The folio to copy to.
 * @src: The folio to copy from.
 * @mode: What the migrate_folio callback was given.
 *
 * A hugetlb folio is migrated alone, so its copy is shared within the folio.
 * Anything else comes here because it must not be batched, possibly with a
 * lock of its filesystem held, and is copied by the caller as ever.
 *
 * Context: As folio_mc_copy(); may sleep if @src is a hugetlb folio.
 * Return: 0, -EHWPOISON if a machine check interrupted the copy, or -EAGAIN if a
 * copy engine may still write to @dst.
 */
static inline int migrate_copy_folio(struct folio *dst, struct folio *src,
				     enum migrate_mode mode)
{
	if (migrate_copy_enabled() && folio_test_hugetlb(src))
		return migrate_copy_hugetlb(dst, src, mode);
	return folio_mc_copy(dst, src);
}

#endif /* _LINUX_MIGRATE_COPY_H */
