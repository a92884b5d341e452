// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the compound pages that migration allocates and frees: they are
 * the same whether the per-CPU lists keep them compound (PCP_KEEP_COMPOUND) or
 * not.  Also says what preparing and destroying their tails costs.
 */
#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/clock.h>

#include "../../internal.h"

/* Pages that are allocated again and again stay in a per-CPU list. */
#define ROUNDS		16
#define TIMED_ROUNDS	64

static const unsigned int small_orders[] = { 1, 2, PAGE_ALLOC_COSTLY_ORDER };

#define NR_ORDERS	(ARRAY_SIZE(small_orders) + \
			 IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))

/* That of a huge page is no constant everywhere. */
static unsigned int nth_order(unsigned int i)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	if (i == ARRAY_SIZE(small_orders))
		return HPAGE_PMD_ORDER;
#endif
	return small_orders[i];
}

/* The word of the flags, whatever its type. */
static unsigned long *tail_flags(struct page *tail)
{
	return (unsigned long *)&tail->flags;
}

/* Is the page what prep_compound_page() makes of one? */
static void check_compound(struct kunit *test, struct page *page,
			   unsigned int order)
{
	struct folio *folio = (struct folio *)page;
	int i, bad = 0;

	KUNIT_ASSERT_TRUE(test, PageHead(page));
	KUNIT_EXPECT_EQ(test, folio_order(folio), order);
	KUNIT_EXPECT_EQ(test, folio_nr_pages(folio), 1L << order);
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 1);
	KUNIT_EXPECT_EQ(test, folio_mapcount(folio), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&folio->_entire_mapcount), -1);
	KUNIT_EXPECT_EQ(test, atomic_read(&folio->_nr_pages_mapped), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&folio->_pincount), 0);
	KUNIT_EXPECT_FALSE(test, folio_test_large_rmappable(folio));
	KUNIT_EXPECT_FALSE(test, folio_test_partially_mapped(folio));
	KUNIT_EXPECT_PTR_EQ(test, folio->mapping, NULL);
	KUNIT_EXPECT_PTR_EQ(test, folio->private, NULL);
	if (order > 1)
		KUNIT_EXPECT_TRUE(test, list_empty(&folio->_deferred_list));

	for (i = 1; i < 1 << order; i++) {
		struct page *tail = page + i;

		bad += !PageTail(tail) || compound_head(tail) != page;
		bad += page_ref_count(tail) != 0;
		bad += page_private(tail) != 0;
		/* The first two have fields of the folio there. */
		bad += i > 2 && tail->mapping != TAIL_MAPPING;
		/* The first has the order in its flags. */
		bad += i > 1 && (*tail_flags(tail) & PAGE_FLAGS_CHECK_AT_PREP);
	}
	KUNIT_EXPECT_EQ(test, bad, 0);
}

/* What users of compound pages leave behind, as far as they are allowed to. */
static void use_compound(struct page *page, unsigned int order)
{
	struct folio *folio = (struct folio *)page;
	int i;

	folio_set_large_rmappable(folio);
	folio_set_referenced(folio);
	/* The first has the order in its flags. */
	for (i = 2; i < 1 << order; i++)
		set_bit(PG_arch_1, tail_flags(page + i));
}

static void compound_again_test(struct kunit *test)
{
	unsigned int i, round;

	for (i = 0; i < NR_ORDERS; i++) {
		for (round = 0; round < ROUNDS; round++) {
			struct page *page;

			page = alloc_pages(GFP_KERNEL | __GFP_COMP |
					   __GFP_MOVABLE, nth_order(i));
			KUNIT_ASSERT_NOT_NULL(test, page);
			check_compound(test, page, nth_order(i));
			use_compound(page, nth_order(i));
			__free_pages(page, nth_order(i));
		}
	}
}

/* Several pages that are not to be compound are not, whatever was there before. */
static void plain_after_compound_test(struct kunit *test)
{
	unsigned int i, round;
	int j, bad = 0;

	for (i = 0; i < NR_ORDERS; i++) {
		for (round = 0; round < ROUNDS; round++) {
			struct page *page;

			page = alloc_pages(GFP_KERNEL | __GFP_COMP, nth_order(i));
			KUNIT_ASSERT_NOT_NULL(test, page);
			use_compound(page, nth_order(i));
			__free_pages(page, nth_order(i));

			page = alloc_pages(GFP_KERNEL, nth_order(i));
			KUNIT_ASSERT_NOT_NULL(test, page);
			for (j = 0; j < 1 << nth_order(i); j++) {
				bad += PageCompound(page + j);
				bad += j && page[j].mapping;
			}
			__free_pages(page, nth_order(i));
		}
	}
	KUNIT_EXPECT_EQ(test, bad, 0);
}

static u64 alloc_free_ns(struct kunit *test, gfp_t gfp, unsigned int order)
{
	u64 start, best = U64_MAX;
	struct page *page;
	int i;

	for (i = 0; i < TIMED_ROUNDS; i++) {
		start = local_clock();
		page = alloc_pages(gfp, order);
		if (page)
			__free_pages(page, order);
		best = min(best, local_clock() - start);
		KUNIT_ASSERT_NOT_NULL(test, page);
	}
	return best;
}

/*
 * Allocating and freeing a compound page differs from doing so with as many that
 * are not by the work for the tails.  One that is not compound goes through the
 * list of the CPU as well, but with PCP_KEEP_COMPOUND.
 */
static void compound_cost_test(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < NR_ORDERS; i++) {
		u64 compound, plain;

		compound = alloc_free_ns(test, GFP_KERNEL | __GFP_COMP,
					 nth_order(i));
		plain = alloc_free_ns(test, GFP_KERNEL, nth_order(i));
		kunit_info(test, "order %u: compound %llu ns, not compound %llu ns",
			   nth_order(i), compound, plain);
		KUNIT_EXPECT_GT(test, compound, 0ULL);
	}
}

static struct kunit_case compound_cases[] = {
	KUNIT_CASE(compound_again_test),
	KUNIT_CASE(plain_after_compound_test),
	KUNIT_CASE(compound_cost_test),
	{}
};

static struct kunit_suite compound_suite = {
	.name = "migrate_copy_compound",
	.test_cases = compound_cases,
};

kunit_test_suite(compound_suite);
