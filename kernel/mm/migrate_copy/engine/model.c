// SPDX-License-Identifier: GPL-2.0-only
/*
 * How large a chunk an engine gets.
 *
 * As large a part of the rest as each other chunk in flight and each CPU; but no
 * larger than that all chunks of the engine's channels come out of the job, and no
 * smaller than what it takes to hand it over is worth.
 *
 * Engines and CPUs are to end at the same time, and no engine later than the
 * CPUs. What is known of an engine is how long its chunks take, from claim to
 * return, and how large they are, on average; as nobody knows which part of that
 * is mere latency, half of it is taken for that. To be on the safe side the time
 * is the average plus twice the average deviation from it.
 *
 * While an average chunk is in the engine's hands, the CPUs copy q pages. A chunk
 * of n pages, where an average one has m, takes 1/2 + n / 2m as long. The CPUs
 * alone need as long for the rest of the job if
 *
 *	n = (rest - q / 2) / (1 + q / 2m)
 *
 * That is large at the beginning, and nothing towards the end: the last pages go
 * to the CPUs. (That other channels would help with the rest does not count: they
 * are told the same, and all would leave it to the CPUs too early.) An engine
 * that would get nothing at the beginning is not asked, and thought a little
 * faster and steadier next time, so that it is tried again some day.
 *
 * To hand folios over takes a CPU as well: to map them, and to talk to the device.
 * Where it takes half as long again as to copy them, the engine is not asked
 * either. So it is with base pages; with exclusive they go to the engine
 * nevertheless.
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
 * exclusive, nobody asks how fast an engine is, unless the last that was heard of it
 * is that it was late: each of its channels could be waited for otherwise.
 */
#include <linux/math64.h>

#include "engine.h"

/* Weight of a new sample in an average: 1/8. */
#define AVERAGE_SHIFT	3

/*
 * Chunks of an engine until it is known, how large they are until then, and how
 * many it gets whatever they take.
 */
#define LEARN_CHUNKS	(4 * MAX_INFLIGHT)
#define TRY_CHUNKS	8U
#define LEARN_PAGES	max_t(unsigned long, SZ_64K / PAGE_SIZE, 1)

/* Less than that is not worth what it takes to hand it over, nor to wait for it. */
#define SMALL_PAGES	max_t(unsigned long, SZ_128K / PAGE_SIZE, 1)

/*
 * How much faster an engine is thought to be after a job without it: 1/1024; and how
 * much less it is thought to take to hand it something: that changes hardly ever.
 */
#define FORGET_SHIFT		10
#define FORGET_PRICE_SHIFT	13

/* Of more pairs than that, the rest is estimated by the next one. */
#define COUNTED_PAIRS	64

/* ns that a CPU needs to copy a page, on average; never 0. */
static unsigned long cpu_page_ns = 1000;

static void average(unsigned long *avg, u64 sample)
{
	unsigned long old = READ_ONCE(*avg);

	if (old)
		sample = old - (old >> AVERAGE_SHIFT) + (sample >> AVERAGE_SHIFT);
	WRITE_ONCE(*avg, max_t(u64, sample, 1));
}

/* The engine has not been tried: it may be faster by now. */
static void fade(unsigned long *avg, unsigned int shift)
{
	unsigned long old = READ_ONCE(*avg);

	/* By 1 at least, or a small one would stay; but 0 is unknown. */
	if (old > 1)
		WRITE_ONCE(*avg, old - (old >> shift) - 1);
}

/**
 * copy_engine_learn() - Note how long a chunk has taken.
 * @engine: Whose it was.
 * @chunk: The chunk, which ends now.
 * @ok: Whether it was copied.
 *
 * Several jobs may do this at once: it is an estimate.
 *
 * Context: Any.
 */
