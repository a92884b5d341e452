// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy engines: drivers of DMA channels, for instance, that pull chunks of a
 * copy job beside the CPUs.
 *
 * The protocol
 * ------------
 *
 * An engine registers and unregisters at any time. A job looks for engines
 * under SRCU, without a lock, and gives each that is for it and wants to take part
 * a share of the job. The share lies on the stack of the caller, the task that
 * migrates; an engine may refer to it from start() until end() returns.
 *
 * Until then the engine claims chunks from the same cursor as the caller and the
 * helper CPUs do, in whatever context it likes. A chunk is in flight from
 * then on, and ends in exactly one of three ways:
 *
 *	returned, copied	its content is in its destination
 *	returned, not copied	nothing will write to its destination any more;
 *				the caller copies these pages, and no others
 *	lost			something may still write to its destination,
 *				see quarantine.c
 *
 * When there is nothing left to claim, or the caller wants no more of the
 * engine, it closes the share: no claim succeeds from then on. It then waits for
 * the chunks in flight. Where an engine does nothing for most of timeout_ms, the
 * caller asks it to stop(). If the engine says that chunks may come back by that,
 * it waits for the rest of the time. Then it calls end(), in which the engine
 * returns or gives up what is left without any waiting for hardware. So the
 * caller waits for chunks in flight at most, never for an engine that has not
 * begun, and for these a bounded time.
 *
 * All of this is accounted for under one spinlock of the job. The caller takes it
 * after the last chunk has ended, so that the engine has left the job, and what
 * was copied is visible.
 *
 * Failures need no memory: a claim succeeds only while the chunks in flight and
 * those that failed fit in an array of the job. An engine that fails again and
 * again thus gets no more of this job.
 *
 * Removal
 * -------
 *
 * Unregistering takes the engine off the list, refuses further claims, and waits
 * for a grace period of SRCU: for the jobs in flight, not for new ones. The last
 * chunk in quarantine must end before that is complete, for its memory is the
 * engine's.
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
#include <linux/delay.h>

#include "engine.h"

/* How long the caller spins before it sleeps. */
#define SPIN_NS		(20 * NSEC_PER_USEC)

/* Of timeout_ms, what an engine has before it is asked to stop. */
static unsigned int stop_after(const struct migrate_copy_engine *engine)
{
	unsigned int ms = READ_ONCE(engine->timeout_ms);

	return ms - ms / 4;
}

/* Have an engine take part, if it is for that. */
static void engine_start(struct migrate_copy_offload *o, struct migrate_copy_engine *engine)
{
	struct migrate_copy_share *share = &o->shares[o->nr_shares];
	bool too_slow = copy_engine_too_slow(o, engine);

	share->engine = engine;
	share->info = o->info;
	share->offload = o;
	share->open = true;
	INIT_LIST_HEAD(&share->node);
	if (READ_ONCE(engine->leaving) ||
	    !copy_engine_suits(engine, o->info->reason, o->info->pages, too_slow) ||
	    !engine->desc->ops->start(engine->priv, share)) {
		copy_engine_count(engine, ENGINE_REFUSED, 1);
		return;
	}
	copy_engine_count(engine, ENGINE_JOBS, 1);
	o->nr_shares++;
}

/*
 * Start the engines that want a job alone, under SRCU until the job is through. The
 * others are put into the array, and started as soon as it is known if CPUs copy, too.
 * Returns how many others there are.
 */
static unsigned int offload_start_alone(struct migrate_copy_offload *o,
					struct migrate_copy_engine *others[MAX_SHARES])
{
	struct migrate_copy_engine *engine;
	unsigned int nr = 0;

	list_for_each_entry_srcu(engine, &copy_engines, node,
				 srcu_read_lock_held(&copy_engines_srcu)) {
		if (!READ_ONCE(engine->use->offloading) || o->nr_shares + nr == MAX_SHARES)
			continue;
		if (copy_engine_alone(engine))
			engine_start(o, engine);
		else
			others[nr++] = engine;
	}
	return nr;
}

/*
 * Wait until no chunk of a share is in flight, until that many ms after the share's
 * last progress: what there is from here on counts if the engine is alone at it, but
 * for no longer than four times that. Returns false when that takes too long.
 */
static bool share_wait(struct migrate_copy_share *share, unsigned int ms, bool alone)
{
	struct migrate_copy_offload *o = share->offload;
	u64 most = ms * (u64)NSEC_PER_MSEC, start = ktime_get_ns(), ns, end;
	u64 progress = READ_ONCE(share->progress_ns);

	/* Pairs with the release in migrate_copy_chunk_claim(). */
	while (smp_load_acquire(&share->inflight)) {
		if (alone)
			progress = READ_ONCE(share->progress_ns);
		end = min(progress + most, start + 4 * most);
		ns = ktime_get_ns();
		if (ns >= end)
			return !READ_ONCE(share->inflight);
		if (!alone && ns < start + SPIN_NS)
			cpu_relax();
		else
			wait_event_timeout(o->wait, !READ_ONCE(share->inflight),
					   nsecs_to_jiffies(end - ns) + 1);
	}
	return true;
}

