/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the migration copy share: the job (job.c), the helper
 * CPUs (helpers.c) and their order (placement.c), and the knobs (sysfs.c).
 */
#ifndef _MM_MIGRATE_COPY_INTERNAL_H
#define _MM_MIGRATE_COPY_INTERNAL_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/highmem.h>
#include <linux/jump_label.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm_types.h>
#include <linux/nodemask.h>
#include <linux/types.h>

#include "migrate_copy.h"

/*
 * Folio pairs of one job. They lie on the caller's stack, 16 bytes each, and
 * have one bit each in migrate_copy_job.failed. Engines get more of them at a time,
 * in memory that is there while one may be used.
 */
#define MIGRATE_COPY_SET	64
#define MIGRATE_COPY_LARGE_SET	2048

/* Limits of the knobs. */
#define MIGRATE_COPY_MIN_CHUNK_KB	(PAGE_SIZE / SZ_1K)
#define MIGRATE_COPY_MAX_CHUNK_KB	(SZ_2M / SZ_1K)

struct migrate_copy_pair {
	struct folio *dst;
	struct folio *src;
};

/**
 * struct migrate_copy_job - folio copies that several CPUs do together
 * @node: In the list of its team.
 * @users: How many helpers are at it.
 * @pairs: What to copy; each destination as large as its source.
 * @nr: Number of @pairs.
 * @chunk_pages: Most base pages that one claim takes.
 * @nr_cpus: How many CPUs share it.
 * @highpri: Whether helpers may be woken on busy CPUs.
 * @nontemporal: Whether the copies bypass the caches.
 * @caller_pages: Base pages that the caller has claimed.
 * @cursor: The first page that nobody has claimed: the index of its pair in
 *	the upper, its index in the folio in the lower 32 bits.
 * @failed: One bit for each pair whose copy hit a machine check, or of which an
 *	engine has lost pages.
 * @own_failed: Where @failed points for up to MIGRATE_COPY_SET pairs.
 * @lost_pages: Base pages that engines have lost.
 * @helper_pages: Base pages that helpers have claimed.
 * @engine_ns: CPU time of engines that are made of threads, in ns.
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
	unsigned long *failed;
	unsigned long own_failed;
	unsigned long lost_pages;
	atomic_long_t helper_pages;
	atomic64_t engine_ns;
};

/* What migrate_copy_job.cursor is made of. */
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
void migrate_copy_work_init(struct migrate_copy_work *work,
			    bool (*step)(struct migrate_copy_work *work));
unsigned int migrate_copy_helpers_wake(struct migrate_copy_work *work, int nid,
				       unsigned int max_helpers);
void migrate_copy_helpers_wake_again(struct migrate_copy_work *work);
void migrate_copy_helpers_retract(struct migrate_copy_work *work);
bool migrate_copy_may_help(const struct migrate_copy_work *work);
bool migrate_copy_is_helper(void);
void migrate_copy_charge(u64 ns);

/* team.c */
unsigned int migrate_copy_job_share(struct migrate_copy_job *job,
				    struct migrate_copy_team *team, int nid,
				    unsigned int max_helpers);
void migrate_copy_job_unshare(struct migrate_copy_job *job,
			      struct migrate_copy_team *team);

/* placement.c */
enum {
	MIGRATE_COPY_SPREAD,
	MIGRATE_COPY_FILL,
};

extern unsigned int migrate_copy_placement;

/* What a CPU does, as far as helpers are concerned. */
enum migrate_copy_cpu_use {
	MIGRATE_COPY_CPU_OFFLINE,
	MIGRATE_COPY_CPU_IDLE,
	MIGRATE_COPY_CPU_BUSY,
	MIGRATE_COPY_CPU_TAKEN,	/* It migrates, or must not be disturbed */
};

struct migrate_copy_search;

/**
 * struct migrate_copy_cpus - the CPUs of a machine, as placement sees them
 * @nodes: The nodes that have CPUs.
 * @of_node: The CPUs of a node.
 * @siblings: The CPUs of a CPU's core, with itself.
 * @distance: The distance of two nodes.
 * @share_cache: Whether two CPUs have the same last-level cache.
 * @use: What a CPU does; that of the search itself is taken.
 * @take: Makes a CPU help. Returns false if that has become impossible.
 */
struct migrate_copy_cpus {
	const nodemask_t *nodes;
	const struct cpumask *(*of_node)(int nid);
	const struct cpumask *(*siblings)(int cpu);
	int (*distance)(int from, int to);
	bool (*share_cache)(int cpu, int other);
	enum migrate_copy_cpu_use (*use)(struct migrate_copy_search *s,
					 int cpu);
	bool (*take)(struct migrate_copy_search *s, int cpu);
};

/**
 * struct migrate_copy_search - a search for CPUs that help
 * @cpus: The machine.
 * @work: What they are to help with.
 * @left: The CPUs that may be taken; those that are known to be of no use or
 *	have been taken are cleared in it.
 * @untried: Those of @left that have not been asked at this level; placement's
 *	own.
 * @round: Scratch memory.
 * @this_cpu: The CPU that searches.
 * @nid: The node whose CPUs are the first choice.
 * @fill: Fill one cache after the other, do not spread over them.
 * @busy_too: After the idle CPUs take busy ones.
 * @want: How many CPUs are wanted.
 * @probes: How many may be asked what they do.
 * @reserve: How many of these are for levels to come; placement's own.
 * @level: How good a CPU must be by now; placement's own.
 */
