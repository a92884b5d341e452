// SPDX-License-Identifier: GPL-2.0-only
/*
 * Non-temporal copies: writes to the destination bypass the caches.
 *
 * They do not read the lines that are overwritten, and do not evict data that is
 * in use; but a read of the destination soon after misses the caches. Which of
 * these matters more depends on the machine, so they are off by default.
 *
 * The stores are weakly ordered: call migrate_copy_nontemporal_done() before
 * reporting the copy as complete.
 */
#include <linux/highmem.h>
#include <linux/instrumented.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "internal.h"

static const char * const nontemporal_names[] = {
	[MIGRATE_COPY_NT_NEVER]		= "never",
	[MIGRATE_COPY_NT_DEMOTION]	= "demotion",
	[MIGRATE_COPY_NT_FAR]		= "far",
	[MIGRATE_COPY_NT_ALWAYS]	= "always",
};

unsigned int migrate_copy_nontemporal = MIGRATE_COPY_NT_NEVER;

#ifdef CONFIG_X86_64
#include <asm/asm.h>

#define HAVE_NONTEMPORAL	true

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
 * Context: Any. The copy is visible to others only after
 * migrate_copy_nontemporal_done().
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
#define HAVE_NONTEMPORAL	false

int migrate_copy_page_nontemporal(struct page *dst, struct page *src)
{
	return copy_mc_highpage(dst, src);
}
#endif

/**
 * migrate_copy_nontemporal_done() - Order copies before later stores.
 *
 * Context: Any; must be called by the task that made the copies. If it has
 * changed CPUs since, the context switch has ordered the earlier ones.
 */
void migrate_copy_nontemporal_done(void)
{
	/* Order the copies before the release that reports them as complete. */
	wmb();
}

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
	switch (READ_ONCE(migrate_copy_nontemporal)) {
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

/**
 * migrate_copy_nontemporal_print() - Print which copies bypass the caches.
 * @buf: The sysfs buffer.
 *
 * Context: Any.
 * Return: The length.
 */
ssize_t migrate_copy_nontemporal_print(char *buf)
{
	unsigned int choice = READ_ONCE(migrate_copy_nontemporal);

	return sysfs_emit(buf, "%s\n", nontemporal_names[choice]);
}

/**
 * migrate_copy_nontemporal_parse() - Select which copies bypass the caches.
 * @text: One of the names.
 *
 * Context: Any.
 * Return: 0; -EINVAL for an unknown name; -EOPNOTSUPP for any but "never" on an
 * architecture without such copies. On error nothing is changed.
 */
int migrate_copy_nontemporal_parse(const char *text)
{
	int choice = sysfs_match_string(nontemporal_names, text);

	if (choice < 0)
		return choice;
	if (!HAVE_NONTEMPORAL && choice != MIGRATE_COPY_NT_NEVER)
		return -EOPNOTSUPP;
	WRITE_ONCE(migrate_copy_nontemporal, choice);
	return 0;
}
