/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batched and shared folio copy for page migration: interface to mm/migrate.c.
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
 * Set in dst->migrate_info, next to the folio state that migration records there:
 * the destination has the content of the source. Valid for one pass over a batch,
 * from migrate_copy_batch() until the folio is moved or put back.
 */
#define FOLIO_CONTENT_COPIED	(IS_ENABLED(CONFIG_MIGRATE_COPY) ? BIT(2) : 0)

struct migrate_aid;

DECLARE_STATIC_KEY_FALSE(migrate_copy_key);

/*
 * Base pages in a batch: what is unmapped, and its TLB entries flushed, together.
 * A task that needs one of the first pages waits for the last one to be mapped.
 */
#ifdef CONFIG_MIGRATE_COPY_JUDGE
extern unsigned int migrate_copy_batch_pages;
#define MIGRATE_COPY_BATCH_PAGES	READ_ONCE(migrate_copy_batch_pages)
#else
#define MIGRATE_COPY_BATCH_PAGES	512
#endif

/* The most helpers per work. */
#define MIGRATE_COPY_MAX_HELPERS	63

/**
 * struct migrate_copy_work - something that several CPUs do step by step
 * @step: Does the next step; returns false when none is left to begin.
 * @batches: Whether steps are batches, not only copies.
 * @highpri: Whether busy CPUs may be used, too.
 * @ends: Helpers must not begin another step.
 * @caller: The task that makes the request; it waits for the helpers.
 * @busy: Number of users: the caller, and helpers asked that have not left.
 * @left: Completed by the last helper to leave, if the caller waits for it.
 * @helper_ns: CPU time of the helpers, in ns.
 * @searched: When a search last found too few CPUs, in jiffies.
 * @nr_cpus: Length of @cpus.
 * @cpus: The CPUs that were asked; private to the caller.
 *
 * Lives on the caller's stack. See mm/migrate_copy/helpers.c.
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
	unsigned long searched;
	unsigned int nr_cpus;
	u16 cpus[MIGRATE_COPY_MAX_HELPERS];
};

/**
 * struct migrate_copy_team - CPUs that work for one request
 * @started: Whether it must be ended with migrate_copy_team_end().
 * @work: The work offered to the helpers.
 * @next_batch: Migrates the next batch on a helper, see
 *	migrate_copy_team_start(); NULL if helpers only copy.
 * @nid: The node whose CPUs are asked first.
 * @max_helpers: The most helpers wanted for batches.
 * @scopes: The memalloc scopes (PF_MEMALLOC*) of the task that started it.
 * @nr_jobs: Number of jobs so far.
 * @lock: Protects @jobs.
 * @jobs: The copies in progress that may be shared.
 */
struct migrate_copy_team {
	bool started;
	struct migrate_copy_work work;
	bool (*next_batch)(struct migrate_copy_team *team);
	int nid;
	unsigned int max_helpers;
	unsigned int scopes;
	unsigned int nr_jobs;
	raw_spinlock_t lock;	/* Protects what follows */
	struct list_head jobs;
};

/**
 * migrate_copy_enabled() - Is the feature switched on?
 *
 * Context: Any. A static branch. The answer may change at any time, even in the
 * middle of a batch, which is harmless: if the mark of a copy is not checked,
 * the copy is repeated.
 * Return: true if CPUs may help, and folios are to be copied in batches.
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
unsigned int migrate_copy_team_size(int reason, unsigned int asked);
void migrate_copy_team_start(struct migrate_copy_team *team,
			     bool (*next_batch)(struct migrate_copy_team *team),
			     int nid, unsigned int max_helpers, unsigned int asked);
void migrate_copy_team_wake(struct migrate_copy_team *team);
void migrate_copy_team_end(struct migrate_copy_team *team);
unsigned int __migrate_copy_asked(void);

/**
 * migrate_copy_max_batch() - How many base pages may a batch hold?
 * @dflt: The limit of page migration itself, in base pages.
 *
 * @dflt is the size of a PMD-mapped folio, which is 512 MB with base pages of
 * 64 KB: almost every request would be a single batch, with all of its pages
 * unmapped until the last one is copied. A larger folio is always a batch of its
 * own.
 *
 * Context: Any.
 * Return: The limit to use, in base pages.
 */
static inline unsigned int migrate_copy_max_batch(unsigned int dflt)
{
	if (!migrate_copy_enabled())
		return dflt;
	/* What is to be judged may be larger. */
	return IS_ENABLED(CONFIG_MIGRATE_COPY_JUDGE) ? MIGRATE_COPY_BATCH_PAGES :
						       min(dflt, MIGRATE_COPY_BATCH_PAGES);
}

/**
 * migrate_copy_asked() - What a system call asks migrate_pages() for.
 * @mpol_flags: The flags of the call, MPOL_MF_*.
 *
 * Context: Process context.
 * Return: Flags to add to the migrate_mode.
 */
static inline unsigned int migrate_copy_asked(unsigned long mpol_flags)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY) && mpol_flags & MPOL_MF_MOVE_MT ?
	       __migrate_copy_asked() : 0;
}

bool __migrate_promote_later(struct folio *folio, struct vm_area_struct *vma,
			     unsigned long addr, unsigned long pfn, int nid);

/**
 * migrate_promote_later() - Note that a folio belongs on another node.
 * @folio: The folio.
 * @vma: A VMA in which it is mapped.
 * @addr: The address of one of its pages.
 * @pfn: The frame of that page.
 * @nid: The node that it belongs on.
 *
 * Context: See __migrate_promote_later(). A static branch if the feature is off.
 * Return: true if others will migrate it; false if it is up to the caller.
 */
static inline bool migrate_promote_later(struct folio *folio, struct vm_area_struct *vma,
					 unsigned long addr, unsigned long pfn, int nid)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_PROMOTE) && migrate_copy_enabled() &&
	       __migrate_promote_later(folio, vma, addr, pfn, nid);
}

DECLARE_STATIC_KEY_FALSE(migrate_copy_engine_key);

/**
 * migrate_copy_quarantined() - May a copy engine still write to a folio?
 * @dst: The destination of a migration, not moved to yet.
 *
 * Nobody else can have found it, so that a second reference is that of a lost chunk. In
 * rare cases it is a speculative one, and the folio is moved in the next pass.
 *
 * Context: Any. A static branch while no engine is registered.
 * Return: true if nothing may be moved there now.
 */
static inline bool migrate_copy_quarantined(const struct folio *dst)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_ENGINE) &&
	       static_branch_unlikely(&migrate_copy_engine_key) &&
	       folio_ref_count(dst) > 1;
}

#endif /* _MM_MIGRATE_COPY_H */
