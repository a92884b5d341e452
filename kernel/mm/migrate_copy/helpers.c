// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who helps: workers of an unbound workqueue, woken on CPUs that are idle.
 *
 * The migrating task (the caller) offers its work to CPUs, each of which has one
 * slot for that:
 *
 *	NULL	free
 *	work	offered: the helper may take the work, the caller may retract it
 *	BUSY	a helper does steps of the work
 *
 * The caller moves a slot from NULL to its work, and back if no helper has taken
 * it. The helper moves it to BUSY, does steps until none is left or its CPU is
 * wanted, and then frees the slot itself. The work counts who is at it: the caller
 * and each helper that was asked and has not been retracted. The last one to leave
 * says so. Hence:
 *
 * - the work, which lies on the caller's stack, is touched by a helper only while
 *   it is counted, and the caller leaves only when nobody else is;
 * - the caller waits for steps in flight at most, never for a helper that has not
 *   started, nor for another step that a helper begins in the meantime: it says
 *   before that the work ends;
 * - a helper that has left can help others, whatever its former caller does.
 *
 * A slot belongs to the CPU that is asked. The worker begins there, but it is no
 * prisoner: the scheduler moves it as any other task. A real-time task that takes
 * the CPU in the middle of a step delays the step until another CPU is idle.
 *
 * A helper never has more than its caller has: it takes no CPU outside of the
 * caller's cpuset, its priority is not above the caller's unless the work has high
 * priority, and its time comes from the caller's bandwidth.
 */
#include <linux/cgroup.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
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
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#define CREATE_TRACE_POINTS
#include <trace/events/migrate_copy.h>

#include "internal.h"

/*
 * How often the caller looks whether the last helper has left before it sleeps:
 * usually there is only the rest of a chunk to wait for.
 */
#define LEAVE_SPINS	2000

/*
 * How many CPUs are asked whether they are idle, which is a look at their run
 * queue and at those of their siblings. On a busy machine with hundreds of CPUs,
 * asking all of them for each batch would cost more than it could win.
 */
#define MAX_PROBES	256

/* How much of the caller's bandwidth a helper borrows at a time: a step, or some. */
#define BORROW_NS	(2 * NSEC_PER_MSEC)

/*
 * A CPU where a helper had to make way twice within this time is left alone for as
 * long: who is woken there sleeps again soon, and would find a helper each time. If a
 * helper has to as soon afterwards, it is left alone again.
 */
#define WANTED_MS	25

#define SLOT_BUSY	((struct migrate_copy_work *)1UL)

struct migrate_copy_helper {
	struct migrate_copy_work *slot;
	struct work_struct item;
	unsigned long wanted_until;	/* The CPU, by others; in jiffies */
	/* While it is BUSY, and its own: */
	bool moved;		/* It is bound to the CPUs of the caller */
	bool idled;		/* It has become SCHED_IDLE */
	int nice;		/* As it was before */
	struct cpumask mine;	/* Likewise */
	struct cpumask callers;
	/* Who is SCHED_IDLE, and whom it helps; NULL if nobody is. */
	raw_spinlock_t lock;
	struct task_struct *idler;
	struct task_struct *caller;
} ____cacheline_aligned_in_smp;

static DEFINE_PER_CPU_SHARED_ALIGNED(struct migrate_copy_helper, helpers);
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

static bool helper_test_any_cpu(void)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_KUNIT_TEST) &&
	       READ_ONCE(migrate_copy_test.any_cpu);
}

static bool helper_test_no_spin(void)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_KUNIT_TEST) &&
	       READ_ONCE(migrate_copy_test.no_spin);
}

static void helper_fn(struct work_struct *item);

/*
 * The CPUs that may help: those of the caller's cpuset, which is what bounds the
 * CPUs that a container may use. Its affinity does not: a task that has pinned
 * itself has said where it wants to run, not that nobody may help it, and would
 * otherwise never have help. Kernel threads work for the whole machine.
 *
 * The lock in there is a spinlock under which nothing is allocated or waited
 * for; the page allocator takes it, too.
 */
static void helper_allowed_cpus(struct task_struct *caller, struct cpumask *allowed)
{
	if (!cpusets_enabled() || caller->flags & PF_KTHREAD) {
		cpumask_copy(allowed, cpu_online_mask);
		return;
	}
	cpuset_cpus_allowed(caller, allowed);
	cpumask_and(allowed, allowed, cpu_online_mask);
}

