// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rmap locks for page migration: taken once for many folios, so that CPUs
 * migrating pages of one process do not contend for them.
 */
#include <linux/rmap.h>

#include "internal.h"

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
