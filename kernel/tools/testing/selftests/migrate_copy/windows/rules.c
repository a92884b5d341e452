// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is left of it when a rule is broken.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "windows.h"

/* Of the kernel's headers only. */
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

/* Attempts to see a broken rule: chance may hide it. */
#define BREACH_TRIES	10

/* Soon whoever waits for DMA that is late has gone; how late it will be is up to us. */
#define LATE_TIMEOUT_MS	100
#define LATE_MS		60000

/* Copies fail, each one of them; nobody else does anything. */
static void test_failed(void)
{
	struct scene s = { 0 };
	uint64_t before = window_count("failed_copies");

	mode_enter(MODE_BATCH);
	scene_make(&s, &base);
	copies_fail(64);
	move_all(&s, s.to);
	control("fail_copy/probability", "0");
	require(window_count("failed_copies") - before == 64,
		"no copies have failed");
	require(region_on_node(&s.r, s.to), "a failed copy has stopped it");
	check_content(&s);
}

/*
 * The pin comes after the copy, so the first attempt to move the folio fails;
 * its holder writes, and goes before the second one.
 */
static void test_mark(void)
{
	struct scene s = { 0 };
	char who[64];
	int err, fd;

	mode_enter(MODE_BATCH);
	scene_make(&s, &memfd);
	before_udmabuf(&s);
	gate_close("copied", getpid(), GATE_MS);
	require(!pthread_create(&s.thread, NULL, mover_main, &s), "no thread");
	err = gate_wait(who, sizeof(who));
	require(!err, "nobody comes: %s", strerror(-err));
	fd = udmabuf_of(&s);
	/* This opens the first one. */
	gate_close("copied", getpid(), GATE_MS);
	err = gate_wait(who, sizeof(who));
	require(!err, "there is no second attempt: %s", strerror(-err));
	udmabuf_write(&s, fd);
	close(fd);
	gate_open();
	join(s.thread, "the migration");
	check_content(&s);
}

/* What takes a page out of use moves it, and the copy fails. */
static void test_soft_offline(void)
{
	struct scene s = { 0 };
	uint64_t before = window_count("failed_copies");
	uint64_t pfn;

	mode_enter(MODE_BATCH);
	scene_make(&s, &base);
	pfn = page_pfn(s.r.map);
	copies_fail(1);
	require(!madvise(s.r.map, PAGE, MADV_SOFT_OFFLINE), "soft offline: %s",
		strerror(errno));
	control("fail_copy/probability", "0");
	require(window_count("failed_copies") - before == 1,
		"no copy has failed");
	require(page_pfn(s.r.map) != pfn && pfn_flags(pfn) & KPF_HWPOISON,
		"it is not out of use");
	check_content(&s);
}

/*
 * DMA cannot be stopped, and copies when nobody waits for it any more: whatever
 * has been written to the memory by then, wherever it is, stays; and so does what
 * somebody has who got memory on the destination since.
 */
static void test_late(void)
{
	static const struct kind kind = {
		"others", BACK_ANON, OF_PAGES(1), 16 * MB
	};
	struct scene s = { 0 };
	struct region others;
	uint64_t lost = stat_read("engine_lost");
	double end = now() + AFTER_MS / 1e3;

	mode_enter(MODE_BATCH);
	engine_alone(true);
	scene_make(&s, &base);
	/* Again: a channel that was late is given up. */
	do {
		require(now() < end, "there is no channel");
		engine_knob("dcbm", "nr_dma_chan", 0);
		engine_knob("dcbm", "nr_dma_chan", 1);
	} while (!dcbm_channels());
	engine_knob("dcbm", "timeout_ms", LATE_TIMEOUT_MS);
	require(!file_write(SOFTDMA_GOES_ON "/times", "-1"),
		"cannot make DMA go on");
	softdma_set(SOFTDMA_GOES_ON "/probability", 100);
	dma_close(LATE_MS);
	move_all(&s, s.to);
	require(stat_read("engine_lost") > lost, "DMA was not late");
	pattern_fill(s.r.map, s.r.size, OTHER_SEED(&s), 0, 0);
	s.written = s.r.size;
	region_make(&others, &kind, s.to, false);
	require(engine_quarantined(), "DMA was not late enough");
	dma_open();
	require(dma_ends(), "DMA never ends");
	check_content(&s);
	right(region_intact(&others), "what others have is wrong");
}

