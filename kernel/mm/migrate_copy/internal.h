/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared within this directory: the copy job (job.c), the helper CPUs
 * (helpers.c), and the knobs (sysfs.c).
 */
#ifndef _MM_MIGRATE_COPY_INTERNAL_H
#define _MM_MIGRATE_COPY_INTERNAL_H

#include <linux/atomic.h>
#include <linux/highmem.h>
#include <linux/jump_label.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm_types.h>
#include <linux/types.h>

#include "migrate_copy.h"

struct dentry;

/*
 * Folio pairs of one job. They lie on the caller's stack, 16 bytes each, and
 * have one bit each in migrate_copy_job.failed.
 */
#define MIGRATE_COPY_SET	64

/*
 * The most base pages per claim. A quarter of that changes little, but with four
 * times as much large folios are copied up to 58% slower.
 */
#ifdef CONFIG_MIGRATE_COPY_JUDGE
extern unsigned int migrate_copy_chunk_kb;
#define MIGRATE_COPY_CHUNK_PAGES	\
	max_t(unsigned int, READ_ONCE(migrate_copy_chunk_kb) / (PAGE_SIZE / SZ_1K), 1)
#else
#define MIGRATE_COPY_CHUNK_PAGES	max_t(unsigned int, SZ_128K / PAGE_SIZE, 1)
#endif

struct migrate_copy_pair {
	struct folio *dst;
	struct folio *src;
};

/**
 * struct migrate_copy_job - folio copies that several CPUs do together
 * @node: Entry in the list of its team.
 * @users: Number of helpers that work on it.
 * @pairs: What to copy; each destination is as large as its source.
 * @nr: Number of @pairs, at most MIGRATE_COPY_SET.
 * @chunk_pages: The most base pages per claim.
 * @nr_cpus: Number of CPUs that share it.
 * @highpri: Whether helpers may be woken on busy CPUs.
 * @nontemporal: Whether the copies bypass the caches.
 * @caller_pages: Base pages claimed by the caller, for tests.
 * @cursor: The first unclaimed page: the index of its pair in the upper 32 bits,
 *	its index in the folio in the lower 32 bits.
 * @failed: One bit for each pair whose copy hit a machine check, or of which an
 *	engine has lost pages.
 * @engine_pages: Base pages copied by an engine.
 * @lost_pages: Base pages lost by an engine.
 * @helper_pages: Base pages claimed by helpers.
 */
struct migrate_copy_job {
	struct list_head node;
	atomic_t users;
	const struct migrate_copy_pair *pairs;
	unsigned int nr;
	unsigned int chunk_pages;
	unsigned int nr_cpus;
	bool highpri;
	bool nontemporal;
	unsigned long caller_pages;

	atomic64_t cursor ____cacheline_aligned_in_smp;
	unsigned long failed;
	unsigned long engine_pages;
	unsigned long lost_pages;
	atomic_long_t helper_pages;
};

/* The encoding of migrate_copy_job.cursor. */
#define CURSOR(pair, page)	((u64)(pair) << 32 | (page))
#define CURSOR_PAIR(cursor)	((unsigned int)((cursor) >> 32))
#define CURSOR_PAGE(cursor)	((unsigned int)(cursor))

/* job.c */
void migrate_copy_job_init(struct migrate_copy_job *job,
			   const struct migrate_copy_pair *pairs,
			   unsigned int nr, unsigned int chunk_pages,
			   bool nontemporal);
void migrate_copy_job_copy(struct migrate_copy_job *job, u64 first,
			   unsigned long nr);
unsigned long migrate_copy_job_chunk(struct migrate_copy_job *job);
unsigned int migrate_copy_job_run(struct migrate_copy_job *job,
				  struct migrate_copy_team *team, int nid,
				  unsigned int max_helpers);

/* helpers.c */
void migrate_copy_helpers_init(void);
void migrate_copy_helpers_start(void);
void migrate_copy_work_init(struct migrate_copy_work *work,
			    bool (*step)(struct migrate_copy_work *work));
unsigned int migrate_copy_helpers_wake(struct migrate_copy_work *work, int nid,
				       unsigned int max_helpers);
void migrate_copy_helpers_wake_again(struct migrate_copy_work *work);
void migrate_copy_helpers_retract(struct migrate_copy_work *work);
bool migrate_copy_may_help(const struct migrate_copy_work *work);
bool migrate_copy_is_helper(void);
void migrate_copy_charge(u64 ns);

enum {
	MIGRATE_COPY_SPREAD,
	MIGRATE_COPY_FILL,
};

extern unsigned int migrate_copy_placement;
unsigned int migrate_copy_best_helpers(unsigned long nr_folios,
				       unsigned long nr_pages,
				       unsigned int max_helpers);

/* team.c */
unsigned int migrate_copy_job_share(struct migrate_copy_job *job,
				    struct migrate_copy_team *team, int nid,
				    unsigned int max_helpers);
