// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several CPUs share the address range of mbind(2) or migrate_pages(2). A piece
 * covers at most one page table, or one huge page.
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sort.h>
#include <linux/spinlock.h>

#include "internal.h"
#include "pieces.h"

/* The most steps of a search for a piece; other CPUs wait for the lock. */
#define MOST_LOOKS	64

/*
 * Skip addresses without page tables, which may be most of a range. Returns the
 * first address that may be populated; clears @leaf if it has a PTE table.
 *
 * While mmap_lock is held, the only page tables of a VMA that can be freed are
 * PTE tables, which are not accessed here.
 */
static unsigned long range_skip_empty(struct mm_struct *mm, unsigned long addr,
				      unsigned long end, bool *leaf)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pudp, pud;
	pmd_t pmd;

	*leaf = true;
	if (pgd_none(pgdp_get(pgd)) || unlikely(pgd_bad(pgdp_get(pgd))))
		return pgd_addr_end(addr, end);
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(p4dp_get(p4d)) || unlikely(p4d_bad(p4dp_get(p4d))))
		return p4d_addr_end(addr, end);
	pudp = pud_offset(p4d, addr);
	pud = pudp_get(pudp);
	if (pud_none(pud))
		return pud_addr_end(addr, end);
	if (pud_leaf(pud) || !pud_present(pud))
		return addr;
	pmd = pmdp_get_lockless(pmd_offset_lockless(pudp, pud, addr));
	if (pmd_none(pmd))
		return pmd_addr_end(addr, end);
	*leaf = pmd_leaf(pmd) || !pmd_present(pmd);
	return addr;
}

/* Find the end of the piece that begins at @addr. */
static unsigned long range_find_cut(const struct migrate_range *range,
				    struct vm_area_struct *vma,
			      unsigned long addr, bool leaf)
{
	unsigned long end = min(vma->vm_end, range->end), nr, cut;

	if (is_vm_hugetlb_page(vma))
		return min(ALIGN(addr + 1, vma_kernel_pagesize(vma)), end);
	end = pmd_addr_end(addr, end);
	if (leaf)
		return end;

	nr = migrate_piece_size(&range->pieces, range->nr_left);
	cut = ALIGN_DOWN(addr + nr * PAGE_SIZE, MIGRATE_PIECE_LEAST * PAGE_SIZE);
	return min(cut, end);
}

/**
 * migrate_range_claim() - Take the next piece of a range.
 * @range: The range.
 * @piece: An empty piece; its start and end are set if one has been found.
 *
 * Context: Process context, mmap_lock held for reading.
 * Return: false if the range is exhausted.
 */
bool migrate_range_claim(struct migrate_range *range,
			 struct migrate_piece *piece)
{
	unsigned int looks = MOST_LOOKS;
	struct vm_area_struct *vma;
	unsigned long addr, next;
	bool leaf = false;

	spin_lock(&range->lock);
	addr = range->next;
	while (addr < range->end && looks--) {
		vma = find_vma(range->mm, addr);
		if (!vma || vma->vm_start >= range->end) {
			addr = range->end;
			break;
		}
		addr = max(addr, vma->vm_start);
		next = addr;
		if (!is_vm_hugetlb_page(vma))
			next = range_skip_empty(range->mm, addr,
						min(vma->vm_end, range->end), &leaf);
		if (next == addr) {
			piece->start = addr;
			addr = range_find_cut(range, vma, addr, leaf);
			piece->end = addr;
			range->nr_left -= min(range->nr_left,
					      (addr - piece->start) >> PAGE_SHIFT);
			break;
		}
		addr = next;
	}
	range->next = addr;
	spin_unlock(&range->lock);
	return piece->start < piece->end || addr < range->end;
}

static int range_compare(const void *a, const void *b)
{
	unsigned long start = *(const unsigned long *)a, other = *(const unsigned long *)b;

	return start < other ? -1 : start > other;
}

/*
 * Join missed pieces with less than @gap bytes between them. Those that touch must
 * be looked at together: a folio may belong to both.
 */
static void range_join_missed(struct migrate_range *range, unsigned long gap)
{
	unsigned long (*missed)[2] = range->missed;
	unsigned int i, last = 0;

	sort(missed, range->nr_missed, sizeof(*missed), range_compare, NULL);
	for (i = 1; i < range->nr_missed; i++) {
		if (missed[i][0] < missed[last][1] || missed[i][0] - missed[last][1] < gap) {
			missed[last][1] = max(missed[last][1], missed[i][1]);
			continue;
		}
		last++;
		missed[last][0] = missed[i][0];
		missed[last][1] = missed[i][1];
	}
	range->nr_missed = min(range->nr_missed, last + 1);
}

/**
 * migrate_range_miss() - Remember that a piece has to be looked at again.
 * @range: The range.
 * @piece: A piece of it, some of whose folios could not be isolated, or moved.
 *
 * Context: Process context.
 */
void migrate_range_miss(struct migrate_range *range,
			const struct migrate_piece *piece)
{
	unsigned long gap;

	spin_lock(&range->lock);
	for (gap = PMD_SIZE; range->nr_missed == MIGRATE_RANGE_MISSED; gap <<= 3)
		range_join_missed(range, gap);
	range->missed[range->nr_missed][0] = piece->start;
	range->missed[range->nr_missed++][1] = piece->end;
	spin_unlock(&range->lock);
}

static void range_done(struct migrate_pieces *pieces, struct migrate_piece *piece)
{
	if (!list_empty(&piece->folios))
		migrate_range_miss(container_of(pieces, struct migrate_range, pieces), piece);
}

/**
 * migrate_range_run() - Migrate an address range with several CPUs.
 * @range: The range; what its pieces need is set.
 * @start: The start address.
 * @end: The end address, exclusive.
 *
 * Context: Process context, may sleep; no mmap_lock held.
 * Return: true if only the pieces in @range->missed have to be looked at again;
 * false if the whole range has to be.
 */
bool migrate_range_run(struct migrate_range *range, unsigned long start, unsigned long end)
{
	struct migrate_pieces *pieces = &range->pieces;
	unsigned long nr_mapped = get_mm_rss(range->mm);

#ifdef CONFIG_HUGETLB_PAGE
	nr_mapped += atomic_long_read(&range->mm->hugetlb_usage);
#endif
	range->next = start;
	range->end = end;
	range->nr_left = min((end - start) >> PAGE_SHIFT, nr_mapped);
	range->nr_missed = 0;
	spin_lock_init(&range->lock);
	pieces->done = range_done;
	/* All pages may be huge: do not ask for many CPUs for a few folios. */
	if (!migrate_pieces_run(pieces, DIV_ROUND_UP(range->nr_left, HPAGE_PMD_NR),
				range->nr_left))
		return false;
	range_join_missed(range, 1);
	/* The caller finds only what is on the LRU. */
	putback_movable_pages(&pieces->left);
	return !pieces->no_memory;
}
