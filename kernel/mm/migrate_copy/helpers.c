// SPDX-License-Identifier: GPL-2.0-only
/*
 * Helpers: idle CPUs that work for a task which migrates pages.
 *
 * The task (the caller) offers its work to other CPUs. Each CPU has one slot:
 *
 *	NULL	free
 *	work	offered: a helper may take the work, the caller may retract it
 *	BUSY	a helper does steps of the work
 *
 * The caller moves a slot from NULL to its work, and back to NULL if no helper
 * has taken it. A helper moves it to BUSY, does steps until none is left or its
 * CPU is wanted, and frees the slot. work->busy counts the caller and every
 * helper that was asked and has neither left nor been retracted; the last one to
 * leave completes work->left. Hence:
 *
 * - A helper touches the work, which lives on the caller's stack, only while it
 *   is counted, and the caller returns only when nobody else is counted.
 * - The caller waits only for steps in flight: never for a helper that has not
 *   started, and never for a step that begins after it has set work->ends.
 * - A helper that has left can help others, whatever its former caller does.
 *
 * A helper starts on the CPU that was asked, but is not bound to it: if a
 * real-time task takes that CPU in the middle of a step, the scheduler moves the
 * helper elsewhere, as it would move any other task.
 *
 * A helper has no rights that its caller lacks. It stays within the caller's
 * cpuset, its priority is not above the caller's unless the request asks for
 * high priority, and a task under a CPU bandwidth limit gets no helpers (see
 * policy.c), because the limit does not apply to workers.
 */
#include <linux/cgroup.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/local_lock.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/rt.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#include <linux/timer.h>
#include <linux/topology.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#define CREATE_TRACE_POINTS
#include <trace/events/migrate_copy.h>

#include "internal.h"

/*
 * How often the caller polls for the last helper to leave before it sleeps.
 * Usually only the rest of a chunk is missing.
 */
#define LEAVE_SPINS	2000

/*
 * CPUs asked, and examined per pass, with preemption disabled. A wake-up takes
 * about 2 us, a look at a remote run queue a tenth of that.
 */
#define MAX_ASKED	8U
#define MAX_PROBES	64U

/*
 * A CPU on which a helper had to make way twice within this time is left alone
 * for as long: whatever woke up there will sleep and wake up again soon, and
 * would find a helper each time.
 */
#define WANTED_MS	25

/*
 * What a base page takes to move, at least, and what a helper costs the caller:
 * the time to wake it up and to take it back, and the time until it has started.
 * The models of virtual time measure 475 to 679, 1039 to 2567 and 5222 to 6161 ns.
 * Measuring these at boot gained at most 6% for small moves.
 */
#define MOVE_PAGE_NS	500
#define HELPER_CALL_NS	2000
#define HELPER_START_NS	6000

#define SLOT_BUSY	((struct migrate_copy_work *)1UL)

struct migrate_copy_helper {
	int cpu;
	struct migrate_copy_work *slot;
	struct work_struct item;
	unsigned long wanted_until;	/* By other tasks, in jiffies */

	/* While the slot is BUSY, its helper's: */
	bool moved;			/* Confined to the caller's cpuset */
	struct cpumask mine;		/* Its affinity before */
	struct cpumask callers;		/* Its affinity now */

	/* For raising a SCHED_IDLE helper: */
	struct timer_list timer;
	struct work_struct raise;
	raw_spinlock_t lock;
	struct task_struct *idler;	/* That helper, or NULL */
	u64 ran;			/* Its run time at the last tick, in ns */
	int nice;			/* What it is raised to */
} ____cacheline_aligned_in_smp;

unsigned int migrate_copy_placement = MIGRATE_COPY_SPREAD;

static DEFINE_PER_CPU_SHARED_ALIGNED(struct migrate_copy_helper, helpers);
static struct workqueue_struct *helper_wq[MIGRATE_COPY_NR_PRIORITIES];

/* The masks of a search, too large for a stack. */
struct migrate_copy_masks {
	local_lock_t lock;
	struct cpumask left;		/* Allowed, and not asked yet */
	struct cpumask untried;		/* Not examined in this pass */
	struct cpumask caches;		/* One CPU of each cache asked in this round */
};

static DEFINE_PER_CPU(struct migrate_copy_masks, masks) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* What makes a CPU the better choice, best first. */
enum helper_pass {
	PASS_IDLE_CORE,
	PASS_IDLE_CPU,
	PASS_BUSY_CPU,			/* For high priority only */
};

