// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy engines: drivers, of DMA channels for instance, that copy parts of a job.
 *
 * An engine registers and unregisters at any time. A job looks for one under
 * SRCU, and asks the first that is switched on for this kind of request to
 * take part. The engine then claims chunks from the same cursor as the CPUs
 * do, in any context. Every chunk ends in exactly one of three ways:
 *
 *	returned, copied	its content is in the destination
 *	returned, not copied	nothing writes to its destination any more, and
 *				the migrating task copies its folios
 *	lost			something may still write to its destination
 *
 * CPUs copy at the same time where they may share the copy. Where they may not,
 * because of "reasons" or vm.mt_page_copy, they leave the job to the engine as
 * long as it makes progress, and copy the rest.
 *
 * At the end the migrating task closes the job, so that no claim succeeds any
 * more, and waits for the chunks in flight, but only until the engine has done
 * nothing for timeout_ms, and at most MAX_TIMEOUTS times as long. Then it calls
 * end(), in which the engine returns or gives up what it still has without
 * waiting for hardware.
 *
 * Quarantine
 * ----------
 *
 * A page that something may still write to must not be reused, neither as the
 * destination of this migration nor, after it has failed, by the page
 * allocator. A lost chunk therefore holds a reference to the folios it writes
 * to until the engine has seen the hardware stop. A destination is fresh, so
 * that nobody else has a reference: one with more than one is not moved to, see
 * migrate_copy_quarantined(). What the late transfer reads does not matter.
 *
 * hugetlb folios are not offloaded: one in quarantine would be missing from its
 * pool when that is resized, and the i_mmap_rwsem would be held while the task
 * waits for the engine.
 *
 * Unregistering waits for the jobs in flight, and for chunks in quarantine, for
 * the memory of these belongs to the engine.
 */
#include <linux/delay.h>
#include <linux/migrate.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/vmstat.h>
#include <linux/wait_bit.h>

#include "internal.h"

#define DEFAULT_TIMEOUT_MS	100
#define MAX_TIMEOUT_MS		10000

/* A job waits for an engine that makes progress for so many timeouts. */
#define MAX_TIMEOUTS		4
#define POLL_MS			10

/*
 * Less is not worth handing over, and more makes others wait at the end of a job
 * for the last chunk.
 */
#define MIN_CHUNK_PAGES		max_t(unsigned long, SZ_64K / PAGE_SIZE, 1)
#define MAX_CHUNK_PAGES		max_t(unsigned long, SZ_512K / PAGE_SIZE, 1)

/**
 * struct migrate_copy_engine - a registered engine
 * @kobj: Its directory in sysfs.
 * @node: In the list of engines.
 * @desc: What it was registered with.
 * @priv: For the driver.
 * @offloading: Switched on by the administrator.
 * @ready: It has something to copy with.
 * @used: Both of these, see engine_set().
 * @reasons: One bit for each migrate_reason that it is used for.
 * @timeout_ms: How long a job waits while the engine does nothing.
 * @quarantined: Chunks in quarantine.
 */
struct migrate_copy_engine {
	struct kobject kobj;
	struct list_head node;
	const struct migrate_copy_engine_desc *desc;
	void *priv;
	bool offloading;
	bool ready;
	bool used;
	unsigned long reasons;
	unsigned int timeout_ms;
	atomic_t quarantined;
};

/* On while there is an engine that jobs may use. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_offload_key);
/* On while an engine is registered, so that folios may be in quarantine. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_engine_key);

/* Registered engines; read under SRCU, changed under the mutex. */
static LIST_HEAD(engines);
DEFINE_STATIC_SRCU(engines_srcu);
static DEFINE_MUTEX(engines_lock);

static struct kobject *engines_kobj;

static bool engine_is_for(const struct migrate_copy_engine *engine, int reason)
{
	return READ_ONCE(engine->used) && READ_ONCE(engine->reasons) & BIT(reason);
}

/**
 * __migrate_copy_may_offload() - Is an engine used for such a request?
 * @reason: The migrate_reason.
 *
 * Context: Any.
 * Return: true if there is one.
 */
bool __migrate_copy_may_offload(int reason)
{
	struct migrate_copy_engine *engine;

	guard(srcu)(&engines_srcu);
	list_for_each_entry_srcu(engine, &engines, node, srcu_read_lock_held(&engines_srcu)) {
		if (engine_is_for(engine, reason))
			return true;
	}
	return false;
}

