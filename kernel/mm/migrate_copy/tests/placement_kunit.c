// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the placement: in which order it takes the CPUs of machines
 * that are made up here.
 */
#include <kunit/test.h>

#include <linux/cpumask.h>
#include <linux/nodemask.h>
#include <linux/prandom.h>
#include <linux/string.h>

#include "../internal.h"

#define MAX_CPUS	16
#define MAX_NODES	4
#define UNLIMITED	1000

/*
 * A machine whose parts are alike. With threads_apart the CPUs are numbered as
 * on x86, the second threads of all cores after the first ones of all.
 */
struct machine {
	unsigned int nodes;
	unsigned int caches;	/* of a node */
	unsigned int cores;	/* of a cache */
	unsigned int threads;	/* of a core */
	bool threads_apart;
};

static const struct machine two_caches = { 1, 2, 2, 2, true };
static const struct machine two_nodes = { 2, 1, 2, 2, false };
static const struct machine three_nodes = { 3, 1, 2, 1, false };
static const struct machine large = { 2, 2, 2, 2, true };

/* As the first three nodes in a row, and memory without CPUs nearest to 1. */
static const int distances[MAX_NODES][MAX_NODES] = {
	{ 10, 20, 40, 60 },
	{ 20, 10, 20, 40 },
	{ 40, 20, 10, 50 },
	{ 60, 40, 50, 10 },
};

/* One search in such a machine, and what came of it. */
struct trial {
	struct migrate_copy_search search;
	const struct machine *machine;
	struct cpumask left;
	struct cpumask untried;
	struct cpumask round;
	/* '.' idle, 'b' busy, 't' taken, '-' offline, 'l' lost later */
	char use[MAX_CPUS + 1];
	unsigned int asked;
	unsigned int nr;
	int order[MAX_CPUS];
};

/* The machine of the running trial, whose masks have to be kept somewhere. */
static struct {
	nodemask_t nodes;
	struct cpumask of_node[MAX_NODES];
	struct cpumask of_core[MAX_CPUS];
	unsigned int cache[MAX_CPUS];
	unsigned int core[MAX_CPUS];
} now;

static unsigned int nr_cpus(const struct machine *m)
{
	return m->nodes * m->caches * m->cores * m->threads;
}

static void build(const struct machine *m)
{
	unsigned int nr_cores = nr_cpus(m) / m->threads;
	unsigned int cpu, node;

	memset(&now, 0, sizeof(now));
	for (cpu = 0; cpu < nr_cpus(m); cpu++) {
		now.core[cpu] = m->threads_apart ? cpu % nr_cores :
						   cpu / m->threads;
		now.cache[cpu] = now.core[cpu] / m->cores;
		node = now.cache[cpu] / m->caches;
		node_set(node, now.nodes);
		cpumask_set_cpu(cpu, &now.of_node[node]);
		cpumask_set_cpu(cpu, &now.of_core[now.core[cpu]]);
	}
}

static const struct cpumask *fake_node(int nid)
{
	return &now.of_node[nid];
}

static const struct cpumask *fake_siblings(int cpu)
{
	return &now.of_core[now.core[cpu]];
}

static int fake_distance(int from, int to)
{
	return distances[from][to];
}

static bool fake_share_cache(int cpu, int other)
{
	return now.cache[cpu] == now.cache[other];
}

static enum migrate_copy_cpu_use fake_use(struct migrate_copy_search *s, int cpu)
{
	struct trial *trial = container_of(s, struct trial, search);

	trial->asked++;
	switch (trial->use[cpu]) {
	case '-':
		return MIGRATE_COPY_CPU_OFFLINE;
	case '.':
	case 'l':
		return MIGRATE_COPY_CPU_IDLE;
	case 't':
		return MIGRATE_COPY_CPU_TAKEN;
	}
	return MIGRATE_COPY_CPU_BUSY;
}

static bool fake_take(struct migrate_copy_search *s, int cpu)
{
	struct trial *trial = container_of(s, struct trial, search);

	if (trial->use[cpu] == 'l')
		return false;
	trial->use[cpu] = 't';
	trial->order[trial->nr++] = cpu;
	return true;
}

