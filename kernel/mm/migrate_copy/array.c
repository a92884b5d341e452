// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several CPUs share the page array of move_pages(2).
 *
 * A part of the array, up to the next change of the target node, is read into
 * memory. If its addresses are strictly ascending, so that no page occurs
 * twice, pieces of it are moved ahead of the call (see pieces.c). The state of
 * a page is recorded only if it is certain what status a single CPU would
 * report. All other pages are left alone.
 *
 * Two differences are visible to user space: if the call ends early because a
 * page cannot be moved, later pages, whose status is not reported, may have
 * moved; and a large folio that is mapped twice and named twice may be reported
 * as moved where a single CPU reports -EBUSY.
 */
#include <linux/compat.h>
#include <linux/pagewalk.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "pieces.h"

/* The most entries in memory at a time, and the entries read at a time. */
#define ARRAY_MOST	SZ_64K
#define ARRAY_BLOCK	SZ_1K
/* After a part shorter than this, skip to the next ARRAY_BLOCK entries. */
#define ARRAY_LEAST	16

static unsigned long array_addr(const struct migrate_array *array, int i)
{
	return READ_ONCE(array->page[i]) & PAGE_MASK;
}

static enum migrate_array_state array_state(const struct migrate_array *array,
					    int i)
{
	return READ_ONCE(array->page[i]) & MIGRATE_ARRAY_STATES;
}

static void array_set_state(struct migrate_array *array, int i,
			    enum migrate_array_state state)
{
	/* Other CPUs read the addresses next to their pieces. */
	WRITE_ONCE(array->page[i], array_addr(array, i) | state);
}

/*
 * Read up to @nr entries; returns how many of them belong to the part. Clears
 * @rises if an entry may repeat an earlier page: a single CPU would find that
 * page busy, so the part must not be moved ahead.
 */
static int array_read_block(struct migrate_array *array, int nr,
			    unsigned long *last, bool *rises)
{
	unsigned long i = array->first + array->nr;
	const compat_uptr_t __user *compat_pages =
		(const compat_uptr_t __user *)array->pages + i;
	const void __user * __user *pages = array->pages + i;
	const int __user *nodes = array->nodes + i;
	bool compat = in_compat_syscall(), ok;
	unsigned long *page = array->page + array->nr;
	compat_uptr_t compat_addr;
	const void __user *addr;
	int got = 0, node;

	ok = compat ? access_ok(compat_pages, nr * sizeof(*compat_pages)) :
		      access_ok(pages, nr * sizeof(*pages));
	if (!ok || !user_read_access_begin(nodes, nr * sizeof(*nodes)))
		return 0;
	for (; got < nr; got++) {
		if (compat) {
			unsafe_get_user(compat_addr, compat_pages + got, end);
			page[got] = (unsigned long)compat_ptr(compat_addr);
		} else {
			unsafe_get_user(addr, pages + got, end);
			page[got] = (unsigned long)addr;
		}
		unsafe_get_user(node, nodes + got, end);
		if (node != array->node)
			break;
		page[got] &= PAGE_MASK;
		/* An address above TASK_SIZE is tagged: it may be any page. */
		if (page[got] <= *last || page[got] >= TASK_SIZE) {
			*rises = false;
			break;
		}
		*last = page[got];
	}
end:
	user_read_access_end();
	return got;
}

/* Read the part that begins at @first, and set where to read the next one. */
static void array_read_part(struct migrate_array *array, unsigned long first)
{
	int most = min(array->nr_pages - first, ARRAY_MOST), block, got;
	/* A previous part for the same node may contain the same page. */
	unsigned long last = array->nr ? array_addr(array, array->nr - 1) : 0;
	int node = array->node;
	bool rises = true;

	array->first = first;
	array->nr = 0;
	if (get_user(array->node, array->nodes + first) ||
	    array->node < 0 || array->node >= MAX_NUMNODES ||
	    !node_state(array->node, N_MEMORY) ||
	    !node_isset(array->node, *array->task_nodes)) {
		array->node = NUMA_NO_NODE;
		return;
	}
	if (array->node != node)
		last = 0;
	do {
		/* Read in blocks, to let other tasks run in between. */
		block = min(most - array->nr, ARRAY_BLOCK);
		got = array_read_block(array, block, &last, &rises);
		array->nr += got;
		cond_resched();
	} while (got == block && array->nr < most);
	if (!rises) {
		array->nr = 0;
		return;
	}
	array->next = first + array->nr;
	/* If the node changes all the time, do not retry at each change. */
	if (array->nr < ARRAY_LEAST)
		array->next = first + ARRAY_BLOCK;
}