static const struct breach breaches[] = {
	{ "refs", "", "io_uring", &shmem, W_COPIED },
	{ "refs", "", "O_DIRECT", &tmpfs, W_COPIED },
	{ "refs", "", "io_uring", &shmem, W_DMA },
	{ "refs", "", "O_DIRECT", &tmpfs, W_DMA },
	{ "flush", "", "a store by a stale TLB", &base, W_COPIED },
	{ "flush", "", "a store by a stale TLB", &base, W_DMA },
	{ "flush", "", "mprotect and a stale TLB", &base, W_COPIED },
	{ "flush", "", "mremap and a stale TLB", &base, W_COPIED },
	{ "pending", "", "MADV_DONTNEED and a stale TLB", &base, W_UNMAPPED },
	{ "pending", "", "mprotect and a stale TLB", &base, W_UNMAPPED },
	{ "pending", "", "munmap and a stale TLB", &base, W_UNMAPPED },
	{ "pending", "", "mremap and a stale TLB", &base, W_UNMAPPED },
	{ "mapped", "", "stores", &base, W_COPIED },
	{ "mapped", "", "stores", &thp, W_COPIED },
	{ "mapped", "", "stores", &shmem, W_COPIED },
	{ "mapped", "", "process_vm_writev", &base, W_COPIED },
	{ "mapped", "", "mremap", &base, W_COPIED },
	{ "mapped", "", "munmap", &base, W_COPIED },
	{ "mapped", "", "mlock", &base, W_COPIED },
	{ "mapped", "", "mprotect", &base, W_COPIED },
	{ "mapped", "", "MADV_COLLAPSE", &huge_range, W_COPIED },
	{ "gone", "", "MADV_DONTNEED", &base, W_COPIED },
	/* tmpfs locks the folio for a read. */
	{ "publish", "", "read", &xfs, W_COPYING },
	{ "publish", "", "readahead", &xfs, W_COPYING },
	{ "lock", "", "write", &xfs, W_COPIED },
	{ "lock", "", "a hole in a page", &tmpfs, W_COPIED },
	{ "lock", "", "truncate in a page", &tmpfs, W_COPIED },
	{ "writable", "", "fork", &base, W_COPIED },
	{ "writable", "", "userfaultfd", &base, W_COPIED },
	/* To one of two pages that KSM has merged. */
	{ "writable", "", "stores", &ksm, W_COPIED },
	{ "writable", "", "a split of what a child maps", &thp, W_COPIED },
	{ "signal", "", "a fatal signal", &base, W_CHECKED },
	{ "signal", "", "the freezer", &base, W_CHECKED },
	{ "signal", "", "a suspend", &base, W_CHECKED },
	{ "chunk", "", "CPU offline", &thp, W_HELPING, MODE_THREADS },
	{ "failed", "", "failed copies", .test = test_failed },
	{ "failed", "", "soft offline, which moves it",
	  .test = test_soft_offline },
	{ "memfd", "", "udmabuf", &memfd, W_COPIED },
	/* Only a task that could pin can write between two attempts. */
	{ "mark", "memfd", "udmabuf, twice", .test = test_mark },
	{ "quarantine", "", "DMA that is late", .test = test_late,
	  .window = W_DMA },
	{ "held", "", "DMA that is late", .test = test_late, .window = W_DMA },
};

static void breach_play(const struct breach *b)
{
	struct variant v = {
		.act = find_act(b->what, b->window), .kind = b->kind,
		.mode = b->mode ?: MODE_BATCH, .failing = b->failing,
	};

	if (b->test) {
		b->test();
		return;
	}
	require(v.act, "no act %s", b->what);
	v.window = __builtin_ctz(b->window);
	test_scene(&v);
}

/* Run the test in a process of its own: what is the verdict? */
static int verdict(const struct breach *b, bool broken)
{
	char rules[64];
	int status;
	pid_t pid;

	*data_wrong = false;
	snprintf(rules, sizeof(rules), "%s %s\n", b->also,
		 broken ? b->rule : "");
	control("broken", rules);
	pid = fork();
	if (!pid) {
		breach_play(b);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		status = -1;
	all_right_again();
	return status < 0 ? -1 : WEXITSTATUS(status);
}

static void test_breach(const void *arg)
{
	const struct breach *b = arg;
	int code = verdict(b, false);
	int tries;

	if (code == KSFT_SKIP)
		_exit(KSFT_SKIP);
	require(!code, "it fails though the rule is kept");
	for (tries = 0; tries < BREACH_TRIES; tries++) {
		code = verdict(b, true);
		if (code)
			break;
	}
	require(code, "the rule is broken, and nothing is seen");
	require(code == KSFT_FAIL && *data_wrong,
		"the rule is broken, but not the content (%d)", code);
}

/* The name of the only act that is wanted, or NULL. */
const char *only;

bool usable(const struct variant *v)
{
	unsigned int possible = v->act->windows;

	if (only && strcmp(only, v->act->name))
		return false;
	/* DMA copies what has been checked, in a batch. */
	if (possible & W_CHECKED && v->kind != &ext4)
		possible |= W_DMA;
	if (v->mode != MODE_PARALLEL)
		possible &= ~W_ISOLATED;
	if (kind_is_hugetlb(v->kind))
		possible &= W_HUGETLB | W_DMA;
	return possible & BIT(v->window);
}

void breach_run(const struct breach *b)
{
	const struct act *act = b->test ? NULL : find_act(b->what, b->window);
	char name[128];

	snprintf(name, sizeof(name), "broken %s is seen: %s%s", b->rule, b->what,
		 b->window & W_DMA ? ", dma" : "");
	test_run(name, (act && act->slow ? SCENE_TRIES : 2) * TIMEOUT, test_breach,
		 b);
	all_right_again();
}

/* Runs the broken rules that are listed, for DMA or for all else, or counts them. */
unsigned int breaches_listed(bool dma, bool run)
{
	unsigned int nr = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(breaches); i++) {
		if ((only && strcmp(only, breaches[i].what)) ||
		    dma != !!(breaches[i].window & W_DMA))
			continue;
		nr++;
		if (run)
			breach_run(&breaches[i]);
	}
	return nr;
}
