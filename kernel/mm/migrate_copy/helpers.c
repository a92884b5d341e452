// SPDX-License-Identifier: GPL-2.0-only
/*
 * The helper CPUs of the migration copy.
 *
 * Every CPU has one slot, which the migrating task (the caller) fills and
 * empties. Its states:
 *
 *	NULL	free
 *	work	offered: the helper may take the work, the caller may retract it
 *	BUSY	the helper does a step of the work
 *
 * Only the caller moves a slot from NULL to its work and from its work back to
 * NULL; only the helper moves it to BUSY and back to the work, around a single
 * step. Hence:
 *
 * - the work, which lies on the caller's stack, is touched by a helper only
 *   while the slot is BUSY, and the caller leaves only after it has emptied
 *   every slot it filled: a helper that runs later finds nothing;
 * - the caller waits for steps in flight at most, never for a helper that has
 *   not started, or that was preempted between two steps, nor for another step
 *   that a helper begins meanwhile: it says before that the work ends.
 *
 * A step that copies a chunk runs with preemption disabled, and ends when the
 * copy does. One that migrates a batch may sleep, as it would in the caller.
 *
 * The helper's release of its slot pairs with the full barrier of the caller's
 * retraction: what the helper did is visible to the caller then.
 */
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/delay.h>
#include <linux/local_lock.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/rt.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#include <linux/topology.h>
#include <linux/workqueue.h>
#include <trace/events/migrate_copy.h>

#include "internal.h"

/*
 * How often the caller looks at a slot that is BUSY before it sleeps between
 * the looks. Usually the helper has only the rest of a chunk left; if it takes
 * longer, then it is a batch that it has the rest of, or its CPU was taken away
 * by an interrupt or by a hypervisor.
 */
#define RETRACT_SPINS	10000
#define RETRACT_SLEEP_US	50

/*
 * How many CPUs are asked whether they are idle, which is a look at their run
 * queue and at those of their siblings. On a busy machine with hundreds of CPUs,
 * asking all of them for each batch would cost more than it could win.
 */
#define MAX_PROBES	256

#define SLOT_BUSY	((struct migrate_copy_work *)1UL)

struct migrate_copy_helper {
	struct migrate_copy_work *slot;
	/* Next helper of the same work; the caller's while it owns the slot. */
	struct migrate_copy_helper *next;
	struct work_struct item;
	int cpu;
	bool busy_too;
	bool look_again;	/* There may be a step that it has not seen */
	/* During a step, and its own: the work, and what helpers of it took. */
	struct migrate_copy_work *work;
	u64 nested_ns;
} ____cacheline_aligned_in_smp;

/*
 * The helpers of a CPU, one for each priority, and their workqueues. A work item
 * must not be on two queues: it could run twice at the same time.
 */
static DEFINE_PER_CPU_SHARED_ALIGNED(struct migrate_copy_helper
				     [MIGRATE_COPY_NR_PRIORITIES], helpers);
static struct workqueue_struct *helper_wq[MIGRATE_COPY_NR_PRIORITIES];

/* The masks of a search, which would be too large for a stack. */
struct migrate_copy_masks {
	local_lock_t lock;
	struct cpumask left;
	struct cpumask untried;
	struct cpumask round;
};

static DEFINE_PER_CPU(struct migrate_copy_masks, masks) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* A search, and what it is for. */
struct helper_search {
	struct migrate_copy_search search;
	struct migrate_copy_work *work;
};

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

static void help(struct work_struct *item);

/*
 * The helper that this task is, in the middle of a step; or NULL. A worker of
 * somebody else's may have freed its item already, which must not be touched:
 * those of helpers are per CPU, as little else is.
 */
static struct migrate_copy_helper *this_helper(void)
{
	struct work_struct *item = current_work();

	if (!item || !is_kernel_percpu_address((unsigned long)item) ||
	    item->func != help)
		return NULL;
	return container_of(item, struct migrate_copy_helper, item);
}

/* Do a step of the work, which is this helper's for the moment. */
static bool do_step(struct migrate_copy_helper *me,
		    struct migrate_copy_work *work)
{
	u64 start, ns;
	bool more;

	if (work->sleeps)
		preempt_enable();

	me->work = work;
	start = task_sched_runtime(current);
	more = work->step(work);
	ns = task_sched_runtime(current) - start;
	atomic64_add(ns + me->nested_ns, &work->helper_ns);
	me->nested_ns = 0;

	if (work->sleeps)
		preempt_disable();
	return more;
}

