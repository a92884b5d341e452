// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that fails, or goes.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "windows.h"

/* Where a block of memory is looked for that can go offline. */
#define FILL_SIZE	(512 * MB)
#define FILL_RUN	(2 * MB)

void before_pfn(struct scene *s)
{
	s->map = (char *)page_pfn(s->r.map);
}

static sigjmp_buf poisoned;

static void on_sigbus(int sig)
{
	siglongjmp(poisoned, 1);
}

void act_poison(struct scene *s)
{
	char text[32];

	if (!file_exists("/sys/kernel/debug/hwpoison/corrupt-pfn"))
		skip("no hwpoison-inject");
	snprintf(text, sizeof(text), "%#lx", (unsigned long)s->map);
	/*
	 * What is off the LRU lists cannot be handled, and the answer says so: but the
	 * page is marked, and must not be handed out when the migration frees it.
	 */
	file_write("/sys/kernel/debug/hwpoison/corrupt-pfn", text);
	require(pfn_flags((uintptr_t)s->map) & KPF_HWPOISON, "no mark");
}

/* The poisoned folio is whole, or its user is told; the others are right. */
void check_poison(struct scene *s)
{
	size_t folio = s->r.folio;
	char text[32];

	signal(SIGBUS, on_sigbus);
	if (!sigsetjmp(poisoned, 1)) {
		right(!pattern_bad(s->r.map, folio, s->r.seed, 0, s->r.period),
		      "poisoned, and something else");
	}
	signal(SIGBUS, SIG_DFL);
	right(!pattern_bad(s->r.map + folio, s->r.size - folio, s->r.seed,
			   folio, s->r.period), "what was there is wrong");
	/*
	 * A base page with the mark is not freed. Without the mark it would be lost,
	 * and its block could never go offline; a larger folio is handed out again.
	 */
	if (folio == PAGE) {
		require(pfn_flags((uintptr_t)s->map) & KPF_HWPOISON,
			"the mark is gone");
		return;
	}
	snprintf(text, sizeof(text), "%#lx", (unsigned long)s->map);
	file_write("/sys/kernel/debug/hwpoison/unpoison-pfn", text);
}

void act_soft_offline(struct scene *s)
{
	char text[32];
	int err;

	snprintf(text, sizeof(text), "%#lx", (unsigned long)s->map * PAGE);
	/* It is moving, and stays in use; or it is free by then, and gone. */
	err = file_write("/sys/devices/system/memory/soft_offline_page", text);
	require(!err || err == -EIO, "soft offline: %s", strerror(-err));
	require(!(pfn_flags((uintptr_t)s->map) & KPF_HWPOISON) == !!err,
		"soft offline: %s, and the page is %s", strerror(-err),
		err ? "out of use" : "in use");
}

static void block_path(char *path, size_t size, uint64_t block, const char *name)
{
	snprintf(path, size, "/sys/devices/system/memory/memory%llu/%s",
		 (unsigned long long)block, name);
}

static bool block_has(uint64_t block, uint64_t flag)
{
	uint64_t per_block = block_pages();
	uint64_t pfn = block * per_block;
	uint64_t end = pfn + per_block;
	uint64_t flags[512];
	size_t i;

	for (; pfn < end; pfn += ARRAY_SIZE(flags)) {
		pfn_flags_of(pfn, flags, ARRAY_SIZE(flags));
		for (i = 0; i < ARRAY_SIZE(flags); i++) {
			if (flags[i] & flag)
				return true;
		}
	}
	return false;
}

/*
 * What the kernel has reserved in it at boot stays where it is; and with memory
 * that has failed it would not come back.
 */
static bool block_can_go(uint64_t block)
{
	return block_is_movable(block) &&
	       !block_has(block, KPF_RESERVED | KPF_HWPOISON);
}

/*
 * Fill on, from *filled, until what comes is of a block that is wanted; false if there
 * is none.
 */
static bool fill_on(struct scene *s, size_t *filled, bool (*wanted)(uint64_t block))
{
	uint64_t block, last = UINT64_MAX, per_block = block_pages();
	bool can_go = false;
	size_t run = 0;

	for (; *filled < FILL_SIZE; *filled += PAGE) {
		s->map[*filled] = 1;
		block = page_pfn(s->map + *filled) / per_block;
		if (block != last) {
			/* That of the CPU before is. */
			can_go = (int)block == s->other || wanted(block);
			run = 0;
		}
		last = block;
		run += PAGE;
		/* Less may have been what lay about, a page here and there. */
		if (can_go && run >= FILL_RUN) {
			s->other = block;
			return true;
		}
	}
	return false;
}