/*
 * The scheduler takes a CPU that runs SCHED_IDLE for an idle one: who is woken there
 * stays there, and the helper leaves. Otherwise, while helpers have all CPUs that are
 * idle, it would put tasks that wake each other behind one another, on one CPU.
 */
static void helper_idle(struct migrate_copy_helper *me,
			const struct migrate_copy_work *work)
{
	raw_spin_lock(&me->lock);
	/* A caller that ends has raised those whom it has found, or will find this one. */
	if (!READ_ONCE(work->ends) && current->policy == SCHED_NORMAL) {
		me->idled = true;
		me->idler = current;
		me->caller = work->caller;
		sched_setscheduler_nocheck(current, SCHED_IDLE, &(struct sched_param){});
	}
	raw_spin_unlock(&me->lock);
}

static void helper_idle_no_more(struct migrate_copy_helper *me)
{
	raw_spin_lock(&me->lock);
	me->idler = NULL;
	raw_spin_unlock(&me->lock);
	/* Unless it has been raised. */
	if (current->policy == SCHED_IDLE || task_nice(current) != me->nice)
		sched_set_normal(current, me->nice);
}

/*
 * What is SCHED_IDLE may have to wait for seconds on a CPU that others want, and the
 * caller, and who touches what is unmapped, wait for it. So give a helper of the
 * caller its priority, but no higher one than most tasks have.
 */
static void helper_raise(int cpu, struct task_struct *caller, bool running)
{
	struct migrate_copy_helper *h = &per_cpu(helpers, cpu);
	int nice = rt_or_dl_task_policy(caller) ? 0 : max(task_nice(caller), 0);

	if (READ_ONCE(caller->policy) == SCHED_IDLE)
		return;
	raw_spin_lock(&h->lock);
	if (h->idler && h->caller == caller && (running || !task_curr(h->idler))) {
		sched_set_normal(h->idler, nice);
		h->idler = NULL;
	}
	raw_spin_unlock(&h->lock);
}

/*
 * Raise helpers that do not run: others have their CPUs, or they sleep, and may find
 * that when they wake. Everybody who works looks now and then, as the caller may wait
 * for a lock that one of them has.
 */
static void helpers_raise_waiting(struct migrate_copy_work *work)
{
	unsigned int i;

	if (time_before_eq(jiffies, READ_ONCE(work->looked)))
		return;
	WRITE_ONCE(work->looked, jiffies);
	/* A CPU that is just being listed may be missed, or taken for CPU 0. */
	for (i = 0; i < READ_ONCE(work->nr_cpus); i++)
		helper_raise(READ_ONCE(work->cpus[i]), work->caller, false);
}

/*
 * Be no more than the caller is: on no CPU that its cpuset does not have, and with
 * no higher priority, however idle the CPU may be at the moment. Says if it can.
 */
static bool helper_be_as_caller(struct migrate_copy_helper *me,
				const struct migrate_copy_work *work)
{
	struct task_struct *caller = work->caller;

	cpumask_copy(&me->mine, current->cpus_ptr);
	helper_allowed_cpus(caller, &me->callers);
	me->moved = !cpumask_subset(&me->mine, &me->callers);
	if (me->moved &&
	    (!cpumask_and(&me->callers, &me->callers, &me->mine) ||
	     set_cpus_allowed_ptr(current, &me->callers)))
		return false;

	me->nice = task_nice(current);
	me->idled = false;
	if (!work->highpri || READ_ONCE(caller->policy) == SCHED_IDLE)
		helper_idle(me, work);
	return true;
}

static void helper_be_itself(struct migrate_copy_helper *me)
{
	if (me->idled)
		helper_idle_no_more(me);
	if (me->moved)
		set_cpus_allowed_ptr(current, &me->mine);
}

/**
 * migrate_copy_may_help() - May a helper go on?
 * @work: The work it helps with.
 *
 * Its CPU was idle when it was asked, unless the work has high priority. As soon as
 * somebody else wants to run there, the helper leaves.
 *
 * Context: Process context of a helper.
 * Return: false if it must leave.
 */
bool migrate_copy_may_help(const struct migrate_copy_work *work)
{
	return helper_test_any_cpu() ||
	       (!need_resched() && (work->highpri || single_task_running()));
}

/*
 * Is there enough left of the caller's bandwidth? A step may take longer than what has
 * been borrowed: that is paid later.
 */
