// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chunks of a copy job in the hands of engines: how they are claimed, copied and
 * returned. protocol.c says what for.
 */
#include <linux/sched/cputime.h>

#include "engine.h"

/* How many of nr base pages go into one range with that one as the first. */
static unsigned int fits(const struct migrate_copy_limits *limits,
			 struct page *page, unsigned int nr)
{
	unsigned long boundary = limits->boundary_pages;

	if (boundary)
		nr = min(nr, boundary - (page_to_pfn(page) & (boundary - 1)));
	return nr;
}

/*
 * Add up to nr pages to a chunk, which may have one range more then. Returns how
 * many there was room for; 0 if there is none.
 */
static unsigned int chunk_extend(struct migrate_copy_chunk *chunk,
				 const struct migrate_copy_limits *limits,
				 struct page *dst, struct page *src, unsigned int nr)
{
	struct migrate_copy_range *last = NULL;
	unsigned int most = limits->range_pages ?: UINT_MAX;

	if (chunk->nr_ranges)
		last = &chunk->ranges[chunk->nr_ranges - 1];
	nr = fits(limits, dst, fits(limits, src, nr));

	if (last && last->nr < most && page_to_pfn(last->dst) + last->nr == page_to_pfn(dst) &&
	    page_to_pfn(last->src) + last->nr == page_to_pfn(src) &&
	    fits(limits, last->dst, UINT_MAX) > last->nr &&
	    fits(limits, last->src, UINT_MAX) > last->nr) {
		nr = min(nr, most - last->nr);
		last->nr += nr;
	} else if (chunk->nr_ranges < MIGRATE_COPY_CHUNK_RANGES) {
		nr = min(nr, most);
		chunk->ranges[chunk->nr_ranges++] = (struct migrate_copy_range){ dst, src, nr };
	} else {
		return 0;
	}
	chunk->nr_pages += nr;
	return nr;
}

/* Take up to want pages off the cursor; returns false if it is at the end. */
static bool chunk_take(struct migrate_copy_job *job, struct migrate_copy_chunk *chunk,
		       const struct migrate_copy_limits *limits, unsigned long want)
{
	s64 cursor = atomic64_read(&job->cursor);
	unsigned int pair, page;

	do {
		pair = CURSOR_PAIR(cursor);
		page = CURSOR_PAGE(cursor);
		chunk->nr_ranges = 0;
		chunk->nr_pages = 0;
		while (chunk->nr_pages < want && pair < job->nr) {
			struct folio *dst = job->pairs[pair].dst;
			struct folio *src = job->pairs[pair].src;
			unsigned long left = folio_nr_pages(src) - page;
			unsigned int nr;

			nr = chunk_extend(chunk, limits, folio_page(dst, page),
					  folio_page(src, page),
					  min(left, want - chunk->nr_pages));
			if (!nr)
				break;
			page += nr;
			if (nr == left) {
				page = 0;
				pair++;
			}
		}
		if (!chunk->nr_pages)
			return false;
	} while (!atomic64_try_cmpxchg(&job->cursor, &cursor, CURSOR(pair, page)));

	chunk->first = cursor;
	return true;
}

/**
 * migrate_copy_chunk_claim() - Claim the next chunk of a job.
 * @share: The engine's share of the job.
 * @chunk: Filled in, and in use until it is returned.
 * @limits: What the engine can take at a time.
 *
 * Context: Any, as long as the share exists.
 * Return: true if there is something to copy; false if the engine is to take
 * nothing, now or any more.
 */
bool migrate_copy_chunk_claim(struct migrate_copy_share *share, struct migrate_copy_chunk *chunk,
			      const struct migrate_copy_limits *limits)
{
	struct migrate_copy_offload *o = share->offload;
	struct migrate_copy_engine *engine = share->engine;
	unsigned long want = 0, flags;
	bool taken;

	spin_lock_irqsave(&o->lock, flags);
	if (share->open && !READ_ONCE(engine->leaving) &&
	    o->inflight + o->nr_failed < MAX_INFLIGHT)
		want = copy_share_want(share, limits->chunks);
	if (limits->chunk_pages)
		want = min(want, limits->chunk_pages);
	taken = want && chunk_take(o->job, chunk, limits, want);
	if (taken) {
		chunk->share = share;
		chunk->engine = engine;
		chunk->claimed_ns = ktime_get_ns();
		chunk->feed_ns = 0;
		o->inflight++;
		WRITE_ONCE(share->progress_ns, chunk->claimed_ns);
		/* Pairs with the acquire in share_wait(). */
		smp_store_release(&share->inflight, share->inflight + 1);
	}
	spin_unlock_irqrestore(&o->lock, flags);
	return taken;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_claim);

/**
 * migrate_copy_chunk_fed() - Note the CPU time that went into a chunk.
 * @chunk: A chunk in flight; NULL if it was none so far.
 * @since: CPU time of this thread by when it began, in ns; brought up to date.
 *
 * It is charged to the cgroup of the caller. An engine for which it takes longer
 * to hand it the folios of a job than to copy them is not asked.
 *
 * Context: Process context.
 */
void migrate_copy_chunk_fed(struct migrate_copy_chunk *chunk, u64 *since)
{
	u64 now = task_sched_runtime(current);

	/* It may be given up at the same time; then it matters little. */
	if (chunk)
		WRITE_ONCE(chunk->feed_ns, chunk->feed_ns + now - *since);
	*since = now;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_fed);

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
			err = migrate_copy_job_page(job, range->dst + page, range->src + page);
	}
	/* Also after an error: the caller will copy there. */
	if (job->nontemporal)
		migrate_copy_nontemporal_done();
	atomic64_add(task_sched_runtime(current) - start, &job->engine_ns);
	return err ? -EHWPOISON : 0;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_copy);

/**
 * copy_chunk_end() - Note that a chunk has ended.
 * @chunk: The chunk. The job's lock is held.
 *
 * The last one that ends lets the caller go, once the lock is free.
 *
 * Context: Any.
 */
void copy_chunk_end(const struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_share *share = chunk->share;
	struct migrate_copy_offload *o = share->offload;

	lockdep_assert_held(&o->lock);
	atomic64_add(READ_ONCE(chunk->feed_ns), &o->job->engine_ns);
	o->inflight--;
	WRITE_ONCE(share->inflight, share->inflight - 1);
	WRITE_ONCE(share->returned, share->returned + 1);
	WRITE_ONCE(share->progress_ns, ktime_get_ns());
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
	struct migrate_copy_engine *engine = chunk->engine;
	struct migrate_copy_offload *o = chunk->share->offload;
	unsigned long flags;

	/* While the chunk is in flight, so that the engine stays. */
	copy_engine_count(engine, ENGINE_CHUNKS, 1);
	copy_engine_learn(engine, chunk, ok);

	spin_lock_irqsave(&o->lock, flags);
	if (ok) {
		copy_engine_count(engine, ENGINE_BYTES, chunk->nr_pages * PAGE_SIZE);
		o->pages += chunk->nr_pages;
	} else {
		copy_engine_count(engine, ENGINE_FAILED, 1);
		o->failed[o->nr_failed].first = chunk->first;
		o->failed[o->nr_failed].nr = chunk->nr_pages;
		o->nr_failed++;
	}
	copy_chunk_end(chunk);
	spin_unlock_irqrestore(&o->lock, flags);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_return);
