// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy engines: drivers of DMA channels, for instance, that pull chunks of a
 * copy job beside the CPUs.
 *
 * The protocol
 * ------------
 *
 * An engine registers and unregisters at any time. A job looks for engines
 * under SRCU, without a lock, asks each whether it could take part (can_copy)
 * and gives those that could a share of the job. The share lies on the stack
 * of the caller, the task that migrates; an engine may refer to it from
 * start() until end() returns.
 *
 * Meanwhile the engine claims chunks from the same cursor as the caller and the
 * helper CPUs do, in whatever context it likes. A chunk is in flight from
 * then on, and ends in exactly one of three ways:
 *
 *	returned, copied	its content is in its destination
 *	returned, not copied	nothing will write to its destination any more;
 *				the caller copies these pages, and no others
 *	lost			something may still write to its destination
 *
 * When there is nothing left to claim, or the caller wants no more of the
 * engine, it closes the share: no claim succeeds from then on. It then waits for
 * the chunks in flight, at most timeout_ms. If some are late it asks the engine
 * to stop(), waits once more as long, and calls end(), in which the engine
 * returns or gives up what is left without any waiting for hardware. So the
 * caller waits for chunks in flight at most, never for an engine that has not
 * begun, and for these a bounded time.
 *
 * All of this is accounted for under one spinlock of the job. The caller takes it
 * after the last chunk has ended, so that whoever ended it has left the job, and
 * what was copied is visible.
 *
 * Failures need no memory: a claim succeeds only while the chunks in flight and
 * those that failed fit in an array of the job. An engine that fails again and
 * again thus gets no more of this job.
 *
 * Lost chunks
 * -----------
 *
 * A page that something may still write to must not be given away, neither to
 * the owner of the migrated folio nor, should that not be migrated, to the page
 * allocator. So a lost chunk goes into quarantine, with a reference to each
 * folio of its destination. While it is there the folio is not moved to:
 * move_to_new_folio() fails with -EAGAIN, as it does for a folio that is in use,
 * and migration tries another destination or gives up. When the engine has seen
 * the hardware stop it ends the quarantine, and the last reference frees the
 * folio. What the late transfer reads is of no interest to anybody.
 *
 * Removal
 * -------
 *
 * Unregistering takes the engine off the list, refuses further claims, and waits
 * for a grace period of SRCU: for the jobs in flight, not for new ones. The last
 * chunk in quarantine must end before that is complete, for its memory is the
 * engine's.
 *
 * How large a chunk is
 * --------------------
 *
 * Engines and CPUs are to end at the same time, and no engine later than the
 * CPUs. What is known of an engine is how long its chunks take, from claim to
 * return, and how large they are, on average; as nobody knows which part of that
 * is mere latency, half of it is taken for that. To be on the safe side the time
 * is the average plus twice the average deviation from it.
 *
 * While an average chunk is in the engine's hands, the others copy q pages: the
 * CPUs by their own average speed, and chunks that are in flight already. A
 * chunk of n pages, where an average one has m, takes 1/2 + n / 2m as long. The
 * others need as long for the rest of the job if
 *
 *	n = (rest - q / 2) / (1 + q / 2m)
 *
 * That is large at the beginning, where chunk_kb limits it, and nothing towards
 * the end: the last pages go to whoever is faster. An engine that would get nothing
 * at the beginning is not asked, and thought a little faster and steadier next
 * time, so that it is tried again some day.
 *
 * Of an engine that is new nothing is known. It gets small chunks, one of them
 * first, and one more at a time for every four that have come back: what it holds
 * up by being slower than others is a small chunk, not as many large ones as all
 * of its channels can hold. (A channel that got none is asked again by the next
 * job.) One chunk that was late says little: only after some of them, or when one
 * has failed, the engine can be too slow.
 *
 * A chunk that failed or was lost counts as one that took as long as that, and as
 * the CPU needs to copy it instead; but only where that makes the engine slower. So
 * an engine that hangs now and then costs its time-out, and is left alone for as
 * many jobs as that is worth; and one that fails at once does not seem fast. With
 * exclusive, nobody asks how fast an engine is.
 *
 * Machine checks
 * --------------
 *
 * A CPU that reads poisoned memory gets a machine check, and the copy fails for
 * this folio alone. What a DMA engine does depends on the platform: it may report
 * an error, which leads to the same by way of the caller's copy, or pass the
 * poison on, so that the reader of the destination finds it; or lose it. The
 * administrator decides by enabling the engine.
 */
#include <linux/cleanup.h>
#include <linux/delay.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>

#include "internal.h"

/* Engines that take part in one job. */
#define MAX_SHARES	4

/* Chunks of one job that are in the hands of engines, or have failed there. */
#define MAX_INFLIGHT	32

/* How long the caller spins before it sleeps between its looks. */
#define SPIN_NS		(20 * NSEC_PER_USEC)
#define POLL_SLEEP_US	20

#define DEFAULT_MIN_KB		64
#define DEFAULT_CHUNK_KB	256
#define DEFAULT_TIMEOUT_MS	100
#define MAX_TIMEOUT_MS		10000

/* Weight of a new sample in an average: 1/8. */
#define AVERAGE_SHIFT	3

/*
 * Chunks of an engine until it is known, how large they are meanwhile, and how many
 * it gets whatever they take.
 */
#define LEARN_CHUNKS	(4 * MAX_INFLIGHT)
#define TRY_CHUNKS	8U
#define LEARN_PAGES	max_t(unsigned long, SZ_64K / PAGE_SIZE, 1)

/* How much faster an engine is thought to be after a job without it: 1/1024. */
#define FORGET_SHIFT	10

/* Fractions of a page in an average. */
#define PAGES_SHIFT	8