void copy_engine_learn(struct migrate_copy_engine *engine,
		       const struct migrate_copy_chunk *chunk, bool ok)
{
	u64 ns = ktime_get_ns() - chunk->claimed_ns;
	unsigned long avg = READ_ONCE(engine->chunk_ns);
	unsigned int learned = READ_ONCE(engine->learned);

	/* It is from before it was forgotten. */
	if (chunk->claimed_ns < READ_ONCE(engine->new_ns))
		return;
	if (!ok) {
		/* That much is known of it. */
		learned = max(learned, TRY_CHUNKS);
		WRITE_ONCE(engine->learned, learned);
		ns += (u64)chunk->nr_pages * READ_ONCE(cpu_page_ns);
		if (ns <= avg)
			return;
	} else if (READ_ONCE(engine->late)) {
		WRITE_ONCE(engine->late, false);
	}
	/* One alone may have been lucky: it is taken for a third of what may come. */
	average(&engine->chunk_dev, avg > ns ? avg - ns : ns - avg);
	average(&engine->chunk_ns, ns);
	average(&engine->chunk_pages, (u64)chunk->nr_pages << FRACTION_SHIFT);
	if (ok)
		average(&engine->range_ns, div_u64(chunk->feed_ns << FRACTION_SHIFT,
						   chunk->nr_ranges));
	if (learned < LEARN_CHUNKS)
		WRITE_ONCE(engine->learned, learned + 1);
}

/**
 * copy_engine_learn_cpu() - Note how long a CPU has taken.
 * @ns: How long, in ns.
 * @pages: For how many base pages; not 0.
 *
 * Context: Any.
 */
void copy_engine_learn_cpu(u64 ns, unsigned long pages)
{
	average(&cpu_page_ns, div_u64(ns, pages));
}

/**
 * copy_engine_forget() - Take an engine for a new one.
 * @engine: The engine.
 *
 * Context: Any.
 */
void copy_engine_forget(struct migrate_copy_engine *engine)
{
	WRITE_ONCE(engine->chunk_ns, 0);
	WRITE_ONCE(engine->chunk_dev, 0);
	WRITE_ONCE(engine->chunk_pages, 0);
	WRITE_ONCE(engine->range_ns, 0);
	WRITE_ONCE(engine->learned, 0);
	WRITE_ONCE(engine->late, false);
	WRITE_ONCE(engine->new_ns, ktime_get_ns());
}

/**
 * copy_job_rest() - How much of a job nobody has claimed.
 * @job: The job.
 *
 * Context: Any, as long as the job runs.
 * Return: Base pages: 0 only if there are none; with many pairs an estimate.
 */
unsigned long copy_job_rest(const struct migrate_copy_job *job)
{
	u64 cursor = atomic64_read(&job->cursor);
	unsigned int pair = CURSOR_PAIR(cursor);
	unsigned long rest = 0;

	if (pair >= job->nr)
		return 0;
	if (job->nr - pair > COUNTED_PAIRS)
		rest = (job->nr - pair) * folio_nr_pages(job->pairs[pair].src);
	else
		for (; pair < job->nr; pair++)
			rest += folio_nr_pages(job->pairs[pair].src);
	return rest - CURSOR_PAGE(cursor);
}

/* How much of the rest an engine may claim, see the top of this file. */
static unsigned long fair_part(const struct migrate_copy_offload *o,
			       const struct migrate_copy_engine *engine,
			       unsigned long rest, unsigned int inflight)
{
	u64 ns = READ_ONCE(engine->chunk_ns), others, pages;
	unsigned long cpus = READ_ONCE(o->cpus);
	unsigned long part = rest / (1 + inflight + cpus);

	if (!cpus)
		return min(rest, max(part, SMALL_PAGES));
	if (READ_ONCE(engine->learned) < TRY_CHUNKS || !ns)
		return part ?: rest && !inflight;

	pages = max(READ_ONCE(engine->chunk_pages) >> FRACTION_SHIFT, 1);
	others = div64_u64((ns + 2 * READ_ONCE(engine->chunk_dev)) * cpus, READ_ONCE(cpu_page_ns));
	if (rest <= others / 2)
		return 0;
	pages = div64_u64((rest - others / 2) * 2 * pages, 2 * pages + others);
	/* One that has only had small chunks is to have the next one, too. */
	if (pages < (READ_ONCE(engine->learned) < LEARN_CHUNKS ? LEARN_PAGES : SMALL_PAGES))
		return 0;
	return min(pages, max(part, SMALL_PAGES));
}