/* Estimate from the first entry how many base pages an entry stands for. */
static int array_find_unit(const struct migrate_array *array)
{
	unsigned long addr = array_addr(array, 0), step;
	struct vm_area_struct *vma;
	struct folio_walk fw;
	struct folio *folio;
	int nr = 1;

	step = (array_addr(array, 1) - addr) >> PAGE_SHIFT;
	if (step == 1)
		return 1;

	mmap_read_lock(array->mm);
	vma = vma_lookup(array->mm, addr);
	folio = vma ? folio_walk_start(&fw, vma, addr, FW_ZEROPAGE) : NULL;
	if (folio) {
		nr = min(folio_nr_pages(folio), step);
		folio_walk_end(&fw, vma);
	}
	mmap_read_unlock(array->mm);
	return nr;
}

/* Is there a page table boundary between entries i - 1 and i? */
static bool array_table_ends(const struct migrate_array *array, int i)
{
	return (array_addr(array, i - 1) ^ array_addr(array, i)) >> PMD_SHIFT;
}

/*
 * Find the end of the piece that begins at @from: a page table boundary near
 * its nominal size, if there is one. Two CPUs in one page table would contend
 * for its lock on every page.
 */
static int array_find_cut(const struct migrate_array *array, int from)
{
	int least = max(MIGRATE_PIECE_LEAST / array->unit, 1);
	int most = max((int)MIGRATE_COPY_BATCH_PAGES / array->unit, 1);
	int left = array->nr - from, nr, i;

	nr = DIV_ROUND_UP(left, READ_ONCE(array->pieces.nr_cpus));
	nr = clamp(nr, least, max(least, most));
	if (nr >= left)
		return array->nr;

	for (i = from + nr; i > from + least; i--) {
		if (array_table_ends(array, i))
			return i;
	}
	for (i = from + nr; i <= from + min(2 * nr, most) && i < array->nr; i++) {
		if (array_table_ends(array, i))
			return i;
	}
	return from + nr;
}

/*
 * May other entries, before or after the piece, refer to the same large folio?
 * The status of its pages depends on which of them a single CPU meets first.
 * Entries outside the part are unknown: assume the worst.
 */
static bool array_straddles(const struct migrate_array *array,
			    const struct migrate_piece *piece, int i,
		      const struct folio *folio, const struct page *page)
{
	unsigned long from = array_addr(array, i) -
			     (folio_page_idx(folio, page) << PAGE_SHIFT);
	unsigned long to = from + folio_size(folio);

	if (piece->start ? array_addr(array, piece->start - 1) >= from :
	    array->first && array_addr(array, 0) > from)
		return true;
	if (piece->end < array->nr)
		return array_addr(array, piece->end) < to;
	return array->first + array->nr < array->nr_pages &&
	       array_addr(array, array->nr - 1) + PAGE_SIZE < to;
}

/* Isolate a page. Returns false if its status cannot be predicted. */
static bool array_isolate_page(struct migrate_array *array, struct migrate_piece *piece,
			       struct folio_isolation *iso, int i,
			       struct vm_area_struct **vmap)
{
	unsigned long addr = array_addr(array, i);
	struct vm_area_struct *vma = *vmap;
	struct folio_walk fw;
	struct folio *folio;
	bool odd = false;
	int err;

	if (!vma || addr < vma->vm_start || addr >= vma->vm_end)
		*vmap = vma = vma_lookup(array->mm, addr);
	if (!vma || !vma_migratable(vma))
		return true;
	folio = folio_walk_start(&fw, vma, addr, FW_ZEROPAGE);
	if (!folio)
		return true;

	err = folio_may_move(folio, array->node, false);
	if (folio_test_large(folio) && err >= 0 &&
	    (!fw.page || array_straddles(array, piece, i, folio, fw.page))) {
		odd = true;
	} else if (!err) {
		array_set_state(array, i, MIGRATE_ARRAY_HERE);
	} else if (err > 0) {
		odd = folio_test_hugetlb(folio) ?
			!folio_isolate_hugetlb(folio, iso->folios) :
			!folio_isolation_add(iso, folio);
		if (!odd)
			array_set_state(array, i, MIGRATE_ARRAY_TAKEN);
	}
	folio_walk_end(&fw, vma);
	return !odd;
}

static bool array_isolate(struct migrate_pieces *pieces,
			  struct migrate_piece *piece)
{
	struct migrate_array *array =
		container_of(pieces, struct migrate_array, pieces);
	int start = atomic_read(&array->claimed), end, i;
	struct folio_isolation iso __uninitialized;
	struct vm_area_struct *vma = NULL;

