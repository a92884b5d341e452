// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which CPUs help, and in which order they are asked.
 *
 * What copies is bound by the bandwidth that it gets, and two threads of a core
 * share all that a core has. Hence, from the first key to the last:
 *
 * 1. idle CPUs of cores that are idle as a whole, then the other idle CPUs: no
 *    two siblings, nor the sibling of the caller, while there is an idle core.
 *    With high priority busy CPUs follow, those on whose core nobody migrates
 *    before the others;
 * 2. CPUs of the destination node, then those of the other nodes, the nearest
 *    first, and of equally near ones that of the caller first;
 * 3. within a node, spread over the last-level caches (one CPU of each, then a
 *    second of each; the caller's cache has one already), or one cache after the
 *    other, the caller's first.
 *
 * Nothing is remembered from one search to the next, so that CPUs may come and
 * go. A search looks at what a bounded number of CPUs do, and at each of them once
 * for each level of the first key. Half of the looks that are left are kept for
 * the levels that follow: where each core has one busy thread, there are no better
 * CPUs than those of the second level. To pass over a CPU, for its cache or because
 * it is known to be no good, is cheap, and is not counted.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/nodemask.h>

#include "internal.h"

/* Spreading was the faster one, by far, where it has been measured. */
unsigned int migrate_copy_placement = MIGRATE_COPY_SPREAD;

/* What makes a CPU the better choice, best first. */
enum {
	LEVEL_CORE,	/* It is idle, with its whole core */
	LEVEL_IDLE,	/* It is idle */
	LEVEL_BUSY,	/* Nobody migrates on its core */
	LEVEL_ANY,
	LEVEL_NEVER,
};

static unsigned int place_level_of(struct migrate_copy_search *s, int cpu)
{
	const struct migrate_copy_cpus *cpus = s->cpus;
	enum migrate_copy_cpu_use use = cpus->use(s, cpu), other;
	bool idle = true, taken = false;
	int sibling;

	if (use != MIGRATE_COPY_CPU_IDLE &&
	    (use != MIGRATE_COPY_CPU_BUSY || !s->busy_too))
		return LEVEL_NEVER;

	for_each_cpu(sibling, cpus->siblings(cpu)) {
		if (sibling == cpu)
			continue;
		other = cpus->use(s, sibling);
		idle &= other == MIGRATE_COPY_CPU_IDLE ||
			other == MIGRATE_COPY_CPU_OFFLINE;
		taken |= other == MIGRATE_COPY_CPU_TAKEN;
	}
	if (use == MIGRATE_COPY_CPU_IDLE)
		return idle ? LEVEL_CORE : LEVEL_IDLE;
	return taken ? LEVEL_ANY : LEVEL_BUSY;
}

/* Take the CPU if it is good enough by now. */
static bool place_take(struct migrate_copy_search *s, int cpu)
{
	unsigned int level;

	s->probes--;
	cpumask_clear_cpu(cpu, s->untried);
	level = place_level_of(s, cpu);
	if (level > s->level && level != LEVEL_NEVER)
		return false;

	cpumask_clear_cpu(cpu, s->left);
	if (level == LEVEL_NEVER || !s->cpus->take(s, cpu))
		return false;
	s->want--;
	return true;
}

static bool place_done(const struct migrate_copy_search *s)
{
	return !s->want || s->probes <= s->reserve;
}

/*
 * Is it the turn of the CPU in this round? Spreading takes one CPU of each cache,
 * filling all those of one.
 */
static bool place_turn(const struct migrate_copy_search *s, int cpu)
{
	int other;

	for_each_cpu(other, s->round) {
		if (s->cpus->share_cache(cpu, other))
			return s->fill;
	}
	return !s->fill || cpumask_empty(s->round);
}

/* Round by round; the caller is in the first one. */
static void place_node(struct migrate_copy_search *s, const struct cpumask *node)
{
	bool more;
	int cpu;

	cpumask_and(s->round, node, cpumask_of(s->this_cpu));
	do {
		more = !cpumask_empty(s->round);
		for_each_cpu_wrap(cpu, node, s->this_cpu) {
			if (place_done(s))
				return;
			if (!cpumask_test_cpu(cpu, s->untried) ||
			    !place_turn(s, cpu) || !place_take(s, cpu))
				continue;
			more = true;
			if (!s->fill || cpumask_empty(s->round))
				cpumask_set_cpu(cpu, s->round);
		}
		cpumask_clear(s->round);
	} while (more);
}

/* The node nearest to the destination that is left, or NUMA_NO_NODE. */
static int place_nearest(const struct migrate_copy_search *s, const nodemask_t *left)
{
	int nid, distance, best = NUMA_NO_NODE, best_distance = INT_MAX;

	for_each_node_mask(nid, *left) {
		distance = 2 * s->cpus->distance(s->nid, nid);
		if (cpumask_test_cpu(s->this_cpu, s->cpus->of_node(nid)))
			distance--;
		if (distance < best_distance) {
			best_distance = distance;
			best = nid;
		}
	}
	return best;
}

/* Take CPUs that are good enough by now. */
static void place_level(struct migrate_copy_search *s)
{
	nodemask_t left = *s->cpus->nodes;
	int nid;

	cpumask_copy(s->untried, s->left);
	while ((nid = place_nearest(s, &left)) != NUMA_NO_NODE && !place_done(s)) {
		node_clear(nid, left);
		place_node(s, s->cpus->of_node(nid));
	}
}

/**
 * migrate_copy_place() - Take CPUs, in the order of their placement.
 * @s: What is wanted; used up afterwards.
 *
 * Context: As the functions in @s->cpus; neither they nor this may move to
 * another CPU. Takes no lock and allocates nothing.
 */
void migrate_copy_place(struct migrate_copy_search *s)
{
	unsigned int last = s->busy_too ? LEVEL_ANY : LEVEL_IDLE;

	for (s->level = LEVEL_CORE; s->level <= last; s->level++) {
		if (!s->want || cpumask_empty(s->left))
			return;
		s->reserve = s->level == last ? 0 : s->probes / 2;
		place_level(s);
	}
}