/* May it go on? Its CPU was idle when it was asked, but for high priority. */
static bool may_help(const struct migrate_copy_helper *me)
{
	return me->busy_too || test_any_cpu() || single_task_running();
}

/*
 * Do steps of the work in the slot until it is gone or has none left, or until
 * the CPU has somebody else to run: the caller does the rest, or wakes us again
 * when the CPU is idle.
 */
static void help(struct work_struct *item)
{
	struct migrate_copy_helper *me =
		container_of(item, struct migrate_copy_helper, item);
	struct migrate_copy_work *work;
	bool more = true;

	while (more && may_help(me)) {
		more = false;
		preempt_disable();
		work = READ_ONCE(me->slot);
		/* Pairs with the full barrier of offer(): the work is ready. */
		if (work && try_cmpxchg_acquire(&me->slot, &work, SLOT_BUSY)) {
			if (!READ_ONCE(work->ends)) {
				trace_migrate_copy_help(work->sleeps);
				more = do_step(me, work);
			}
			/* Pairs with the full barrier in retract(). */
			smp_store_release(&me->slot, work);
			/* Who found us in that step has set this, see wake_again(). */
			smp_mb();
			if (READ_ONCE(me->look_again)) {
				WRITE_ONCE(me->look_again, false);
				more = true;
			}
		}
		preempt_enable();
		/* Who has waited for a moment's work does it here. */
		cond_resched();
	}
}

static enum migrate_copy_priority priority_of(const struct migrate_copy_work *work)
{
	return work->highpri && !migrate_copy_one_queue(work) ?
	       MIGRATE_COPY_HIGH : MIGRATE_COPY_NORMAL;
}

/* Offer the work to one CPU, unless its slot is taken. */
static bool offer(struct migrate_copy_work *work, int cpu)
{
	enum migrate_copy_priority priority = priority_of(work);
	struct migrate_copy_helper *h = &per_cpu(helpers, cpu)[priority];
	struct migrate_copy_work *none = NULL;

	if (READ_ONCE(h->slot) || !try_cmpxchg(&h->slot, &none, work))
		return false;

	h->next = work->helpers;
	work->helpers = h;
	work->nr_helpers++;
	/*
	 * With one queue for all, a slot has work of both priorities. A helper
	 * that does not see it in time sees it when its item runs again.
	 */
	if (IS_ENABLED(CONFIG_MIGRATE_COPY_JUDGE))
		WRITE_ONCE(h->busy_too, work->highpri);
	/*
	 * If the item is still queued from earlier work, it will find this. If
	 * the CPU goes away, the item runs elsewhere, or too late.
	 */
	queue_work_on(cpu, helper_wq[priority], &h->item);
	return true;
}

/* Does a helper of this CPU have work? It may not have started yet. */
static bool helps(int cpu, enum migrate_copy_priority priority)
{
	return READ_ONCE(per_cpu(helpers, cpu)[priority].slot);
}

/* Does it run what no workqueue takes the CPU from, and no chunk should delay? */
static bool runs_realtime(int cpu)
{
	bool realtime;

	rcu_read_lock();
	realtime = rt_or_dl_task(cpu_curr_snapshot(cpu));
	rcu_read_unlock();
	return realtime;
}

static enum migrate_copy_cpu_use use_of(struct migrate_copy_search *s, int cpu)
{
	if (!cpu_online(cpu))
		return MIGRATE_COPY_CPU_OFFLINE;
	if (test_any_cpu())
		return MIGRATE_COPY_CPU_IDLE;
	if (cpu == s->this_cpu || helps(cpu, MIGRATE_COPY_HIGH) ||
	    cpu_is_isolated(cpu) || !housekeeping_cpu(cpu, HK_TYPE_WQ))
		return MIGRATE_COPY_CPU_TAKEN;
	if (s->busy_too && runs_realtime(cpu))
		return MIGRATE_COPY_CPU_TAKEN;
	if (helps(cpu, MIGRATE_COPY_NORMAL))
		return MIGRATE_COPY_CPU_HELPS;
	if (available_idle_cpu(cpu))
		return MIGRATE_COPY_CPU_IDLE;
	return MIGRATE_COPY_CPU_BUSY;
}

static bool take_cpu(struct migrate_copy_search *s, int cpu)
{
	if (!offer(container_of(s, struct helper_search, search)->work, cpu))
		return false;
	trace_migrate_copy_wake(cpu, s->nid, s->busy_too);
	return true;
}

static const struct cpumask *cpus_of_node(int nid)
{
	return cpumask_of_node(nid);
}