	do {
		if (start >= array->nr)
			return false;
		end = array_find_cut(array, start);
	} while (!atomic_try_cmpxchg(&array->claimed, &start, end));
	piece->start = start;
	piece->end = end;

	folio_isolation_init(&iso, &piece->folios);
	mmap_read_lock(array->mm);
	for (i = start; i < end; i++) {
		if (!array_isolate_page(array, piece, &iso, i, &vma))
			break;
		if (need_resched() || mmap_lock_is_contended(array->mm)) {
			mmap_read_unlock(array->mm);
			cond_resched();
			vma = NULL;
			mmap_read_lock(array->mm);
		}
	}
	mmap_read_unlock(array->mm);
	folio_isolation_finish(&iso);
	if (likely(i == end))
		return true;

	putback_movable_pages(&piece->folios);
	INIT_LIST_HEAD(&piece->folios);
	for (i = start; i < end; i++)
		array_set_state(array, i, MIGRATE_ARRAY_TODO);
	return true;
}

static void array_done(struct migrate_pieces *pieces,
		       struct migrate_piece *piece)
{
	struct migrate_array *array =
		container_of(pieces, struct migrate_array, pieces);

	if (!list_empty(&piece->folios))
		return;
	for (int i = piece->start; i < piece->end; i++) {
		if (array_state(array, i) == MIGRATE_ARRAY_TAKEN)
			array_set_state(array, i, MIGRATE_ARRAY_MOVED);
	}
}

/* Cheap check: is the part certainly not worth reading? */
static bool array_too_small(const struct migrate_array *array, unsigned long first)
{
	unsigned long nr = array->nr_pages - first;
	const void __user *from, *to;

	if (in_compat_syscall() || nr >= 2 * MIGRATE_PIECE_LEAST)
		return nr < 2;
	if (get_user(from, array->pages + first) ||
	    get_user(to, array->pages + array->nr_pages - 1))
		return true;
	return to < from || to - from < MIGRATE_PIECE_LEAST * PAGE_SIZE;
}

/* Read the part that begins at @first, and move as much of it as possible. */
static void array_go_ahead(struct migrate_array *array, unsigned long first)
{
	struct migrate_pieces *pieces = &array->pieces;
	struct migration_target_control mtc = {
		.gfp_mask = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE,
		.reason = MR_SYSCALL,
	};

	/* Do not try again if this fails. */
	array->next = array->nr_pages;
	if (!migrate_copy_team_size(MR_SYSCALL, pieces->asked) ||
	    array_too_small(array, first))
		return;
	if (!array->page)
		array->page = kvmalloc_array(min(array->nr_pages, ARRAY_MOST),
					     sizeof(*array->page),
					     GFP_KERNEL_ACCOUNT | __GFP_NORETRY |
					     __GFP_NOWARN);
	if (!array->page)
		return;

	array_read_part(array, first);
	if (array->nr < 2)
		return;
	array->unit = array_find_unit(array);
	atomic_set(&array->claimed, 0);
	mtc.nid = array->node;
	pieces->isolate = array_isolate;
	pieces->done = array_done;
	pieces->get_new_folio = alloc_migration_target;
	pieces->private = (unsigned long)&mtc;
	pieces->mode = MIGRATE_SYNC;
	pieces->reason = MR_SYSCALL;
	pieces->begun = &array->begun;
	if (migrate_pieces_run(pieces, array->nr, (unsigned long)array->nr * array->unit))
		putback_movable_pages(&pieces->left);
}

/**
 * __migrate_array_look() - Get the state of a page of an array.
 * @array: The array.
 * @i: The index of the page; must not decrease from call to call.
 * @p: Its address, as currently read from the array.
 * @node: Its target node, as currently read from the array.
 * @nr: Set to the number of pages, from @i on, that are in this state.
 *
 * If @i is beyond the entries read so far, the part that begins there is read
 * and moved ahead first, as far as possible.
 *
 * Context: Process context, may sleep.
 * Return: The state of the page.
 */
enum migrate_array_state __migrate_array_look(struct migrate_array *array,
					      unsigned long i,
					      const void __user *p, int node,
					      int *nr)
{
	enum migrate_array_state state;
	int at;

	if (i >= array->next)
		array_go_ahead(array, i);
	*nr = 1;
	if (i - array->first >= array->nr || node != array->node)
		return MIGRATE_ARRAY_TODO;
	at = i - array->first;
	if (array_addr(array, at) != ((unsigned long)p & PAGE_MASK))
		return MIGRATE_ARRAY_TODO;

	state = array_state(array, at);
	while (state == MIGRATE_ARRAY_MOVED && at + *nr < array->nr &&
	       array_state(array, at + *nr) == state)
		++*nr;
	return state;
}
