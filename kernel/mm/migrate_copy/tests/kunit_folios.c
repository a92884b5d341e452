// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairs of folios for the KUnit tests to copy.
 */
#include <kunit/test.h>

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kunit_folios.h"

static void free_folios(void *data)
{
	struct folio_set *set = data;
	unsigned int i;

	for (i = 0; i < set->nr; i++) {
		if (set->pairs[i].src)
			folio_put(set->pairs[i].src);
		if (set->pairs[i].dst)
			folio_put(set->pairs[i].dst);
	}
}

/**
 * copy_test_alloc() - Allocate pairs of folios, freed with the test.
 * @test: The test.
 * @orders: The order of each pair.
 * @nr: How many.
 *
 * Context: Process context, may sleep; ends the test if there is no memory.
 * Return: The pairs.
 */
struct folio_set *copy_test_alloc(struct kunit *test,
				  const unsigned int *orders, unsigned int nr)
{
	struct folio_set *set;
	unsigned int i;

	set = kunit_kzalloc(test, sizeof(*set), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, set);
	KUNIT_ASSERT_LE(test, nr, MIGRATE_COPY_SET);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, free_folios, set));

	for (i = 0; i < nr; i++) {
		struct migrate_copy_pair *pair = &set->pairs[i];

		pair->src = folio_alloc(GFP_KERNEL, orders[i]);
		pair->dst = folio_alloc(GFP_KERNEL, orders[i]);
		set->nr++;
		KUNIT_ASSERT_NOT_NULL(test, pair->src);
		KUNIT_ASSERT_NOT_NULL(test, pair->dst);
		set->pages += 1UL << orders[i];
	}
	return set;
}

/**
 * copy_test_fill() - Fill the sources, and spoil the destinations.
 * @set: The pairs.
 * @round: A source page gets words that no other page and no other round has.
 *
 * Context: Any.
 */
void copy_test_fill(struct folio_set *set, u64 round)
{
	unsigned int i;
	size_t w;

	for (i = 0; i < set->nr; i++) {
		u64 *src = folio_address(set->pairs[i].src);

		for (w = 0; w < folio_size(set->pairs[i].src) / sizeof(u64); w++)
			src[w] = round << 48 | (u64)i << 32 | w;
		memset(folio_address(set->pairs[i].dst), 0xa5,
		       folio_size(set->pairs[i].dst));
	}
}

/**
 * copy_test_same() - Is a pair copied?
 * @pair: The pair.
 *
 * Context: Any.
 * Return: true if the content of both is the same.
 */
bool copy_test_same(const struct migrate_copy_pair *pair)
{
	return !memcmp(folio_address(pair->dst), folio_address(pair->src),
		       folio_size(pair->src));
}