enum engine_stat {
	ENGINE_JOBS,
	ENGINE_REFUSED,
	ENGINE_CHUNKS,
	ENGINE_BYTES,
	ENGINE_FAILED,
	ENGINE_TIMEOUTS,
	ENGINE_LOST,
	ENGINE_NR_STATS,
};

/**
 * struct migrate_copy_engine - a registered engine
 * @kobj: Its directory in sysfs; whose release frees this.
 * @node: In the list of engines.
 * @desc: What it was registered with.
 * @priv: The driver's own.
 * @offloading: Whether jobs may use it.
 * @leaving: Being unregistered.
 * @exclusive: CPUs copy only what it leaves.
 * @min_kb: Smallest job for it.
 * @chunk_kb: Largest chunk for it.
 * @timeout_ms: How long a caller waits for it.
 * @chunk_ns: Average time of a chunk from claim to return; 0: unknown.
 * @chunk_dev: Average deviation from that.
 * @chunk_pages: Average size of a chunk, in pages << PAGES_SHIFT.
 * @learned: Chunks that have gone into these averages, up to LEARN_CHUNKS.
 * @new_ns: When all that was forgotten.
 * @stats: Counters.
 * @quarantined: Chunks of it in quarantine.
 */
struct migrate_copy_engine {
	struct kobject kobj;
	struct list_head node;
	const struct migrate_copy_engine_desc *desc;
	void *priv;
	bool offloading;
	bool leaving;
	unsigned int exclusive;
	unsigned int min_kb;
	unsigned int chunk_kb;
	unsigned int timeout_ms;
	unsigned long chunk_ns;
	unsigned long chunk_dev;
	unsigned long chunk_pages;
	unsigned int learned;
	u64 new_ns;
	atomic_long_t stats[ENGINE_NR_STATS];
	atomic_t quarantined;
};

/**
 * struct migrate_copy_offload - the engines' side of a job
 * @job: The job.
 * @info: What engines are told about it.
 * @cpus: CPUs that copy, too.
 * @shares: The engines that take part.
 * @nr_shares: How many.
 * @exclusive: One of them wants to be left alone.
 * @wait: Where the caller waits.
 * @lock: Protects what follows, and the shares' counts.
 * @inflight: Chunks claimed and not ended.
 * @pages: Base pages that engines have copied.
 * @nr_failed: Length of @failed.
 * @failed: What the caller has to copy instead.
 * @lost: One bit for each pair that a lost chunk has pages of.
 * @lost_pages: Base pages of lost chunks.
 */
struct migrate_copy_offload {
	struct migrate_copy_job *job;
	const struct migrate_copy_info *info;
	unsigned int cpus;
	struct migrate_copy_share shares[MAX_SHARES];
	unsigned int nr_shares;
	bool exclusive;
	wait_queue_head_t wait;

	spinlock_t lock;	/* Protects what follows */
	unsigned int inflight;
	unsigned long pages;
	unsigned int nr_failed;
	struct {
		u64 first;
		unsigned int nr;
	} failed[MAX_INFLIGHT];
	unsigned long lost;
	unsigned long lost_pages;
};

/* On while there is an engine that jobs may use. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_offload_key);
/* On while an engine is registered: something may be in quarantine. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_engine_key);

static struct kobject *engines_kobj;
static DEFINE_MUTEX(engines_lock);
static LIST_HEAD(engines);
DEFINE_STATIC_SRCU(engines_srcu);

/* Protects the list below. */
static DEFINE_SPINLOCK(quarantine_lock);
static LIST_HEAD(quarantine);

/* ns that a CPU needs to copy a page, on average; never 0. */
static unsigned long cpu_page_ns = 1000;

static void engine_average(unsigned long *avg, u64 sample)
{
	unsigned long old = READ_ONCE(*avg);

	if (old)
		sample = old - (old >> AVERAGE_SHIFT) + (sample >> AVERAGE_SHIFT);
	WRITE_ONCE(*avg, max_t(u64, sample, 1));
}

/* The engine has not been tried: it may be faster by now. */
static void engine_fade(unsigned long *avg)
{
	unsigned long old = READ_ONCE(*avg);

	/* By 1 at least, or a small one would stay; but 0 is unknown. */
	if (old > 1)
		WRITE_ONCE(*avg, old - (old >> FORGET_SHIFT) - 1);
}

/* A chunk has ended. Several jobs may do this at once: it is an estimate. */
static void engine_learn(struct migrate_copy_engine *engine,
			 const struct migrate_copy_chunk *chunk, bool ok)
{
	u64 ns = ktime_get_ns() - chunk->claimed_ns;
	unsigned long avg = READ_ONCE(engine->chunk_ns);
	unsigned int learned = READ_ONCE(engine->learned);
	unsigned int pages = chunk->nr_pages;

	/* It is from before it was forgotten. */
	if (chunk->claimed_ns < READ_ONCE(engine->new_ns))
		return;
	if (!ok) {
		/* That much is known of it. */
		learned = max(learned, TRY_CHUNKS);
		WRITE_ONCE(engine->learned, learned);
		ns += (u64)pages * READ_ONCE(cpu_page_ns);
		if (ns <= avg)
			return;
	}
	/* One alone may have been lucky: it is taken for a third of what may come. */
	engine_average(&engine->chunk_dev, avg > ns ? avg - ns : ns - avg);
	engine_average(&engine->chunk_ns, ns);
	engine_average(&engine->chunk_pages, (u64)pages << PAGES_SHIFT);
	if (learned < LEARN_CHUNKS)
		WRITE_ONCE(engine->learned, learned + 1);
}

static void engine_count(struct migrate_copy_engine *engine, enum engine_stat stat,
			 unsigned long nr)
{
	atomic_long_add(nr, &engine->stats[stat]);
}

/*
 * Chunks
 */