/**
 * copy_share_want() - How much an engine may claim.
 * @share: Its share of a job, whose lock is held.
 * @chunks: How many chunks it can have at a time; 0 if nobody knows.
 *
 * Context: Any.
 * Return: The most base pages for its next chunk; 0 for none.
 */
unsigned long copy_share_want(const struct migrate_copy_share *share, unsigned int chunks)
{
	const struct migrate_copy_offload *o = share->offload;
	const struct migrate_copy_engine *engine = share->engine;
	unsigned long most = READ_ONCE(engine->chunk_kb) * SZ_1K / PAGE_SIZE;
	unsigned int learned = READ_ONCE(engine->learned);

	if (READ_ONCE(o->cpus) && learned < LEARN_CHUNKS)
		most = share->inflight > learned / 4 ? 0 : min(most, LEARN_PAGES);
	if (chunks)
		most = min(most, max(o->info->pages / chunks, SMALL_PAGES));
	return min(fair_part(o, engine, copy_job_rest(o->job), o->inflight), most);
}

/**
 * copy_engine_costly() - Does it take more to hand folios over than to copy them?
 * @engine: The engine.
 * @folios: How many folios.
 * @pages: Their base pages.
 *
 * Half as much again: some may have a range in common, and some other CPU may hand
 * them over.
 *
 * Context: Any.
 * Return: true if so.
 */
bool copy_engine_costly(const struct migrate_copy_engine *engine,
			unsigned long folios, unsigned long pages)
{
	return 2 * (READ_ONCE(engine->range_ns) >> FRACTION_SHIFT) * folios >
	       3 * READ_ONCE(cpu_page_ns) * pages;
}

/**
 * copy_engine_too_slow() - Is an engine too slow for any part of a job?
 * @o: The job.
 * @engine: The engine.
 *
 * Context: Any.
 * Return: true if it is.
 */
bool copy_engine_too_slow(const struct migrate_copy_offload *o,
			  const struct migrate_copy_engine *engine)
{
	const struct migrate_copy_info *info = o->info;

	/* Where no CPU copies, nobody asks what is too slow, but for one that is late. */
	if (READ_ONCE(o->cpus) ? copy_engine_costly(engine, info->folios, info->pages) :
	    READ_ONCE(engine->late))
		return true;
	return !fair_part(o, engine, info->pages, 0);
}

/**
 * copy_engine_passed_over() - A job has been done without an engine.
 * @engine: The engine. It may be faster by the next job.
 *
 * Context: Any.
 */
void copy_engine_passed_over(struct migrate_copy_engine *engine)
{
	fade(&engine->chunk_ns, FORGET_SHIFT);
	fade(&engine->chunk_dev, FORGET_SHIFT);
	fade(&engine->range_ns, FORGET_PRICE_SHIFT);
}

/**
 * copy_engine_suits() - May an engine have a job? If not, count why.
 * @engine: The engine.
 * @reason: The migrate_reason of the job.
 * @pages: Its base pages.
 * @too_slow: Whether the engine is too slow for it.
 *
 * Context: Any.
 * Return: true if it may.
 */
bool copy_engine_suits(struct migrate_copy_engine *engine, int reason, unsigned long pages,
		       bool too_slow)
{
	if (!copy_engine_is_for(engine, reason))
		return false;
	if (pages * (PAGE_SIZE / SZ_1K) < READ_ONCE(engine->min_kb)) {
		copy_engine_count(engine, ENGINE_TOO_SMALL, 1);
		return false;
	}
	if (too_slow) {
		copy_engine_count(engine, ENGINE_TOO_SLOW, 1);
		copy_engine_passed_over(engine);
	}
	return !too_slow;
}
