/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pairs of folios for the KUnit tests to copy.
 */
#ifndef _MM_MIGRATE_COPY_KUNIT_FOLIOS_H
#define _MM_MIGRATE_COPY_KUNIT_FOLIOS_H

#include "../internal.h"

struct kunit;

/**
 * struct folio_set - pairs to copy
 * @pairs: The pairs.
 * @nr: How many.
 * @pages: Base pages of all sources.
 */
struct folio_set {
	struct migrate_copy_pair pairs[MIGRATE_COPY_SET];
	unsigned int nr;
	unsigned long pages;
};

struct folio_set *copy_test_alloc(struct kunit *test,
				  const unsigned int *orders, unsigned int nr);
void copy_test_fill(struct folio_set *set, u64 round);
bool copy_test_same(const struct migrate_copy_pair *pair);

#endif /* _MM_MIGRATE_COPY_KUNIT_FOLIOS_H */