/* How much the engine may still claim, at least roughly: 0 is exact. */
static unsigned long offload_left(const struct migrate_copy_offload *o)
{
	u64 cursor = atomic64_read(&o->job->cursor);
	unsigned int pair = CURSOR_PAIR(cursor);

	if (!o->open || pair >= o->job->nr || !READ_ONCE(o->engine->used))
		return 0;
	return (o->job->nr - pair) * folio_nr_pages(o->job->pairs[pair].src) -
	       CURSOR_PAGE(cursor);
}

/*
 * Is there nothing to wait for? As long as the job is open, this may miss a chunk that
 * is just being claimed: offload_end() looks again.
 */
static bool offload_is_done(const struct migrate_copy_offload *o)
{
	return !READ_ONCE(o->inflight) && !offload_left(o);
}

/* Wait for the engine; false if it has done nothing for too long. */
static bool offload_wait(struct migrate_copy_offload *o)
{
	unsigned long timeout = msecs_to_jiffies(READ_ONCE(o->engine->timeout_ms)) + 1;
	unsigned long end, last = jiffies + MAX_TIMEOUTS * timeout;
	long left;

	while (!offload_is_done(o)) {
		end = READ_ONCE(o->progress) + timeout;
		left = (time_before(end, last) ? end : last) - jiffies;
		if (left <= 0)
			return false;
		/* Nobody wakes us when the engine is switched off, or has nothing left. */
		wait_event_timeout(o->wait, offload_is_done(o),
				   min(left, (long)msecs_to_jiffies(POLL_MS) + 1));
	}
	return true;
}

/* Find an engine that takes part; others decline, or are not for it. */
static bool offload_start(struct migrate_copy_offload *o, int reason)
{
	struct migrate_copy_engine *engine;

	list_for_each_entry_srcu(engine, &engines, node, srcu_read_lock_held(&engines_srcu)) {
		o->engine = engine;
		if (engine_is_for(engine, reason) && engine->desc->start(engine->priv, o))
			return true;
	}
	return false;
}

/* From here on no claim succeeds. */
static void offload_close(struct migrate_copy_offload *o)
{
	guard(spinlock_irq)(&o->lock);
	o->open = false;
}

static void offload_end(struct migrate_copy_offload *o)
{
	struct migrate_copy_engine *engine = o->engine;
	unsigned int pair;

	offload_close(o);
	if (!offload_wait(o))
		count_vm_event(MIGRATE_COPY_ENGINE_LATE);
	engine->desc->end(engine->priv, o);
	/* Never, unless the driver is wrong. */
	while (WARN_ON_ONCE(READ_ONCE(o->inflight)))
		fsleep(USEC_PER_MSEC);
	/* The CPU that returned the last chunk may still hold the lock. */
	spin_lock_irq(&o->lock);
	spin_unlock_irq(&o->lock);

	for_each_set_bit(pair, &o->redo, o->job->nr) {
		migrate_copy_job_copy(o->job, CURSOR(pair, 0),
				      folio_nr_pages(o->job->pairs[pair].src));
		cond_resched();
	}
}

/**
 * migrate_copy_offload_run() - Copy everything in a job, with an engine if possible.
 * @job: The job, freshly prepared. @job->engine_pages and @job->lost_pages are set.
 * @pages: Its base pages.
 * @reason: The migrate_reason of the request.
 * @share: Whether CPUs copy beside the engine.
 * @team: The helpers that may take part, see migrate_copy_job_share().
 * @max_helpers: Most helper CPUs to wake.
 *
 * Like migrate_copy_job_run(). A folio that an engine may still write to counts as
 * failed, and is in quarantine, which may end at any time.
 *
 * Context: Process context, may sleep. Takes no lock under which memory is
 * allocated, and allocates nothing.
 * Return: The number of helper CPUs woken.
 */
