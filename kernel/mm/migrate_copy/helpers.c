// SPDX-License-Identifier: GPL-2.0-only
/*
 * The helper CPUs of the migration copy.
 *
 * Every CPU has one slot, which the migrating task (the caller) fills and
 * empties. Its states:
 *
 *	NULL	free
 *	job	offered: the helper may take the job, the caller may retract it
 *	BUSY	the helper copies a chunk of the job
 *
 * Only the caller moves a slot from NULL to its job and from its job back to
 * NULL; only the helper moves it to BUSY and back to the job. The helper does
 * the latter pair with preemption disabled, around a single chunk. Hence:
 *
 * - the job, which lies on the caller's stack, is touched by a helper only
 *   while the slot is BUSY, and the caller leaves only after it has emptied
 *   every slot it filled: a helper that runs later finds nothing;
 * - the caller waits for a chunk in flight at most, never for a helper that
 *   has not started or has been preempted.
 *
 * The helper's release of its slot pairs with the full barrier of the caller's
 * retraction: the copied content is visible to the caller then.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "internal.h"

/*
 * How often the caller looks at a slot that is BUSY before it sleeps between
 * the looks. Usually the helper has only the rest of a chunk left; if it takes
 * longer, then its CPU was taken away by an interrupt or by a hypervisor.
 */
#define RETRACT_SPINS	10000
#define RETRACT_SLEEP_US	50

/*
 * How many CPUs away from the destination node are asked whether they are
 * idle. On a busy machine with hundreds of CPUs, asking all of them for each
 * batch would cost more than it could win.
 */
#define MAX_PROBES	64

#define SLOT_BUSY	((struct migrate_copy_job *)1UL)

struct migrate_copy_helper {
	struct migrate_copy_job *slot;
	/* Next helper of the same job; the caller's while it owns the slot. */
	struct migrate_copy_helper *next;
	struct work_struct work;
} ____cacheline_aligned_in_smp;

static DEFINE_PER_CPU_SHARED_ALIGNED(struct migrate_copy_helper, helper);
static struct workqueue_struct *helper_wq;

#ifdef CONFIG_MIGRATE_COPY_KUNIT_TEST
static bool test_any_cpu(void)
{
	return READ_ONCE(migrate_copy_test.any_cpu);
}

static bool test_no_spin(void)
{
	return READ_ONCE(migrate_copy_test.no_spin);
}
#else
static bool test_any_cpu(void)
{
	return false;
}

static bool test_no_spin(void)
{
	return false;
}
#endif

/* Copy chunks of the job in the slot until it is gone or has none left. */
static void help(struct work_struct *work)
{
	struct migrate_copy_helper *me =
		container_of(work, struct migrate_copy_helper, work);
	struct migrate_copy_job *job;
	unsigned long nr;

	do {
		nr = 0;
		preempt_disable();
		job = READ_ONCE(me->slot);
		/* Pairs with the full barrier of offer(): the job is ready. */
		if (job && try_cmpxchg_acquire(&me->slot, &job, SLOT_BUSY)) {
			nr = migrate_copy_job_chunk(job);
			atomic_long_add(nr, &job->helper_pages);
			/* Pairs with the full barrier in retract(). */
			smp_store_release(&me->slot, job);
		}
		preempt_enable();
		cond_resched();
	} while (nr);
}

/* Offer the job to one CPU, unless its slot is taken. */
static bool offer(struct migrate_copy_job *job, int cpu)
{
	struct migrate_copy_helper *h = per_cpu_ptr(&helper, cpu);
	struct migrate_copy_job *none = NULL;

	if (READ_ONCE(h->slot) || !try_cmpxchg(&h->slot, &none, job))
		return false;

	h->next = job->helpers;
	job->helpers = h;
	job->nr_helpers++;
	/*
	 * If the work is still queued from an earlier job, it will find this
	 * one. If the CPU goes away, the work runs elsewhere, or too late.
	 */
	queue_work_on(cpu, helper_wq, &h->work);
	return true;
}