static bool helper_afford(struct migrate_copy_work *work, u64 used, u64 *borrowed)
{
	while (*borrowed <= used) {
		if (!sched_borrow_runtime(work->caller, BORROW_NS))
			return false;
		*borrowed += BORROW_NS;
	}
	return true;
}

/* A helper has made way on a CPU. */
static void helper_made_way(int cpu)
{
	unsigned long *until = &per_cpu(helpers, cpu).wanted_until;
	unsigned long more = msecs_to_jiffies(WANTED_MS), now = jiffies;

	/* The first time, it is noted when that was. */
	WRITE_ONCE(*until, time_before(now, READ_ONCE(*until) + more) ? now + more : now);
}

/*
 * Do steps of the work in the slot until none is left, or until the CPU has
 * somebody else to run: the caller does the rest, or asks again.
 */
static void helper_fn(struct work_struct *item)
{
	struct migrate_copy_helper *me =
		container_of(item, struct migrate_copy_helper, item);
	struct migrate_copy_work *work = READ_ONCE(me->slot);
	u64 start, used = 0, borrowed = 0;

	/* Pairs with the full barrier of work_offer(): the work is ready. */
	if (!work || work == SLOT_BUSY ||
	    !try_cmpxchg_acquire(&me->slot, &work, SLOT_BUSY))
		return;

	start = task_sched_runtime(current);
	if (!helper_be_as_caller(me, work))
		goto left;
	trace_migrate_copy_help(work->batches);
	while (!READ_ONCE(work->ends) && migrate_copy_may_help(work) &&
	       helper_afford(work, used, &borrowed) && work->step(work)) {
		cond_resched();
		helpers_raise_waiting(work);
		used = task_sched_runtime(current) - start;
	}
	if (!migrate_copy_may_help(work))
		helper_made_way(raw_smp_processor_id());
	helper_be_itself(me);
	used = task_sched_runtime(current) - start;
	sched_return_runtime(work->caller, borrowed - used);
	atomic64_add(used, &work->helper_ns);
left:
	/* Who is the next to be helped finds all of it in order. */
	smp_store_release(&me->slot, NULL);
	/* We have left the work, which is not to be touched any more. */
	if (atomic_dec_and_test(&work->busy))
		complete(&work->left);
}

/**
 * migrate_copy_is_helper() - Is the current task a helper?
 *
 * Whoever is one has no helpers: those would have the rights of a thread of the kernel,
 * not those of the task that both work for.  Reclaim, when a helper finds no memory,
 * would ask for some.
 *
 * Context: Process context.
 * Return: true if it is.
 */
bool migrate_copy_is_helper(void)
{
	const struct work_struct *item = current_work();

	return item && item->func == helper_fn;
}

/* Offer the work to one CPU, unless its slot is taken. */
static bool work_offer(struct migrate_copy_work *work, int cpu)
{
	struct migrate_copy_helper *h = &per_cpu(helpers, cpu);
	struct migrate_copy_work *none = NULL;

	if (READ_ONCE(h->slot))
		return false;
	/* Before: the helper may be there already, from earlier work. */
	atomic_inc(&work->busy);
	if (!try_cmpxchg(&h->slot, &none, work)) {
		atomic_dec(&work->busy);
		return false;
	}
	/*
	 * If the item is still queued from earlier work, it will find this, and
	 * run with the priority of that.
	 */
	queue_work_on(cpu, helper_wq[work->highpri], &h->item);
	return true;
}

/*
 * Would the CPU begin at once, and in nobody's way? Not if it is a virtual one that
 * does not run.
 */
static bool helper_cpu_idle(int cpu)
{
	return idle_cpu(cpu) && !vcpu_is_preempted(cpu) &&
	       time_after_eq(jiffies, READ_ONCE(per_cpu(helpers, cpu).wanted_until));
}

/* Does it run what no workqueue takes the CPU from, and no chunk should delay? */
static bool helper_cpu_realtime(int cpu)
{
	guard(rcu)();
	return rt_or_dl_task(cpu_curr_snapshot(cpu));
}

