/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of which several CPUs take pieces: the interface between
 * mm/migrate.c, mm/mempolicy.c and mm/migrate_copy/.
 */
#ifndef _MM_MIGRATE_COPY_PIECES_H
#define _MM_MIGRATE_COPY_PIECES_H

#include <linux/huge_mm.h>
#include <linux/memremap.h>
#include <linux/mm.h>

#include "../internal.h"
#include "../migrate.h"
#include "migrate_copy.h"

/*
 * Base pages that are worth waking a CPU for, and the smallest piece or batch
 * when several CPUs share a request: below that, the TLB flushes cost more than
 * is gained by all CPUs finishing at the same time.
 */
#define MIGRATE_PIECE_LEAST	64

/**
 * folio_may_move() - Check if move_pages() may, and has to, move a folio.
 * @folio: The folio, which must not go away.
 * @node: The target node.
 * @migrate_all: Whether the folio may be shared with other processes.
 *
 * Context: Any.
 * Return: 1 if it is to be moved, 0 if it is on @node already, -EFAULT for zero
 * pages, -ENOENT for device memory, -EACCES if it is shared and may not be.
 */
static inline int folio_may_move(struct folio *folio, int node,
				 bool migrate_all)
{
	if (is_zero_folio(folio) || is_huge_zero_folio(folio))
		return -EFAULT;

	if (folio_is_zone_device(folio))
		return -ENOENT;

	if (folio_nid(folio) == node)
		return 0;

	if (folio_maybe_mapped_shared(folio) && !migrate_all)
		return -EACCES;

	return 1;
}

/**
 * struct migrate_piece - the part of a request that one CPU has taken
 * @folios: Its folios.
 * @failed: Folios that could not be migrated.
 * @start: Where it begins: an address of a range, an index of an array.
 * @end: Where it ends, exclusive.
 */
struct migrate_piece {
	struct list_head folios;
	struct list_head failed;
	unsigned long start;
	unsigned long end;
};

/**
 * struct migrate_pieces - a request of which several CPUs take pieces
 * @isolate: Takes the next piece and isolates its folios; called by several
 *	CPUs at the same time. Returns false if there is none.
 * @done: Called after a piece has been migrated, except for the folios it still
 *	holds. May be NULL.
 * @get_new_folio: As for migrate_pages(); any CPU may call it.
 * @private: As for migrate_pages().
 * @mode: As for migrate_pages(), without flags.
 * @reason: As for migrate_pages().
 * @asked: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @nr_cpus: The number of CPUs, including the caller's.
 * @begun: Statistics of the request, which earlier parts may have begun.
 * @team: The helpers.
 * @no_memory: An allocation has failed: no more pieces are isolated.
 * @lock: Protects @begun and what follows.
 * @left: Isolated folios that could not be migrated, for the caller to take.
 * @rest: The rest of the piece of a helper that made way; no folios if none.
 * @helper_pages: Base pages migrated by helpers.
 * @moved: Base pages that the request had migrated before.
 * @since: When it began, in ns, if that is traced.
 *
 * See mm/migrate_copy/pieces.c.
 */
struct migrate_pieces {
	bool (*isolate)(struct migrate_pieces *pieces,
			struct migrate_piece *piece);
	void (*done)(struct migrate_pieces *pieces,
		     struct migrate_piece *piece);
	new_folio_t *get_new_folio;
	unsigned long private;
	enum migrate_mode mode;
	enum migrate_reason reason;
	unsigned int asked;
	int nr_cpus;
	struct migrate_pages_stats *begun;

	/* Private to pieces.c: */
	struct migrate_copy_team team;
	bool no_memory;
	spinlock_t lock;	/* Protects begun and what follows */
	struct list_head left;
	struct migrate_piece rest;
	unsigned long helper_pages;
	unsigned long moved;
	u64 since;
};

/**
 * struct migrate_list - isolated folios of which several CPUs take pieces
 * @lock: Protects what follows.
 * @from: Folios that have not been taken.
 * @nr_left: How many base pages there are in it, as far as known.
 * @open: Helpers take pieces, and more folios may come.
 * @more: Folios that helpers cannot take yet; the caller's.
 * @nr_more: Their base pages.
 * @pieces: The request that the CPUs share.
 */
struct migrate_list {
	spinlock_t lock;	/* Protects what follows */
	struct list_head from;
	unsigned long nr_left;
	bool open;
	struct list_head more;
	unsigned int nr_more;
	struct migrate_pieces pieces;
};

/* Parts of a range that are told apart when they have to be looked at again. */
#define MIGRATE_RANGE_MISSED	16

/**
 * struct migrate_range - an address range of which several CPUs take pieces
 * @mm: The address space.
 * @nodes: As for queue_pages_range().
 * @pol: The policy that a VMA must have; NULL for any.
 * @flags: As for queue_pages_range().
 * @lock: Protects what follows.
 * @next: The first address that has not been taken.
 * @end: The end of the range, exclusive.
 * @nr_left: How many pages there may be from @next on.
 * @nr_missed: The number of parts in @missed.
 * @missed: Start and end of parts with folios that could not be isolated, such
 *	as those that belong to two pieces, or could not be moved.
 * @pieces: The request that the CPUs share.
 */
struct migrate_range {
	struct mm_struct *mm;
	nodemask_t *nodes;
	struct mempolicy *pol;
	unsigned long flags;
	spinlock_t lock;	/* Protects what follows */
	unsigned long next;
	unsigned long end;
	unsigned long nr_left;
	unsigned int nr_missed;
	unsigned long missed[MIGRATE_RANGE_MISSED][2];
	struct migrate_pieces pieces;
};