/* Base pages that nobody has claimed. */
static unsigned long offload_rest(const struct migrate_copy_job *job)
{
	u64 cursor = atomic64_read(&job->cursor);
	unsigned long rest = 0;
	unsigned int pair;

	for (pair = CURSOR_PAIR(cursor); pair < job->nr; pair++)
		rest += folio_nr_pages(job->pairs[pair].src);
	return rest - (rest ? CURSOR_PAGE(cursor) : 0);
}

/* How much of the rest an engine may claim, see the top of this file. */
static unsigned long share_fair_part(const struct migrate_copy_offload *o,
				     const struct migrate_copy_engine *engine,
			       unsigned long rest, unsigned int inflight)
{
	u64 ns = READ_ONCE(engine->chunk_ns), others, pages;
	unsigned long cpus = READ_ONCE(o->cpus);

	if (!cpus)
		return DIV_ROUND_UP(rest, 1 + inflight);
	if (READ_ONCE(engine->learned) < TRY_CHUNKS || !ns)
		return rest < 1 + inflight + cpus ? rest && !inflight :
		       rest / (1 + inflight + cpus);

	pages = max(READ_ONCE(engine->chunk_pages) >> PAGES_SHIFT, 1);
	others = div64_u64((ns + 2 * READ_ONCE(engine->chunk_dev)) * cpus,
			   READ_ONCE(cpu_page_ns)) + inflight * pages;
	if (rest <= others / 2)
		return 0;
	return div64_u64((rest - others / 2) * 2 * pages, 2 * pages + others);
}

/* A job has been done without the engine, which may be faster by the next one. */
static void engine_passed_over(struct migrate_copy_engine *engine)
{
	engine_fade(&engine->chunk_ns);
	engine_fade(&engine->chunk_dev);
}

/* Too slow for any part of a job? */
static bool engine_too_slow(const struct migrate_copy_offload *o,
			    const struct migrate_copy_engine *engine)
{
	return !share_fair_part(o, engine, o->info->pages, 0);
}

/* The most that an engine may claim at a time. */
static unsigned long share_most(const struct migrate_copy_share *share)
{
	const struct migrate_copy_engine *engine = share->engine;
	unsigned int learned = READ_ONCE(engine->learned);
	unsigned long pages;

	pages = READ_ONCE(engine->chunk_kb) * SZ_1K / PAGE_SIZE;
	if (!READ_ONCE(share->offload->cpus) || learned >= LEARN_CHUNKS)
		return pages;
	return share->inflight > learned / 4 ? 0 : min(pages, LEARN_PAGES);
}

/* Add pages to a chunk; returns false if they would need one range too many. */
static bool chunk_extend(struct migrate_copy_chunk *chunk, struct page *dst,
			 struct page *src, unsigned int nr)
{
	struct migrate_copy_range *last = NULL;

	if (chunk->nr_ranges)
		last = &chunk->ranges[chunk->nr_ranges - 1];

	if (last &&
	    page_to_pfn(last->dst) + last->nr == page_to_pfn(dst) &&
	    page_to_pfn(last->src) + last->nr == page_to_pfn(src)) {
		last->nr += nr;
	} else if (chunk->nr_ranges < MIGRATE_COPY_CHUNK_RANGES) {
		chunk->ranges[chunk->nr_ranges++] =
			(struct migrate_copy_range){ dst, src, nr };
	} else {
		return false;
	}
	chunk->nr_pages += nr;
	return true;
}

/* Take up to max_pages off the cursor; returns false if it is at the end. */
static bool chunk_take(struct migrate_copy_job *job, struct migrate_copy_chunk *chunk,
		       unsigned long max_pages)
{
	s64 cursor = atomic64_read(&job->cursor);
	unsigned int pair, page;

	do {
		unsigned long left, nr;

		pair = CURSOR_PAIR(cursor);
		page = CURSOR_PAGE(cursor);
		chunk->nr_ranges = 0;
		chunk->nr_pages = 0;
		while (chunk->nr_pages < max_pages && pair < job->nr) {
			struct folio *dst = job->pairs[pair].dst;
			struct folio *src = job->pairs[pair].src;

			left = folio_nr_pages(src) - page;
			nr = min(left, max_pages - chunk->nr_pages);
			if (!chunk_extend(chunk, folio_page(dst, page),
					  folio_page(src, page), nr))
				break;
			page += nr;
			if (nr == left) {
				page = 0;
				pair++;
			}
		}
		if (!chunk->nr_pages)
			return false;
	} while (!atomic64_try_cmpxchg(&job->cursor, &cursor,
				       CURSOR(pair, page)));

	chunk->first = cursor;
	return true;
}

/**
 * migrate_copy_share_info() - What the job of a share is about.
 * @share: The share.
 *
 * Context: Any, as long as the share exists.
 * Return: The description.
 */
const struct migrate_copy_info *
migrate_copy_share_info(const struct migrate_copy_share *share)
{
	return share->offload->info;
}
EXPORT_SYMBOL_GPL(migrate_copy_share_info);

/**
 * migrate_copy_chunk_claim() - Claim the next chunk of a job.
 * @share: The engine's share of the job.
 * @chunk: Filled in, and in use until it is returned.
 * @max_pages: Most base pages to take, at least 1.
 *
 * Context: Any, as long as the share exists.
 * Return: true if there is something to copy; false if the engine is to take
 * nothing, now or any more.
 */
bool migrate_copy_chunk_claim(struct migrate_copy_share *share,
			      struct migrate_copy_chunk *chunk,
			      unsigned int max_pages)
{
	struct migrate_copy_offload *o = share->offload;
	struct migrate_copy_engine *engine = share->engine;
	unsigned long want, flags;
	bool taken = false;

	spin_lock_irqsave(&o->lock, flags);
	if (!share->open || READ_ONCE(engine->leaving) ||
	    o->inflight + o->nr_failed >= MAX_INFLIGHT)
		goto unlock;

	want = share_fair_part(o, engine, offload_rest(o->job), o->inflight);
	want = min3(want, share_most(share), (unsigned long)max_pages);
	if (!want || !chunk_take(o->job, chunk, want))
		goto unlock;

	chunk->share = share;
	chunk->engine = engine;
	chunk->claimed_ns = ktime_get_ns();
	o->inflight++;
	WRITE_ONCE(share->inflight, share->inflight + 1);
	taken = true;
unlock:
	spin_unlock_irqrestore(&o->lock, flags);
	return taken;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_claim);

