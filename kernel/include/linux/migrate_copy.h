/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batched and shared folio copy for page migration: what mm/migrate.c needs.
 */
#ifndef _LINUX_MIGRATE_COPY_H
#define _LINUX_MIGRATE_COPY_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mm.h>

/*
 * Mark in dst->private, next to the page state that migration records there:
 * the content of the source is in the destination. It holds for one pass over
 * a batch, from migrate_copy_batch() until the folio is moved or put back.
 */
#ifdef CONFIG_MIGRATE_COPY
#define MIGRATE_COPY_DONE	BIT(2)

DECLARE_STATIC_KEY_FALSE(migrate_copy_key);
extern unsigned int migrate_copy_batch_pages;

/**
 * migrate_copy_enabled() - Is batched copy switched on?
 *
 * Context: Any. A static branch. The answer may change at any time, also in
 * the middle of a batch, which is harmless: a copy whose mark is not looked at
 * is done again.
 * Return: true when folios are to be copied in batches.
 */
static inline bool migrate_copy_enabled(void)
{
	return static_branch_unlikely(&migrate_copy_key);
}

void migrate_copy_batch(struct list_head *src_folios,
			struct list_head *dst_folios, int reason);
int migrate_copy_hugetlb(struct folio *dst, struct folio *src);
void migrate_copy_count_void(void);

/**
 * migrate_copy_max_batch() - How many base pages one batch may hold.
 * @dflt: The limit of page migration itself, in base pages.
 *
 * Context: Any.
 * Return: The limit to use, in base pages; never less than @dflt.
 */
static inline unsigned int migrate_copy_max_batch(unsigned int dflt)
{
	if (!migrate_copy_enabled())
		return dflt;
	return max(dflt, READ_ONCE(migrate_copy_batch_pages));
}

#else /* !CONFIG_MIGRATE_COPY */
#define MIGRATE_COPY_DONE	0UL

static inline bool migrate_copy_enabled(void)
{
	return false;
}

static inline void migrate_copy_batch(struct list_head *src_folios,
				      struct list_head *dst_folios, int reason)
{
}

static inline int migrate_copy_hugetlb(struct folio *dst, struct folio *src)
{
	return folio_mc_copy(dst, src);
}

static inline void migrate_copy_count_void(void)
{
}

static inline unsigned int migrate_copy_max_batch(unsigned int dflt)
{
	return dflt;
}

#endif /* CONFIG_MIGRATE_COPY */

/**
 * migrate_copy_folio() - Copy one folio that no batch has copied.
 * @dst: The folio to copy to.
 * @src: The folio to copy from.
 *
 * A hugetlb folio is migrated alone, so its copy is shared within the folio.
 * Anything else comes here because it must not be batched, possibly with a
 * lock of its filesystem held, and is copied by the caller as ever.
 *
 * Context: As folio_mc_copy(); may sleep if @src is a hugetlb folio.
 * Return: 0, or -EHWPOISON if a machine check interrupted the copy.
 */
static inline int migrate_copy_folio(struct folio *dst, struct folio *src)
{
	if (migrate_copy_enabled() && folio_test_hugetlb(src))
		return migrate_copy_hugetlb(dst, src);
	return folio_mc_copy(dst, src);
}

#endif /* _LINUX_MIGRATE_COPY_H */
