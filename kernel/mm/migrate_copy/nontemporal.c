// SPDX-License-Identifier: GPL-2.0-only
/*
 * Non-temporal copies: writes to the destination bypass the caches.
 *
 * They do not read the lines that are overwritten, and do not evict data that is
 * in use; but a read of the destination soon after misses the caches. Which of
 * these matters more depends on the machine, so they are off by default.
 *
 * The stores are weakly ordered: a write barrier is needed before the copy is
 * reported as complete.
 */
#include <linux/highmem.h>
#include <linux/instrumented.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/string.h>

#include "internal.h"

unsigned int migrate_copy_non_temporal = MIGRATE_COPY_NT_NEVER;

#ifdef CONFIG_X86_64
#include <asm/asm.h>

/*
 * Returns 0, or the number of 32-byte units left if a load hit a machine check,
 * which ends the copy as in copy_mc_to_kernel().
 */
static unsigned long copy_page_nontemporal(void *dst, const void *src)
{
	unsigned long left = PAGE_SIZE / 32;

	asm volatile("1:	movq	  (%[src]), %%r8\n"
		     "2:	movq	 8(%[src]), %%r9\n"
		     "3:	movq	16(%[src]), %%r10\n"
		     "4:	movq	24(%[src]), %%r11\n"
		     "	movnti	%%r8,    (%[dst])\n"
		     "	movnti	%%r9,   8(%[dst])\n"
		     "	movnti	%%r10, 16(%[dst])\n"
		     "	movnti	%%r11, 24(%[dst])\n"
		     "	addq	$32, %[src]\n"
		     "	addq	$32, %[dst]\n"
		     "	subq	$1, %[left]\n"
		     "	jnz	1b\n"
		     "5:\n"
		     _ASM_EXTABLE_TYPE(1b, 5b, EX_TYPE_DEFAULT_MCE_SAFE)
		     _ASM_EXTABLE_TYPE(2b, 5b, EX_TYPE_DEFAULT_MCE_SAFE)
		     _ASM_EXTABLE_TYPE(3b, 5b, EX_TYPE_DEFAULT_MCE_SAFE)
		     _ASM_EXTABLE_TYPE(4b, 5b, EX_TYPE_DEFAULT_MCE_SAFE)
		     : [src] "+r" (src), [dst] "+r" (dst), [left] "+r" (left)
		     :
		     : "r8", "r9", "r10", "r11", "memory", "cc");
	return left;
}

/**
 * migrate_copy_page_nontemporal() - Copy a base page, bypassing the caches.
 * @dst: The page to copy to.
 * @src: The page to copy from.
 *
 * Context: Any. The copy is visible to others only after a write barrier.
 * Return: 0, or nonzero if a machine check interrupted the copy.
 */
int migrate_copy_page_nontemporal(struct page *dst, struct page *src)
{
	void *to = page_address(dst), *from = page_address(src);
	unsigned long left;

	instrument_memcpy_before(to, from, PAGE_SIZE);
	left = copy_page_nontemporal(to, from);
	instrument_memcpy_after(to, from, PAGE_SIZE, left * 32);
	if (unlikely(left)) {
		memory_failure_queue(page_to_pfn(src), 0);
		return -EHWPOISON;
	}
	kmsan_copy_page_meta(dst, src);
	return 0;
}
#else
int migrate_copy_page_nontemporal(struct page *dst, struct page *src)
{
	return copy_mc_highpage(dst, src);
}
#endif

/**
 * migrate_copy_is_nontemporal() - Should a copy bypass the caches?
 * @reason: The migrate_reason of the request.
 * @nid: The node of the destination.
 *
 * Context: Any.
 * Return: true if it should.
 */
bool migrate_copy_is_nontemporal(int reason, int nid)
{
	switch (READ_ONCE(migrate_copy_non_temporal)) {
	case MIGRATE_COPY_NT_ALWAYS:
		return true;
	case MIGRATE_COPY_NT_FAR:
		return reason == MR_DEMOTION || !node_state(nid, N_CPU);
	case MIGRATE_COPY_NT_DEMOTION:
		return reason == MR_DEMOTION;
	default:
		return false;
	}
}