static const struct cpumask *siblings_of(int cpu)
{
	return topology_sibling_cpumask(cpu);
}

static int distance_of(int from, int to)
{
	return node_distance(from, to);
}

static const struct migrate_copy_cpus this_machine = {
	.nodes = &node_states[N_CPU],
	.of_node = cpus_of_node,
	.siblings = siblings_of,
	.distance = distance_of,
	.share_cache = cpus_share_cache,
	.use = use_of,
	.take = take_cpu,
};

/**
 * migrate_copy_work_init() - Prepare something for several CPUs to do.
 * @work: The work; usually on the caller's stack.
 * @step: Does the next step; returns false when none is left to begin.
 * @sleeps: Whether @step may sleep.
 *
 * Context: Any.
 */
void migrate_copy_work_init(struct migrate_copy_work *work,
			    bool (*step)(struct migrate_copy_work *work),
			    bool sleeps)
{
	struct migrate_copy_helper *me = this_helper();

	work->step = step;
	work->sleeps = sleeps;
	work->highpri = false;
	migrate_copy_choose_queue(work);
	work->ends = false;
	work->caller = me ? me->work->caller : current;
	work->helpers = NULL;
	work->nr_helpers = 0;
	atomic64_set(&work->helper_ns, 0);
}

/*
 * The CPUs that may help: those of the caller's cpuset, which is what bounds the
 * CPUs that a container may use. Its affinity does not: a task that has pinned
 * itself has said where it wants to run, not that nobody may help it, and would
 * otherwise never have help. Kernel threads work for the whole machine.
 *
 * The lock in there is a spinlock under which nothing is allocated or waited
 * for; the page allocator takes it, too.
 */
static void find_allowed(struct task_struct *caller, struct cpumask *allowed)
{
	if (!cpusets_enabled() || caller->flags & PF_KTHREAD) {
		cpumask_copy(allowed, cpu_online_mask);
		return;
	}
	cpuset_cpus_allowed(caller, allowed);
	cpumask_and(allowed, allowed, cpu_online_mask);
}

/**
 * migrate_copy_helpers_wake() - Offer work to other CPUs.
 * @work: The work; must be retracted with migrate_copy_helpers_retract().
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most CPUs to offer it to.
 *
 * The order is that of placement.c. CPUs that are isolated, not in the caller's
 * cpuset, or already help with other work are left alone; and busy ones, unless
 * the work has high priority and what runs there is not real-time.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 * Return: The number of CPUs @work was offered to, 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_wake(struct migrate_copy_work *work, int nid,
				       unsigned int max_helpers)
{
	struct helper_search hs = {
		.search = {
			.cpus = &this_machine,
			.nid = nid,
			.fill = READ_ONCE(migrate_copy_placement) ==
				MIGRATE_COPY_FILL,
			.busy_too = work->highpri,
			.want = max_helpers,
			.probes = MAX_PROBES,
		},
		.work = work,
	};
	struct migrate_copy_search *s = &hs.search;
	struct migrate_copy_masks *mine;

	if (unlikely(!helper_wq[MIGRATE_COPY_HIGH]))
		return 0;

	local_lock(&masks.lock);
	mine = this_cpu_ptr(&masks);
	s->left = &mine->left;
	s->untried = &mine->untried;
	s->round = &mine->round;
	s->this_cpu = smp_processor_id();
	if (s->nid == NUMA_NO_NODE)
		s->nid = numa_node_id();
	find_allowed(work->caller, s->left);
	cpumask_clear_cpu(s->this_cpu, s->left);
	migrate_copy_place(s);
	local_unlock(&masks.lock);

	return work->nr_helpers;
}

/* Look for steps again, unless the CPU has got something else to do. */
static bool wake_again(struct migrate_copy_helper *h,
		       struct migrate_copy_work *work)
{
	struct workqueue_struct *wq = helper_wq[priority_of(work)];

	if (READ_ONCE(h->slot) != work) {
		/*
		 * In the middle of a step it looks again without that, unless
		 * the step was to find out that there is none. Queueing its item
		 * would do as well, but wake a worker on its CPU, for whom it
		 * would make way.
		 */
		WRITE_ONCE(h->look_again, true);
		/* Pairs with that of help(): it sees this, or we its slot. */
		smp_mb();
		if (READ_ONCE(h->slot) != work)
			return false;
	}
	if (!cpu_online(h->cpu))
		return false;
	if (!work->highpri && !available_idle_cpu(h->cpu))
		return false;
	return queue_work_on(h->cpu, wq, &h->item);
}

