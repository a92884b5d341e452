// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the cost model: what it chooses is what its own formula says
 * is fastest, and it wakes nobody for little.
 */
#include <kunit/test.h>

#include "../internal.h"

static const struct migrate_copy_costs costs[] = {
	{ .copy_page_ns = 400, .helper_call_ns = 2000, .helper_start_ns = 20000 },
	{ .copy_page_ns = 100, .helper_call_ns = 500, .helper_start_ns = 3000 },
	{ .copy_page_ns = 3000, .helper_call_ns = 9000, .helper_start_ns = 150000 },
	{ .copy_page_ns = 1, .helper_call_ns = 1, .helper_start_ns = 0 },
	{ .copy_page_ns = 1, .helper_call_ns = 1, .helper_start_ns = UINT_MAX },
};

static u64 time_with(const struct migrate_copy_costs *c, u64 work_ns,
		     unsigned int nr)
{
	if (!nr)
		return work_ns;
	return (u64)nr * c->helper_call_ns + c->helper_start_ns +
	       (work_ns - c->helper_start_ns) / (nr + 1);
}

/* No other number is faster, or by too little to wake anybody. */
static void best_is_best(struct kunit *test)
{
	static const unsigned int limits[] = { 0, 1, 2, 7, 64, 1000 };
	unsigned int i, j, nr, other;
	u64 work_ns, chosen, least;

	for (i = 0; i < ARRAY_SIZE(costs); i++) {
		for (work_ns = 1000; work_ns < 100 * NSEC_PER_SEC; work_ns *= 3) {
			for (j = 0; j < ARRAY_SIZE(limits); j++) {
				nr = migrate_copy_best_helpers(&costs[i], work_ns,
							       limits[j]);
				KUNIT_ASSERT_LE(test, nr, limits[j]);
				if (work_ns <= costs[i].helper_start_ns) {
					KUNIT_ASSERT_EQ(test, 0, nr);
					continue;
				}
				least = work_ns - work_ns / 10;
				chosen = time_with(&costs[i], work_ns, nr);
				if (nr) {
					KUNIT_ASSERT_LE(test, chosen, least);
					least = chosen;
				}
				/* But for what divisions round off, 1 ns or more. */
				for (other = 1; other <= limits[j]; other++)
					KUNIT_ASSERT_GE(test,
							time_with(&costs[i],
								  work_ns, other),
							least - least / 1000 - 1);
			}
		}
	}
}

static void none_for_little(struct kunit *test)
{
	const struct migrate_copy_costs *c = &costs[0];

	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(c, 0, 8));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(c, 20000, 8));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(c, 25000, 8));
	/* 1 ms: 20 us, and 4 us, and a third of the rest. */
	KUNIT_EXPECT_EQ(test, 2, migrate_copy_best_helpers(c, 1000000, 2));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(c, 1000000, 0));
}

static void more_for_more(struct kunit *test)
{
	unsigned int nr, last;
	u64 work_ns;
	int i;

	for (i = 0; i < ARRAY_SIZE(costs); i++) {
		last = 0;
		for (work_ns = 1; work_ns < NSEC_PER_SEC; work_ns *= 2) {
			nr = migrate_copy_best_helpers(&costs[i], work_ns, 64);
			KUNIT_EXPECT_GE(test, nr, last);
			last = nr;
		}
	}
}

/* What was measured at boot can be measured, and is used. */
static void measured(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, migrate_copy_costs.copy_page_ns, 0);
	KUNIT_EXPECT_EQ(test, 3ULL * migrate_copy_costs.copy_page_ns,
			migrate_copy_cost(1, 2));
}

#ifdef CONFIG_MIGRATE_COPY_JUDGE
/* What a benchmark compares with: what was measured does not matter. */
static void assumed(struct kunit *test)
{
	u64 expected = 3ULL * migrate_copy_assumed_costs.copy_page_ns;
	unsigned int copy_page_ns = migrate_copy_costs.copy_page_ns;

	WRITE_ONCE(migrate_copy_costs.copy_page_ns, expected);
	set_bit(MIGRATE_COPY_COST_MODEL, &migrate_copy_left_out);
	KUNIT_EXPECT_EQ(test, expected, migrate_copy_cost(1, 2));
	clear_bit(MIGRATE_COPY_COST_MODEL, &migrate_copy_left_out);
	KUNIT_EXPECT_EQ(test, 3 * expected, migrate_copy_cost(1, 2));
	WRITE_ONCE(migrate_copy_costs.copy_page_ns, copy_page_ns);
}
#endif

static struct kunit_case cost_cases[] = {
	KUNIT_CASE(best_is_best),
	KUNIT_CASE(none_for_little),
	KUNIT_CASE(more_for_more),
	KUNIT_CASE(measured),
#ifdef CONFIG_MIGRATE_COPY_JUDGE
	KUNIT_CASE(assumed),
#endif
	{}
};

static struct kunit_suite cost_suite = {
	.name = "migrate_copy_cost",
	.test_cases = cost_cases,
};

kunit_test_suite(cost_suite);