/**
 * migrate_copy_chunk_copy() - Copy a chunk by this CPU.
 * @chunk: A chunk in flight. It is not returned.
 *
 * The CPU time is charged to the cgroup of the caller, as that of helpers is.
 *
 * Context: Process context. Does not sleep.
 * Return: 0, or -EHWPOISON if a machine check interrupted the copy.
 */
int migrate_copy_chunk_copy(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_job *job = chunk->share->offload->job;
	u64 start = task_sched_runtime(current);
	unsigned int i, page;
	int err = 0;

	for (i = 0; i < chunk->nr_ranges && !err; i++) {
		struct migrate_copy_range *range = &chunk->ranges[i];

		for (page = 0; page < range->nr && !err; page++)
			err = migrate_copy_job_page(job,
						    range->dst + page,
						    range->src + page);
	}
	/* Also after an error: the caller will copy there. */
	if (job->nontemporal)
		migrate_copy_nontemporal_done();
	atomic64_add(task_sched_runtime(current) - start, &job->engine_ns);
	return err ? -EHWPOISON : 0;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_copy);

/* A chunk ends. The last one that does lets the caller go, once we unlock. */
static void chunk_end(struct migrate_copy_share *share)
{
	struct migrate_copy_offload *o = share->offload;

	lockdep_assert_held(&o->lock);
	o->inflight--;
	WRITE_ONCE(share->inflight, share->inflight - 1);
	WRITE_ONCE(share->returned, share->returned + 1);
	if (!share->inflight)
		wake_up(&o->wait);
}

/**
 * migrate_copy_chunk_return() - Give a chunk back.
 * @chunk: A chunk in flight. Its memory is free for another claim afterwards.
 * @ok: Whether its content is in its destination. If not, nothing may write
 *	to that any more.
 *
 * Context: Any.
 */
void migrate_copy_chunk_return(struct migrate_copy_chunk *chunk, bool ok)
{
	struct migrate_copy_share *share = chunk->share;
	struct migrate_copy_engine *engine = chunk->engine;
	struct migrate_copy_offload *o = share->offload;
	unsigned long flags;

	/* While the chunk is in flight, so that the engine stays. */
	engine_count(engine, ENGINE_CHUNKS, 1);
	if (ok)
		engine_count(engine, ENGINE_BYTES, chunk->nr_pages * PAGE_SIZE);
	else
		engine_count(engine, ENGINE_FAILED, 1);
	engine_learn(engine, chunk, ok);

	spin_lock_irqsave(&o->lock, flags);
	if (ok) {
		o->pages += chunk->nr_pages;
	} else {
		o->failed[o->nr_failed].first = chunk->first;
		o->failed[o->nr_failed].nr = chunk->nr_pages;
		o->nr_failed++;
	}
	chunk_end(share);
	spin_unlock_irqrestore(&o->lock, flags);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_return);

/**
 * migrate_copy_share_kick() - Have the caller poll an engine.
 * @share: The engine's share of a job, of which a chunk is in flight that does
 *	not come back unless somebody polls.
 *
 * Needed where the caller may have been told that it need not poll, and sleeps.
 *
 * Context: Any, as long as that chunk is in flight.
 */
void migrate_copy_share_kick(struct migrate_copy_share *share)
{
	WRITE_ONCE(share->kicked, true);
	wake_up(&share->offload->wait);
}
EXPORT_SYMBOL_GPL(migrate_copy_share_kick);

/*
 * Quarantine
 */

/* Get or put each folio that a chunk writes to, once for each range. */
static void chunk_visit_dst(struct migrate_copy_chunk *chunk,
			    void (*fn)(struct folio *folio))
{
	unsigned int i, page;

	for (i = 0; i < chunk->nr_ranges; i++) {
		struct migrate_copy_range *range = &chunk->ranges[i];

		for (page = 0; page < range->nr;) {
			struct page *first = range->dst + page;
			struct folio *folio = page_folio(first);

			page += folio_nr_pages(folio) -
				folio_page_idx(folio, first);
			fn(folio);
		}
	}
}

/**
 * migrate_copy_chunk_lost() - Give up a chunk that may still be written to.
 * @chunk: A chunk in flight. Its memory stays in use until
 *	migrate_copy_chunk_stopped().
 *
 * Context: Any.
 */
void migrate_copy_chunk_lost(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_share *share = chunk->share;
	struct migrate_copy_offload *o = share->offload;
	unsigned int pair = CURSOR_PAIR(chunk->first);
	long left = chunk->nr_pages + CURSOR_PAGE(chunk->first);
	unsigned long flags;

	engine_count(chunk->engine, ENGINE_LOST, 1);
	engine_learn(chunk->engine, chunk, false);
	chunk->held = true;
	if (chunk->held)
		chunk_visit_dst(chunk, folio_get);
	spin_lock_irqsave(&quarantine_lock, flags);
	list_add(&chunk->quarantine, &quarantine);
	atomic_inc(&chunk->engine->quarantined);
	spin_unlock_irqrestore(&quarantine_lock, flags);

	spin_lock_irqsave(&o->lock, flags);
	o->lost_pages += chunk->nr_pages;
	for (; left > 0; pair++) {
		__set_bit(pair, &o->lost);
		left -= folio_nr_pages(o->job->pairs[pair].src);
	}
	chunk_end(share);
	spin_unlock_irqrestore(&o->lock, flags);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_lost);