void migrate_copy_job_unshare(struct migrate_copy_job *job,
			      struct migrate_copy_team *team);
nodemask_t migrate_copy_mems_of(struct task_struct *task);

/* engine.c */
DECLARE_STATIC_KEY_FALSE(migrate_copy_offload_key);
bool __migrate_copy_may_offload(int reason);

static inline bool migrate_copy_may_offload(int reason)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_ENGINE) &&
	       static_branch_unlikely(&migrate_copy_offload_key) &&
	       __migrate_copy_may_offload(reason);
}

int migrate_copy_engines_init(struct kobject *parent);
unsigned int migrate_copy_offload_run(struct migrate_copy_job *job, unsigned long pages,
				      int reason, bool share, struct migrate_copy_team *team,
				      unsigned int max_helpers);

/* policy.c */
enum {
	MIGRATE_COPY_MT_NEVER,
	MIGRATE_COPY_MT_ALWAYS,
	MIGRATE_COPY_MT_AUTO,
};

enum migrate_copy_priority {
	MIGRATE_COPY_NORMAL,
	MIGRATE_COPY_HIGH,
	MIGRATE_COPY_NR_PRIORITIES,
};

extern unsigned int migrate_copy_mt_page_copy;
extern unsigned int migrate_copy_priority;
bool migrate_copy_is_highpri(unsigned int asked);
extern unsigned long migrate_copy_reasons;
bool migrate_copy_may_share(int reason, unsigned int asked);
unsigned int migrate_copy_helpers_for(unsigned long nr_folios,
				      unsigned long nr_pages,
				      unsigned int max_helpers);

/* nontemporal.c: copies that bypass the caches; each includes the previous ones */
enum {
	MIGRATE_COPY_NT_NEVER,
	MIGRATE_COPY_NT_DEMOTION,
	MIGRATE_COPY_NT_FAR,
	MIGRATE_COPY_NT_ALWAYS,
};

extern unsigned int migrate_copy_non_temporal;
int migrate_copy_page_nontemporal(struct page *dst, struct page *src);
bool migrate_copy_is_nontemporal(int reason, int nid);

/**
 * migrate_copy_job_page() - Copy a base page of a job.
 * @job: The job.
 * @dst: The page to copy to.
 * @src: The page to copy from.
 *
 * Context: Any. If @job->nontemporal, the copy is visible to others only after a
 * write barrier.
 * Return: 0, or nonzero if a machine check interrupted the copy.
 */
static inline int migrate_copy_job_page(const struct migrate_copy_job *job,
					struct page *dst, struct page *src)
{
	if (unlikely(job->nontemporal))
		return migrate_copy_page_nontemporal(dst, src);
	return copy_mc_highpage(dst, src);
}

/* sysfs.c: the knobs */
ssize_t migrate_copy_reasons_print(unsigned long reasons, char *buf);
int migrate_copy_reasons_parse(const char *buf, unsigned long *value);

extern unsigned int migrate_copy_max_helpers;

/* test_dir.c */
struct dentry *migrate_copy_test_dir(void);

/* test_constants.c */
#ifdef CONFIG_MIGRATE_COPY_JUDGE
extern unsigned int migrate_copy_set_folios;
extern bool migrate_copy_pieces;
extern bool migrate_copy_promote_hold;

/* Are there enough folios to be copied? */
static inline bool migrate_copy_set_full(unsigned int nr)
{
	return nr >= READ_ONCE(migrate_copy_set_folios);
}

/* May helpers take pieces of requests, and not only share copies? */
static inline bool migrate_copy_may_cut(void)
{
	return READ_ONCE(migrate_copy_pieces);
}

/* Must candidates for promotion wait? */
static inline bool migrate_copy_is_held(void)
{
	return READ_ONCE(migrate_copy_promote_hold);
}
#else
static inline bool migrate_copy_set_full(unsigned int nr)
{
	return nr == MIGRATE_COPY_SET;
}

static inline bool migrate_copy_may_cut(void)
{
	return true;
}

static inline bool migrate_copy_is_held(void)
{
	return false;
}
#endif

/**
 * struct migrate_copy_test - hooks for the KUnit tests
 * @fail_page: The source page whose copy fails, or NULL.
 * @any_cpu: Ask busy CPUs, too, and let helpers stay when others want the CPU.
 * @no_spin: Sleep at once if a helper is in the middle of a chunk.
 */
struct migrate_copy_test {
	struct page *fail_page;
	bool any_cpu;
	bool no_spin;
};

extern struct migrate_copy_test migrate_copy_test;

void migrate_copy_engine_tune(struct migrate_copy_engine *engine, bool offloading,
			      unsigned int timeout_ms, unsigned long reasons);

#endif /* _MM_MIGRATE_COPY_INTERNAL_H */
