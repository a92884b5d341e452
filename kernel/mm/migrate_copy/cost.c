// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many helpers pay: a small model of what they cost.
 *
 * Alone, the caller needs the time T for something. With h helpers it needs
 *
 *	h * C + L + (T - L) / (h + 1)
 *
 * C is its own effort for a helper: to find it, to offer the work, to take it
 * back. L is the time until the helper does its first step, in which the caller
 * works alone. The sum is smallest where (h + 1)^2 = (T - L) / C.
 *
 * T is estimated from below, so that no small move pays for a wake-up: the
 * copies take what they took at boot, and the rest of moving a folio at least as
 * long as the copy of a base page.
 *
 * C, L and the speed of the copy are measured at boot, and when somebody writes
 * to the file "calibrate". They are not adjusted in between: a machine that is
 * busy for a while would change them, and with them what everybody sees.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched/clock.h>
#include <linux/sort.h>

#include "internal.h"

/*
 * Measurements of each kind. The lower quartile counts: what disturbs one, an
 * interrupt or a hypervisor, only makes it longer.
 */
#define NR_SAMPLES	15

/* What is copied for one: as much as leaves a small cache. */
#define SAMPLE_ORDER	6

/* A helper that has not come by then is not worth waiting for. */
#define SAMPLE_TIMEOUT_NS	(2 * NSEC_PER_MSEC)
#define SAMPLE_PAUSE_US		500

/* Until it is measured, and where no other CPU was idle to measure it with. */
struct migrate_copy_costs migrate_copy_costs = {
	.copy_page_ns = 400,
	.helper_call_ns = 2000,
	.helper_start_ns = 20000,
};

static u64 cost_with(const struct migrate_copy_costs *costs, u64 work_ns,
		     unsigned int nr)
{
	return (u64)nr * costs->helper_call_ns + costs->helper_start_ns +
	       div_u64(work_ns - costs->helper_start_ns, nr + 1);
}

/**
 * migrate_copy_best_helpers() - How many helpers make something fastest.
 * @costs: What copies and helpers cost.
 * @work_ns: How long the caller would take alone, in ns.
 * @max_helpers: The most it may have.
 *
 * Context: Any.
 * Return: 0 to @max_helpers; 0 unless a tenth of the time can be saved.
 */
unsigned int migrate_copy_best_helpers(const struct migrate_copy_costs *costs,
				       u64 work_ns, unsigned int max_helpers)
{
	unsigned int nr;

	if (work_ns <= costs->helper_start_ns)
		return 0;

	/* The best number is between this and one less. */
	nr = int_sqrt64(div_u64(work_ns - costs->helper_start_ns,
				max(costs->helper_call_ns, 1U)));
	nr = min(nr, max_helpers);
	if (nr > 1 &&
	    cost_with(costs, work_ns, nr - 1) <= cost_with(costs, work_ns, nr))
		nr--;
	if (!nr || cost_with(costs, work_ns, nr) > work_ns - work_ns / 10)
		return 0;
	return nr;
}

/**
 * migrate_copy_cost() - How long one CPU takes, at the least.
 * @nr_folios: The folios it moves; 0 if it only copies.
 * @nr_pages: The base pages it copies.
 *
 * Context: Any.
 * Return: The time in ns.
 */
u64 migrate_copy_cost(unsigned long nr_folios, unsigned long nr_pages)
{
	return (u64)READ_ONCE(migrate_copy_costs.copy_page_ns) *
	       (nr_folios + nr_pages);
}

struct sample {
	struct migrate_copy_work work;
	u64 started;
};

/* The first step of a helper, which is all that it is called for. */
static bool cost_sample_step(struct migrate_copy_work *work)
{
	struct sample *sample = container_of(work, struct sample, work);

	/* Pairs with the acquire in cost_sample_helper(). */
	smp_store_release(&sample->started, local_clock());
	return false;
}

/* Call a helper, and wait for it. False if none was idle, or in time. */
static bool cost_sample_helper(u32 *call_ns, u32 *start_ns)
{
	struct sample sample = {};
	u64 offered, called, now, started;

	migrate_copy_work_init(&sample.work, cost_sample_step);
	offered = local_clock();
	if (!migrate_copy_helpers_wake(&sample.work, NUMA_NO_NODE, 1))
		return false;
	called = local_clock() - offered;

	do {
		cpu_relax();
		now = local_clock();
		/* Pairs with the release in cost_sample_step(). */
		started = smp_load_acquire(&sample.started);
	} while (!started && now - offered < SAMPLE_TIMEOUT_NS);

	now = local_clock();
	migrate_copy_helpers_retract(&sample.work);
	*call_ns = called + local_clock() - now;
	/* The clocks of two CPUs may differ. */
	*start_ns = started > offered ?
		    min_t(u64, started - offered, SAMPLE_TIMEOUT_NS) : 0;
	return started;
}

static u32 cost_sample_copy(void *to, void *from)
{
	u64 start = local_clock();
	int i;

	for (i = 0; i < PAGE_SIZE << SAMPLE_ORDER; i += PAGE_SIZE)
		copy_page(to + i, from + i);
	return (local_clock() - start) >> SAMPLE_ORDER;
}

static int cost_compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static u32 cost_lower_quartile(u32 *ns, unsigned int nr)
{
	sort(ns, nr, sizeof(*ns), cost_compare, NULL);
	return ns[nr / 4];
}

/* The speed of a copy to another node, where there is one. */
static void cost_calibrate_copy(void)
{
	int near = numa_mem_id(), far = next_node_in(near, node_states[N_MEMORY]);
	gfp_t gfp = GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN;
	size_t size = PAGE_SIZE << SAMPLE_ORDER;
	u32 ns[NR_SAMPLES];
	int i;

	void *from __free(kfree) = kzalloc_node(size, gfp, near);
	void *to __free(kfree) = kmalloc_node(size, gfp, far);

	if (!from || !to)
		return;
	for (i = 0; i < NR_SAMPLES; i++) {
		ns[i] = cost_sample_copy(to, from);
		cond_resched();
	}
	WRITE_ONCE(migrate_copy_costs.copy_page_ns,
		   max(cost_lower_quartile(ns, NR_SAMPLES), 1U));
}

static void cost_calibrate_helpers(void)
{
	u32 call_ns[NR_SAMPLES], start_ns[NR_SAMPLES];
	int i, nr = 0;

	for (i = 0; i < NR_SAMPLES; i++) {
		nr += cost_sample_helper(&call_ns[nr], &start_ns[nr]);
		/* Let the CPU become idle again. */
		fsleep(SAMPLE_PAUSE_US);
	}
	if (nr < NR_SAMPLES / 2)
		return;
	WRITE_ONCE(migrate_copy_costs.helper_call_ns, cost_lower_quartile(call_ns, nr));
	WRITE_ONCE(migrate_copy_costs.helper_start_ns, cost_lower_quartile(start_ns, nr));
}

/**
 * migrate_copy_calibrate() - Measure what copies and helpers cost.
 *
 * Where too few other CPUs are idle or no memory is free, what was known stays.
 *
 * Context: Process context, may sleep. Takes some 10 ms.
 */
void migrate_copy_calibrate(void)
{
	static DEFINE_MUTEX(lock);

	guard(mutex)(&lock);
	cost_calibrate_copy();
	cost_calibrate_helpers();
}