/**
 * migrate_copy_chunk_stopped() - End the quarantine of a lost chunk.
 * @chunk: The chunk. Nothing may write to its destination any more.
 *
 * Context: Process context. Frees what the quarantine alone has kept.
 */
void migrate_copy_chunk_stopped(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_engine *engine = chunk->engine;

	spin_lock_irq(&quarantine_lock);
	list_del(&chunk->quarantine);
	spin_unlock_irq(&quarantine_lock);
	if (chunk->held)
		chunk_visit_dst(chunk, folio_put);
	/* The engine may go with the last one. */
	if (atomic_dec_and_test(&engine->quarantined))
		wake_up_var(&engine->quarantined);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_stopped);

static bool chunk_writes_to(const struct migrate_copy_chunk *chunk,
			    struct folio *dst)
{
	unsigned long first = folio_pfn(dst), end = first + folio_nr_pages(dst);
	unsigned int i;

	for (i = 0; i < chunk->nr_ranges; i++) {
		unsigned long pfn = page_to_pfn(chunk->ranges[i].dst);

		if (pfn < end && first < pfn + chunk->ranges[i].nr)
			return true;
	}
	return false;
}

/**
 * __migrate_copy_quarantined() - May something still write to a folio?
 * @dst: The destination of a migration.
 *
 * Context: Any.
 * Return: true if a part of it is in quarantine.
 */
bool __migrate_copy_quarantined(struct folio *dst)
{
	struct migrate_copy_chunk *chunk;
	unsigned long flags;
	bool found = false;

	if (list_empty(&quarantine))
		return false;

	spin_lock_irqsave(&quarantine_lock, flags);
	list_for_each_entry(chunk, &quarantine, quarantine) {
		found = chunk_writes_to(chunk, dst);
		if (found)
			break;
	}
	spin_unlock_irqrestore(&quarantine_lock, flags);
	return found;
}

/*
 * Jobs
 */

static bool engine_suits(const struct migrate_copy_engine *engine,
			 const struct migrate_copy_info *info)
{
	const struct migrate_copy_engine_ops *ops = engine->desc->ops;

	if (READ_ONCE(engine->leaving) ||
	    info->pages * (PAGE_SIZE / SZ_1K) < READ_ONCE(engine->min_kb))
		return false;
	return !ops->can_copy || ops->can_copy(engine->priv, info);
}

static void offload_init(struct migrate_copy_offload *o,
			 struct migrate_copy_job *job,
			 const struct migrate_copy_info *info)
{
	o->job = job;
	o->info = info;
	o->cpus = 0;
	o->nr_shares = 0;
	o->exclusive = false;
	init_waitqueue_head(&o->wait);
	spin_lock_init(&o->lock);
	o->inflight = 0;
	o->pages = 0;
	o->nr_failed = 0;
	o->lost = 0;
	o->lost_pages = 0;
}

/* Under SRCU until the job is through. */
static void offload_find_engines(struct migrate_copy_offload *o)
{
	struct migrate_copy_engine *engine;

	list_for_each_entry_srcu(engine, &engines, node,
				 srcu_read_lock_held(&engines_srcu)) {
		struct migrate_copy_share *share = &o->shares[o->nr_shares];

		if (o->nr_shares == MAX_SHARES)
			break;
		if (!READ_ONCE(engine->offloading))
			continue;
		if (!engine_suits(engine, o->info)) {
			engine_count(engine, ENGINE_REFUSED, 1);
			continue;
		}
		share->engine = engine;
		share->offload = o;
		share->inflight = 0;
		share->returned = 0;
		share->open = true;
		share->kicked = false;
		INIT_LIST_HEAD(&share->node);
		o->exclusive |= READ_ONCE(engine->exclusive);
		o->nr_shares++;
	}
}

static void offload_start_engines(struct migrate_copy_offload *o)
{
	unsigned int i = 0;

	while (i < o->nr_shares) {
		struct migrate_copy_share *share = &o->shares[i];
		struct migrate_copy_engine *engine = share->engine;

		if (engine_too_slow(o, engine)) {
			engine_passed_over(engine);
		} else if (engine->desc->ops->start(engine->priv, share)) {
			engine_count(engine, ENGINE_JOBS, 1);
			i++;
			continue;
		}
		engine_count(engine, ENGINE_REFUSED, 1);
		/* It knows nothing of the share: the next one can have it. */
		o->nr_shares--;
		if (i < o->nr_shares)
			share->engine = o->shares[o->nr_shares].engine;
	}
}

static bool share_poll(struct migrate_copy_share *share)
{
	struct migrate_copy_engine *engine = share->engine;

	return engine->desc->ops->poll &&
	       engine->desc->ops->poll(engine->priv, share);
}

/*
 * Wait until no chunk of a share is in flight; with alone, for as long as it
 * makes progress. Returns false when that takes too long.
 */
static bool offload_wait(struct migrate_copy_share *share, bool alone)
{
	unsigned long timeout = READ_ONCE(share->engine->timeout_ms);
	struct migrate_copy_offload *o = share->offload;
	unsigned long returned = READ_ONCE(share->returned), now;
	u64 start = ktime_get_ns();
	u64 spin_end = start + (alone ? 0 : SPIN_NS);
	u64 end = start + timeout * NSEC_PER_MSEC;

	while (READ_ONCE(share->inflight)) {
		bool polling;
		u64 ns;

		/* What is kicked from here on is either seen now, or by the wait. */
		xchg(&share->kicked, false);
		polling = share_poll(share);
		ns = ktime_get_ns();
		now = READ_ONCE(share->returned);
		if (alone && now != returned)
			end = ns + timeout * NSEC_PER_MSEC;
		returned = now;
		/* That look may have been the one that found the last of them. */
		if (ns >= end)
			return !READ_ONCE(share->inflight);

		if (ns < spin_end)
			cpu_relax();
		else if (polling)
			fsleep(POLL_SLEEP_US);
		else
			wait_event_timeout(o->wait,
					   !READ_ONCE(share->inflight) ||
					   READ_ONCE(share->kicked),
					   msecs_to_jiffies(timeout));
	}
	return true;
}