/* The state of an array's page, kept in the low bits of its address. */
enum migrate_array_state {
	MIGRATE_ARRAY_TODO,	/* Not handled, or outcome unknown */
	MIGRATE_ARRAY_HERE,	/* Was on the target node already */
	MIGRATE_ARRAY_TAKEN,	/* Was isolated, may have moved */
	MIGRATE_ARRAY_MOVED,	/* Has moved */
	MIGRATE_ARRAY_STATES = 3,
};

/**
 * struct migrate_array - the array of move_pages(), and the part read so far
 * @mm: The address space of the pages.
 * @pages: The array of addresses.
 * @nodes: The array of target nodes.
 * @nr_pages: The length of both.
 * @task_nodes: The nodes that pages may be moved to.
 * @page: The addresses of the part, in rising order, with their states. Freed
 *	by the system call; not used for an array of one page.
 * @first: The index of the part in the array.
 * @nr: The number of pages in the part.
 * @node: The target node of all of them.
 * @next: The first index that has not been looked at.
 * @unit: Base pages per entry, as far as known.
 * @claimed: How many pages of the part have been taken.
 * @begun: Statistics of the pages moved so far, not reported yet.
 * @pieces: The request that the CPUs share.
 */
struct migrate_array {
	struct mm_struct *mm;
	const void __user * __user *pages;
	const int __user *nodes;
	unsigned long nr_pages;
	const nodemask_t *task_nodes;
	unsigned long *page;
	unsigned long first;
	int nr;
	int node;
	unsigned long next;
	int unit;
	atomic_t claimed;
	struct migrate_pages_stats begun;
	struct migrate_pieces pieces;
};

/* Base pages of the next piece: fewer towards the end, to finish together. */
static inline unsigned long migrate_piece_size(const struct migrate_pieces *pieces,
					       unsigned long nr_left)
{
	return clamp(nr_left / (2 * READ_ONCE(pieces->nr_cpus)), MIGRATE_PIECE_LEAST,
		     MIGRATE_COPY_BATCH_PAGES);
}

unsigned int migrate_pieces_helpers(int reason, unsigned int asked,
				    unsigned long nr_pages);
bool migrate_pieces_run(struct migrate_pieces *pieces, unsigned long nr_folios,
			unsigned long nr_pages);
bool migrate_pieces_open(struct migrate_pieces *pieces);
void migrate_pieces_more(struct migrate_pieces *pieces);
bool migrate_pieces_do(struct migrate_pieces *pieces);
void migrate_pieces_close(struct migrate_pieces *pieces);
bool migrate_range_claim(struct migrate_range *range,
			 struct migrate_piece *piece);
void migrate_range_miss(struct migrate_range *range,
			const struct migrate_piece *piece);
bool migrate_range_run(struct migrate_range *range, unsigned long start, unsigned long end);
void migrate_list_run(struct list_head *from, new_folio_t *get_new_folio,
		      unsigned long private, enum migrate_mode mode,
		      enum migrate_reason reason, unsigned int asked,
		      struct migrate_pages_stats *begun);
bool migrate_list_open(struct migrate_list *list, new_folio_t *get_new_folio,
		       unsigned long private, enum migrate_reason reason,
		       struct migrate_pages_stats *begun);
void migrate_list_add(struct migrate_list *list, struct folio *folio);
void migrate_list_flush(struct migrate_list *list);
void migrate_list_close(struct migrate_list *list, struct list_head *left);

/* Is there no memory for the folios of an open list, or no help? */
static inline bool migrate_list_is_stuck(const struct migrate_list *list)
{
	return READ_ONCE(list->pieces.no_memory);
}

enum migrate_array_state __migrate_array_look(struct migrate_array *array,
					      unsigned long i,
					      const void __user *p, int node,
					      int *nr);

/**
 * migrate_array_begin() - Prepare to share an array between several CPUs.
 * @array: The array; its other members and pieces.asked are set afterwards.
 * @nr_pages: Its length.
 * @once: Whether rising addresses imply distinct pages; if not, no CPU helps.
 *
 * Context: Process context of the system call.
 */
static inline void migrate_array_begin(struct migrate_array *array,
				       unsigned long nr_pages, bool once)
{
	memset(array, 0, offsetof(struct migrate_array, pieces));
	array->nr_pages = nr_pages;
	if (!migrate_copy_enabled() || !once || nr_pages < 2)
		array->next = nr_pages;
}

/**
 * migrate_array_look() - Look up the state of a page of an array.
 * @array: The array.
 * @i: The index of the page; must rise from call to call.
 * @p: Its address, as the array has it now.
 * @node: Its target node, as the array has it now.
 * @nr: How many pages, from this one on, the result applies to.
 *
 * Context: Process context, may sleep. See __migrate_array_look().
 * Return: The state of the page.
 */
static inline enum migrate_array_state
migrate_array_look(struct migrate_array *array, unsigned long i,
		   const void __user *p, int node, int *nr)
{
	if (!IS_ENABLED(CONFIG_MIGRATE_COPY) ||
	    (i < array->next && i >= array->first + array->nr))
		return MIGRATE_ARRAY_TODO;
	return __migrate_array_look(array, i, p, node, nr);
}

#endif /* _MM_MIGRATE_COPY_PIECES_H */