/**
 * struct helper_search - a search for CPUs that help
 * @work: What they are to help with.
 * @masks: Scratch memory.
 * @pass: Which CPUs are good enough.
 * @fill: Fill one cache after the other instead of spreading over them.
 * @this_cpu: The CPU that searches.
 * @first: Index in @work->cpus of the first CPU asked by this wake-up.
 * @asked: End of those in @work->cpus that earlier searches have asked.
 * @want: How many CPUs are still wanted.
 * @probes: How many may still be examined in this pass.
 */
struct helper_search {
	struct migrate_copy_work *work;
	struct migrate_copy_masks *masks;
	enum helper_pass pass;
	bool fill;
	int this_cpu;
	unsigned int first;
	unsigned int asked;
	unsigned int want;
	unsigned int probes;
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

/**
 * migrate_copy_best_helpers() - How many helpers make a move fastest?
 * @nr_folios: The folios to move; 0 if they are only copied.
 * @nr_pages: Their base pages.
 * @max_helpers: The most that may be used.
 *
 * With h helpers, C ns each for the caller, and L ns until they start, work of
 * T ns takes h * C + L + (T - L) / (h + 1), which is least for
 * (h + 1)^2 = (T - L) / C.
 *
 * Context: Any.
 * Return: 0 to @max_helpers; 0 if they would not save a tenth of the time.
 */
unsigned int migrate_copy_best_helpers(unsigned long nr_folios,
				       unsigned long nr_pages,
				       unsigned int max_helpers)
{
	u64 ns = (u64)(nr_folios + nr_pages) * MOVE_PAGE_NS;

	if (ns < 2 * HELPER_START_NS + HELPER_CALL_NS)
		return 0;
	return min(int_sqrt64(div_u64(ns - HELPER_START_NS, HELPER_CALL_NS)),
		   max_helpers);
}

/*
 * The CPUs that may help: those of the caller's cpuset, which is what limits a
 * container. The caller's affinity does not count: a task that has pinned itself
 * has said where it wants to run, not that nobody may help it. Kernel threads
 * work for the whole machine.
 */
static void helper_allowed_cpus(struct task_struct *caller, struct cpumask *allowed)
{
	if (!cpusets_enabled() || caller->flags & PF_KTHREAD) {
		cpumask_copy(allowed, cpu_online_mask);
		return;
	}
	/* callback_lock is a spinlock; the page allocator takes it, too. */
	cpuset_cpus_allowed(caller, allowed);
	cpumask_and(allowed, allowed, cpu_online_mask);
}

/*
 * The scheduler treats a CPU that runs a SCHED_IDLE task as idle, so a task that
 * wakes up can still be placed there. With helpers of normal priority on all
 * idle CPUs it would stack tasks that wake each other on one CPU instead: a Redis
 * being drained serves 15% fewer requests.
 *
 * But a helper holds locks and has pages unmapped that others wait for. So if it
 * does not run for a whole tick, because its CPU has been taken or it waits for a
 * lock, it gets the caller's priority, unless the caller is SCHED_IDLE itself.
 */
static void helper_idle(struct migrate_copy_helper *me, bool raise)
{
	/* With the lock held the helper cannot lose its CPU between the two. */
	raw_spin_lock(&me->lock);
	sched_setscheduler_nocheck(current, SCHED_IDLE, &(struct sched_param){});
	me->idler = raise ? current : NULL;
	raw_spin_unlock(&me->lock);
	if (raise)
		mod_timer(&me->timer, jiffies + 1);
}

static void helper_idle_no_more(struct migrate_copy_helper *me, int nice)
{
	raw_spin_lock(&me->lock);
	me->idler = NULL;
	sched_set_normal(current, nice);
	raw_spin_unlock(&me->lock);
}

static void helper_raise(struct work_struct *item)
{
	struct migrate_copy_helper *h =
		container_of(item, struct migrate_copy_helper, raise);

	raw_spin_lock(&h->lock);
	if (h->idler)
		sched_set_normal(h->idler, h->nice);
	h->idler = NULL;
	raw_spin_unlock(&h->lock);
}

/* Raise a helper that has not run for a whole tick, or wait for the next tick. */
static void helper_tick(struct timer_list *timer)
{
	struct migrate_copy_helper *h =
		container_of(timer, struct migrate_copy_helper, timer);
	struct task_struct *idler;
	u64 ran;

	guard(rcu)();
	idler = READ_ONCE(h->idler);
	if (!idler)
		return;
	ran = READ_ONCE(idler->se.sum_exec_runtime);
	/*
	 * Priorities cannot be changed here. The worker must not be bound to this
	 * CPU, which a real-time task may have taken.
	 */
	if (ran == h->ran && !task_curr(idler))
		queue_work(READ_ONCE(helper_wq[MIGRATE_COPY_HIGH]) ?:
			   helper_wq[MIGRATE_COPY_NORMAL], &h->raise);
	else
		mod_timer(&h->timer, jiffies + 1);
	h->ran = ran;
}

/* Confine the helper to the caller's cpuset; false if it must not help. */
static bool helper_confine(struct migrate_copy_helper *me, struct task_struct *caller)
{
	cpumask_copy(&me->mine, current->cpus_ptr);
	me->moved = false;
	/* Refuse if the CPU is not in /sys/devices/virtual/workqueue/cpumask. */
	if (!cpumask_test_cpu(me->cpu, &me->mine)) {
		WRITE_ONCE(me->wanted_until, jiffies + HZ);
		return false;
	}
	helper_allowed_cpus(caller, &me->callers);
	me->moved = !cpumask_subset(&me->mine, &me->callers);
	return !me->moved ||
	       (cpumask_and(&me->callers, &me->callers, &me->mine) &&
		!set_cpus_allowed_ptr(current, &me->callers));
}

/* CPU hotplug resets the affinity of workers. */
static bool helper_confined(const struct migrate_copy_helper *me)
{
	return !me->moved || cpumask_equal(current->cpus_ptr, &me->callers);
}

/**
 * migrate_copy_may_help() - May a helper go on?
 * @work: The work it helps with.
 *
 * Its CPU was idle when it was asked, unless the work has high priority. As soon
 * as another task wants to run there, the helper leaves.
 *
 * Context: Process context of a helper.
 * Return: false if it must leave.
 */
bool migrate_copy_may_help(const struct migrate_copy_work *work)
{
	return helper_test_any_cpu() ||
	       (!need_resched() && (work->highpri || single_task_running()));
}

/* Another task wanted the helper's CPU: if that is so again soon, avoid the CPU. */
static void helper_made_way(int cpu)
{
	unsigned long *until = &per_cpu(helpers, cpu).wanted_until;
	unsigned long more = msecs_to_jiffies(WANTED_MS), now = jiffies;

	WRITE_ONCE(*until, time_before(now, READ_ONCE(*until) + more) ? now + more : now);
}

/* Do steps of the work until none is left or another task wants the CPU. */
static void helper_do_steps(struct migrate_copy_helper *me,
			    struct migrate_copy_work *work)
{
	bool callers_idle = READ_ONCE(work->caller->policy) == SCHED_IDLE;
	bool idle = !work->highpri || callers_idle;
	int nice = task_nice(current);