unsigned int migrate_copy_offload_run(struct migrate_copy_job *job, unsigned long pages,
				      int reason, bool share, struct migrate_copy_team *team,
				      unsigned int max_helpers)
{
	struct migrate_copy_offload o = {
		.job = job,
		.pages = pages,
		.folios = job->nr,
		.nid = folio_nid(job->pairs[0].dst),
		.workers = 1,
		.alone = !share,
		.cpus = share ? 1 + max_helpers : 0,
		.open = true,
		.progress = jiffies,
	};
	unsigned int woken;
	bool started;
	u64 ns;

	init_waitqueue_head(&o.wait);
	spin_lock_init(&o.lock);
	guard(srcu)(&engines_srcu);
	started = offload_start(&o, reason);
	/* If the engine is stuck, CPUs copy what it has not claimed. */
	if (started && o.alone && !offload_wait(&o))
		offload_close(&o);
	woken = migrate_copy_job_run(job, team, o.nid, max_helpers);
	if (!started)
		return woken;
	offload_end(&o);

	/*
	 * The requesting task charges the time of its helpers after all of them have
	 * left. A helper itself is not in that task's cgroup.
	 */
	ns = atomic64_read(&o.cpu_ns);
	if (migrate_copy_is_helper())
		atomic64_add(ns, &team->work.helper_ns);
	else if (ns)
		migrate_copy_charge(ns);
	return woken;
}

/* How many base pages there are from this one to the next boundary. */
static unsigned long to_boundary(struct page *page, unsigned long boundary_pages)
{
	return boundary_pages - (page_to_pfn(page) & (boundary_pages - 1));
}

