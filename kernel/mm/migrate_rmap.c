// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rmap locks and anon_vma references for page migration: taken once for many
 * folios, so that CPUs migrating pages of one process do not contend for them.
 */
#include <linux/rmap.h>

#include "internal.h"
#include "migrate.h"

/* Let a waiting writer go first: it takes some 20 us to wake up. */
#define RMAP_WRITER_SPINS	500

/**
 * migrate_rmap_lock() - Take the rmap lock of a folio for reading.
 * @held: The lock that is held, or NULL; released if @folio has another one.
 * @folio: The folio, locked and with its anon_vma referenced; NULL to release
 *	the lock.
 *
 * Folios of a request often share this lock. CPUs that take it for each folio
 * contend for it, even as readers. It is released and retaken if it is
 * contended, or if the task should reschedule.
 *
 * Context: Process context, may sleep. No anon_vma reference may be dropped
 * while its lock is held: dropping the last one takes the lock.
 * Return: true if rmap walks of @folio may assume TTU_RMAP_LOCKED; false for
 * NULL, and for KSM folios, whose mappings have several locks.
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
 * @aid: Holds one reference for a whole batch: CPUs that take one per folio
 *	contend for the reference count.
 *
 * Context: Any.
 * Return: The anon_vma if @folio got a reference of its own; otherwise NULL.
 */
struct anon_vma *migrate_get_anon_vma(struct folio *folio, struct migrate_aid *aid)
{
	if (!aid->anon_vma)
		aid->anon_vma = folio_get_anon_vma(folio);
	/* While it is referenced, its address cannot be reused. */
	return aid->anon_vma == folio_anon_vma(folio) ?
	       NULL : folio_get_anon_vma(folio);
}

/**
 * migrate_folios_unmap() - Unmap locked folios.
 * @srcs: The folios, linked by ->lru, with their anon_vmas referenced.
 * @dsts: Their destinations, in the same order.
 * @left_srcs: List for folios that are still mapped.
 * @left_dsts: List for their destinations.
 *
 * Context: Process context, may sleep. The caller must flush the TLB with
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
			/* Another unmapper may hold the page table lock. */
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
