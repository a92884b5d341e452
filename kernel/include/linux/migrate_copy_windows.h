/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test only: places in a migration where it can be made to stand still, and
 * rules of it that can be broken. Without CONFIG_MIGRATE_COPY_TEST_WINDOWS
 * there is nothing of it.
 */
#ifndef _LINUX_MIGRATE_COPY_WINDOWS_H
#define _LINUX_MIGRATE_COPY_WINDOWS_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

struct folio;
struct vm_area_struct;

/* The windows, in the order in which a batch passes them. */
enum migrate_copy_window_at {
	MIGRATE_COPY_AT_ISOLATED,	/* A piece is isolated, nothing unmapped */
	MIGRATE_COPY_AT_UNMAPPED,	/* The batch is unmapped, no flush yet */
	MIGRATE_COPY_AT_FLUSHED,	/* The TLBs are flushed, nothing checked */
	MIGRATE_COPY_AT_CHECKED,	/* References checked, nothing copied */
	MIGRATE_COPY_AT_COPYING,	/* The migrating task is amid its copies */
	MIGRATE_COPY_AT_HELPING,	/* A helper is amid a chunk */
	MIGRATE_COPY_AT_COPIED,		/* The folio is to be moved next */
	MIGRATE_COPY_AT_SWITCHING,	/* Checked again, the mapping is next */
	MIGRATE_COPY_AT_REMAPPING,	/* Switched, the page tables are next */
	MIGRATE_COPY_NR_WINDOWS,
};

/* What can be broken. Each loses data if somebody does the wrong thing then. */
enum migrate_copy_break {
	MIGRATE_COPY_BREAK_REFS,	/* Copy without a look at the references */
	MIGRATE_COPY_BREAK_FLUSH,	/* Flush the TLBs after the copy */
	MIGRATE_COPY_BREAK_PUBLISH,	/* Switch the mapping, then copy */
	MIGRATE_COPY_BREAK_FAILED,	/* Take a failed copy for a good one */
	MIGRATE_COPY_BREAK_MARK,	/* Keep the mark for the next pass */
	MIGRATE_COPY_BREAK_MEMFD,	/* memfd_pin_folios() does not wait */
	MIGRATE_COPY_BREAK_LOCK,	/* Unlock between the copy and the switch */
	MIGRATE_COPY_BREAK_WRITABLE,	/* Map as writable what was not, or is not now */
	MIGRATE_COPY_BREAK_SIGNAL,	/* Who has a signal leaves out copies */
	MIGRATE_COPY_BREAK_CHUNK,	/* A helper leaves its chunk if its CPU is wanted */
	MIGRATE_COPY_BREAK_GONE,	/* Map again where the entry is gone */
	MIGRATE_COPY_BREAK_PENDING,	/* Who gives up memory flushes no TLB */
	MIGRATE_COPY_BREAK_MAPPED,	/* Map between the copy and the switch */
	MIGRATE_COPY_BREAK_QUARANTINE,	/* Move to where DMA may still write */
	MIGRATE_COPY_BREAK_HELD,	/* Free what DMA may still write to */
	MIGRATE_COPY_NR_BREAKS,
};

#ifdef CONFIG_MIGRATE_COPY_TEST_WINDOWS
extern bool migrate_copy_windows_watched;
extern unsigned long migrate_copy_broken_rules;

void __migrate_copy_at(enum migrate_copy_window_at window, bool may_sleep);
void migrate_copy_stand_copied(struct list_head *folios);
void migrate_copy_map_gone(struct folio *folio, struct vm_area_struct *vma,
			   unsigned long address);
bool migrate_copy_fails(void);

/**
 * migrate_copy_at() - Pass a window, or stand in it if a test wants that.
 * @window: Which one.
 *
 * Context: May sleep.
 */
static inline void migrate_copy_at(enum migrate_copy_window_at window)
{
	if (READ_ONCE(migrate_copy_windows_watched))
		__migrate_copy_at(window, true);
}

/**
 * migrate_copy_at_atomic() - The same where sleeping is not allowed.
 * @window: Which one.
 *
 * Context: Any in which preemption may be disabled; spins.
 */
static inline void migrate_copy_at_atomic(enum migrate_copy_window_at window)
{
	if (READ_ONCE(migrate_copy_windows_watched))
		__migrate_copy_at(window, false);
}

/**
 * migrate_copy_broken() - Does a test want this rule to be broken?
 * @rule: Which one.
 *
 * Context: Any.
 * Return: true if so.
 */
static inline bool migrate_copy_broken(enum migrate_copy_break rule)
{
	return READ_ONCE(migrate_copy_broken_rules) & BIT(rule);
}

extern unsigned int migrate_copy_engine_chunk_kb;
extern atomic_long_t migrate_copy_engine_jobs;
extern atomic_long_t migrate_copy_engine_chunks;

/**
 * migrate_copy_engine_most() - How large a test wants chunks of engines to be.
 *
 * Context: Any.
 * Return: The most base pages.
 */
static inline unsigned long migrate_copy_engine_most(void)
{
	return READ_ONCE(migrate_copy_engine_chunk_kb) * 1024UL / PAGE_SIZE;
}

/**
 * migrate_copy_engine_count() - Count what engines do.
 * @chunk: A chunk was copied, else a job was begun.
 *
 * Context: Any.
 */
static inline void migrate_copy_engine_count(bool chunk)
{
	atomic_long_inc(chunk ? &migrate_copy_engine_chunks : &migrate_copy_engine_jobs);
}
#else
static inline unsigned long migrate_copy_engine_most(void)
{
	return ULONG_MAX;
}

static inline void migrate_copy_engine_count(bool chunk)
{
}

static inline void migrate_copy_at(enum migrate_copy_window_at window)
{
}

static inline void migrate_copy_at_atomic(enum migrate_copy_window_at window)
{
}

static inline bool migrate_copy_broken(enum migrate_copy_break rule)
{
	return false;
}

static inline void migrate_copy_stand_copied(struct list_head *folios)
{
}

static inline void migrate_copy_map_gone(struct folio *folio,
					 struct vm_area_struct *vma,
					 unsigned long address)
{
}

static inline bool migrate_copy_fails(void)
{
	return false;
}
#endif

#endif /* _LINUX_MIGRATE_COPY_WINDOWS_H */
