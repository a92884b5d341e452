/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the copy engines share: the protocol (protocol.c), how large
 * a chunk is (model.c), lost chunks (quarantine.c), and the files (sysfs.c).
 */
#ifndef _MM_MIGRATE_COPY_ENGINE_ENGINE_H
#define _MM_MIGRATE_COPY_ENGINE_ENGINE_H

#include <linux/ktime.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/sizes.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>

#include "../internal.h"

/* Engines that take part in one job. */
#define MAX_SHARES	4

/* Chunks of one job that are in the hands of engines, or have failed there. */
#define MAX_INFLIGHT	32

/* Fractions of a page, or of a ns, in an average. */
#define FRACTION_SHIFT	8

enum engine_stat {
	ENGINE_JOBS,
	ENGINE_REFUSED,
	ENGINE_TOO_SMALL,
	ENGINE_TOO_SLOW,
	ENGINE_CHUNKS,
	ENGINE_BYTES,
	ENGINE_FAILED,
	ENGINE_TIMEOUTS,
	ENGINE_LOST,
	ENGINE_QUARANTINED,
	ENGINE_NR_STATS,
};

/**
 * struct migrate_copy_engine - a registered engine
 * @kobj: Its directory in sysfs; whose release frees this.
 * @node: In the list of engines.
 * @desc: What it was registered with.
 * @priv: The driver's own.
 * @leaving: Being unregistered.
 * @exclusive: CPUs copy only what it leaves.
 * @late: It was waited for in vain, and has copied nothing since.
 * @min_kb: Smallest job for it.
 * @chunk_kb: Largest chunk for it.
 * @timeout_ms: How long a caller waits for it.
 * @use: What it is used for: the driver's, or @own_use.
 * @own_use: If the driver has none.
 * @chunk_ns: Average time of a chunk from claim to return; 0: unknown.
 * @chunk_dev: Average deviation from that.
 * @chunk_pages: Average size of a chunk, in pages << FRACTION_SHIFT.
 * @range_ns: Average CPU time that it takes to hand it a range, in ns << FRACTION_SHIFT.
 * @learned: Chunks that have gone into these averages, up to LEARN_CHUNKS.
 * @new_ns: When all that was forgotten.
 * @stats: Counters.
 */
struct migrate_copy_engine {
	struct kobject kobj;
	struct list_head node;
	const struct migrate_copy_engine_desc *desc;
	void *priv;
	bool leaving;
	unsigned int exclusive;
	bool late;
	unsigned int min_kb;
	unsigned int chunk_kb;
	unsigned int timeout_ms;
	struct migrate_copy_engine_use *use;
	struct migrate_copy_engine_use own_use;
	unsigned long chunk_ns;
	unsigned long chunk_dev;
	unsigned long chunk_pages;
	unsigned long range_ns;
	unsigned int learned;
	u64 new_ns;
	atomic_long_t stats[ENGINE_NR_STATS];
};

/**
 * struct migrate_copy_offload - the engines' side of a job
 * @job: The job.
 * @info: What engines are told about it.
 * @cpus: CPUs that copy, too.
 * @shares: The engines that take part.
 * @nr_shares: How many.
 * @wait: Where the caller waits.
 * @lock: Protects what follows, and the shares' counts.
 * @inflight: Chunks claimed and not ended.
 * @pages: Base pages that engines have copied.
 * @nr_failed: Length of @failed.
 * @failed: What the caller has to copy instead.
 */
struct migrate_copy_offload {
	struct migrate_copy_job *job;
	const struct migrate_copy_info *info;
	unsigned int cpus;
	struct migrate_copy_share shares[MAX_SHARES];
	unsigned int nr_shares;
	wait_queue_head_t wait;

	spinlock_t lock;	/* Protects what follows */
	unsigned int inflight;
	unsigned long pages;
	unsigned int nr_failed;
	struct {
		u64 first;
		unsigned int nr;
	} failed[MAX_INFLIGHT];
};

static inline void copy_engine_count(struct migrate_copy_engine *engine,
				     enum engine_stat stat, unsigned long nr)
{
	atomic_long_add(nr, &engine->stats[stat]);
}

static inline bool copy_engine_is_for(const struct migrate_copy_engine *engine, int reason)
{
	return READ_ONCE(engine->use->offloading) &&
	       (READ_ONCE(engine->use->reasons) & BIT(reason));
}

/* One that is late is used as if it were not exclusive: hardly ever. */
static inline bool copy_engine_alone(const struct migrate_copy_engine *engine)
{
	return READ_ONCE(engine->exclusive) && !READ_ONCE(engine->late);
}

/* protocol.c */
void copy_chunk_end(const struct migrate_copy_chunk *chunk);

/* model.c */
unsigned long copy_job_rest(const struct migrate_copy_job *job);
unsigned long copy_share_want(const struct migrate_copy_share *share, unsigned int chunks);
bool copy_engine_suits(struct migrate_copy_engine *engine, int reason, unsigned long pages,
		       bool too_slow);
bool copy_engine_too_slow(const struct migrate_copy_offload *o,
			  const struct migrate_copy_engine *engine);
bool copy_engine_costly(const struct migrate_copy_engine *engine,
			unsigned long folios, unsigned long pages);
void copy_engine_passed_over(struct migrate_copy_engine *engine);
void copy_engine_learn(struct migrate_copy_engine *engine,
		       const struct migrate_copy_chunk *chunk, bool ok);
void copy_engine_learn_cpu(u64 ns, unsigned long pages);
void copy_engine_forget(struct migrate_copy_engine *engine);

/* sysfs.c */
extern struct list_head copy_engines;
extern struct srcu_struct copy_engines_srcu;

#endif /* _MM_MIGRATE_COPY_ENGINE_ENGINE_H */