	me->nice = rt_or_dl_task_policy(work->caller) ? 0 :
		   max(task_nice(work->caller), 0);
	do {
		/* At first, and again after it has been raised. */
		if (idle && READ_ONCE(current->policy) != SCHED_IDLE)
			helper_idle(me, !callers_idle);
		if (!work->step(work))
			break;
		cond_resched();
	} while (!READ_ONCE(work->ends) && migrate_copy_may_help(work) &&
		 helper_confined(me));
	if (idle)
		helper_idle_no_more(me, nice);
}

static void helper_fn(struct work_struct *item)
{
	struct migrate_copy_helper *me =
		container_of(item, struct migrate_copy_helper, item);
	struct migrate_copy_work *work = READ_ONCE(me->slot);
	u64 start;

	/* Pairs with the full barrier of work_offer(): the work is ready. */
	if (!work || work == SLOT_BUSY ||
	    !try_cmpxchg_acquire(&me->slot, &work, SLOT_BUSY))
		return;

	start = task_sched_runtime(current);
	if (helper_confine(me, work->caller) && !READ_ONCE(work->ends) &&
	    migrate_copy_may_help(work)) {
		trace_migrate_copy_help(work->batches);
		helper_do_steps(me, work);
	}
	if (!migrate_copy_may_help(work))
		helper_made_way(raw_smp_processor_id());
	if (me->moved && helper_confined(me))
		set_cpus_allowed_ptr(current, &me->mine);
	atomic64_add(task_sched_runtime(current) - start, &work->helper_ns);
	/* The next helper on this CPU finds everything in order. */
	smp_store_release(&me->slot, NULL);
	/* From here on the work is not ours to touch. */
	if (atomic_dec_and_test(&work->busy))
		complete(&work->left);
}

/**
 * migrate_copy_is_helper() - Is the current task a helper?
 *
 * Helpers must not recruit helpers: those would run with the kthread's rights
 * instead of the caller's. Reclaim, entered when a helper finds no memory, would
 * ask for some.
 *
 * Context: Process context.
 * Return: true if it is.
 */
bool migrate_copy_is_helper(void)
{
	const struct work_struct *item = current_work();

	return item && item->func == helper_fn;
}

/* Offer the work to a CPU, unless its slot is taken. */
static bool work_offer(struct migrate_copy_work *work, int cpu)
{
	struct migrate_copy_helper *h = &per_cpu(helpers, cpu);
	struct migrate_copy_work *none = NULL;

	if (READ_ONCE(h->slot))
		return false;
	/* Count it first: a helper may be there already, from earlier work. */
	atomic_inc(&work->busy);
	if (!try_cmpxchg(&h->slot, &none, work)) {
		atomic_dec(&work->busy);
		return false;
	}
	/*
	 * If the item is still queued from earlier work, it will find this work,
	 * and run with the priority of the earlier one.
	 */
	queue_work_on(cpu, helper_wq[work->highpri], &h->item);
	return true;
}

/* Does it run a real-time task, which no workqueue can preempt? */
static bool helper_cpu_realtime(int cpu)
{
	guard(rcu)();
	return rt_or_dl_task(cpu_curr_snapshot(cpu));
}

static bool helper_cpu_idle(int cpu)
{
	return cpu_online(cpu) && idle_cpu(cpu) && !vcpu_is_preempted(cpu) &&
	       !READ_ONCE(per_cpu(helpers, cpu).slot);
}

/* Would the CPU be of use, and in nobody's way? */
static bool helper_cpu_fits(const struct migrate_copy_work *work, int cpu,
			    enum helper_pass pass)
{
	int sibling;