/* Leave the job to an engine that wants it alone, for as long as that goes well. */
static void offload_leave_to_engines(struct migrate_copy_offload *o)
{
	unsigned int i;

	for (i = 0; i < o->nr_shares; i++)
		offload_wait(&o->shares[i], true);
	WRITE_ONCE(o->cpus, 1);
}

static void offload_poll(struct migrate_copy_offload *o)
{
	unsigned int i;

	for (i = 0; i < o->nr_shares; i++)
		share_poll(&o->shares[i]);
}

static void offload_close(struct migrate_copy_offload *o)
{
	unsigned int i;

	spin_lock_irq(&o->lock);
	for (i = 0; i < o->nr_shares; i++)
		o->shares[i].open = false;
	spin_unlock_irq(&o->lock);
}

static void share_end(struct migrate_copy_share *share)
{
	struct migrate_copy_engine *engine = share->engine;
	const struct migrate_copy_engine_ops *ops = engine->desc->ops;

	if (!offload_wait(share, false)) {
		engine_count(engine, ENGINE_TIMEOUTS, 1);
		if (ops->stop) {
			ops->stop(engine->priv, share);
			offload_wait(share, false);
		}
	}
	ops->end(engine->priv, share);
	/* There was nothing left for it. */
	if (!READ_ONCE(share->returned))
		engine_passed_over(engine);

	/* Without a driver's mistake there is nothing to wait for. */
	while (WARN_ON_ONCE(READ_ONCE(share->inflight)))
		fsleep(USEC_PER_MSEC);
}

static void offload_end_engines(struct migrate_copy_offload *o)
{
	unsigned int i;

	offload_close(o);
	for (i = 0; i < o->nr_shares; i++)
		share_end(&o->shares[i]);
	/* Let whoever ended the last chunk leave. */
	spin_lock_irq(&o->lock);
	spin_unlock_irq(&o->lock);
}

static void offload_copy_timed(struct migrate_copy_offload *o)
{
	struct migrate_copy_job *job = o->job;
	unsigned long nr;
	u64 ns;

	do {
		ns = ktime_get_ns();
		nr = migrate_copy_job_chunk(job);
		if (nr)
			engine_average(&cpu_page_ns, div_u64(ktime_get_ns() - ns, nr));
		job->caller_pages += nr;
		offload_poll(o);
		cond_resched();
	} while (nr);
}

static void offload_copy_failed(struct migrate_copy_offload *o)
{
	unsigned int i;

	for (i = 0; i < o->nr_failed; i++) {
		migrate_copy_job_copy(o->job, o->failed[i].first,
				      o->failed[i].nr);
		cond_resched();
	}
}

/**
 * migrate_copy_offload_run() - Copy everything in a job, engines taking part.
 * @job: The job, freshly prepared.
 * @info: What engines are told about it.
 * @team: Who may help, see migrate_copy_job_share().
 * @max_helpers: Most helper CPUs to wake, too.
 * @engine_pages: Where the base pages go that engines have copied.
 *
 * As migrate_copy_job_run(). A folio that an engine may still write to counts as
 * failed and as lost, and is in quarantine, which may end at any time.
 *
 * Context: Process context, may sleep. Takes no lock that is held while memory
 * is allocated, and allocates nothing.
 * Return: How many helper CPUs the job was offered to.
 */
unsigned int migrate_copy_offload_run(struct migrate_copy_job *job,
				      const struct migrate_copy_info *info,
				      struct migrate_copy_team *team,
				      unsigned int max_helpers,
				      unsigned long *engine_pages)
{
	struct migrate_copy_offload o __uninitialized;
	unsigned int woken = 0;
	int idx;
	u64 ns;

	offload_init(&o, job, info);
	idx = srcu_read_lock(&engines_srcu);
	offload_find_engines(&o);
	if (!o.exclusive)
		woken = migrate_copy_job_share(job, team, info->dst_nid,
					       max_helpers);
	o.cpus = o.exclusive ? 0 : 1 + woken;
	offload_start_engines(&o);
	if (o.exclusive)
		offload_leave_to_engines(&o);
	offload_copy_timed(&o);
	offload_end_engines(&o);
	srcu_read_unlock(&engines_srcu, idx);

	offload_copy_failed(&o);
	if (!o.exclusive)
		migrate_copy_job_unshare(job, team);

	ns = atomic64_read(&job->engine_ns);
	if (team->started)
		atomic64_add(ns, &team->work.helper_ns);
	else if (ns)
		migrate_copy_charge(ns);

	job->failed |= o.lost;
	job->lost = o.lost;
	job->lost_pages = o.lost_pages;
	*engine_pages = o.pages;
	return woken;
}

/*
 * Registration and sysfs
 */

static struct migrate_copy_engine *to_engine(struct kobject *kobj)
{
	return container_of(kobj, struct migrate_copy_engine, kobj);
}

/* Forget how fast an engine is: its first chunks are those of a new one. */
static void engine_forget(struct migrate_copy_engine *engine)
{
	WRITE_ONCE(engine->chunk_ns, 0);
	WRITE_ONCE(engine->chunk_dev, 0);
	WRITE_ONCE(engine->chunk_pages, 0);
	WRITE_ONCE(engine->learned, 0);
	WRITE_ONCE(engine->new_ns, ktime_get_ns());
}