static const struct migrate_copy_cpus fake_cpus = {
	.nodes = &now.nodes,
	.of_node = fake_node,
	.siblings = fake_siblings,
	.distance = fake_distance,
	.share_cache = fake_share_cache,
	.use = fake_use,
	.take = fake_take,
};

static struct trial *prepare(struct kunit *test, const struct machine *m,
			     int this_cpu, int nid)
{
	struct trial *trial;
	unsigned int cpu;

	if (small_cpumask_bits < MAX_CPUS || MAX_NUMNODES < MAX_NODES)
		kunit_skip(test, "this kernel has masks for few CPUs or nodes");

	trial = kunit_kzalloc(test, sizeof(*trial), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, trial);
	build(m);
	trial->machine = m;
	memset(trial->use, '.', nr_cpus(m));
	trial->use[this_cpu] = 't';
	for (cpu = 0; cpu < nr_cpus(m); cpu++)
		cpumask_set_cpu(cpu, &trial->left);
	cpumask_clear_cpu(this_cpu, &trial->left);
	trial->search = (struct migrate_copy_search) {
		.cpus = &fake_cpus,
		.left = &trial->left,
		.untried = &trial->untried,
		.round = &trial->round,
		.this_cpu = this_cpu,
		.nid = nid,
		.want = UNLIMITED,
		.probes = UNLIMITED,
	};
	return trial;
}

/* The CPUs taken, as text. */
static void expect_order(struct kunit *test, struct trial *trial,
			 const char *expected, const char *what)
{
	char order[4 * MAX_CPUS] = "";
	unsigned int i, len = 0;

	migrate_copy_place(&trial->search);
	for (i = 0; i < trial->nr; i++)
		len += scnprintf(order + len, sizeof(order) - len, "%s%d",
				 i ? " " : "", trial->order[i]);
	KUNIT_EXPECT_STREQ_MSG(test, order, expected, "%s", what);
}

struct placement_case {
	const char *name;
	const struct machine *machine;
	int this_cpu;
	int nid;
	const char *use;	/* all idle but the caller, if NULL */
	bool busy_too;
	const char *spread;
	const char *fill;
};

/*
 * two_caches: the cores 0,4 and 1,5 have one cache, 2,6 and 3,7 another.
 * two_nodes: the cores 0,1 and 2,3 on one node, 4,5 and 6,7 on the other.
 * three_nodes: 0 and 1, 2 and 3, 4 and 5.
 */
static const struct placement_case placement_cases[] = {
	{ "caches and threads", &two_caches, 0, 0, NULL, false,
	  "2 1 3 6 4 7 5", "1 2 3 4 5 6 7" },
	{ "caller on a second thread", &two_caches, 6, 0, NULL, false,
	  "0 7 1 4 2 5 3", "7 0 1 2 3 4 5" },
	{ "a busy sibling", &two_caches, 0, 0, "t.....b.", false,
	  "3 1 2 4 7 5", "1 3 4 5 2 7" },
	{ "a busy cache", &two_caches, 0, 0, "t.bb..bb", false,
	  "1 4 5", "1 4 5" },
	{ "an offline sibling", &two_caches, 0, 0, "t...-.-.", false,
	  "2 1 3 7 5", "1 2 3 5 7" },
	{ "one is lost", &two_caches, 0, 0, "t.l.....", false,
	  "3 1 6 7 4 5", "1 3 6 4 5 7" },
	{ "all busy", &two_caches, 0, 0, "tbbbbbbb", false, "", "" },
	{ "all busy, high priority", &two_caches, 0, 0, "tbbbbbbb", true,
	  "2 1 3 6 4 7 5", "1 2 3 4 5 6 7" },
	{ "some busy, high priority", &two_caches, 0, 0, "t.bb.bb.", true,
	  "7 1 4 2 3 5 6", "1 4 7 2 5 3 6" },
	{ "one taken, high priority", &two_caches, 0, 0, "tbbtbbbb", true,
	  "2 1 6 4 7 5", "1 2 4 5 6 7" },
	{ "cores of both nodes first", &two_nodes, 0, 1, NULL, false,
	  "4 6 2 5 7 1 3", "4 6 2 5 7 1 3" },
	{ "the caller's node", &two_nodes, 0, 0, NULL, false,
	  "2 4 6 1 3 5 7", "2 4 6 1 3 5 7" },
	{ "nodes by distance", &three_nodes, 0, 2, NULL, false,
	  "4 5 2 3 1", "4 5 2 3 1" },
	{ "the caller's node of two", &three_nodes, 5, 1, NULL, false,
	  "2 3 4 0 1", "2 3 4 0 1" },
	{ "the other node of two", &three_nodes, 0, 1, NULL, false,
	  "2 3 1 4 5", "2 3 1 4 5" },
	{ "memory without CPUs", &three_nodes, 0, 3, NULL, false,
	  "2 3 4 5 1", "2 3 4 5 1" },
};