	if (helper_test_any_cpu())
		return cpu_online(cpu) && cpu != raw_smp_processor_id();
	if (cpu == raw_smp_processor_id() || cpu_is_isolated(cpu) ||
	    !housekeeping_cpu(cpu, HK_TYPE_WQ))
		return false;
	if (pass == PASS_BUSY_CPU)
		return cpu_online(cpu) && !helper_cpu_realtime(cpu);
	if (!helper_cpu_idle(cpu) ||
	    time_before(jiffies, READ_ONCE(per_cpu(helpers, cpu).wanted_until)))
		return false;
	for_each_cpu(sibling, cpu_smt_mask(cpu)) {
		if (pass == PASS_IDLE_CORE && sibling != cpu &&
		    cpu_online(sibling) && !helper_cpu_idle(sibling))
			return false;
	}
	return true;
}

static bool work_ask(struct migrate_copy_work *work, int cpu, int nid)
{
	unsigned int i = 0;

	if (!work_offer(work, cpu))
		return false;
	/* A CPU whose helper has left, and which is asked again, is listed once. */
	while (i < work->nr_cpus && work->cpus[i] != cpu)
		i++;
	if (i == work->nr_cpus) {
		work->cpus[i] = cpu;
		WRITE_ONCE(work->nr_cpus, i + 1);
	}
	trace_migrate_copy_wake(cpu, nid, work->highpri);
	return true;
}

/*
 * Is it not the CPU's turn? Spreading takes one CPU of each cache in a round,
 * filling takes all CPUs of one cache.
 */
static bool search_skips(const struct helper_search *s, int cpu)
{
	int other;

	for_each_cpu(other, &s->masks->caches) {
		if (cpus_share_cache(cpu, other))
			return !s->fill;
	}
	return s->fill && !cpumask_empty(&s->masks->caches);
}

/*
 * Ask the CPUs of s->masks->untried, spread over the last-level caches: one CPU
 * of each, then a second of each; the caller's has one already. That is worth 79
 * to 124% for huge pages where a quarter of the CPUs may help. Or fill the caches
 * one after the other.
 */
static void search_hop(struct helper_search *s, int nid)
{
	struct migrate_copy_masks *m = s->masks;
	unsigned int i;
	bool more;
	int cpu;

	cpumask_and(&m->caches, &m->untried, cpumask_of(s->this_cpu));
	for (i = s->first; !s->fill && i < s->asked; i++)
		cpumask_set_cpu(s->work->cpus[i], &m->caches);
	cpumask_clear_cpu(s->this_cpu, &m->untried);
	do {
		more = !cpumask_empty(&m->caches);
		for_each_cpu_wrap(cpu, &m->untried, s->this_cpu) {
			if (!s->want || !s->probes)
				return;
			if (search_skips(s, cpu))
				continue;
			cpumask_clear_cpu(cpu, &m->untried);
			/* Cheap, and usual after the first few CPUs. */
			if (READ_ONCE(per_cpu(helpers, cpu).slot))
				continue;
			s->probes--;
			if (!helper_cpu_fits(s->work, cpu, s->pass) ||
			    !work_ask(s->work, cpu, nid))
				continue;
			cpumask_clear_cpu(cpu, &m->left);
			if (!s->fill || cpumask_empty(&m->caches))
				cpumask_set_cpu(cpu, &m->caches);
			s->want--;
			more = true;
		}
		cpumask_clear(&m->caches);
	} while (more);
}

/*
 * Ask CPUs: those of idle cores before idle siblings of busy CPUs, and near @nid
 * before far from it, but not again those of work->cpus from @first on. Returns
 * how many were asked.
 */
static unsigned int helpers_search(struct migrate_copy_work *work, int nid,
				   unsigned int want, unsigned int first)
{
	struct helper_search s = {
		.work = work, .want = want, .first = first, .asked = work->nr_cpus,
	};
	const struct cpumask *hop, *nearer;
	enum helper_pass last = work->highpri ? PASS_BUSY_CPU : PASS_IDLE_CPU;

	guard(local_lock)(&masks.lock);
	guard(rcu)();
	s.masks = this_cpu_ptr(&masks);
	s.this_cpu = smp_processor_id();
	s.fill = READ_ONCE(migrate_copy_placement) == MIGRATE_COPY_FILL;
	helper_allowed_cpus(work->caller, &s.masks->left);
	for (; first < work->nr_cpus; first++)
		cpumask_clear_cpu(work->cpus[first], &s.masks->left);
	for (s.pass = PASS_IDLE_CORE; s.pass <= last; s.pass++) {
		s.probes = MAX_PROBES;
		nearer = cpu_none_mask;
		for_each_numa_hop_mask(hop, nid) {
			cpumask_and(&s.masks->untried, &s.masks->left, hop);
			cpumask_andnot(&s.masks->untried, &s.masks->untried, nearer);
			search_hop(&s, nid);
			nearer = hop;
		}
	}
	return want - s.want;
}

/* In a kworker: a request may be reclaim, which must not wait for memory. */
static void helpers_start(struct work_struct *unused)
{
	static const char * const names[] = { "migrate_copy", "migrate_copy_high" };
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int i;

	for (i = 0; attrs && i < MIGRATE_COPY_NR_PRIORITIES; i++) {
		struct workqueue_struct *wq;

		if (helper_wq[i])
			continue;
		wq = alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, names[i]);
		if (!wq)
			break;
		/* A worker starts on the CPU that is asked, and may be moved. */
		attrs->affn_scope = WQ_AFFN_CPU;
		attrs->nice = i == MIGRATE_COPY_HIGH ? MIN_NICE : 0;
		if (apply_workqueue_attrs(wq, attrs))
			pr_warn("%s: cannot place workers\n", names[i]);
		/* Pairs with the acquire in migrate_copy_helpers_wake(). */
		smp_store_release(&helper_wq[i], wq);
	}
	free_workqueue_attrs(attrs);
}