static void share_end(struct migrate_copy_share *share)
{
	struct migrate_copy_engine *engine = share->engine;
	const struct migrate_copy_engine_ops *ops = engine->desc->ops;

	if (!share_wait(share, stop_after(engine), false)) {
		copy_engine_count(engine, ENGINE_TIMEOUTS, 1);
		WRITE_ONCE(engine->late, true);
		if (ops->stop && ops->stop(engine->priv, share))
			share_wait(share, READ_ONCE(engine->timeout_ms), false);
	}
	ops->end(engine->priv, share);
	/* There was nothing left for it. */
	if (!READ_ONCE(share->returned))
		copy_engine_passed_over(engine);

	/* Without a driver's mistake there is nothing to wait for. */
	while (WARN_ON_ONCE(READ_ONCE(share->inflight)))
		fsleep(USEC_PER_MSEC);
}

static void offload_end_engines(struct migrate_copy_offload *o)
{
	unsigned int i;

	spin_lock_irq(&o->lock);
	for (i = 0; i < o->nr_shares; i++)
		o->shares[i].open = false;
	spin_unlock_irq(&o->lock);
	for (i = 0; i < o->nr_shares; i++)
		share_end(&o->shares[i]);
	/* Let the engine that ended the last chunk leave. */
	spin_lock_irq(&o->lock);
	spin_unlock_irq(&o->lock);
}

static void offload_copy_timed(struct migrate_copy_job *job)
{
	unsigned long nr;
	u64 ns;

	do {
		/* The time is that of the copy alone. */
		scoped_guard(preempt) {
			ns = ktime_get_ns();
			nr = migrate_copy_job_chunk(job);
			if (nr)
				copy_engine_learn_cpu(ktime_get_ns() - ns, nr);
		}
		job->caller_pages += nr;
		cond_resched();
	} while (nr);
}

static void offload_copy_failed(struct migrate_copy_offload *o)
{
	unsigned int i;

	for (i = 0; i < o->nr_failed; i++) {
		migrate_copy_job_copy(o->job, o->failed[i].first, o->failed[i].nr);
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
 * failed, and is in quarantine, which may end at any time. Helpers are asked at
 * once, or for what engines have left that want to be alone.
 *
 * Context: Process context, may sleep. Takes no lock that is held while memory
 * is allocated, and allocates nothing.
 * Return: How many helper CPUs the job was offered to.
 */
unsigned int migrate_copy_offload_run(struct migrate_copy_job *job,
				      const struct migrate_copy_info *info,
				      struct migrate_copy_team *team, unsigned int max_helpers,
				      unsigned long *engine_pages)
{
	struct migrate_copy_engine *others[MAX_SHARES];
	struct migrate_copy_offload o __uninitialized;
	unsigned int woken = 0, nr_others, i;
	bool shared;
	int idx;
	u64 ns;

	memset(&o, 0, offsetof(struct migrate_copy_offload, failed));
	o.job = job;
	o.info = info;
	init_waitqueue_head(&o.wait);
	spin_lock_init(&o.lock);
	idx = srcu_read_lock(&copy_engines_srcu);
	nr_others = offload_start_alone(&o, others);
	shared = !o.nr_shares;
	if (shared)
		o.cpus = 1 + migrate_copy_job_share(job, team, info->dst_nid, max_helpers);
	for (i = 0; i < nr_others; i++)
		engine_start(&o, others[i]);
	if (!shared) {
		/* Leave it to them, for as long as that goes well. */
		for (i = 0; i < o.nr_shares; i++)
			share_wait(&o.shares[i], stop_after(o.shares[i].engine), true);
		/* They have stopped too soon. */
		shared = copy_job_rest(job);
		if (shared)
			woken = migrate_copy_job_share(job, team, info->dst_nid, max_helpers);
		WRITE_ONCE(o.cpus, 1 + woken);
	}
	offload_copy_timed(job);
	offload_end_engines(&o);
	srcu_read_unlock(&copy_engines_srcu, idx);

	offload_copy_failed(&o);
	if (shared)
		migrate_copy_job_unshare(job, team);

	ns = atomic64_read(&job->engine_ns);
	/* What helpers take is charged when they are brought back. */
	if (team->started && !team->work.ends)
		atomic64_add(ns, &team->work.helper_ns);
	else if (ns)
		migrate_copy_charge(ns);

	*engine_pages = o.pages;
	return o.cpus - 1;
}
