// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: a copy engine made of threads, which pull chunks of all jobs.
 *
 * The helper CPUs (helpers.c) are the better choice for most: they work only
 * where a CPU is idle, near the destination. The threads of mtcopy are
 * scheduled as any others are, on whatever CPU, up to as many as the
 * administrator says: for comparison, and for machines whose idle CPUs are not
 * known to be idle, such as guests.
 *
 * A thread claims a chunk and copies it with preemption disabled. So a caller that
 * waits for a chunk waits for the copy alone, and a thread that does not get a
 * CPU holds nothing.
 */
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/kthread.h>
#include <linux/migrate_copy_engine.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/wait.h>

#define MAX_THREADS	64

/* What a thread claims at a time: it is not preempted while it copies that. */
#define CHUNK_PAGES	DIV_ROUND_UP(SZ_128K, PAGE_SIZE)

/**
 * struct mtcopy_thread - one thread
 * @task: The thread, or NULL.
 * @share: The job whose chunk it copies, or NULL.
 * @chunk: The chunk.
 */
struct mtcopy_thread {
	struct task_struct *task;
	struct migrate_copy_share *share;
	struct migrate_copy_chunk chunk;
};

static const struct migrate_copy_limits limits = {
	.chunk_pages = CHUNK_PAGES,
};

/* Serializes changes of the number of threads. */
static DEFINE_MUTEX(threads_lock);
static struct mtcopy_thread threads[MAX_THREADS];
static unsigned int nr_threads;

/* Protects the list of all shares. */
static DEFINE_SPINLOCK(shares_lock);
static LIST_HEAD(shares);
static DECLARE_WAIT_QUEUE_HEAD(shares_wait);

static struct migrate_copy_engine *engine;

/* Claim a chunk, of another job than the last one if there are several. */
static bool mtcopy_claim(struct mtcopy_thread *me)
{
	struct migrate_copy_share *share;
	bool claimed = false;

	spin_lock(&shares_lock);
	list_for_each_entry(share, &shares, node) {
		claimed = migrate_copy_chunk_claim(share, &me->chunk, &limits);
		if (claimed) {
			list_move_tail(&share->node, &shares);
			WRITE_ONCE(me->share, share);
			break;
		}
	}
	spin_unlock(&shares_lock);
	return claimed;
}

/* Claim a chunk and copy it; false if there is none. */
static bool mtcopy_copy(struct mtcopy_thread *me)
{
	guard(preempt)();
	if (!mtcopy_claim(me))
		return false;
	/* A machine check is the caller's: it finds it again. */
	migrate_copy_chunk_return(&me->chunk,
				  !migrate_copy_chunk_copy(&me->chunk));
	/* Pairs with the acquire in mtcopy_end(): we are through with it. */
	smp_store_release(&me->share, NULL);
	return true;
}

static int mtcopy_run(void *data)
{
	struct mtcopy_thread *me = data;

	while (!kthread_should_stop()) {
		/* In the condition, so that no wake-up is missed. */
		wait_event_idle_exclusive(shares_wait, mtcopy_copy(me) ||
					  kthread_should_stop());
		cond_resched();
	}
	return 0;
}

static bool mtcopy_start(void *priv, struct migrate_copy_share *share)
{
	unsigned long pages = share->info->pages;
	unsigned long chunks = DIV_ROUND_UP(pages, CHUNK_PAGES);

	if (!READ_ONCE(nr_threads))
		return false;
	spin_lock(&shares_lock);
	list_add_tail(&share->node, &shares);
	spin_unlock(&shares_lock);
	wake_up_nr(&shares_wait, min(chunks, MAX_THREADS));
	return true;
}

/* Who copies is not preempted: there is next to nothing to wait for. */
static void mtcopy_end(void *priv, struct migrate_copy_share *share)
{
	unsigned int i;

	spin_lock(&shares_lock);
	list_del(&share->node);
	spin_unlock(&shares_lock);
	for (i = 0; i < MAX_THREADS; i++) {
		/* Pairs with the release in mtcopy_copy(). */
		while (smp_load_acquire(&threads[i].share) == share)
			cpu_relax();
	}
}

static const struct migrate_copy_engine_ops mtcopy_ops = {
	.start = mtcopy_start,
	.end = mtcopy_end,
};

/* Have so many threads; returns an error if there are fewer. */
static int mtcopy_set_threads(unsigned int nr)
{
	lockdep_assert_held(&threads_lock);
	while (nr_threads > nr) {
		WRITE_ONCE(nr_threads, nr_threads - 1);
		kthread_stop(threads[nr_threads].task);
	}
	while (nr_threads < nr) {
		struct task_struct *task;

		task = kthread_run(mtcopy_run, &threads[nr_threads],
				   "mtcopy/%u", nr_threads);
		if (IS_ERR(task))
			return PTR_ERR(task);
		threads[nr_threads].task = task;
		WRITE_ONCE(nr_threads, nr_threads + 1);
	}
	return 0;
}

static ssize_t threads_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(nr_threads));
}

static ssize_t threads_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned int nr;

	if (kstrtouint(buf, 10, &nr) || nr > MAX_THREADS)
		return -EINVAL;
	guard(mutex)(&threads_lock);
	return mtcopy_set_threads(nr) ?: count;
}

static struct kobj_attribute threads_attr = __ATTR_RW(threads);

static struct attribute *mtcopy_attrs[] = {
	&threads_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(mtcopy);

static const struct migrate_copy_engine_desc mtcopy_desc = {
	.name = "mtcopy",
	.ops = &mtcopy_ops,
	.groups = mtcopy_groups,
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