static void placement_desc(const struct placement_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(placement, placement_cases, placement_desc);

static void order_of_cpus(struct kunit *test)
{
	const struct placement_case *c = test->param_value;
	unsigned int want;
	int fill;

	for (fill = 0; fill < 2; fill++) {
		const char *expected = fill ? c->fill : c->spread;
		struct trial *trial = prepare(test, c->machine, c->this_cpu,
					      c->nid);

		if (c->use)
			strscpy(trial->use, c->use);
		trial->search.fill = fill;
		trial->search.busy_too = c->busy_too;
		expect_order(test, trial, expected, fill ? "fill" : "spread");

		/* Who wants fewer gets the first of them. */
		for (want = 1; want <= trial->nr; want++) {
			struct trial *part = prepare(test, c->machine,
						     c->this_cpu, c->nid);

			if (c->use)
				strscpy(part->use, c->use);
			part->search.fill = fill;
			part->search.busy_too = c->busy_too;
			part->search.want = want;
			migrate_copy_place(&part->search);
			KUNIT_EXPECT_EQ(test, want, part->nr);
			KUNIT_EXPECT_EQ(test, 0,
					memcmp(part->order, trial->order,
					       want * sizeof(*part->order)));
		}
	}
}

/* Whatever is not in the mask is left alone, whatever it does. */
static void only_from_mask(struct kunit *test)
{
	int fill;

	for (fill = 0; fill < 2; fill++) {
		struct trial *trial = prepare(test, &two_caches, 0, 0);

		cpumask_clear(&trial->left);
		cpumask_set_cpu(4, &trial->left);
		cpumask_set_cpu(7, &trial->left);
		trial->search.fill = fill;
		/* 4 is the caller's sibling, all of the core of 7 is idle. */
		expect_order(test, trial, "7 4", fill ? "fill" : "spread");
	}
}

/* A search on a busy machine asks each CPU once, and no more than it may. */
static void bounded_search(struct kunit *test)
{
	struct trial *trial;
	int fill;

	for (fill = 0; fill < 2; fill++) {
		trial = prepare(test, &large, 3, 1);
		memset(trial->use, 'b', nr_cpus(&large));
		trial->search.fill = fill;
		migrate_copy_place(&trial->search);
		KUNIT_EXPECT_EQ(test, 0, trial->nr);
		KUNIT_EXPECT_EQ(test, nr_cpus(&large) - 1, trial->asked);

		trial = prepare(test, &large, 3, 1);
		memset(trial->use, 'b', nr_cpus(&large));
		trial->search.fill = fill;
		trial->search.probes = 5;
		migrate_copy_place(&trial->search);
		KUNIT_EXPECT_EQ(test, 5, trial->asked);
	}
}

/*
 * Where each core has one busy thread, no core is idle: what a search may ask is
 * left in part for the idle threads, and it asks each CPU once on each level.
 */
static void half_of_each_core_busy(struct kunit *test)
{
	unsigned int cpu, nr = nr_cpus(&large), round;
	struct trial *trial;

	for (round = 0; round < 4; round++) {
		for (cpu = 0; cpu < nr; cpu++) {
			bool few = round & 1;

			trial = prepare(test, &large, cpu, 1);
			memset(trial->use, '.', nr / 2);
			memset(trial->use + nr / 2, 'b', nr / 2);
			trial->use[cpu] = 't';
			trial->search.fill = round & 2;
			if (few)
				trial->search.probes = nr / 2;
			migrate_copy_place(&trial->search);
			if (few)
				KUNIT_EXPECT_GT_MSG(test, trial->nr, 0,
						    "caller %u", cpu);
			else
				KUNIT_EXPECT_GE_MSG(test,
						    trial->search.probes + nr +
						    nr / 2, UNLIMITED,
						    "caller %u", cpu);
			kunit_kfree(test, trial);
		}
	}
}

static bool core_is_idle(const struct trial *trial, unsigned int core)
{
	int cpu;

	for_each_cpu(cpu, &now.of_core[core]) {
		if (trial->use[cpu] != '.')
			return false;
	}
	return true;
}

/* No CPU of a core in use is taken while there is a core that is idle. */
static bool take_with_care(struct migrate_copy_search *s, int cpu)
{
	struct trial *trial = container_of(s, struct trial, search);
	unsigned int core;

	if (!core_is_idle(trial, now.core[cpu])) {
		for (core = 0; core < MAX_CPUS; core++) {
			if (!cpumask_empty(&now.of_core[core]) &&
			    core_is_idle(trial, core))
				return false;
		}
	}
	return fake_take(s, cpu);
}

/* In any state of the machine, every idle CPU is taken once; cores first. */
static void siblings_come_last(struct kunit *test)
{
	struct migrate_copy_cpus cpus = fake_cpus;
	struct rnd_state rnd;
	unsigned int round;

	cpus.take = take_with_care;
	prandom_seed_state(&rnd, 1);
	for (round = 0; round < 500; round++) {
		struct machine m = large;
		unsigned int cpu, idle = 0, nr = nr_cpus(&m);
		struct trial *trial;

		m.threads_apart = round & 1;
		trial = prepare(test, &m, prandom_u32_state(&rnd) % nr,
				prandom_u32_state(&rnd) % m.nodes);
		for (cpu = 0; cpu < nr; cpu++) {
			if (prandom_u32_state(&rnd) % 4 == 0)
				trial->use[cpu] = 'b';
			idle += trial->use[cpu] == '.';
		}
		trial->search.cpus = &cpus;
		trial->search.fill = round & 2;
		migrate_copy_place(&trial->search);
		KUNIT_EXPECT_EQ_MSG(test, idle, trial->nr, "round %u", round);
		kunit_kfree(test, trial);
	}
}

#ifdef CONFIG_MIGRATE_COPY_JUDGE
/* What a benchmark compares with: no topology, the idle CPUs before the others. */
static void by_number(struct kunit *test)
{
	struct trial *trial = prepare(test, &two_caches, 5, 0);

	memcpy(trial->use, "b.h.-t.l", nr_cpus(&two_caches));
	trial->search.busy_too = true;
	set_bit(MIGRATE_COPY_PLACEMENT, &migrate_copy_left_out);
	expect_order(test, trial, "1 3 6 0 2", "by number");
	clear_bit(MIGRATE_COPY_PLACEMENT, &migrate_copy_left_out);
}
#endif

static struct kunit_case placement_tests[] = {
	KUNIT_CASE_PARAM(order_of_cpus, placement_gen_params),
	KUNIT_CASE(only_from_mask),
	KUNIT_CASE(bounded_search),
	KUNIT_CASE(half_of_each_core_busy),
	KUNIT_CASE(siblings_come_last),
#ifdef CONFIG_MIGRATE_COPY_JUDGE
	KUNIT_CASE(by_number),
#endif
	{}
};

static struct kunit_suite placement_suite = {
	.name = "migrate_copy_placement",
	.test_cases = placement_tests,
};

kunit_test_suite(placement_suite);