static bool can_help(int cpu)
{
	if (test_any_cpu())
		return cpu_online(cpu);

	return cpu_online(cpu) && available_idle_cpu(cpu) &&
	       !cpu_is_isolated(cpu) && housekeeping_cpu(cpu, HK_TYPE_WQ);
}

/**
 * migrate_copy_helpers_wake() - Offer a job to idle CPUs.
 * @job: The job; must be retracted with migrate_copy_helpers_retract().
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most CPUs to offer it to.
 *
 * After the CPUs of the node come those that follow the caller's own in number,
 * which usually are its neighbours. CPUs that are busy, isolated, or already
 * help another job are left alone.
 *
 * Context: Process context. Takes no lock that reclaim may hold, allocates
 * nothing.
 * Return: The number of CPUs the job was offered to, 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_wake(struct migrate_copy_job *job, int nid,
				       unsigned int max_helpers)
{
	const struct cpumask *near = nid == NUMA_NO_NODE ? cpu_none_mask :
							   cpumask_of_node(nid);
	int this_cpu = raw_smp_processor_id();
	unsigned int probes = MAX_PROBES;
	int cpu;

	if (unlikely(!helper_wq))
		return 0;

	for_each_cpu(cpu, near) {
		if (job->nr_helpers >= max_helpers)
			return job->nr_helpers;
		if (cpu != this_cpu && can_help(cpu))
			offer(job, cpu);
	}
	for_each_cpu_wrap(cpu, cpu_online_mask, this_cpu) {
		if (job->nr_helpers >= max_helpers || !probes)
			break;
		if (cpu == this_cpu || cpumask_test_cpu(cpu, near))
			continue;
		probes--;
		if (can_help(cpu))
			offer(job, cpu);
	}
	return job->nr_helpers;
}

/* Empty a slot, or say that its helper is in the middle of a chunk. */
static bool retract(struct migrate_copy_helper *h,
		    struct migrate_copy_job *job)
{
	/*
	 * A full barrier on success. It pairs with the release in help(): what
	 * was copied is visible. And it orders the caller's read of h->next
	 * before the slot is free, after which h->next is somebody else's.
	 */
	return READ_ONCE(h->slot) == job && cmpxchg(&h->slot, job, NULL) == job;
}

/**
 * migrate_copy_helpers_retract() - Take a job back from all its helpers.
 * @job: The job. No chunk of it may be left to claim.
 *
 * Context: Process context, may sleep until the chunks in flight are copied.
 * When it returns no helper knows @job, and what they copied is visible.
 */
void migrate_copy_helpers_retract(struct migrate_copy_job *job)
{
	unsigned int spins = test_no_spin() ? 0 : RETRACT_SPINS;
	struct migrate_copy_helper *h, *next;

	for (h = job->helpers; h; h = next) {
		/* Once the slot is free, the next job owns h->next. */
		next = h->next;
		while (!retract(h, job)) {
			if (spins) {
				spins--;
				cpu_relax();
			} else {
				fsleep(RETRACT_SLEEP_US);
			}
		}
	}
	job->helpers = NULL;
	job->nr_helpers = 0;
}

/**
 * migrate_copy_helpers_init() - Set up the helpers of all possible CPUs.
 *
 * Context: Boot, may sleep.
 * Return: 0, or -ENOMEM, with which every job is copied by its caller alone.
 */
int __init migrate_copy_helpers_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		INIT_WORK(&per_cpu_ptr(&helper, cpu)->work, help);

	/*
	 * Bound, so that a chosen idle CPU is the one that wakes up. A long
	 * copy must not delay other work items of its CPU.
	 */
	helper_wq = alloc_workqueue("migrate_copy",
				    WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE, 0);
	return helper_wq ? 0 : -ENOMEM;
}
