/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of which several CPUs take pieces: what mm/migrate.c, mm/mempolicy.c and
 * mm/migrate_copy/ need of each other for that.
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
 * Base pages that are worth the waking of a CPU, and the least of a piece or a batch
 * when several CPUs take some: less would cost more in flushes of the TLB than it
 * wins by all ending at the same time.
 */
#define MIGRATE_PIECE_LEAST	64

/**
 * folio_may_move() - May move_pages() move a folio, and does it have to?
 * @folio: The folio, which cannot go away.
 * @node: Where it is to be.
 * @migrate_all: Whether others may use it, too.
 *
 * Context: Any.
 * Return: 1 if it is to be moved, 0 if it is there; -EFAULT for zero pages, -ENOENT for
 * devices' memory, -EACCES if others use it.
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
 * struct migrate_piece - what one CPU has taken of a request
 * @folios: Its folios.
 * @failed: Those of them that could not be migrated.
 * @start: Where it begins, in what the request is made of.
 * @end: Where it ends.
 */
struct migrate_piece {
	struct list_head folios;
	struct list_head failed;
	unsigned long start;
	unsigned long end;
};

/**
 * struct migrate_pieces - a request of which several CPUs take pieces
 * @isolate: Takes the next piece and isolates its folios, on several CPUs at the
 *	same time. Returns false if there is none.
 * @done: Is told that a piece has been migrated, but for the folios that it has yet; it
 *	may take these, others are put back. Or NULL.
 * @get_new_folio: As for migrate_pages(); bears to be called by any CPU.
 * @private: Likewise.
 * @mode: Likewise, without flags.
 * @reason: Likewise.
 * @asked: MIGRATE_MT, MIGRATE_HIGHPRI.
 * @nr_cpus: How many CPUs there are, with that of the caller.
 * @left: Whether something of the request is left to do.
 * @begun: Where what has been migrated is noted; it may have begun before.
 * @team: The helpers.
 * @no_memory: Whether somebody has found none, which ends it.
 * @lock: Protects @begun, and what follows.
 * @rest: What a helper has left of its piece, to make way; without folios if none has.
 * @helper_pages: Base pages that helpers have migrated.
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
	bool left;
	struct migrate_pages_stats *begun;

	/* Of pieces.c: */
	struct migrate_copy_team team;
	bool no_memory;
	spinlock_t lock;	/* Protects begun, and what follows */
	struct migrate_piece rest;
	unsigned long helper_pages;
};

/**
 * struct migrate_range - an address range of which several CPUs take pieces
 * @mm: Whose memory it is.
 * @nodes: For queue_pages_range().
 * @pol: Likewise: the policy that a VMA must have; NULL for any.
 * @flags: Likewise.
 * @lock: Protects what follows.
 * @next: The first address that nobody has taken.
 * @end: The one behind the range.
 * @nr_left: How many pages there may be from @next on.
 * @pieces: For several CPUs.
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
	struct migrate_pieces pieces;
};

/* What became of a page of an array, instead of its offset in a page. */
enum migrate_array_state {
	MIGRATE_ARRAY_TODO,	/* Nothing, or nothing that is known */
	MIGRATE_ARRAY_HERE,	/* It was where it is to be */
	MIGRATE_ARRAY_TAKEN,	/* It was isolated, and may have moved */
	MIGRATE_ARRAY_MOVED,	/* It has */
	MIGRATE_ARRAY_STATES = 3,
};

/**
 * struct migrate_array - the part of the array of move_pages() that is in memory
 * @mm: Whose pages they are.
 * @pages: The array.
 * @nodes: Their nodes.
 * @nr_pages: Its length.
 * @task_nodes: Where pages may be moved to.
 * @page: The addresses of the part, rising, with their state. The call is to free it;
 *	an array of one page has none.
 * @first: The index of the first of them in the array.
 * @nr: How many there are.
 * @node: The node of all of them.
 * @next: The index from which on nobody has looked at the array.
 * @unit: Base pages of a page, as far as known.
 * @claimed: How many of the part have been taken.
 * @begun: What has been moved and is to be told of with what is moved next.
 * @pieces: For several CPUs.
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

/* Base pages of the next piece: towards the end less, so that all end together. */
static inline unsigned long migrate_piece_size(const struct migrate_pieces *pieces,
					       unsigned long nr_left)
{
	return clamp(nr_left / (2 * READ_ONCE(pieces->nr_cpus)), MIGRATE_PIECE_LEAST,
		     READ_ONCE(migrate_copy_batch_pages));
}

unsigned int migrate_pieces_helpers(int reason, unsigned int asked,
				    unsigned long nr_pages);
bool migrate_pieces_run(struct migrate_pieces *pieces, unsigned long nr_folios,
			unsigned long nr_pages);
bool migrate_range_claim(struct migrate_range *range,
			 struct migrate_piece *piece);
bool migrate_range_run(struct migrate_range *range, unsigned long start, unsigned long end);
void migrate_list_run(struct list_head *from, new_folio_t *get_new_folio,
		      unsigned long private, enum migrate_mode mode,
		      enum migrate_reason reason, unsigned int asked,
		      struct migrate_pages_stats *begun);
enum migrate_array_state __migrate_array_look(struct migrate_array *array,
					      unsigned long i,
					      const void __user *p, int node,
					      int *nr);

/**
 * migrate_array_begin() - Prepare for several CPUs to help with an array.
 * @array: The array; what it is made of, and what is asked of pieces, is set after this.
 * @nr_pages: Its length.
 * @once: Whether a page is met once, if the addresses rise. Otherwise nobody helps.
 *
 * Context: Process context, that of the system call.
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
 * migrate_array_look() - What is known of a page of an array?
 * @array: The array.
 * @i: The index of the page; they are asked for in rising order.
 * @p: Its address, as the array has it now.
 * @node: Where it is to be, likewise.
 * @nr: How many pages this is said of, with those after it.
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