/* Take up to want pages off the cursor; returns false if none is left. */
static bool chunk_take(struct migrate_copy_job *job, struct migrate_copy_chunk *chunk,
		       unsigned long want, unsigned long boundary_pages)
{
	s64 cursor = atomic64_read(&job->cursor);
	unsigned int pair, page;

	do {
		pair = CURSOR_PAIR(cursor);
		page = CURSOR_PAGE(cursor);
		chunk->nr_ranges = 0;
		chunk->nr_pages = 0;
		while (chunk->nr_pages < want && pair < job->nr &&
		       chunk->nr_ranges < MIGRATE_COPY_CHUNK_RANGES) {
			struct migrate_copy_range *range = &chunk->ranges[chunk->nr_ranges++];
			unsigned long left = folio_nr_pages(job->pairs[pair].src) - page;

			range->dst = folio_page(job->pairs[pair].dst, page);
			range->src = folio_page(job->pairs[pair].src, page);
			range->nr = min(min(left, want - chunk->nr_pages),
					min(to_boundary(range->dst, boundary_pages),
					    to_boundary(range->src, boundary_pages)));
			chunk->nr_pages += range->nr;
			page += range->nr;
			if (range->nr == left) {
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
 * @o: The job.
 * @chunk: Filled in, and in use until it is returned.
 * @max_pages: Base pages that the engine can take at a time.
 * @boundary_pages: No range is to cross a multiple of this many base pages in
 *	physical memory. A power of two.
 *
 * The rest of the job is divided by the number of copiers, within limits, so that
 * nobody waits for a large chunk at the end.
 *
 * Context: Any, from start() to end().
 * Return: true if there is something to copy; false if there is nothing left, or
 * the engine is to take no more.
 */
bool migrate_copy_chunk_claim(struct migrate_copy_offload *o, struct migrate_copy_chunk *chunk,
			      unsigned long max_pages, unsigned long boundary_pages)
{
	unsigned long left;

	guard(spinlock_irqsave)(&o->lock);
	left = offload_left(o);
	if (!left)
		return false;
	left = clamp(left / (o->workers + o->cpus), MIN_CHUNK_PAGES, MAX_CHUNK_PAGES);
	if (!chunk_take(o->job, chunk, min(left, max_pages), boundary_pages))
		return false;
	chunk->offload = o;
	chunk->engine = o->engine;
	WRITE_ONCE(o->progress, jiffies);
	WRITE_ONCE(o->inflight, o->inflight + 1);
	return true;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_claim);

/**
 * migrate_copy_chunk_copy() - Copy a chunk by this CPU.
 * @chunk: A chunk in flight. It is not returned.
 *
 * The CPU time is charged to the cgroup of the migrating task.
 *
 * Context: Process context. Does not sleep.
 * Return: 0, or -EHWPOISON if a machine check interrupted the copy.
 */
int migrate_copy_chunk_copy(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_job *job = chunk->offload->job;
	u64 start = task_sched_runtime(current);
	unsigned int i, page;
	int err = 0;

	for (i = 0; i < chunk->nr_ranges && !err; i++) {
		struct migrate_copy_range *range = &chunk->ranges[i];

		for (page = 0; page < range->nr && !err; page++)
			err = migrate_copy_job_page(job, range->dst + page, range->src + page);
	}
	if (job->nontemporal)
		wmb();	/* Also after an error: the migrating task will copy there */
	atomic64_add(task_sched_runtime(current) - start, &chunk->offload->cpu_ns);
	return err ? -EHWPOISON : 0;
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_copy);

/* The job may be gone as soon as its lock is free. */
static void chunk_end(const struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_offload *o = chunk->offload;

	lockdep_assert_held(&o->lock);
	WRITE_ONCE(o->progress, jiffies);
	WRITE_ONCE(o->inflight, o->inflight - 1);
	if (offload_is_done(o))
		wake_up(&o->wait);
}

/* Note all folios of a chunk. */
static void chunk_mark(const struct migrate_copy_chunk *chunk, unsigned long *pairs)
{
	const struct migrate_copy_job *job = chunk->offload->job;
	long left = chunk->nr_pages + CURSOR_PAGE(chunk->first);
	unsigned int pair;

	for (pair = CURSOR_PAIR(chunk->first); left > 0; pair++) {
		set_bit(pair, pairs);
		left -= folio_nr_pages(job->pairs[pair].src);
	}
}

/**
 * migrate_copy_chunk_return() - Return a chunk.
 * @chunk: A chunk in flight. Its memory can be used for another claim afterwards.
 * @ok: Whether the content is in its destination. If not, nothing may write
 *	there any more.
 *
 * Context: Any.
 */
void migrate_copy_chunk_return(struct migrate_copy_chunk *chunk, bool ok)
{
	struct migrate_copy_offload *o = chunk->offload;

	guard(spinlock_irqsave)(&o->lock);
	if (ok) {
		o->job->engine_pages += chunk->nr_pages;
	} else {
		count_vm_event(MIGRATE_COPY_ENGINE_FAILED);
		chunk_mark(chunk, &o->redo);
	}
	chunk_end(chunk);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_return);

/**
 * migrate_copy_chunk_lost() - Give up a chunk that may still be written to.
 * @chunk: A chunk in flight. Its memory stays in use until
 *	migrate_copy_chunk_stopped().
 *
 * Context: Any.
 */
void migrate_copy_chunk_lost(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_offload *o = chunk->offload;
	unsigned int i;

	count_vm_event(MIGRATE_COPY_ENGINE_LOST);
	for (i = 0; i < chunk->nr_ranges; i++)
		folio_get(page_folio(chunk->ranges[i].dst));
	atomic_inc(&chunk->engine->quarantined);

	guard(spinlock_irqsave)(&o->lock);
	o->job->lost_pages += chunk->nr_pages;
	chunk_mark(chunk, &o->job->failed);
	chunk_end(chunk);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_lost);

/**
 * migrate_copy_chunk_stopped() - End the quarantine of a lost chunk.
 * @chunk: The chunk. Nothing may write to its destination any more.
 *
 * Context: Process context. Frees folios that only the quarantine has kept.
 */
void migrate_copy_chunk_stopped(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_engine *engine = chunk->engine;
	unsigned int i;

	count_vm_event(MIGRATE_COPY_ENGINE_STOPPED);
	for (i = 0; i < chunk->nr_ranges; i++)
		folio_put(page_folio(chunk->ranges[i].dst));
	/* The engine may go with the last one. */
	if (atomic_dec_and_test(&engine->quarantined))
		wake_up_var(&engine->quarantined);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_stopped);

/* Let jobs use an engine that is switched on and ready, and no other. */
static void engine_set(struct migrate_copy_engine *engine, bool *what, bool value)
{
	bool used;

	guard(mutex)(&engines_lock);
	WRITE_ONCE(*what, value);
	used = engine->offloading && engine->ready;
	if (used && !engine->used)
		static_branch_inc(&migrate_copy_offload_key);
	else if (!used && engine->used)
		static_branch_dec(&migrate_copy_offload_key);
	WRITE_ONCE(engine->used, used);
}

/**
 * migrate_copy_engine_ready() - Say whether an engine has something to copy with.
 * @engine: The engine; not ready when it is registered.
 * @ready: Whether it has.
 *
 * While no engine is ready, migration is as if none were switched on.
 *
 * Context: Process context, may sleep.
 */
void migrate_copy_engine_ready(struct migrate_copy_engine *engine, bool ready)
{
	engine_set(engine, &engine->ready, ready);
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_ready);

#ifdef CONFIG_MIGRATE_COPY_KUNIT_TEST
void migrate_copy_engine_tune(struct migrate_copy_engine *engine, bool offloading,
			      unsigned int timeout_ms, unsigned long reasons)
{
	WRITE_ONCE(engine->timeout_ms, timeout_ms);
	WRITE_ONCE(engine->reasons, reasons);
	engine_set(engine, &engine->offloading, offloading);
}
#endif

static struct migrate_copy_engine *to_engine(struct kobject *kobj)
{
	return container_of(kobj, struct migrate_copy_engine, kobj);
}

static ssize_t offloading_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_engine(kobj)->offloading));
}

static ssize_t offloading_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	bool enable;

	if (kstrtobool(buf, &enable))
		return -EINVAL;
	engine_set(to_engine(kobj), &to_engine(kobj)->offloading, enable);
	return count;
}