static DECLARE_WORK(helpers_start_work, helpers_start);

/**
 * migrate_copy_helpers_start() - Prepare for helpers.
 *
 * There are no workers before somebody has had use for them.
 *
 * Context: Process context, may sleep. Without memory, callers work alone.
 */
void migrate_copy_helpers_start(void)
{
	schedule_work(&helpers_start_work);
	flush_work(&helpers_start_work);
}

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
	work->searched = jiffies - 1;
	atomic_set(&work->busy, 1);
	init_completion(&work->left);
}

/**
 * migrate_copy_helpers_wake() - Offer work to other CPUs.
 * @work: The work; must be retracted with migrate_copy_helpers_retract().
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most CPUs to offer it to.
 *
 * CPUs that are isolated, outside of the caller's cpuset or helping others are
 * left alone, and so are busy ones, unless the work has high priority and what
 * runs there is not real-time. After a search that found too few CPUs, there is
 * no other one before the next tick.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing. The first request since boot gets no helpers.
 * Return: The number of CPUs @work was offered to, 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_wake(struct migrate_copy_work *work, int nid,
				       unsigned int max_helpers)
{
	unsigned int want, asked, sum = 0, first = work->nr_cpus;

	/* Pairs with the release in helpers_start(). */
	if (unlikely(!smp_load_acquire(&helper_wq[work->highpri]))) {
		schedule_work(&helpers_start_work);
		return 0;
	}
	if (time_before_eq(jiffies, work->searched))
		return 0;

	nid = numa_nearest_node(nid == NUMA_NO_NODE ? numa_node_id() : nid, N_CPU);
	max_helpers = min_t(unsigned int, max_helpers,
			    MIGRATE_COPY_MAX_HELPERS - work->nr_cpus);
	while (sum < max_helpers) {
		want = min(max_helpers - sum, MAX_ASKED);
		asked = helpers_search(work, nid, want, first);
		sum += asked;
		if (asked < want) {
			work->searched = jiffies;
			break;
		}
	}
	return sum;
}