/**
 * migrate_copy_engine_enable() - Let jobs use an engine, or no longer.
 * @engine: The engine.
 * @enable: Whether.
 *
 * Jobs in flight are not affected. What was learned of its speed is forgotten:
 * whoever has mended something switches it on again.
 *
 * Context: Process context, may sleep.
 */
void migrate_copy_engine_enable(struct migrate_copy_engine *engine, bool enable)
{
	guard(mutex)(&engines_lock);
	if (engine->offloading == enable)
		return;
	if (enable)
		engine_forget(engine);
	WRITE_ONCE(engine->offloading, enable);
	if (enable)
		static_branch_inc(&migrate_copy_offload_key);
	else
		static_branch_dec(&migrate_copy_offload_key);
}

static ssize_t offloading_show(struct kobject *kobj, struct kobj_attribute *attr,
			       char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_engine(kobj)->offloading));
}

static ssize_t offloading_store(struct kobject *kobj,
				struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	unsigned int enable;

	if (kstrtouint(buf, 10, &enable) || enable > 1)
		return -EINVAL;
	migrate_copy_engine_enable(to_engine(kobj), enable);
	return count;
}

static struct kobj_attribute offloading_attr = __ATTR_RW(offloading);

static unsigned int engine_max_chunk_kb(const struct migrate_copy_engine *engine)
{
	unsigned int pages = engine->desc->max_chunk_pages;

	if (!pages || pages > MIGRATE_COPY_MAX_CHUNK_KB * SZ_1K / PAGE_SIZE)
		return MIGRATE_COPY_MAX_CHUNK_KB;
	return pages * (PAGE_SIZE / SZ_1K);
}

/**
 * struct engine_knob - a number of an engine that can be set
 * @attr: Its attribute.
 * @offset: Where it is in the engine.
 * @min: Its smallest value.
 * @max: Its largest value; that of chunk_kb is engine_max_chunk_kb(), if less.
 */
struct engine_knob {
	struct kobj_attribute attr;
	size_t offset;
	unsigned int min;
	unsigned int max;
};

static unsigned int *knob_value(struct kobject *kobj,
				const struct engine_knob *knob)
{
	return (void *)to_engine(kobj) + knob->offset;
}

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct engine_knob *knob = container_of(attr, struct engine_knob, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*knob_value(kobj, knob)));
}

static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct engine_knob *knob = container_of(attr, struct engine_knob, attr);
	struct migrate_copy_engine *engine = to_engine(kobj);
	unsigned int value, max = knob->max;

	if (knob_value(kobj, knob) == &engine->chunk_kb)
		max = min(max, engine_max_chunk_kb(engine));
	if (kstrtouint(buf, 10, &value) || value < knob->min || value > max)
		return -EINVAL;
	WRITE_ONCE(*knob_value(kobj, knob), value);
	return count;
}

static struct engine_knob exclusive_knob = {
	.attr = __ATTR(exclusive, 0644, knob_show, knob_store),
	.offset = offsetof(struct migrate_copy_engine, exclusive),
	.max = 1,
};

static struct engine_knob min_kb_knob = {
	.attr = __ATTR(min_kb, 0644, knob_show, knob_store),
	.offset = offsetof(struct migrate_copy_engine, min_kb),
	.max = UINT_MAX,
};

static struct engine_knob chunk_kb_knob = {
	.attr = __ATTR(chunk_kb, 0644, knob_show, knob_store),
	.offset = offsetof(struct migrate_copy_engine, chunk_kb),
	.min = MIGRATE_COPY_MIN_CHUNK_KB,
	.max = MIGRATE_COPY_MAX_CHUNK_KB,
};

static struct engine_knob timeout_ms_knob = {
	.attr = __ATTR(timeout_ms, 0644, knob_show, knob_store),
	.offset = offsetof(struct migrate_copy_engine, timeout_ms),
	.min = 1,
	.max = MAX_TIMEOUT_MS,
};

static struct attribute *engine_attrs[] = {
	&offloading_attr.attr,
	&exclusive_knob.attr.attr,
	&min_kb_knob.attr.attr,
	&chunk_kb_knob.attr.attr,
	&timeout_ms_knob.attr.attr,
	NULL
};

static const struct attribute_group engine_group = {
	.attrs = engine_attrs,
};

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf);

static struct kobj_attribute stat_kobj_attrs[ENGINE_NR_STATS] = {
	[ENGINE_JOBS]		= __ATTR(jobs, 0444, stat_show, NULL),
	[ENGINE_REFUSED]	= __ATTR(refused, 0444, stat_show, NULL),
	[ENGINE_CHUNKS]		= __ATTR(chunks, 0444, stat_show, NULL),
	[ENGINE_BYTES]		= __ATTR(bytes, 0444, stat_show, NULL),
	[ENGINE_FAILED]		= __ATTR(failed, 0444, stat_show, NULL),
	[ENGINE_TIMEOUTS]	= __ATTR(timeouts, 0444, stat_show, NULL),
	[ENGINE_LOST]		= __ATTR(lost, 0444, stat_show, NULL),
};

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	enum engine_stat stat = attr - stat_kobj_attrs;

	return sysfs_emit(buf, "%ld\n",
			  atomic_long_read(&to_engine(kobj)->stats[stat]));
}

static ssize_t quarantined_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  atomic_read(&to_engine(kobj)->quarantined));
}

static struct kobj_attribute quarantined_attr = __ATTR_RO(quarantined);

static ssize_t chunk_ns_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(to_engine(kobj)->chunk_ns));
}

static struct kobj_attribute chunk_ns_attr = __ATTR_RO(chunk_ns);

static ssize_t chunk_pages_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n",
			  READ_ONCE(to_engine(kobj)->chunk_pages) >> PAGES_SHIFT);
}

static struct kobj_attribute chunk_pages_attr = __ATTR_RO(chunk_pages);