struct migrate_copy_search {
	const struct migrate_copy_cpus *cpus;
	struct migrate_copy_work *work;
	struct cpumask *left;
	struct cpumask *untried;
	struct cpumask *round;
	int this_cpu;
	int nid;
	bool fill;
	bool busy_too;
	unsigned int want;
	unsigned int probes;
	unsigned int reserve;
	unsigned int level;
};

void migrate_copy_place(struct migrate_copy_search *s);

/**
 * struct migrate_copy_room - room for the pairs of a large job
 * @failed: One bit for each pair.
 * @pairs: The pairs.
 */
struct migrate_copy_room {
	DECLARE_BITMAP(failed, MIGRATE_COPY_LARGE_SET);
	struct migrate_copy_pair pairs[MIGRATE_COPY_LARGE_SET];
};

/* engine/ */
#ifdef CONFIG_MIGRATE_COPY_ENGINE
DECLARE_STATIC_KEY_FALSE(migrate_copy_offload_key);

unsigned int migrate_copy_offload_run(struct migrate_copy_job *job,
				      const struct migrate_copy_info *info,
				      struct migrate_copy_team *team,
				      unsigned int max_helpers,
				      unsigned long *engine_pages);
void migrate_copy_rooms_alloc(void);
struct migrate_copy_room *migrate_copy_room_get(void);
void migrate_copy_room_put(struct migrate_copy_room *room);
bool __migrate_copy_may_offload(int reason, const struct list_head *src_folios);

static inline bool migrate_copy_may_offload(int reason,
					    const struct list_head *src_folios)
{
	return static_branch_unlikely(&migrate_copy_offload_key) &&
	       __migrate_copy_may_offload(reason, src_folios);
}

int migrate_copy_engines_init(struct kobject *parent);
#else
static inline unsigned int
migrate_copy_offload_run(struct migrate_copy_job *job,
			 const struct migrate_copy_info *info,
			 struct migrate_copy_team *team,
			 unsigned int max_helpers, unsigned long *engine_pages)
{
	return 0;
}

static inline struct migrate_copy_room *migrate_copy_room_get(void)
{
	return NULL;
}

static inline void migrate_copy_room_put(struct migrate_copy_room *room)
{
}

static inline bool migrate_copy_may_offload(int reason,
					    const struct list_head *src_folios)
{
	return false;
}

static inline int migrate_copy_engines_init(struct kobject *parent)
{
	return 0;
}
#endif

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

/* cost.c */

/**
 * struct migrate_copy_costs - what helpers are worth it for
 * @copy_page_ns: The copy of a base page to another node.
 * @helper_call_ns: What the caller does for a helper: wake it, take it back.
 * @helper_start_ns: From the offer until the helper does its first step.
 */
struct migrate_copy_costs {
	unsigned int copy_page_ns;
	unsigned int helper_call_ns;
	unsigned int helper_start_ns;
};

extern struct migrate_copy_costs migrate_copy_costs;

unsigned int migrate_copy_best_helpers(const struct migrate_copy_costs *costs,
				       u64 work_ns, unsigned int max_helpers);
u64 migrate_copy_cost(unsigned long nr_folios, unsigned long nr_pages);
void migrate_copy_calibrate(void);

/* nontemporal.c: which copies bypass the caches; those of one include the former */
enum {
	MIGRATE_COPY_NT_NEVER,
	MIGRATE_COPY_NT_DEMOTION,
	MIGRATE_COPY_NT_FAR,
	MIGRATE_COPY_NT_ALWAYS,
};

extern unsigned int migrate_copy_nontemporal;
int migrate_copy_page_nontemporal(struct page *dst, struct page *src);
void migrate_copy_nontemporal_done(void);
bool migrate_copy_is_nontemporal(int reason, int nid);
ssize_t migrate_copy_nontemporal_print(char *buf);
int migrate_copy_nontemporal_parse(const char *text);

/**
 * migrate_copy_job_page() - Copy a base page of a job.
 * @job: The job.
 * @dst: The page to copy to.
 * @src: The page to copy from.
 *
 * Context: Any. Where @job->nontemporal, the copy is visible to others only after
 * migrate_copy_nontemporal_done().
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

#define MIGRATE_COPY_AUTO	UINT_MAX

extern unsigned int migrate_copy_max_helpers;
extern unsigned int migrate_copy_min_helper_kb;
extern unsigned int migrate_copy_chunk_kb;
extern unsigned int migrate_copy_parallel_batches;

/**
 * struct migrate_copy_test - what the KUnit tests change
 * @fail_page: The source page whose copy is to fail, or NULL.
 * @any_cpu: Offer jobs to busy CPUs too, and helpers make way for nobody.
 * @no_spin: Sleep at once when a helper is in the middle of a chunk.
 */
struct migrate_copy_test {
	struct page *fail_page;
	bool any_cpu;
	bool no_spin;
};

extern struct migrate_copy_test migrate_copy_test;

#endif /* _MM_MIGRATE_COPY_INTERNAL_H */