static enum migrate_copy_cpu_use helper_cpu_use(struct migrate_copy_search *s, int cpu)
{
	if (!cpu_online(cpu))
		return MIGRATE_COPY_CPU_OFFLINE;
	if (cpu == s->this_cpu || READ_ONCE(per_cpu(helpers, cpu).slot))
		return MIGRATE_COPY_CPU_TAKEN;
	if (helper_test_any_cpu())
		return MIGRATE_COPY_CPU_IDLE;
	if (cpu_is_isolated(cpu) || !housekeeping_cpu(cpu, HK_TYPE_WQ) ||
	    (s->busy_too && helper_cpu_realtime(cpu)))
		return MIGRATE_COPY_CPU_TAKEN;
	return helper_cpu_idle(cpu) ? MIGRATE_COPY_CPU_IDLE :
					 MIGRATE_COPY_CPU_BUSY;
}

static bool helper_take_cpu(struct migrate_copy_search *s, int cpu)
{
	struct migrate_copy_work *work = s->work;
	unsigned int i = 0;

	if (!work_offer(work, cpu))
		return false;
	/* One that has left, and is asked again, is listed once. */
	while (i < work->nr_cpus && work->cpus[i] != cpu)
		i++;
	if (i == work->nr_cpus) {
		WRITE_ONCE(work->cpus[i], cpu);
		WRITE_ONCE(work->nr_cpus, i + 1);
	}
	trace_migrate_copy_wake(cpu, s->nid, s->busy_too);
	return true;
}

static const struct cpumask *helper_cpus_of_node(int nid)
{
	return cpumask_of_node(nid);
}

static int helper_distance(int from, int to)
{
	return node_distance(from, to);
}

static const struct migrate_copy_cpus this_machine = {
	.nodes = &node_states[N_CPU],
	.of_node = helper_cpus_of_node,
	.siblings = cpu_smt_mask,
	.distance = helper_distance,
	.share_cache = cpus_share_cache,
	.use = helper_cpu_use,
	.take = helper_take_cpu,
};

/**
 * migrate_copy_work_init() - Prepare something for several CPUs to do.
 * @work: The work; usually on the caller's stack.
 * @step: Does the next step; returns false when none is left to begin.
 *
 * Context: Any.
 */
void migrate_copy_work_init(struct migrate_copy_work *work,
			    bool (*step)(struct migrate_copy_work *work))
{
	memset(work, 0, sizeof(*work));
	work->step = step;
	work->caller = current;
	work->looked = jiffies;
	atomic_set(&work->busy, 1);
	init_completion(&work->left);
}

/**
 * migrate_copy_helpers_wake() - Offer work to other CPUs.
 * @work: The work; must be retracted with migrate_copy_helpers_retract().
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most CPUs to offer it to.
 *
 * The order is that of placement.c. CPUs that are isolated, not in the caller's
 * cpuset, or asked for help by others are left alone; and busy ones, unless the
 * work has high priority and what runs there is not real-time.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 * Return: The number of CPUs @work was offered to, 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_wake(struct migrate_copy_work *work, int nid,
				       unsigned int max_helpers)
{
	unsigned int wanted = min_t(unsigned int, max_helpers,
				    MIGRATE_COPY_MAX_HELPERS - work->nr_cpus);
	struct migrate_copy_search s = {
		.cpus = &this_machine,
		.work = work,
		.nid = nid,
		.fill = READ_ONCE(migrate_copy_placement) == MIGRATE_COPY_FILL,
		.busy_too = work->highpri,
		.want = wanted,
		.probes = MAX_PROBES,
	};

	if (!wanted || unlikely(!helper_wq[work->highpri]))
		return 0;

	guard(local_lock)(&masks.lock);
	s.left = this_cpu_ptr(&masks.left);
	s.untried = this_cpu_ptr(&masks.untried);
	s.round = this_cpu_ptr(&masks.round);
	s.this_cpu = smp_processor_id();
	if (s.nid == NUMA_NO_NODE)
		s.nid = numa_node_id();
	helper_allowed_cpus(work->caller, s.left);
	cpumask_clear_cpu(s.this_cpu, s.left);
	migrate_copy_place(&s);
	return wanted - s.want;
}

/**
 * migrate_copy_helpers_wake_again() - There is one more step to do.
 * @work: The work, offered to CPUs by migrate_copy_helpers_wake().
 *
 * One of the CPUs that were asked is asked again, if its helper has found no step,
 * or made way for somebody, and it may help by now. Helpers that wait for a CPU with
 * something begun get the caller's priority.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 */