/**
 * migrate_copy_helpers_wake_again() - There is one more step to do.
 * @work: The work, offered to CPUs by migrate_copy_helpers_wake().
 *
 * One of the CPUs that were asked is asked again, if its helper has left and it
 * may help by now.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 */
void migrate_copy_helpers_wake_again(struct migrate_copy_work *work)
{
	enum helper_pass pass = work->highpri ? PASS_BUSY_CPU : PASS_IDLE_CPU;
	unsigned int i;

	/* Usually nobody has left, or nobody is idle. */
	if (atomic_read(&work->busy) > work->nr_cpus)
		return;

	for (i = 0; i < work->nr_cpus; i++) {
		if (helper_cpu_fits(work, work->cpus[i], pass) &&
		    work_offer(work, work->cpus[i]))
			break;
	}
}

/**
 * migrate_copy_charge() - Charge CPU time to the current task's cgroup.
 * @ns: The time that others have worked for this task, in ns.
 *
 * Workers run in the root cgroup, whose time is that of the machine: there it
 * has been counted already.
 *
 * Context: Process context of the caller.
 */
void migrate_copy_charge(u64 ns)
{
	count_vm_events(MIGRATE_COPY_HELPER_NS, ns);
#ifdef CONFIG_CGROUPS
	scoped_guard(rcu) {
		struct cgroup *cgrp = task_dfl_cgroup(current);

#ifdef CONFIG_MEMCG
		/* A kernel thread that works for a memory cgroup. */
		if (current->flags & PF_KTHREAD && current->active_memcg)
			cgrp = current->active_memcg->css.cgroup;
#endif
		if (cgrp->root != &cgrp_dfl_root || !cgroup_parent(cgrp))
			break;
		/* The tick updates the same counters. */
		guard(irqsave)();
		__cgroup_account_cputime(cgrp, ns);
		__cgroup_account_cputime_field(cgrp, CPUTIME_SYSTEM, ns);
	}
#endif
}

/**
 * migrate_copy_helpers_retract() - Take work back from all its helpers.
 * @work: The work. Steps that have not begun never will. May be called twice.
 *
 * The helpers' time is charged to the caller's cgroup.
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

		/* Has it not started yet? */
		if (READ_ONCE(h->slot) == work &&
		    cmpxchg(&h->slot, work, NULL) == work)
			atomic_dec(&work->busy);
	}

	while (atomic_read(&work->busy) > 1 && spins--)
		cpu_relax();
	/* Pairs with that of helper_fn(): what helpers have done is visible. */
	if (!atomic_dec_and_test(&work->busy))
		wait_for_completion(&work->left);

	ns = atomic64_read(&work->helper_ns);
	if (ns)
		migrate_copy_charge(ns);
}

/**
 * migrate_copy_helpers_init() - Set up the slots of all possible CPUs.
 *
 * Context: Boot.
 */
void __init migrate_copy_helpers_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct migrate_copy_helper *h = &per_cpu(helpers, cpu);

		h->cpu = cpu;
		INIT_WORK(&h->item, helper_fn);
		INIT_WORK(&h->raise, helper_raise);
		timer_setup(&h->timer, helper_tick, 0);
		raw_spin_lock_init(&h->lock);
	}
}