static struct attribute *engine_stat_attrs[] = {
	&stat_kobj_attrs[ENGINE_JOBS].attr,
	&stat_kobj_attrs[ENGINE_REFUSED].attr,
	&stat_kobj_attrs[ENGINE_CHUNKS].attr,
	&stat_kobj_attrs[ENGINE_BYTES].attr,
	&stat_kobj_attrs[ENGINE_FAILED].attr,
	&stat_kobj_attrs[ENGINE_TIMEOUTS].attr,
	&stat_kobj_attrs[ENGINE_LOST].attr,
	&quarantined_attr.attr,
	&chunk_ns_attr.attr,
	&chunk_pages_attr.attr,
	NULL
};

static const struct attribute_group engine_stat_group = {
	.name = "stats",
	.attrs = engine_stat_attrs,
};

static const struct attribute_group *engine_groups[] = {
	&engine_group,
	&engine_stat_group,
	NULL
};

static void engine_release(struct kobject *kobj)
{
	kfree(to_engine(kobj));
}

static const struct kobj_type engine_ktype = {
	.release = engine_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = engine_groups,
};

static bool engine_name_taken(const char *name)
{
	struct migrate_copy_engine *engine;

	list_for_each_entry(engine, &engines, node) {
		if (!strcmp(engine->desc->name, name))
			return true;
	}
	return false;
}

static int engine_add(struct migrate_copy_engine *engine)
{
	int err;

	guard(mutex)(&engines_lock);
	if (!engines_kobj)
		return -ENODEV;
	if (engine_name_taken(engine->desc->name))
		return -EEXIST;

	err = kobject_add(&engine->kobj, engines_kobj, "%s", engine->desc->name);
	if (!err && engine->desc->groups)
		err = sysfs_create_groups(&engine->kobj, engine->desc->groups);
	if (err)
		return err;
	static_branch_inc(&migrate_copy_engine_key);
	list_add_tail_rcu(&engine->node, &engines);
	return 0;
}

/**
 * migrate_copy_engine_register() - Make an engine known.
 * @desc: Its description. Must stay until it is unregistered.
 * @priv: Passed to its operations.
 *
 * Jobs use it when the administrator says so, in its directory in sysfs.
 * Attributes in desc->groups can be accessed before this returns.
 *
 * Context: Process context, may sleep.
 * Return: The engine, or an error pointer: -EINVAL for a description that is not
 * complete, -EEXIST for a name that is taken, -ENOMEM, -ENODEV without sysfs.
 */
struct migrate_copy_engine *
migrate_copy_engine_register(const struct migrate_copy_engine_desc *desc,
			     void *priv)
{
	struct migrate_copy_engine *engine;
	int err;

	if (!desc->name || !*desc->name || strchr(desc->name, '/') ||
	    !desc->ops || !desc->ops->start || !desc->ops->end)
		return ERR_PTR(-EINVAL);

	engine = kzalloc_obj(*engine);
	if (!engine)
		return ERR_PTR(-ENOMEM);

	engine->desc = desc;
	engine->priv = priv;
	engine->min_kb = DEFAULT_MIN_KB;
	engine->chunk_kb = min(DEFAULT_CHUNK_KB, engine_max_chunk_kb(engine));
	engine->timeout_ms = DEFAULT_TIMEOUT_MS;
	kobject_init(&engine->kobj, &engine_ktype);
	err = engine_add(engine);
	if (err) {
		kobject_put(&engine->kobj);
		return ERR_PTR(err);
	}
	return engine;
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_register);

/**
 * migrate_copy_engine_unregister() - Forget an engine.
 * @engine: The engine. Gone when this returns.
 *
 * Every lost chunk must be declared stopped, before or meanwhile.
 *
 * Context: Process context; not from an attribute of the engine. Sleeps until
 * the jobs in flight, its directory in sysfs and the quarantine have no more
 * use for it.
 */
void migrate_copy_engine_unregister(struct migrate_copy_engine *engine)
{
	WRITE_ONCE(engine->leaving, true);
	/* Ends what goes on in sysfs, which may need engines_lock. */
	kobject_del(&engine->kobj);
	migrate_copy_engine_enable(engine, false);
	scoped_guard(mutex, &engines_lock)
		list_del_rcu(&engine->node);

	synchronize_srcu(&engines_srcu);
	wait_var_event(&engine->quarantined, !atomic_read(&engine->quarantined));
	static_branch_dec(&migrate_copy_engine_key);
	kobject_put(&engine->kobj);
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_unregister);

#ifdef CONFIG_MIGRATE_COPY_KUNIT_TEST
/**
 * migrate_copy_engine_tune() - Prepare an engine for a test.
 * @engine: The engine.
 * @exclusive: Whether CPUs copy only what it leaves.
 * @timeout_ms: How long a caller waits for it.
 *
 * Forgets how fast it is, too.
 *
 * Context: Any.
 */
void migrate_copy_engine_tune(struct migrate_copy_engine *engine, bool exclusive,
			      unsigned int timeout_ms)
{
	WRITE_ONCE(engine->exclusive, exclusive);
	WRITE_ONCE(engine->timeout_ms, timeout_ms);
	engine_forget(engine);
}
#endif

/**
 * migrate_copy_engine_kobj() - The directory of an engine in sysfs.
 * @engine: The engine.
 *
 * Context: Any.
 * Return: Its kobject.
 */
struct kobject *migrate_copy_engine_kobj(struct migrate_copy_engine *engine)
{
	return &engine->kobj;
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_kobj);

/**
 * migrate_copy_engines_init() - Make room for engines.
 * @parent: The directory of the migration copy in sysfs.
 *
 * Context: Boot, may sleep.
 * Return: 0, or -ENOMEM.
 */
int __init migrate_copy_engines_init(struct kobject *parent)
{
	engines_kobj = kobject_create_and_add("engines", parent);
	return engines_kobj ? 0 : -ENOMEM;
}
