// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: a copy engine made of kernel threads.
 *
 * Helper CPUs (helpers.c) are the better choice in most cases: they work only on
 * idle CPUs near the destination. These threads run wherever the scheduler
 * puts them, as many as the administrator says: for comparison, and for guests,
 * where an idle virtual CPU may lack a physical one.
 *
 * A thread claims and copies a chunk with preemption disabled. So the migrating task
 * waits for a copy at most, never for a thread that does not get a CPU.
 */
#include <linux/kthread.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sizes.h>

#define MAX_THREADS	64

/* A thread is not preempted while it copies that much. */
#define CHUNK_PAGES	DIV_ROUND_UP(SZ_128K, PAGE_SIZE)

/* Serializes changes of the number of threads. */
static DEFINE_MUTEX(threads_lock);
static struct task_struct *threads[MAX_THREADS];
static unsigned int nr_threads;

/* Protects the list of jobs. */
static DEFINE_SPINLOCK(jobs_lock);
static LIST_HEAD(jobs);
static DECLARE_WAIT_QUEUE_HEAD(jobs_wait);

static struct migrate_copy_engine *engine;

/* Claim a chunk, of each job in turn. */
static bool mtcopy_claim(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_offload *job;

	guard(spinlock)(&jobs_lock);
	list_for_each_entry(job, &jobs, node) {
		if (migrate_copy_chunk_claim(job, chunk, CHUNK_PAGES, MAX_FOLIO_NR_PAGES)) {
			list_move_tail(&job->node, &jobs);
			return true;
		}
	}
	return false;
}

static bool mtcopy_copy(void)
{
	struct migrate_copy_chunk chunk;

	guard(preempt)();
	if (!mtcopy_claim(&chunk))
		return false;
	/* The migrating task will run into a machine check again, and handle it. */
	migrate_copy_chunk_return(&chunk, !migrate_copy_chunk_copy(&chunk));
	return true;
}

static int mtcopy_run(void *unused)
{
	while (!kthread_should_stop()) {
		/* It copies in the condition, so that no wake-up is missed. */
		wait_event_idle_exclusive(jobs_wait, mtcopy_copy() || kthread_should_stop());
		cond_resched();
	}
	/* The wake-up of a job may have been for this thread alone. */
	wake_up(&jobs_wait);
	return 0;
}

static bool mtcopy_start(void *priv, struct migrate_copy_offload *job)
{
	job->workers = READ_ONCE(nr_threads);
	if (!job->workers)
		return false;
	scoped_guard(spinlock, &jobs_lock)
		list_add_tail(&job->node, &jobs);
	wake_up_nr(&jobs_wait, min(DIV_ROUND_UP(job->pages, CHUNK_PAGES), MAX_THREADS));
	return true;
}

static void mtcopy_end(void *priv, struct migrate_copy_offload *job)
{
	scoped_guard(spinlock, &jobs_lock)
		list_del(&job->node);
	/* Threads that have a chunk are running. */
	while (READ_ONCE(job->inflight))
		cpu_relax();
}

static int mtcopy_set_threads(unsigned int nr)
{
	struct task_struct *task;

	while (nr_threads > nr) {
		WRITE_ONCE(nr_threads, nr_threads - 1);
		kthread_stop(threads[nr_threads]);
	}
	while (nr_threads < nr) {
		task = kthread_run(mtcopy_run, NULL, "mtcopy/%u", nr_threads);
		if (IS_ERR(task))
			return PTR_ERR(task);
		threads[nr_threads] = task;
		WRITE_ONCE(nr_threads, nr_threads + 1);
	}
	return 0;
}

static ssize_t threads_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(nr_threads));
}

static ssize_t threads_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned int nr;
	int err;

	if (kstrtouint(buf, 10, &nr) || nr > MAX_THREADS)
		return -EINVAL;
	guard(mutex)(&threads_lock);
	/* The file is there before the engine is. */
	if (IS_ERR_OR_NULL(engine))
		return -EAGAIN;
	err = mtcopy_set_threads(nr);
	migrate_copy_engine_ready(engine, nr_threads);
	return err ?: count;
}

static struct kobj_attribute threads_attr = __ATTR_RW(threads);

static struct attribute *mtcopy_attrs[] = {
	&threads_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(mtcopy);

static const struct migrate_copy_engine_desc mtcopy_desc = {
	.name = "mtcopy",
	.groups = mtcopy_groups,
	.start = mtcopy_start,
	.end = mtcopy_end,
};

static int __init mtcopy_init(void)
{
	engine = migrate_copy_engine_register(&mtcopy_desc, NULL);
	return PTR_ERR_OR_ZERO(engine);
}
late_initcall_sync(mtcopy_init);

static void __exit mtcopy_exit(void)
{
	migrate_copy_engine_unregister(engine);
	guard(mutex)(&threads_lock);
	mtcopy_set_threads(0);
}
module_exit(mtcopy_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("Copies folios by threads for page migration");
MODULE_LICENSE("GPL");
