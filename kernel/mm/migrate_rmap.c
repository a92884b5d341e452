// SPDX-License-Identifier: GPL-2.0-only
/*
 * What page migration takes once for many folios, so that CPUs which migrate pages of
 * one process do not wait for each other: the locks of their mappings, and references.
 */
#include <linux/rmap.h>

#include "internal.h"
#include "migrate.h"

/* A reader could come first again and again: some 20 us for a writer to wake up. */
#define RMAP_WRITER_SPINS	500

/**
 * migrate_rmap_lock() - Take the lock of the mappings of a folio.
 * @held: The one that is held, or NULL; it is left if the folio has another one.
 * @folio: A folio that is locked, with a reference to its anon_vma; or NULL.
 *
 * Folios of a request often share this lock. CPUs that take it for each folio wait for
 * each other, though they only read what it protects. If somebody waits for it, or for
 * the CPU, it is left and taken again.
 *
 * Context: Process context, may sleep. No reference to an anon_vma may be put
 * while its lock is held: the last one takes it.
 * Return: true if the walks of @folio's mappings find them locked; false for KSM
 * folios, whose mappings have several locks, and for NULL.
 */
bool migrate_rmap_lock(struct rw_semaphore **held, struct folio *folio)
{
	unsigned int spins = RMAP_WRITER_SPINS;
	struct rw_semaphore *lock = NULL;

	if (folio && !folio_test_anon(folio))
		lock = &folio->mapping->i_mmap_rwsem;
	else if (folio && !folio_test_ksm(folio))
		lock = &folio_anon_vma(folio)->root->rwsem;
	if (lock && lock == *held && !need_resched() && !rwsem_is_contended(lock))
		return true;
	if (*held)
		up_read(*held);
	cond_resched();
	while (lock && lock == *held && rwsem_is_contended(lock) && spins--)
		cpu_relax();
	if (lock)
		down_read(lock);
	*held = lock;
	return lock;
}

/**
 * migrate_get_anon_vma() - Take a reference to the anon_vma of a folio.
 * @folio: The folio, locked.
 * @aid: Has one for many folios if somebody else does what is left: CPUs that
 *	count their references in one place wait for each other.
 *
 * Context: Any.
 * Return: The anon_vma, if the folio has a reference of its own; or NULL.
 */
struct anon_vma *migrate_get_anon_vma(struct folio *folio, struct migrate_aid *aid)
{
	if (!aid->anon_vma)
		aid->anon_vma = folio_get_anon_vma(folio);
	/* While it has a reference, no other one has this address. */
	return aid->anon_vma == folio_anon_vma(folio) ?
	       NULL : folio_get_anon_vma(folio);
}

/**
 * migrate_folios_unmap() - Unmap folios that are locked.
 * @srcs: The folios, linked by their lru, with references to their anon_vmas.
 * @dsts: Their destinations, in the same order.
 * @left_srcs: Where those go that others have kept mapped.
 * @left_dsts: Where their destinations go.
 *
 * Context: Process context, may sleep. The TLB is to be flushed by
 * try_to_unmap_flush().
 */
void migrate_folios_unmap(struct list_head *srcs, struct list_head *dsts,
			  struct list_head *left_srcs, struct list_head *left_dsts)
{
	struct folio *src, *src2, *dst, *dst2;
	struct rw_semaphore *held = NULL;
	enum ttu_flags flags;

	dst = list_first_entry(dsts, struct folio, lru);
	list_for_each_entry_safe(src, src2, srcs, lru) {
		dst2 = list_next_entry(dst, lru);
		if (folio_mapped(src)) {
			flags = migrate_rmap_lock(&held, src) ?
				TTU_BATCH_FLUSH | TTU_RMAP_LOCKED : TTU_BATCH_FLUSH;
			try_to_migrate(src, flags);
			/* Somebody who unmaps it, too, has its page table locked. */
			if (folio_mapped(src))
				try_to_migrate(src, flags | TTU_SYNC);
		}
		if (folio_mapped(src)) {
			list_move_tail(&src->lru, left_srcs);
			list_move_tail(&dst->lru, left_dsts);
		}
		dst = dst2;
	}
	migrate_rmap_lock(&held, NULL);
}