static struct kobj_attribute offloading_attr = __ATTR_RW(offloading);

static ssize_t reasons_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return migrate_copy_reasons_print(READ_ONCE(to_engine(kobj)->reasons), buf);
}

static ssize_t reasons_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return migrate_copy_reasons_parse(buf, &to_engine(kobj)->reasons) ?: count;
}

static struct kobj_attribute reasons_attr = __ATTR_RW(reasons);

static ssize_t timeout_ms_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_engine(kobj)->timeout_ms));
}

static ssize_t timeout_ms_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	unsigned int ms;

	if (kstrtouint(buf, 10, &ms) || !ms || ms > MAX_TIMEOUT_MS)
		return -EINVAL;
	WRITE_ONCE(to_engine(kobj)->timeout_ms, ms);
	return count;
}

static struct kobj_attribute timeout_ms_attr = __ATTR_RW(timeout_ms);

static struct attribute *engine_attrs[] = {
	&offloading_attr.attr,
	&reasons_attr.attr,
	&timeout_ms_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(engine);

static void engine_release(struct kobject *kobj)
{
	kfree(to_engine(kobj));
}

static const struct kobj_type engine_ktype = {
	.release = engine_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = engine_groups,
};

/**
 * migrate_copy_engine_register() - Register an engine.
 * @desc: Its description. Must stay until it is unregistered.
 * @priv: Passed to its operations.
 *
 * Jobs use it as soon as it is switched on and ready. Its files can be accessed before
 * this returns.
 *
 * Context: Process context, may sleep.
 * Return: The engine, or an error pointer.
 */
struct migrate_copy_engine *
migrate_copy_engine_register(const struct migrate_copy_engine_desc *desc, void *priv)
{
	struct migrate_copy_engine *engine = kzalloc_obj(*engine);
	int err;

	if (!engine || !engines_kobj) {
		kfree(engine);
		return ERR_PTR(-ENOMEM);
	}
	engine->desc = desc;
	engine->priv = priv;
	engine->reasons = ULONG_MAX;
	engine->timeout_ms = DEFAULT_TIMEOUT_MS;
	err = kobject_init_and_add(&engine->kobj, &engine_ktype, engines_kobj, "%s", desc->name);
	if (!err)
		err = sysfs_create_groups(&engine->kobj, desc->groups);
	if (err) {
		/* Not ready, so that it is not in use even if it was switched on. */
		kobject_put(&engine->kobj);
		return ERR_PTR(err);
	}
	guard(mutex)(&engines_lock);
	static_branch_inc(&migrate_copy_engine_key);
	list_add_tail_rcu(&engine->node, &engines);
	return engine;
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_register);

/**
 * migrate_copy_engine_unregister() - Unregister an engine.
 * @engine: The engine. Gone when this returns.
 *
 * Lost chunks must be declared stopped, before this is called or while it waits.
 *
 * Context: Process context; not from an attribute of the engine. Sleeps until
 * the jobs in flight and the quarantine do not need it any more.
 */
void migrate_copy_engine_unregister(struct migrate_copy_engine *engine)
{
	/* Waits for accesses to its files, which may need engines_lock. */
	kobject_del(&engine->kobj);
	engine_set(engine, &engine->ready, false);
	scoped_guard(mutex, &engines_lock)
		list_del_rcu(&engine->node);

	synchronize_srcu(&engines_srcu);
	wait_var_event(&engine->quarantined, !atomic_read(&engine->quarantined));
	static_branch_dec(&migrate_copy_engine_key);
	kobject_put(&engine->kobj);
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_unregister);

/**
 * migrate_copy_engines_init() - Create the directory of the engines.
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
