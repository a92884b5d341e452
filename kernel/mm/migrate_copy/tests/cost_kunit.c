// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the number of helpers: none for little, more for more, and
 * never more than allowed.
 */
#include <kunit/test.h>

#include "../internal.h"

static void none_for_little(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(0, 0, 8));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(1, 1, 8));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(8, 8, 8));
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_best_helpers(10000, 10000, 0));
}

/* 64 base pages are worth a helper, copied or moved, and a huge page several. */
static void some_for_more(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, migrate_copy_best_helpers(64, 64, 8), 1);
	KUNIT_EXPECT_GE(test, migrate_copy_best_helpers(0, 64, 8), 1);
	KUNIT_EXPECT_GE(test, migrate_copy_best_helpers(1, 512, 63), 4);
	KUNIT_EXPECT_EQ(test, 63, migrate_copy_best_helpers(0, 1UL << 20, 63));
}

static void more_for_more(struct kunit *test)
{
	unsigned int nr, most, last;
	unsigned long pages;

	for (most = 1; most <= 63; most++) {
		last = 0;
		for (pages = 1; pages < 1UL << 24; pages *= 2) {
			nr = migrate_copy_best_helpers(pages, pages, most);
			KUNIT_EXPECT_GE(test, nr, last);
			KUNIT_EXPECT_LE(test, nr, most);
			last = nr;
		}
		KUNIT_EXPECT_EQ(test, most, last);
	}
}

static struct kunit_case cost_cases[] = {
	KUNIT_CASE(none_for_little),
	KUNIT_CASE(some_for_more),
	KUNIT_CASE(more_for_more),
	{}
};

static struct kunit_suite cost_suite = {
	.name = "migrate_copy_cost",
	.test_cases = cost_cases,
};

kunit_test_suite(cost_suite);