/*
 * Fill the destination up to a block that is wanted, from which what is moved there
 * will come: what is taken before is taken here. Each CPU that may move something has
 * pages of its own, which it takes first.
 */
static void fill_up_to(struct scene *s, bool (*wanted)(uint64_t block),
		       const char *otherwise)
{
	int to = s->from, cpu = 0, agreed = 0, last;
	cpu_set_t all;
	size_t filled = 0;

	/* Such memory may be on the first node only: from the second one, then. */
	move_all(s, s->to);
	s->from = s->to;
	s->to = to;
	if (!block_pages())
		skip("no memory blocks");
	s->map = mmap(NULL, FILL_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	require(s->map != MAP_FAILED &&
		!sys_mbind(s->map, FILL_SIZE, MPOL_BIND, to, 0),
		"cannot bind to the node");
	madvise(s->map, FILL_SIZE, MADV_NOHUGEPAGE);
	require(!sched_getaffinity(0, sizeof(all), &all), "which CPUs are there?");
	for (; agreed < CPU_COUNT(&all); cpu = (cpu + 1) % CPU_SETSIZE) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		cpu_pin(0, cpu);
		last = s->other;
		if (!fill_on(s, &filled, wanted))
			skip("%s", otherwise);
		agreed = s->other == last ? agreed + 1 : 1;
	}
	sched_setaffinity(0, sizeof(all), &all);
}

void before_offline(struct scene *s)
{
	fill_up_to(s, block_can_go,
		   "no block that can go offline: boot with movablecore=");
}

/*
 * While the migration stands its destinations cannot go, and the block with them.
 * Once it is over, that must not last. What is isolated only has none yet: the block
 * goes before it is looked for.
 */
void act_offline(struct scene *s)
{
	double end = now() + after_ms(s) / 1e3;
	char path[128];
	int err;

	block_path(path, sizeof(path), s->other, "state");
	/* They are locked. If none is there, it is about other memory. */
	if (!(BIT(s->window) & W_ISOLATED) && !block_has(s->other, KPF_LOCKED))
		s->unlucky = true;
	/* It gives up, or waits. */
	err = file_write(path, "offline");
	require(!err || err == -EBUSY, "offline: %s", strerror(-err));
	require(wait_true(&s->over, AFTER_MS), "the migration goes on");
	while (err == -EBUSY && now() < end) {
		usleep(10000);
		err = file_write(path, "offline");
	}
	require(!err, "its block does not go offline: %s", strerror(-err));
	err = file_write(path, "online_movable");
	require(!err, "its block does not come back: %s", strerror(-err));
	munmap(s->map, FILL_SIZE);
}

/* Of a module of memory that can be taken out: it is a block of its own. */
static bool block_can_leave(uint64_t block)
{
	char path[128];

	block_path(path, sizeof(path), block, "firmware_node/eject");
	return file_exists(path) && block_can_go(block);
}

void before_eject(struct scene *s)
{
	fill_up_to(s, block_can_leave,
		   "no memory that can be taken out: boot with modules");
}

/* The destination leaves the machine: as soon as it can, which is not yet. */
void act_eject(struct scene *s)
{
	double end = now() + after_ms(s) / 1e3;
	char eject[128], state[128];
	int err;

	block_path(eject, sizeof(eject), s->other, "firmware_node/eject");
	block_path(state, sizeof(state), s->other, "state");
	if (!block_has(s->other, KPF_LOCKED)) {
		s->unlucky = true;
		munmap(s->map, FILL_SIZE);
		return;
	}
	/* Asked for only: the kernel tries it when it has time. */
	err = file_write(eject, "1");
	require(!err, "eject: %s", strerror(-err));
	require(wait_true(&s->over, AFTER_MS), "the migration goes on");
	while (file_exists(state)) {
		require(now() < end, "it does not leave");
		usleep(200000);
		file_write(eject, "1");
	}
	munmap(s->map, FILL_SIZE);
}