/**
 * migrate_copy_helpers_wake_again() - There is one more step to do.
 * @work: The work, offered to CPUs by migrate_copy_helpers_wake().
 *
 * One of its helpers that have found no step, or have made way for somebody,
 * looks again, if its CPU is one that may help by now; the others have not
 * stopped looking.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 */
void migrate_copy_helpers_wake_again(struct migrate_copy_work *work)
{
	struct migrate_copy_helper *h;

	for (h = work->helpers; h; h = h->next) {
		if (wake_again(h, work))
			break;
	}
}

/*
 * Charge the helpers' time to the cgroup of the caller, who asked for it. The
 * helpers themselves are in the root cgroup, whose time is that of the machine:
 * there it is counted already, and only there. A helper that was helped itself
 * hands the bill on.
 */
static void charge(u64 ns)
{
	struct migrate_copy_helper *me = this_helper();
#ifdef CONFIG_CGROUPS
	struct cgroup *cgrp;
	unsigned long flags;
#endif

	if (me) {
		me->nested_ns += ns;
		return;
	}
	migrate_copy_stat_add(MIGRATE_COPY_HELPER_NS, ns);

#ifdef CONFIG_CGROUPS
	rcu_read_lock();
	cgrp = task_dfl_cgroup(current);
	if (cgroup_parent(cgrp)) {
		/* The tick counts in the same place. */
		local_irq_save(flags);
		__cgroup_account_cputime(cgrp, ns);
		__cgroup_account_cputime_field(cgrp, CPUTIME_SYSTEM, ns);
		local_irq_restore(flags);
	}
	rcu_read_unlock();
#endif
}

/* Empty a slot, or say that its helper is in the middle of a step. */
static bool retract(struct migrate_copy_helper *h,
		    struct migrate_copy_work *work)
{
	/*
	 * A full barrier on success. It pairs with the release in help(): what
	 * was done is visible. And it orders the caller's read of h->next
	 * before the slot is free, after which h->next is somebody else's.
	 */
	return READ_ONCE(h->slot) == work &&
	       cmpxchg(&h->slot, work, NULL) == work;
}

/**
 * migrate_copy_helpers_retract() - Take work back from all its helpers.
 * @work: The work. Of the steps that are left, none is begun any more.
 *
 * The time that the helpers took is charged to the caller's cgroup.
 *
 * Context: Process context, may sleep until the steps in flight have ended.
 * When it returns no helper knows @work, and what they did is visible.
 */
void migrate_copy_helpers_retract(struct migrate_copy_work *work)
{
	unsigned int spins = test_no_spin() ? 0 : RETRACT_SPINS;
	struct migrate_copy_helper *h, *next;
	u64 ns;

	WRITE_ONCE(work->ends, true);
	for (h = work->helpers; h; h = next) {
		/* Once the slot is free, the next work owns h->next. */
		next = h->next;
		while (!retract(h, work)) {
			if (spins) {
				spins--;
				cpu_relax();
			} else {
				fsleep(RETRACT_SLEEP_US);
			}
		}
	}
	work->helpers = NULL;
	work->nr_helpers = 0;

	ns = atomic64_read(&work->helper_ns);
	if (ns)
		charge(ns);
}

/**
 * migrate_copy_helpers_init() - Set up the helpers of all possible CPUs.
 *
 * Context: Boot, may sleep.
 * Return: 0, or -ENOMEM, with which every caller works alone.
 */
int __init migrate_copy_helpers_init(void)
{
	int cpu, priority;

	for_each_possible_cpu(cpu) {
		struct migrate_copy_helper *of_cpu = per_cpu(helpers, cpu);

		for (priority = 0; priority < MIGRATE_COPY_NR_PRIORITIES;
		     priority++) {
			INIT_WORK(&of_cpu[priority].item, help);
			of_cpu[priority].cpu = cpu;
			of_cpu[priority].busy_too =
				priority == MIGRATE_COPY_HIGH;
		}
	}

	/*
	 * Bound, so that a chosen CPU is the one that wakes up. A long copy must
	 * not delay other work items of its CPU.
	 */
	helper_wq[MIGRATE_COPY_NORMAL] =
		alloc_workqueue("migrate_copy",
				WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE, 0);
	if (!helper_wq[MIGRATE_COPY_NORMAL])
		return -ENOMEM;

	helper_wq[MIGRATE_COPY_HIGH] =
		alloc_workqueue("migrate_copy_high", WQ_HIGHPRI |
				WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE, 0);
	return helper_wq[MIGRATE_COPY_HIGH] ? 0 : -ENOMEM;
}