void migrate_copy_helpers_wake_again(struct migrate_copy_work *work)
{
	unsigned int i;

	helpers_raise_waiting(work);
	/* Nobody has left, or nobody is idle: the usual case, and cheap to see. */
	if (atomic_read(&work->busy) > work->nr_cpus)
		return;

	for (i = 0; i < work->nr_cpus; i++) {
		int cpu = work->cpus[i];

		if (!READ_ONCE(per_cpu(helpers, cpu).slot) && cpu_online(cpu) &&
		    cpu != raw_smp_processor_id() &&
		    (work->highpri || helper_test_any_cpu() ||
		     helper_cpu_idle(cpu)) && work_offer(work, cpu))
			break;
	}
}

/**
 * migrate_copy_charge() - Charge CPU time to who asked for it.
 * @ns: The time that others have worked for this task, in ns.
 *
 * It goes to the task's cgroup. Those who worked are in the root cgroup, whose time
 * is that of the machine: there it is counted already, and only there.
 *
 * Context: Process context of the caller.
 */
void migrate_copy_charge(u64 ns)
{
	count_vm_events(MIGRATE_COPY_HELPER_NS, ns);
#ifdef CONFIG_CGROUPS
	scoped_guard(rcu) {
		struct cgroup *cgrp = task_dfl_cgroup(current);

		if (!cgroup_parent(cgrp))
			break;
		/* The tick counts in the same place. */
		guard(irqsave)();
		__cgroup_account_cputime(cgrp, ns);
		__cgroup_account_cputime_field(cgrp, CPUTIME_SYSTEM, ns);
	}
#endif
}

/**
 * migrate_copy_helpers_retract() - Take work back from all its helpers.
 * @work: The work. Of the steps that are left, none is begun any more. It may have
 *	been taken back before.
 *
 * The time that the helpers took is charged to the caller's cgroup.
 *
 * Context: Process context, may sleep until the steps in flight have ended.
 * When it returns no helper knows @work, and what they did is visible.
 */
void migrate_copy_helpers_retract(struct migrate_copy_work *work)
{
	unsigned int spins = helper_test_no_spin() ? 0 : LEAVE_SPINS, i;
	u64 ns;

	if (work->ends)
		return;
	WRITE_ONCE(work->ends, true);
	for (i = 0; i < work->nr_cpus; i++) {
		struct migrate_copy_helper *h = &per_cpu(helpers, work->cpus[i]);

		/* Take the work back from who has not begun. */
		if (READ_ONCE(h->slot) == work &&
		    cmpxchg(&h->slot, work, NULL) == work)
			atomic_dec(&work->busy);
	}

	while (atomic_read(&work->busy) > 1 && spins--)
		cpu_relax();
	for (i = 0; i < work->nr_cpus && atomic_read(&work->busy) > 1; i++)
		helper_raise(work->cpus[i], work->caller, true);
	/* Pairs with that of helper_fn(): what helpers have done is visible. */
	if (!atomic_dec_and_test(&work->busy))
		wait_for_completion(&work->left);

	ns = atomic64_read(&work->helper_ns);
	if (ns)
		migrate_copy_charge(ns);
}

static __init struct workqueue_struct *
make_workqueue(const char *name, unsigned int flags)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct workqueue_struct *wq;

	if (!attrs)
		return NULL;
	wq = alloc_workqueue(name, WQ_UNBOUND | WQ_MEM_RECLAIM | flags, 0);
	if (wq) {
		/* A worker begins on the CPU that is asked, and may be moved. */
		attrs->affn_scope = WQ_AFFN_CPU;
		attrs->nice = flags & WQ_HIGHPRI ? MIN_NICE : 0;
		if (apply_workqueue_attrs(wq, attrs))
			pr_warn("%s: workers have no CPU to begin on\n", name);
	}
	free_workqueue_attrs(attrs);
	return wq;
}

/**
 * migrate_copy_helpers_init() - Set up the helpers of all possible CPUs.
 *
 * Context: Boot, may sleep. Without memory every caller works alone.
 */
void __init migrate_copy_helpers_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		INIT_WORK(&per_cpu(helpers, cpu).item, helper_fn);
		raw_spin_lock_init(&per_cpu(helpers, cpu).lock);
	}

	helper_wq[MIGRATE_COPY_NORMAL] = make_workqueue("migrate_copy", 0);
	helper_wq[MIGRATE_COPY_HIGH] =
		make_workqueue("migrate_copy_high", WQ_HIGHPRI);
	if (!helper_wq[MIGRATE_COPY_NORMAL] || !helper_wq[MIGRATE_COPY_HIGH])
		pr_warn("migrate_copy: no workqueue, copying without helpers\n");
}
