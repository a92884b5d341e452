// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of all kinds is moved at random by everything that moves memory, while
 * as much as possible goes wrong. Its content is compared all the time.
 *
 * migrate_torture [-t SECONDS] [-s SEED] [-n PROCESSES] [-d dcbm.ko]
 *		   [-m mtcopy.ko] [-f softdma.ko]
 *
 * What each process does in each of its turns is decided by the seed; how many
 * turns it has, and what meets with what, is not. The last line but those of the
 * tests is "# json {...}".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/falloc.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "migrate_test.h"

/* Of Linux 6.1, not in every libc. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define WINDOWS_DIR	"/sys/kernel/debug/migrate_copy"
#define SOFTDMA_DIR	"/sys/kernel/debug/softdma"
#define KSM_DIR		"/sys/kernel/mm/ksm"
#define BALANCING_DIR	"/sys/kernel/debug/sched/numa_balancing"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define STACK_DEPOT	"/sys/kernel/debug/stackdepot/stats"
#define CGROUP		"/tmp/migrate_torture"
#define MAX_WORKERS	16
#define MAX_PAGES	1024
/* From here on every kind of trouble has to come. */
#define LONG_S		600
/* For the last operations to end, on an emulated debug kernel. */
#define STUCK_S		120
#define MAX_NODES	8
/*
 * Pages that the kernel may take for itself meanwhile, for buffers, the entries
 * of dma-debug and the like. A page that is lost now and then is more in
 * thousands of moves.
 */
#define KEPT		(2 * MB / PAGE)
/* Errors of a page that are told, and those of a call. */
#define NR_ERRORS	134
/* So many seconds stress-ng runs, and so many it is stopped. */
#define HOG_S		10
/* The contents of pages that are to be merged. */
#define KSM_CONTENTS	16
/* So many pages are pinned at once, and so often a turn: a pipe holds as many. */
#define PINNED		16
#define PINS		16
/* What DAMON has to move at once, and how many of these, with a hole, there are. */
#define DAMON_PART	(512 * MB)
#define DAMON_PARTS	8
/* How often a page may be elsewhere when it has just been reported as moved. */
#define ELSEWHERE	20

/* What goes wrong; what the kernel injects is counted by the kernel. */
enum fault {
	FAULT_SLAB,
	FAULT_PAGE_ALLOC,
	FAULT_COPY,
	FAULT_STRETCH,
	FAULT_DMA_TRANSFER,
	FAULT_DMA_DELAY,
	FAULT_DMA_DROP,
	FAULT_DMA_DUPLICATE,
	FAULT_DMA_PREP,
	FAULT_DMA_SUBMIT,
	FAULT_DMA_TERMINATE,
	FAULT_DMA_DEVICE,
	FAULT_CPU_OFFLINE,
	FAULT_MEMORY_OFFLINE,
	FAULT_ENGINE_UNLOAD,
	FAULT_KNOB,
	FAULT_KILL_MOVER,
	FAULT_KILL_VICTIM,
	FAULT_OOM,
	FAULT_FREEZE,
	FAULT_SUSPEND,
	FAULT_RECLAIM,
	FAULT_LIMIT,
	FAULT_COMPACT,
	FAULT_DROP_CACHES,
	FAULT_SOFT_OFFLINE,
	FAULT_KSM,
	FAULT_BALANCING,
	FAULT_PIN,
	FAULT_DAMON,
	NR_FAULTS,
};

static const char * const fault_names[NR_FAULTS] = {
	[FAULT_SLAB]		= "failslab",
	[FAULT_PAGE_ALLOC]	= "fail_page_alloc",
	[FAULT_COPY]		= "fail_copy",
	[FAULT_STRETCH]		= "stretched_window",
	[FAULT_DMA_TRANSFER]	= "dma_fail_transfer",
	[FAULT_DMA_DELAY]	= "dma_fail_delay",
	[FAULT_DMA_DROP]	= "dma_fail_drop",
	[FAULT_DMA_DUPLICATE]	= "dma_fail_duplicate",
	[FAULT_DMA_PREP]	= "dma_fail_prep",
	[FAULT_DMA_SUBMIT]	= "dma_fail_submit",
	[FAULT_DMA_TERMINATE]	= "dma_fail_terminate",
	[FAULT_DMA_DEVICE]	= "dma_fail_device",
	[FAULT_CPU_OFFLINE]	= "cpu_offline",
	[FAULT_MEMORY_OFFLINE]	= "memory_offline",
	[FAULT_ENGINE_UNLOAD]	= "engine_unload",
	[FAULT_KNOB]		= "knob",
	[FAULT_KILL_MOVER]	= "kill_mover",
	[FAULT_KILL_VICTIM]	= "kill_victim",
	[FAULT_OOM]		= "oom_kill",
	[FAULT_FREEZE]		= "freeze",
	[FAULT_SUSPEND]		= "suspend",
	[FAULT_RECLAIM]		= "reclaim",
	[FAULT_LIMIT]		= "memory_high",
	[FAULT_COMPACT]		= "compaction",
	[FAULT_DROP_CACHES]	= "drop_caches",
	[FAULT_SOFT_OFFLINE]	= "soft_offline",
	[FAULT_KSM]		= "ksm_unmerge",
	[FAULT_BALANCING]	= "numa_balancing",
	[FAULT_PIN]		= "pin",
	[FAULT_DAMON]		= "damon",
};

/*
 * Those that the kernel injects; "times" counts down. Pages are allocated by the
 * hundred: of each so many at most one fails, or no call would get further.
 */
static const struct {
	enum fault fault;
	const char *dir;
	unsigned int percent;
	unsigned int interval;
} injections[] = {
	{ FAULT_SLAB, "/sys/kernel/debug/failslab", 3 },
	{ FAULT_PAGE_ALLOC, "/sys/kernel/debug/fail_page_alloc", 3, 16 },
	{ FAULT_COPY, WINDOWS_DIR "/fail_copy", 1 },
	{ FAULT_DMA_TRANSFER, SOFTDMA_DIR "/fail_transfer", 5 },
	{ FAULT_DMA_DELAY, SOFTDMA_DIR "/fail_delay", 1 },
	{ FAULT_DMA_DROP, SOFTDMA_DIR "/fail_drop", 1 },
	{ FAULT_DMA_DUPLICATE, SOFTDMA_DIR "/fail_duplicate", 5 },
	{ FAULT_DMA_PREP, SOFTDMA_DIR "/fail_prep", 5 },
	{ FAULT_DMA_SUBMIT, SOFTDMA_DIR "/fail_submit", 5 },
	{ FAULT_DMA_TERMINATE, SOFTDMA_DIR "/fail_terminate", 5 },
	{ FAULT_DMA_DEVICE, SOFTDMA_DIR "/fail_device", 1 },
};

#define TIMES		1000000000UL
#define NO_NAMES	"\n"

enum operation {
	OP_MOVE_PAGES,
	OP_MBIND,
	OP_MIGRATE_PAGES,
	OP_PAGEOUT,
	OP_COLD,
	OP_COLLAPSE,
	OP_MLOCK,
	OP_FORK,
	OP_DISCARD,
	OP_REWRITE,
	OP_PROCESS_VM,
	OP_KSM,
	OP_REMAP,
	OP_VERIFY,
	NR_WORKER_OPERATIONS,
	OP_CPUSET = NR_WORKER_OPERATIONS,
	NR_OPERATIONS,
};

static const char * const operation_names[NR_OPERATIONS] = {
	[OP_MOVE_PAGES]		= "move_pages",
	[OP_MBIND]		= "mbind",
	[OP_MIGRATE_PAGES]	= "migrate_pages",
	[OP_PAGEOUT]		= "pageout",
	[OP_COLD]		= "cold",
	[OP_COLLAPSE]		= "collapse",
	[OP_MLOCK]		= "mlock",
	[OP_FORK]		= "fork",
	[OP_DISCARD]		= "discard",
	[OP_REWRITE]		= "rewrite",
	[OP_PROCESS_VM]		= "process_vm_writev",
	[OP_KSM]		= "ksm",
	[OP_REMAP]		= "mremap",
	[OP_VERIFY]		= "verify",
	[OP_CPUSET]		= "cpuset",
};

enum slot_kind {
	SLOT_BASE,
	SLOT_MTHP,
	SLOT_THP,
	SLOT_KSM,
	SLOT_SHMEM,
	SLOT_TMPFS,
	SLOT_TMPFS_HUGE,
	SLOT_EXT4,
	SLOT_XFS,
	SLOT_HUGETLB,
	NR_SLOT_KINDS,
};

static const char * const slot_names[NR_SLOT_KINDS] = {
	"base", "mthp", "thp", "ksm", "shmem", "tmpfs", "tmpfs_huge", "ext4",
	"xfs", "hugetlb",
};

/* What all processes share. */
static struct shared {
	atomic_bool stop;
	atomic_bool faults;
	atomic_ulong injected[NR_FAULTS];
	atomic_ulong done[NR_OPERATIONS];
	atomic_ulong statuses[NR_ERRORS];
	atomic_ulong call_errors[NR_ERRORS];
	atomic_ulong unexpected;
	atomic_ulong died;
	atomic_ulong elsewhere;
	atomic_ulong merged_moved;
	atomic_ulong verified;
	atomic_ulong wrong;
	atomic_ulong at[MAX_WORKERS];
	atomic_int worker_pids[MAX_WORKERS];
	atomic_ulong pages_of_kind[NR_SLOT_KINDS];	/* Verified */
} *shared;

/**
 * struct slot - A piece of memory of one process
 * @kind: what it is
 * @map: where it is
 * @pages: its size in base pages
 * @fd: its file, or -1
 * @seed: of its pattern
 * @version: of each page: how often it has been written
 */
struct slot {
	enum slot_kind kind;
	char *map;
	size_t pages;
	int fd;
	uint64_t seed;
	uint32_t version[MAX_PAGES];
};

static unsigned int seconds = 60, nr_workers = 6;
static uint64_t seed = 1;
static int nodes[MAX_NODES], nr_nodes;
static int files[MAX_WORKERS][NR_SLOT_KINDS];
/* A file for O_DIRECT, and what is in it. */
static int direct;
#define DIRECT_SEED	(0x5eedULL << 40)

static void fault(enum fault what)
{
	shared->injected[what]++;
}

static void count_error(atomic_ulong *counts, int err)
{
	counts[err < 0 || err >= NR_ERRORS ? NR_ERRORS - 1 : err]++;
}

static void __printf(1, 2) unexpected(const char *fmt, ...)
{
	char text[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ksft_print_msg("%s\n", text);
	shared->unexpected++;
}

/*
 * How many random numbers a process has drawn may depend on what it met. So it
 * begins anew each turn: what it does in one depends on the seed, on which of
 * the processes it is, and on how many turns it has had.
 */
static void turn_start(unsigned int process, uint64_t turn)
{
	random_start(seed, (uint64_t)(process + 1) << 32 | turn);
}

/*
 * The memory
 */

/* What is freed by advice, and copied after a fork: no file is behind it. */
static bool is_private(const struct slot *s)
{
	return s->kind <= SLOT_KSM;
}

/*
 * Pages that KSM can merge are of few contents, in all processes the same; each
 * write gives a page another one of them. All others differ.
 */
static uint64_t page_seed(const struct slot *s, size_t page)
{
	if (s->kind == SLOT_KSM)
		return ((page + s->version[page]) % KSM_CONTENTS + 1) << 20;
	return s->seed + s->version[page] * 0x100000001ULL;
}

/* Where the pattern of a page begins. */
static size_t page_offset(const struct slot *s, size_t page)
{
	return s->kind == SLOT_KSM ? 0 : page * PAGE;
}

static void page_fill(const struct slot *s, size_t page, char *at)
{
	pattern_fill(at, PAGE, page_seed(s, page), page_offset(s, page), 0);
}

static void write_pages(struct slot *s, size_t first, size_t nr)
{
	size_t page;

	for (page = first; page < first + nr; page++) {
		s->version[page]++;
		page_fill(s, page, s->map + page * PAGE);
	}
}

static unsigned long bad_words(const struct slot *s, const char *at,
			       size_t page)
{
	return pattern_bad(at, PAGE, page_seed(s, page), page_offset(s, page),
			   0);
}

static void verify(struct slot *s, size_t first, size_t nr)
{
	unsigned long bad = 0;
	char buf[PAGE];
	size_t page;

	for (page = first; page < first + nr; page++) {
		bad += bad_words(s, s->map + page * PAGE, page);
		/* And what a read finds, which takes no lock. */
		if (s->fd >= 0 && !rnd(4)) {
			if (pread(s->fd, buf, PAGE, page * PAGE) ==
			    (ssize_t)PAGE)
				bad += bad_words(s, buf, page);
		}
	}
	if (bad)
		ksft_print_msg("%lu wrong words in a slot of kind %d\n", bad,
			       s->kind);
	shared->wrong += bad;
	shared->verified += nr * PAGE;
	shared->pages_of_kind[s->kind] += nr;
}

static bool slot_map(struct slot *s, unsigned int worker)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t size, align = 2 * MB;
	char *space, *at;

	s->fd = -1;
	s->pages = MAX_PAGES;
	switch (s->kind) {
	case SLOT_HUGETLB:
		flags |= MAP_HUGETLB;
		break;
	case SLOT_SHMEM:
		flags = MAP_SHARED | MAP_ANONYMOUS;
		break;
	case SLOT_TMPFS:
	case SLOT_TMPFS_HUGE:
	case SLOT_EXT4:
	case SLOT_XFS:
		flags = MAP_SHARED;
		s->fd = files[worker][s->kind];
		if (s->fd < 0)
			return false;
		break;
	default:
		break;
	}
	size = s->pages * PAGE;
	space = mmap(NULL, size + align, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return false;
	at = (char *)(((uintptr_t)space + align - 1) & ~(align - 1));
	s->map = mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		      s->fd, 0);
	if (s->map == MAP_FAILED)
		return false;
	if (s->kind == SLOT_MTHP || s->kind == SLOT_THP)
		madvise(s->map, size, MADV_HUGEPAGE);
	else if (s->kind == SLOT_BASE || s->kind == SLOT_KSM)
		madvise(s->map, size, MADV_NOHUGEPAGE);
	if (s->kind == SLOT_KSM)
		madvise(s->map, size, MADV_MERGEABLE);
	write_pages(s, 0, s->pages);
	return true;
}

/*
 * The operations of a worker
 */

/* What move_pages() reads and writes, besides the memory that is moved. */
static struct {
	void *pages[MAX_PAGES];
	int want[MAX_PAGES];
	int status[MAX_PAGES];
	int at[MAX_PAGES];
	uint64_t pfn[MAX_PAGES];
} list;

/*
 * A page fault in the middle of a call, with an allocation that is made to fail,
 * would give EFAULT, as for a wrong address. So there are none: what the calls
 * read and write, a node mask on the stack included, stays in memory.
 */
static bool lock_arguments(void)
{
	char stack[64 * KB];

	memset(stack, 0, sizeof(stack));
	return !mlock(&list, sizeof(list)) && !mlock(stack, sizeof(stack));
}

/*
 * Whoever moves his own memory, all of which is mapped, between nodes that have
 * memory and that he may use, gets no other error than that a page, or what the
 * kernel needs for the call, could not be allocated. EFAULT: see above. EIO is
 * for MPOL_MF_STRICT, which is not used; ENODEV for a node without memory, and
 * each keeps what cannot go offline; EACCES, EINVAL and EPERM for nodes and
 * processes that are out of reach; and nothing waits in a way that a signal
 * could interrupt.
 */
static void call_ended(const char *call, long ret)
{
	int err = ret < 0 ? errno : 0;

	count_error(shared->call_errors, err);
	if (err && err != ENOMEM)
		unexpected("%s gave %s", call, strerror(err));
}

/*
 * The memory of another process moves, which may have come to its end: then it
 * is not found (ESRCH), or has no memory any more (EINVAL). Returns how many
 * pages could not be moved.
 */
static int migrate_other(pid_t pid, int from, int to)
{
	int left = sys_migrate_pages(pid, from, to);

	if (left < 0 && errno != ENOMEM && errno != ESRCH && errno != EINVAL)
		unexpected("migrate_pages of another process gave %s",
			   strerror(errno));
	return left;
}

/* Only what moves memory has allocations that fail. */
static void make_it_fail(bool on)
{
	static int fd = -2;
	static pid_t owner;

	if (owner != getpid()) {
		owner = getpid();
		fd = open("/proc/self/make-it-fail", O_WRONLY | O_CLOEXEC);
	}
	if (fd >= 0 && pwrite(fd, on ? "1" : "0", 1, 0) != 1)
		unexpected("make-it-fail: %s", strerror(errno));
}

/*
 * The kernel stores the node that was asked for when the page is there, and
 * nothing else that is positive. Of the errors, ENOENT is for a page that is not
 * there, or is on its way, EBUSY for one that somebody has isolated, and EACCES
 * for one that others map, too, which MPOL_MF_MOVE_ALL moves nevertheless. EFAULT
 * would be for an address without memory, or for the page of zeroes: there is
 * neither in a slot. What goes wrong with the copy of a page is no status.
 */
static void check_statuses(size_t nr, long ret, int flags)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		int err = list.status[i] < 0 ? -list.status[i] : 0;

		/* After an error the rest of a call is left undone. */
		if (list.status[i] == NO_STATUS) {
			if (!ret)
				unexpected("a page has no status");
			continue;
		}
		count_error(shared->statuses, err);
		if (list.status[i] >= 0 && list.status[i] != list.want[i])
			unexpected("a page for node %d has status %d",
				   list.want[i], list.status[i]);
		else if (err && err != ENOENT && err != EBUSY &&
			 !(err == EACCES && !(flags & MPOL_MF_MOVE_ALL)))
			unexpected("a page has status %d", list.status[i]);
	}
}

/*
 * Pages are where their statuses say, unless somebody else has moved them since:
 * who kills movers, NUMA balancing, reclaim, memory that goes offline. So those
 * that are elsewhere are moved again, later and later. None of these comes that
 * often, and movers live for 20 ms: a page that is elsewhere each time was never
 * moved.
 */
static void check_nodes(size_t nr, int flags)
{
	size_t i, left;
	int try;

	for (try = 0; try < ELSEWHERE; try++) {
		if (sys_move_pages(0, nr, list.pages, NULL, list.at, 0)) {
			unexpected("move_pages without nodes gave %s",
				   strerror(errno));
			return;
		}
		for (i = 0, left = 0; i < nr; i++) {
			if (list.status[i] < 0 || list.status[i] == NO_STATUS ||
			    list.at[i] < 0 || list.at[i] == list.want[i])
				continue;
			list.pages[left] = list.pages[i];
			list.want[left] = list.want[i];
			left++;
		}
		if (!left)
			return;
		if (!try)
			shared->elsewhere += left;
		nr = left;
		for (i = 0; i < nr; i++)
			list.status[i] = NO_STATUS;
		usleep(2000 * try);
		call_ended("move_pages",
			   sys_move_pages(0, nr, list.pages, list.want,
					  list.status, flags));
	}
	for (i = 0; i < nr; i++) {
		if (list.status[i] >= 0 && list.status[i] != NO_STATUS)
			unexpected("a page is never on node %d",
				   list.status[i]);
	}
}

/*
 * Those that KSM has merged, and that are where the call has moved them: another
 * page has the same address. The flag of /proc/kpageflags is no help: in 6.12 all
 * anonymous pages have it.
 */
static void count_merged(size_t nr)
{
	size_t i, j;

	for (i = 0; i < nr; i++)
		list.pfn[i] = page_pfn(list.pages[i]);
	for (i = 0; i < nr; i++) {
		if (!list.pfn[i] || list.at[i] < 0 ||
		    list.at[i] == list.want[i] || list.status[i] != list.want[i])
			continue;
		for (j = 0; j < nr && (j == i || list.pfn[j] != list.pfn[i]); j++)
			;
		shared->merged_moved += j < nr;
	}
}

static void do_move_pages(struct slot *s)
{
	size_t first = rnd(s->pages), nr, i, step;
	int to = nodes[rnd(nr_nodes)];
	int flags = rnd(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL;
	/* What is merged cannot be in two places. */
	bool scattered = !rnd(4) && s->kind != SLOT_KSM;
	int ret;

	if (rnd(2))
		first = 0;
	if (!rnd(3))
		flags |= MPOL_MF_MOVE_MT;
	step = s->kind == SLOT_HUGETLB ? 2 * MB / PAGE : 1 + rnd(3) * rnd(3);
	first -= first % step;
	for (i = first, nr = 0; i < s->pages; i += step, nr++) {
		list.pages[nr] = s->map + i * PAGE;
		list.want[nr] = scattered ? nodes[rnd(nr_nodes)] : to;
		list.status[nr] = NO_STATUS;
		list.at[nr] = NO_STATUS;
	}
	if (s->kind == SLOT_KSM)
		sys_move_pages(0, nr, list.pages, NULL, list.at, 0);
	make_it_fail(true);
	ret = sys_move_pages(0, nr, list.pages, list.want, list.status, flags);
	make_it_fail(false);
	call_ended("move_pages", ret);
	check_statuses(nr, ret, flags);
	if (s->kind == SLOT_KSM)
		count_merged(nr);
	check_nodes(nr, flags);
}

static void do_mbind(struct slot *s)
{
	int mode = rnd(2) ? MPOL_BIND : MPOL_PREFERRED;
	unsigned int flags = rnd(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL;
	int ret;

	if (!rnd(3))
		flags |= MPOL_MF_MOVE_MT;
	make_it_fail(true);
	ret = sys_mbind(s->map, s->pages * PAGE, mode, nodes[rnd(nr_nodes)],
			flags);
	make_it_fail(false);
	call_ended("mbind", ret);
	/* That one takes no nodes. */
	call_ended("mbind", syscall(SYS_mbind, s->map, s->pages * PAGE,
				    MPOL_DEFAULT, NULL, 0, 0));
}

static void do_migrate_pages(void)
{
	int ret;

	make_it_fail(true);
	ret = sys_migrate_pages(0, nodes[rnd(nr_nodes)], nodes[rnd(nr_nodes)]);
	make_it_fail(false);
	call_ended("migrate_pages", ret);
}

static void do_fork(struct slot *s)
{
	size_t first = rnd(s->pages / 2), nr = s->pages / 4;
	uint64_t later = rnd(20000);
	pid_t pid = fork();
	int how;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(later);
		/* Huge pages of a pool may be missing for a copy. */
		if (is_private(s))
			write_pages(s, first, nr);
		verify(s, first, nr);
		_exit(0);
	}
	if (pid < 0)
		return;
	if (is_private(s))
		write_pages(s, s->pages / 2, s->pages / 4);
	do_move_pages(s);
	if (waitpid(pid, &how, 0) != pid || how) {
		ksft_print_msg("a child ended with %x\n", how);
		shared->died++;
	}
}

static void do_discard(struct slot *s)
{
	size_t first = rnd(s->pages / 2), nr = 1 + rnd(s->pages / 2);

	if (s->kind == SLOT_HUGETLB)
		return;
	if (is_private(s))
		madvise(s->map + first * PAGE, nr * PAGE,
			rnd(2) ? MADV_DONTNEED : MADV_FREE);
	else if (s->fd >= 0)
		fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  first * PAGE, nr * PAGE);
	else
		madvise(s->map + first * PAGE, nr * PAGE, MADV_REMOVE);
	write_pages(s, first, nr);
}

static void do_process_vm(struct slot *s)
{
	size_t page = rnd(s->pages - 16);
	static char buf[16 * 65536];
	struct iovec from = { buf, 16 * PAGE };
	struct iovec to = { s->map + page * PAGE, 16 * PAGE };
	ssize_t done;
	size_t i;

	for (i = 0; i < 16; i++) {
		s->version[page + i]++;
		page_fill(s, page + i, buf + i * PAGE);
	}
	done = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	if (done != (ssize_t)(16 * PAGE))
		write_pages(s, page, 16);
}

static void do_mremap(struct slot *s)
{
	size_t size = s->pages * PAGE;
	char *to;

	if (s->kind == SLOT_HUGETLB)
		return;
	to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return;
	to = mremap(s->map, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (to != MAP_FAILED)
		s->map = to;
}

static void operate(struct slot *s, enum operation op)
{
	size_t size = s->pages * PAGE;
	size_t page;

	switch (op) {
	case OP_MOVE_PAGES:
		do_move_pages(s);
		break;
	case OP_MBIND:
		do_mbind(s);
		break;
	case OP_MIGRATE_PAGES:
		do_migrate_pages();
		break;
	case OP_PAGEOUT:
		madvise(s->map, size, MADV_PAGEOUT);
		break;
	case OP_COLD:
		madvise(s->map, size, MADV_COLD);
		break;
	case OP_COLLAPSE:
		madvise(s->map, size, MADV_COLLAPSE);
		break;
	case OP_MLOCK:
		if (!mlock(s->map, size)) {
			do_move_pages(s);
			munlock(s->map, size);
		}
		break;
	case OP_FORK:
		do_fork(s);
		break;
	case OP_DISCARD:
		do_discard(s);
		break;
	case OP_REWRITE:
		page = rnd(s->pages);
		write_pages(s, page, 1 + rnd(s->pages - page));
		break;
	case OP_PROCESS_VM:
		do_process_vm(s);
		break;
	case OP_KSM:
		madvise(s->map, size, rnd(2) ? MADV_MERGEABLE :
					       MADV_UNMERGEABLE);
		break;
	case OP_REMAP:
		do_mremap(s);
		break;
	default:
		verify(s, 0, s->pages);
		break;
	}
	shared->done[op]++;
}

/* Moves are most of it. */
static enum operation choose(void)
{
	return rnd(2) ? rnd(OP_MIGRATE_PAGES + 1) :
			rnd(NR_WORKER_OPERATIONS);
}

static void __noreturn worker_main(unsigned int id)
{
	static struct slot slots[3];
	uint64_t turn;
	size_t i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	turn_start(id, 0);
	if (!lock_arguments())
		unexpected("mlock: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		slots[i].kind = (id * ARRAY_SIZE(slots) + i) % NR_SLOT_KINDS;
		slots[i].seed = (uint64_t)(id * 16 + i + 1) << 40;
		/* A pool may be empty: have another kind. */
		if (!slot_map(&slots[i], id)) {
			slots[i].kind = SLOT_BASE;
			if (!slot_map(&slots[i], id))
				_exit(1);
		}
	}
	for (turn = 1; !shared->stop; turn++) {
		turn_start(id, turn);
		operate(&slots[rnd(ARRAY_SIZE(slots))], choose());
		/* Others have moved them all meanwhile. */
		for (i = 0; i < ARRAY_SIZE(slots); i++)
			verify(&slots[i], 0, slots[i].pages);
		shared->at[id]++;
	}
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		verify(&slots[i], 0, slots[i].pages);
	_exit(0);
}

/*
 * What gets in the way
 */

static void random_knob(void)
{
	static const char * const knobs[][5] = {
		{ KNOB_DIR "/enabled", "0", "1", "1", "1" },
		{ KNOB_DIR "/max_helpers", "0", "1", "3", "3" },
		{ KNOB_DIR "/placement", "spread", "fill", "spread", "fill" },
		{ KNOB_DIR "/priority", "normal", "high", "normal", "high" },
		{ KNOB_DIR "/parallel_batches", "0", "1", "1", "1" },
		{ KNOB_DIR "/min_helper_kb", "0", "auto", "64", "1024" },
		{ KNOB_DIR "/chunk_kb", "4", "16", "128", "2048" },
		{ KNOB_DIR "/batch_pages", "512", "1024", "4096", "32768" },
		{ KNOB_DIR "/reasons", "all", "none", "demotion damon", "all" },
		{ KNOB_DIR "/non_temporal", "never", "far", "always", "demotion" },
		{ MT_PAGE_COPY, "0", "1", "2", "1" },
		{ KNOB_DIR "/costs/calibrate", "1", "1", "1", "1" },
	};
	static const char * const engine_knobs[][5] = {
		{ "/offloading", "0", "1", "1", "1" },
		{ "/exclusive", "0", "1", "0", "1" },
		{ "/min_kb", "0", "0", "64", "1024" },
		{ "/channels", "0", "1", "4", "4" },
		{ "/threads", "0", "1", "2", "2" },
		{ "/depth", "1", "2", "4", "8" },
		{ "/poll_kb", "0", "64", "2048", "64" },
		{ "/timeout_ms", "20", "40", "100", "1000" },
	};
	char path[128];
	size_t i;

	if (rnd(2)) {
		i = rnd(ARRAY_SIZE(knobs));
		if (file_write(knobs[i][0], knobs[i][1 + rnd(4)]))
			return;
	} else {
		i = rnd(ARRAY_SIZE(engine_knobs));
		snprintf(path, sizeof(path), ENGINES_DIR "/%s%s",
			 rnd(3) ? "dcbm" : "mtcopy", engine_knobs[i][0]);
		if (file_write(path, engine_knobs[i][1 + rnd(4)]))
			return;
	}
	fault(FAULT_KNOB);
}

/* Faults of the kernel: "times" counts how many are left. */
static void injection_count(size_t i)
{
	char path[128];
	uint64_t left;

	snprintf(path, sizeof(path), "%s/times", injections[i].dir);
	/* Anything else has not been set here. */
	if (file_read_number(path, &left) || left > TIMES || left < TIMES / 2)
		return;
	shared->injected[injections[i].fault] += TIMES - left;
	file_write_number(path, TIMES);
}

static bool is_dma_debug(const char *symbol)
{
	static const char * const others[] = {
		"add_dma_entry", "dma_entry_alloc", "dma_debug_create_entries",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		if (!strcmp(symbol, others[i]))
			return true;
	}
	/* What the compiler has split off lies elsewhere. */
	return !strncmp(symbol, "debug_dma_", 10) && !strchr(symbol, '.');
}

/* Where the functions of dma-debug are, which are one file of the kernel. */
static bool find_dma_debug(uint64_t *start, uint64_t *end)
{
	uint64_t last = 0, next = UINT64_MAX;
	unsigned long long at;
	char line[512], symbol[256], type;
	FILE *symbols;

	symbols = fopen("/proc/kallsyms", "r");
	if (!symbols)
		return false;
	*start = UINT64_MAX;
	while (fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %c %255s", &at, &type, symbol) != 3 ||
		    (type != 't' && type != 'T') || !is_dma_debug(symbol))
			continue;
		*start = at < *start ? at : *start;
		last = at > last ? at : last;
	}
	/* Up to the function that follows. */
	rewind(symbols);
	while (fgets(line, sizeof(line), symbols)) {
		at = strtoull(line, NULL, 16);
		if (at > last && at < next)
			next = at;
	}
	fclose(symbols);
	*end = next;
	return last && *end - *start < MB;
}

/*
 * dma-debug turns itself off, for good, when an allocation of its own fails.
 * Those, by their place on the stack, do not fail. False if there is no way to
 * spare them.
 */
static bool spare_dma_debug(const char *dir)
{
	static uint64_t start, end;
	static int found = -1;
	char path[128];

	if (!file_exists("/sys/kernel/debug/dma-api"))
		return true;
	if (found < 0)
		found = find_dma_debug(&start, &end);
	snprintf(path, sizeof(path), "%s/stacktrace-depth", dir);
	if (!found || file_write(path, "32"))
		return false;
	/* The end first: from 0 to there is the kernel, none of which fails. */
	snprintf(path, sizeof(path), "%s/reject-end", dir);
	if (file_write_number(path, end))
		return false;
	snprintf(path, sizeof(path), "%s/reject-start", dir);
	return !file_write_number(path, start);
}

static bool is_allocation(size_t i)
{
	return injections[i].fault == FAULT_SLAB ||
	       injections[i].fault == FAULT_PAGE_ALLOC;
}

static void injection_set(size_t i, unsigned int percent)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/verbose", injections[i].dir);
	if (file_write(path, "0"))
		return;
	if (percent && is_allocation(i) && !spare_dma_debug(injections[i].dir)) {
		unexpected("cannot spare dma-debug in %s", injections[i].dir);
		return;
	}
	snprintf(path, sizeof(path), "%s/times", injections[i].dir);
	file_write_number(path, TIMES);
	snprintf(path, sizeof(path), "%s/task-filter", injections[i].dir);
	file_write(path, is_allocation(i) ? "Y" : "N");
	snprintf(path, sizeof(path), "%s/ignore-gfp-wait", injections[i].dir);
	file_write(path, "N");
	snprintf(path, sizeof(path), "%s/ignore-gfp-highmem",
		 injections[i].dir);
	file_write(path, "N");
	snprintf(path, sizeof(path), "%s/min-order", injections[i].dir);
	file_write(path, "0");
	snprintf(path, sizeof(path), "%s/interval", injections[i].dir);
	file_write_number(path, injections[i].interval ?: 1);
	snprintf(path, sizeof(path), "%s/probability", injections[i].dir);
	file_write_number(path, percent);
}

static void injections_all(bool on)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(injections); i++) {
		injection_count(i);
		injection_set(i, on ? injections[i].percent : 0);
	}
	file_write(WINDOWS_DIR "/stretch", on ?
		   "isolated unmapped flushed checked copying helping copied switching remapping" :
		   NO_NAMES);
	file_write(WINDOWS_DIR "/stretch_us", on ? "300" : "0");
}

static void injections_off_dma(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(injections); i++) {
		if (injections[i].fault < FAULT_DMA_TRANSFER ||
		    injections[i].fault > FAULT_DMA_DEVICE)
			continue;
		injection_count(i);
		injection_set(i, 0);
	}
	file_write(SOFTDMA_DIR "/revive", "1");
}

/* Modules come and go under load; one that is busy stays for now. */
static void engines_load(void)
{
	if (softdma_path)
		module_load(softdma_path, "channels=4");
	if (dcbm_path)
		module_load(dcbm_path, "");
	if (mtcopy_path)
		module_load(mtcopy_path, "");
	file_write(ENGINES_DIR "/dcbm/channels", "4");
	file_write(ENGINES_DIR "/dcbm/timeout_ms", "40");
	file_write(ENGINES_DIR "/dcbm/min_kb", "0");
	file_write(ENGINES_DIR "/dcbm/offloading", "1");
	file_write(ENGINES_DIR "/mtcopy/threads", "2");
	file_write(ENGINES_DIR "/mtcopy/min_kb", "0");
	file_write(ENGINES_DIR "/mtcopy/offloading", "1");
	file_write("/sys/module/softdma/parameters/delay_ms", "100");
}

/* At first nothing keeps a module from being loaded, if it is there to be. */
static void engines_loaded(void)
{
	const struct {
		const char *path, *dir;
	} modules[] = {
		{ softdma_path, "/sys/module/softdma" },
		{ dcbm_path, "/sys/module/dcbm" },
		{ mtcopy_path, "/sys/module/mtcopy" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modules); i++) {
		if (modules[i].path && !file_exists(modules[i].dir))
			unexpected("%s is not loaded", modules[i].path);
	}
}

static bool unload(const char *name)
{
	int try;

	for (try = 0; try < 100; try++) {
		if (!module_unload(name))
			return true;
		if (errno == ENOENT)
			return false;
		usleep(50000);
	}
	ksft_print_msg("%s stays loaded: %s\n", name, strerror(errno));
	return false;
}

static void engines_unload(bool all)
{
	if (all || rnd(2)) {
		if (unload("mtcopy"))
			fault(FAULT_ENGINE_UNLOAD);
	}
	if (all || rnd(2)) {
		if (unload("dcbm"))
			fault(FAULT_ENGINE_UNLOAD);
		injections_off_dma();
		if (unload("softdma"))
			fault(FAULT_ENGINE_UNLOAD);
	}
}

static void engines_cycle(void)
{
	engines_unload(false);
	engines_load();
	injections_all(true);
}

/* A channel that was given up is used again when it is asked for. */
static void channels_revive(void)
{
	file_write(SOFTDMA_DIR "/revive", "1");
	file_write(ENGINES_DIR "/dcbm/channels", "4");
}

/* What is refused for the moment, as during a suspend, is tried again. */
static void must_write(const char *path, const char *text)
{
	int try, err;

	for (try = 0; try < 100; try++) {
		err = file_write(path, text);
		if (!err)
			return;
		usleep(100000);
	}
	unexpected("%s stays as it is: %s", path, strerror(-err));
}

static void cpu_cycle(void)
{
	int cpu = 1 + rnd(sysconf(_SC_NPROCESSORS_CONF) - 1);
	char path[64];

	if (cpu_set_online(cpu, false))
		return;
	fault(FAULT_CPU_OFFLINE);
	usleep(rnd(50000));
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	must_write(path, "1");
}

static void on_alarm(int sig)
{
}

/* A block of memory goes, if it can within two seconds, and comes back. */
static void memory_cycle(void)
{
	struct sigaction act = { .sa_handler = on_alarm };
	char path[96];
	int block, try, err;

	sigaction(SIGALRM, &act, NULL);
	for (try = 0; try < 50; try++) {
		block = rnd(48);
		if (block_is_movable(block))
			break;
	}
	if (try == 50)
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%d/state",
		 block);
	alarm(2);
	err = file_write(path, "offline");
	alarm(0);
	if (err)
		return;
	fault(FAULT_MEMORY_OFFLINE);
	must_write(path, "online_movable");
}

static int cgroup_write(const char *group, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), CGROUP "/%s/%s", group, name);
	return file_write(path, value);
}

/* Somebody else moves the memory of a worker, and is killed meanwhile. */
static void kill_mover(void)
{
	pid_t victim = shared->worker_pids[rnd(nr_workers)];
	int from = nodes[rnd(nr_nodes)], to = nodes[rnd(nr_nodes)];
	uint64_t later = rnd(20000);
	pid_t pid = fork();

	if (!pid) {
		for (;;) {
			migrate_other(victim, from, to);
			migrate_other(victim, to, from);
		}
	}
	if (pid < 0)
		return;
	usleep(later);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fault(FAULT_KILL_MOVER);
}

/* A process dies while its memory moves, killed or for want of memory. */
static void kill_victim(bool by_oom)
{
	int from = nodes[rnd(nr_nodes)], to = nodes[rnd(nr_nodes)];
	uint64_t later = rnd(30000);
	pid_t pid = fork();
	int how, i;
	char *map;

	if (!pid) {
		if (by_oom) {
			cgroup_write("oom", "memory.max", "8M");
			cgroup_write("oom", "memory.swap.max", "0");
			cgroup_write("oom", "cgroup.procs", "0");
		}
		map = mmap(NULL, 16 * MB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (;;)
			memset(map, 1, 16 * MB);
	}
	if (pid < 0)
		return;
	for (i = 0; i < 5; i++) {
		migrate_other(pid, from, to);
		migrate_other(pid, to, from);
	}
	if (!by_oom) {
		usleep(later);
		kill(pid, SIGKILL);
	}
	/* One that is in want of memory is killed before long. */
	for (i = 0; i < 100 && waitpid(pid, &how, WNOHANG) != pid; i++)
		usleep(100000);
	if (i == 100) {
		kill(pid, SIGKILL);
		waitpid(pid, &how, 0);
	} else {
		fault(by_oom ? FAULT_OOM : FAULT_KILL_VICTIM);
	}
	if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGKILL)
		unexpected("a victim ended with %x", how);
}

static void kill_by_signal(void)
{
	kill_victim(false);
}

static void kill_by_oom(void)
{
	kill_victim(true);
}

static void freeze(void)
{
	cgroup_write("workers", "cgroup.freeze", "1");
	usleep(rnd(20000));
	cgroup_write("workers", "cgroup.freeze", "0");
	fault(FAULT_FREEZE);
}

/* Everybody is frozen, this program included. */
static void suspend(void)
{
	if (!suspend_tasks(2000))
		fault(FAULT_SUSPEND);
}

static void soft_offline(void)
{
	static char *map;
	char text[32];
	uint64_t pfn;

	if (!map)
		map = mmap(NULL, MB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	pfn = page_pfn(map + rnd(MB / PAGE) * PAGE);
	snprintf(text, sizeof(text), "%#llx", (unsigned long long)pfn * PAGE);
	if (!file_write("/sys/devices/system/memory/soft_offline_page", text)) {
		fault(FAULT_SOFT_OFFLINE);
		snprintf(text, sizeof(text), "%#llx", (unsigned long long)pfn);
		file_write("/sys/kernel/debug/hwpoison/unpoison-pfn", text);
	}
}

static void reclaim(void)
{
	char text[24];

	/* It may find less than that. */
	snprintf(text, sizeof(text), "%dM", (int)(1 + rnd(16)));
	cgroup_write("workers", "memory.reclaim", text);
	fault(FAULT_RECLAIM);
}

static void limit(void)
{
	if (!cgroup_write("workers", "memory.high", "32M"))
		fault(FAULT_LIMIT);
	usleep(rnd(100000));
	cgroup_write("workers", "memory.high", "max");
}

/* A node, for a while: all of it takes longer than a suspend may wait. */
static void compact_node(void)
{
	uint64_t later = 1 + rnd(1000000);
	char path[64];
	pid_t pid;
	int how;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/compact",
		 nodes[rnd(nr_nodes)]);
	pid = fork();
	if (!pid)
		_exit(!!file_write(path, "1"));
	if (pid < 0)
		return;
	usleep(later);
	kill(pid, SIGKILL);
	/* Whether it was done, or killed in the middle of it. */
	if (waitpid(pid, &how, 0) == pid && (!how || WIFSIGNALED(how)))
		fault(FAULT_COMPACT);
}

static void shrink_caches(void)
{
	if (!file_write("/proc/sys/vm/drop_caches", "3"))
		fault(FAULT_DROP_CACHES);
}

/* KSM runs most of the time, and now and then takes back all that it has done. */
static void merge_pages(void)
{
	bool merge = rnd(3);
	uint64_t merged;

	file_write(KSM_DIR "/pages_to_scan", "500");
	file_write(KSM_DIR "/smart_scan", "0");
	if (file_read_number(KSM_DIR "/pages_sharing", &merged) ||
	    file_write(KSM_DIR "/run", merge ? "1" : "2") || merge)
		return;
	shared->injected[FAULT_KSM] += merged;
}

/*
 * 1: to where pages are used; 2: between tiers of memory; 3: both. There is no
 * way back to 1: in the other modes the pages of a lower tier have the time of
 * the last access where those of others have the CPU, and task_numa_fault() of
 * the unmodified kernel, too, would take that for the number of a CPU and crash.
 */
static void balance(void)
{
	static unsigned int mode = 1;
	static double start;
	unsigned int next;

	start = start ?: now();
	next = now() - start < seconds / 3 ? 1 : 2 + rnd(2);
	if (next != mode &&
	    !file_write_number("/proc/sys/kernel/numa_balancing", next)) {
		fault(FAULT_BALANCING);
		mode = next;
	}
}

/*
 * What the memory of a cgroup may be on changes, and it follows. Only this one
 * has a set of its own: for the workers all nodes are always allowed.
 */
static void change_cpuset(void)
{
	static struct slot s = { .kind = SLOT_MTHP, .seed = 1ULL << 56 };
	char text[8];

	if (!s.map) {
		if (cgroup_write("cpuset", "cgroup.procs", "0") ||
		    !slot_map(&s, 0)) {
			unexpected("no cpuset");
			return;
		}
	}
	snprintf(text, sizeof(text), "%d", nodes[rnd(nr_nodes)]);
	if (cgroup_write("cpuset", "cpuset.mems", text))
		unexpected("cpuset.mems refuses node %s", text);
	verify(&s, 0, s.pages);
	write_pages(&s, rnd(s.pages / 2), s.pages / 2);
	shared->done[OP_CPUSET]++;
}

/* A kdamond moves what is in a part of the memory, whosoever it is. */
static void damon(void)
{
	uint64_t start = rnd(DAMON_PARTS) * DAMON_PART;
	int to = nodes[rnd(nr_nodes)];
	uint64_t later = rnd(500000);

	if (damon_start(start, start + DAMON_PART, to))
		return;
	usleep(later);
	shared->injected[FAULT_DAMON] += damon_stop();
}

/* What others read from pages of a slot, which nobody writes to meanwhile. */
static void check_read(const struct slot *s, size_t first, const char *buf,
		       ssize_t done)
{
	size_t i;

	if (done != (ssize_t)(PINNED * PAGE)) {
		unexpected("%zd bytes of memory that is pinned: %s", done,
			   strerror(errno));
		return;
	}
	for (i = 0; i < PINNED; i++)
		shared->wrong += bad_words(s, buf + i * PAGE, first + i);
	shared->verified += done;
}

/* Some pages are written to by a device, are in a pipe, and are read by address. */
static void pin_pages(struct slot *s, size_t first, const int *pipes)
{
	static char buf[PINNED * 65536];
	char *at = s->map + first * PAGE;
	struct iovec pages = { at, PINNED * PAGE };
	struct iovec copy = { buf, PINNED * PAGE };
	ssize_t done, in_pipe;

	done = pread(direct, at, PINNED * PAGE, 0);
	if (done == (ssize_t)(PINNED * PAGE))
		shared->wrong += pattern_bad(at, done, DIRECT_SEED, 0, 0);
	else
		unexpected("O_DIRECT read %zd bytes: %s", done, strerror(errno));
	write_pages(s, first, PINNED);

	in_pipe = vmsplice(pipes[1], &pages, 1, 0);
	if (in_pipe < 0)
		unexpected("vmsplice: %s", strerror(errno));
	/* While they are there, and no longer. */
	check_read(s, first, buf,
		   process_vm_readv(getpid(), &copy, 1, &pages, 1, 0));
	usleep(5000);
	for (done = 0; done < in_pipe; ) {
		ssize_t n = read(pipes[0], buf + done, in_pipe - done);

		if (n <= 0)
			break;
		done += n;
	}
	check_read(s, first, buf, done);
}

/*
 * Memory is pinned in each way, while somebody else moves it, who counts how
 * often not all of it could be moved.
 */
static void pin_memory(void)
{
	static const enum slot_kind kinds[] = { SLOT_BASE, SLOT_THP, SLOT_SHMEM };
	static struct slot slots[ARRAY_SIZE(kinds)];
	int from = nodes[rnd(nr_nodes)], to = nodes[rnd(nr_nodes)];
	struct slot *s = &slots[rnd(ARRAY_SIZE(kinds))];
	int i, pipes[2] = { -1, -1 };
	pid_t mover;

	if (!s->map) {
		s->kind = kinds[s - slots];
		s->seed = (1ULL << 58) + ((s - slots) << 40);
		/* Or it would be another's too, and be copied before it is written. */
		if (!slot_map(s, 0) ||
		    madvise(s->map, s->pages * PAGE, MADV_DONTFORK)) {
			unexpected("no memory to pin");
			_exit(1);
		}
	}
	mover = fork();
	if (!mover) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;; i = from, from = to, to = i) {
			if (migrate_other(getppid(), from, to) > 0)
				fault(FAULT_PIN);
		}
	}
	if (mover < 0 || pipe(pipes))
		unexpected("no process or pipe: %s", strerror(errno));
	for (i = 0; i < PINS && pipes[0] >= 0; i++)
		pin_pages(s, rnd(s->pages - PINNED), pipes);
	if (mover > 0) {
		kill(mover, SIGKILL);
		waitpid(mover, NULL, 0);
	}
	close(pipes[0]);
	close(pipes[1]);
	verify(s, 0, s->pages);
}

/*
 * Each has a process of its own, so that one that takes long holds up no other.
 * It pauses for about so long, and at least three times as long as the trouble
 * took, so that there is time for moves on a slow machine, too: those that stop
 * everybody are the rarest. Movers that are killed move most of the time.
 */
static const struct {
	void (*make)(void);
	unsigned int pause_ms;
	bool always;
} troubles[] = {
	{ random_knob, 12 },
	{ kill_mover, 80, .always = true },
	{ channels_revive, 300 },
	{ cpu_cycle, 300 },
	{ engines_cycle, 1000 },
	{ memory_cycle, 500 },
	{ kill_by_signal, 500 },
	{ kill_by_oom, 1000 },
	{ freeze, 1500 },
	{ suspend, 2000 },
	{ soft_offline, 2000 },
	{ reclaim, 1500 },
	{ limit, 2000 },
	{ compact_node, 2000 },
	{ shrink_caches, 5000 },
	{ merge_pages, 4000 },
	{ balance, 3000 },
	{ change_cpuset, 1000 },
	{ pin_memory, 100 },
	{ damon, 1000 },
};

static void __noreturn trouble_main(unsigned int id)
{
	uint64_t turn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (turn = 0; !shared->stop; turn++) {
		double pause, until = now();

		turn_start(MAX_WORKERS + id, turn);
		pause = rnd(2 * troubles[id].pause_ms) / 1e3;
		troubles[id].make();
		until = now() + (troubles[id].always ? 0 : 3) * (now() - until) +
			pause;
		do {
			usleep(10000);
		} while (now() < until && !shared->stop);
	}
	_exit(0);
}

/* What else a machine does; it does not end by itself. */
static pid_t hogs_start(void)
{
	pid_t pid;

	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
		dup2(STDOUT_FILENO, STDERR_FILENO);
		setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
		execlp("stress-ng", "stress-ng", "--temp-path", "/tmp", "--cpu",
		       "1", "--vm", "1", "--vm-bytes", "32M", "--fork", "1",
		       "--timeout", "0", NULL);
		_exit(127);
	}
	return pid;
}

/*
 * Ends it and all that it has started, which are children of this process once
 * their parents are dead. Was it there until now, and did it do something? A CPU
 * that it has for a hundredth of the time is less than it gets of four that are
 * busy with thirty others.
 */
static bool hogs_stop(pid_t hogs)
{
	struct rusage usage;
	bool alive;
	double used = 0;
	int how = 0;

	alive = hogs > 0 && !waitpid(hogs, &how, WNOHANG);
	if (!alive) {
		ksft_print_msg("stress-ng ended with %x\n", how);
		return false;
	}
	kill(-hogs, SIGKILL);
	while (wait4(-hogs, &how, 0, &usage) > 0)
		used += usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
			(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	ksft_print_msg("stress-ng used %.1f s of CPU time\n", used);
	return used > seconds / 100.0;
}

static uint64_t event_count(const char *name)
{
	return file_count("/proc/vmstat", name);
}

static uint64_t stretches(void)
{
	char text[2048], *at = text;
	uint64_t sum = 0;

	if (file_read(WINDOWS_DIR "/counts", text, sizeof(text)))
		return 0;
	while ((at = strstr(at, "stretched_"))) {
		at += strcspn(at, " ");
		sum += strtoull(at, NULL, 10);
	}
	return sum;
}

static void find_nodes(void)
{
	int node;

	for (node = 0; node < MAX_NODES; node++) {
		if (!node_bind(node))
			nodes[nr_nodes++] = node;
	}
	node_unbind();
	if (nr_nodes < 2)
		ksft_exit_skip("needs two nodes with memory\n");
}

static void prepare(void)
{
	static const enum backing backings[NR_SLOT_KINDS] = {
		[SLOT_TMPFS]		= BACK_TMPFS,
		[SLOT_TMPFS_HUGE]	= BACK_TMPFS_HUGE,
		[SLOT_EXT4]		= BACK_EXT4,
		[SLOT_XFS]		= BACK_XFS,
	};
	unsigned int i;
	int kind;

	for (i = 0; i < nr_workers; i++) {
		for (kind = 0; kind < NR_SLOT_KINDS; kind++) {
			files[i][kind] = -1;
			if (!backings[kind])
				continue;
			files[i][kind] = file_in(backings[kind], 0);
			require(!ftruncate(files[i][kind], MAX_PAGES * PAGE) &&
				!posix_fallocate(files[i][kind], 0,
						 MAX_PAGES * PAGE),
				"no room for files");
		}
	}
	direct = direct_file(PINNED * PAGE, DIRECT_SEED);
	swap_on();
}

static void print_counts(const char *name, const atomic_ulong *counts,
			 const char * const *names, size_t n, char *json)
{
	bool first = true;
	size_t i;

	sprintf(json + strlen(json), "\"%s\":{", name);
	for (i = 0; i < n; i++) {
		if (!counts[i])
			continue;
		if (names)
			sprintf(json + strlen(json), "%s\"%s\":%lu",
				first ? "" : ",", names[i], counts[i]);
		else
			sprintf(json + strlen(json), "%s\"%s\":%lu",
				first ? "" : ",",
				i ? strerrorname_np(i) ?: "other" : "0",
				counts[i]);
		first = false;
	}
	strcat(json, "},");
}

static void json_number(char *json, const char *name, uint64_t value)
{
	sprintf(json + strlen(json), "\"%s\":%llu,", name,
		(unsigned long long)value);
}

/*
 * The pages that are neither free nor in any statistics: what the kernel has
 * taken for itself directly, and what was lost. Caches may grow as they like,
 * and what is on a disk of ours, in memory that cannot be reclaimed, is counted
 * as page cache. A page whose last user went, but not the last reference, is in
 * none of them.
 */
static long unaccounted_pages(void)
{
	static const char * const known[] = {
		"MemFree:", "Buffers:", "Cached:", "SwapCached:", "AnonPages:",
		"Slab:", "KernelStack:", "PageTables:", "VmallocUsed:",
		"Percpu:", "HardwareCorrupted:", "Hugetlb:",
	};
	static const char * const file = "/proc/meminfo";
	unsigned long count;
	char line[256];
	FILE *zones;
	long pages;
	size_t i;

	free_pages();
	pages = file_count(file, "MemTotal:");
	for (i = 0; i < ARRAY_SIZE(known); i++)
		pages -= file_count(file, known[i]);
	pages /= (long)(PAGE / KB);
	/* The stacks that KASAN and others remember, in pools of four pages. */
	if (file_exists(STACK_DEPOT))
		pages -= 4 * file_count(STACK_DEPOT, "pools:");
	/* What the CPUs hold back. */
	zones = fopen("/proc/zoneinfo", "r");
	while (zones && fgets(line, sizeof(line), zones)) {
		if (sscanf(line, " count: %lu", &count) == 1)
			pages -= count;
	}
	if (zones)
		fclose(zones);
	return pages;
}

/* What is freed later by somebody else may take a moment. */
static bool pages_are_back(long before)
{
	unsigned long anon = 0, file = 0;
	long after = 0;
	int try;

	for (try = 0; try < 20; try++) {
		after = unaccounted_pages();
		anon = event_count("nr_isolated_anon");
		file = event_count("nr_isolated_file");
		if (after <= before + KEPT && !anon && !file)
			break;
		sleep(1);
	}
	ksft_print_msg("%ld pages unaccounted for, %ld before; %lu and %lu isolated\n",
		       after, before, anon, file);
	return try < 20;
}

/* A minute may go by without most of the kinds of trouble. */
#define KINDS_SHORT	3

/*
 * What this kernel, this machine and these modules have to offer: NULL is for
 * what every Linux has. What the kernel injects has a directory for it.
 */
static bool available[NR_FAULTS];

static void find_available(void)
{
	static const char * const needs[NR_FAULTS] = {
		[FAULT_STRETCH]		= WINDOWS_DIR "/stretch",
		[FAULT_CPU_OFFLINE]	= "/sys/devices/system/cpu/cpu1/online",
		[FAULT_MEMORY_OFFLINE]	= "/sys/devices/system/memory",
		[FAULT_ENGINE_UNLOAD]	= "/sys/module/dcbm",
		[FAULT_KNOB]		= KNOB_DIR,
		[FAULT_OOM]		= CGROUP "/oom/memory.max",
		[FAULT_FREEZE]		= CGROUP "/workers/cgroup.freeze",
		[FAULT_SUSPEND]		= "/sys/power/pm_test",
		[FAULT_RECLAIM]		= CGROUP "/workers/memory.reclaim",
		[FAULT_LIMIT]		= CGROUP "/workers/memory.high",
		[FAULT_COMPACT]		= "/proc/sys/vm/compact_memory",
		[FAULT_SOFT_OFFLINE]	= "/sys/devices/system/memory/soft_offline_page",
		[FAULT_KSM]		= KSM_DIR,
		[FAULT_BALANCING]	= "/proc/sys/kernel/numa_balancing",
		[FAULT_DAMON]		= DAMON_DIR,
	};
	size_t i;

	for (i = 0; i < NR_FAULTS; i++)
		available[i] = !needs[i] || file_exists(needs[i]);
	for (i = 0; i < ARRAY_SIZE(injections); i++)
		available[injections[i].fault] = file_exists(injections[i].dir);
}

/*
 * Did enough go wrong? In a long run each kind that there is must have come. Says
 * which have not.
 */
static bool disturbed(void)
{
	unsigned long kinds = 0, missing = 0;
	int i;

	for (i = 0; i < NR_FAULTS; i++) {
		kinds += !!shared->injected[i];
		if (shared->injected[i] || !available[i])
			continue;
		ksft_print_msg("nothing of %s\n", fault_names[i]);
		missing++;
	}
	return kinds >= KINDS_SHORT && (seconds < LONG_S || !missing);
}

/* What does a part of the work: without it, nothing is said of it. */
static struct part {
	const char *name;
	bool vm_event;		/* Not one of our statistics */
	const char *needs;	/* Where there is none of it without that */
	uint64_t count;
} parts[] = {
	{ "batches" },
	{ "bytes_caller" },
	{ "bytes_helpers" },
	{ "team_batches" },
	{ "bytes_engines", false, "/sys/module/dcbm" },
	{ "pswpin", true },
	{ "pswpout", true },
};

static uint64_t part_read(const struct part *part)
{
	return part->vm_event ? event_count(part->name) : stat_read(part->name);
}

static void parts_start(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!parts[i].needs || file_exists(parts[i].needs))
			parts[i].needs = NULL;
		parts[i].count = part_read(&parts[i]);
	}
}

static void parts_end(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i].count = part_read(&parts[i]) - parts[i].count;
}

/* In a long run each of them must have done something, with memory of each kind. */
static bool all_took_part(void)
{
	bool all = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].count || parts[i].needs)
			continue;
		ksft_print_msg("no %s\n", parts[i].name);
		all = false;
	}
	for (i = 0; i < NR_SLOT_KINDS; i++) {
		if (shared->pages_of_kind[i])
			continue;
		ksft_print_msg("no memory of kind %s\n", slot_names[i]);
		all = false;
	}
	return all || seconds < LONG_S;
}

/* Is there a node without CPUs, to which pages can be demoted? */
static bool has_tiers(void)
{
	char path[64], cpus[256];
	int i;

	for (i = 0; i < nr_nodes; i++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/cpulist", nodes[i]);
		if (!file_read(path, cpus, sizeof(cpus)) && cpus[0] == '\n')
			return file_exists(DEMOTION);
	}
	return false;
}

/* Waits for processes; those that do not come are stuck. */
static int collect(pid_t *pids, size_t n, unsigned int timeout, int *failed)
{
	unsigned int ms, left = n;
	int status;
	size_t i;

	for (ms = 0; left && ms < timeout * 1000; ms += 20) {
		for (i = 0; i < n; i++) {
			if (pids[i] <= 0 ||
			    waitpid(pids[i], &status, WNOHANG) != pids[i])
				continue;
			if (status) {
				ksft_print_msg("process %zu ended with %x\n", i,
					       status);
				++*failed;
			}
			pids[i] = 0;
			left--;
		}
		usleep(20000);
	}
	return left;
}

static void options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:s:n:d:m:f:")) != -1) {
		switch (option) {
		case 't':
			seconds = strtoul(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			nr_workers = strtoul(optarg, NULL, 10);
			break;
		default:
			if (!module_option(option, optarg))
				exit(KSFT_FAIL);
		}
	}
	if (!nr_workers || nr_workers > MAX_WORKERS)
		ksft_exit_fail_msg("1 to %d processes\n", MAX_WORKERS);
}

int main(int argc, char **argv)
{
	uint64_t moved, before_stretch, demoted, promoted, balanced;
	unsigned long faults_sum = 0;
	pid_t pids[MAX_WORKERS + ARRAY_SIZE(troubles)], hogs;
	bool hogs_ran, pages_back;
	enum leaks leaks;
	long unaccounted;
	int failed = 0, stuck, stuck2;
	static char json[16384];
	unsigned int i;

	options(argc, argv);
	tests_start(9);
	ksft_print_msg("seed %llu, %u seconds, %u processes\n",
		       (unsigned long long)seed, seconds, nr_workers);
	find_nodes();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!file_exists("/sys/kernel/debug/sched"))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	prepare();
	mkdir(CGROUP, 0755);
	mount("none", CGROUP, "cgroup2", 0, NULL);
	file_write(CGROUP "/cgroup.subtree_control", "+memory +cpu +cpuset");
	mkdir(CGROUP "/workers", 0755);
	mkdir(CGROUP "/oom", 0755);
	mkdir(CGROUP "/cpuset", 0755);
	file_write(DEMOTION, "1");
	file_write("/proc/sys/kernel/numa_balancing", "1");
	/* By default it takes up to a minute to look at a process again. */
	file_write(BALANCING_DIR "/scan_period_min_ms", "200");
	file_write(BALANCING_DIR "/scan_period_max_ms", "2000");
	file_write("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	file_write("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
		   "madvise");
	file_write("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
		   "madvise");
	for (i = 0; i < (unsigned int)nr_nodes; i++) {
		char path[128];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
			 nodes[i]);
		file_write(path, "16");
	}
	unaccounted = unaccounted_pages();
	engines_load();
	engines_loaded();
	find_available();
	parts_start();

	moved = event_count("pgmigrate_success");
	balanced = event_count("numa_pages_migrated");
	demoted = event_count("pgdemote_kswapd") + event_count("pgdemote_direct");
	promoted = event_count("pgpromote_success");
	before_stretch = stretches();
	for (i = 0; i < nr_workers; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			cgroup_write("workers", "cgroup.procs", "0");
			worker_main(i);
		}
		shared->worker_pids[i] = pids[i];
	}
	/* Let all of it be there first. */
	sleep(1);
	injections_all(true);
	for (i = 0; i < ARRAY_SIZE(troubles); i++) {
		pids[nr_workers + i] = fork();
		if (!pids[nr_workers + i])
			trouble_main(i);
	}
	/* Whose parents die without having waited for them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	hogs = hogs_start();

	for (i = 0; i < seconds; i++) {
		if (i % 60 == 59)
			ksft_print_msg("%u s: %llu MB moved, %lu MB verified\n",
				       i + 1,
				       (unsigned long long)
				       (event_count("pgmigrate_success") - moved) *
				       PAGE / MB, shared->verified / MB);
		/* Half of the time: where no CPU is idle, there are no helpers. */
		if (hogs > 0 && i % HOG_S == 0)
			kill(-hogs, i / HOG_S % 2 ? SIGSTOP : SIGCONT);
		sleep(1);
	}

	shared->stop = true;
	hogs_ran = hogs_stop(hogs);
	stuck2 = collect(pids + nr_workers, ARRAY_SIZE(troubles), STUCK_S,
			 &failed);
	injections_all(false);
	stuck = collect(pids, nr_workers, STUCK_S, &failed) + stuck2;
	if (stuck)
		file_write("/proc/sysrq-trigger", "w");
	shared->injected[FAULT_STRETCH] = stretches() - before_stretch;
	moved = event_count("pgmigrate_success") - moved;
	demoted = event_count("pgdemote_kswapd") + event_count("pgdemote_direct") -
		  demoted;
	promoted = event_count("pgpromote_success") - promoted;
	balanced = event_count("numa_pages_migrated") - balanced;
	parts_end();
	engines_unload(true);
	rmdir(CGROUP "/workers");
	rmdir(CGROUP "/oom");
	rmdir(CGROUP "/cpuset");
	umount2(CGROUP, MNT_DETACH);
	for (i = 0; i < nr_workers * NR_SLOT_KINDS; i++)
		close(files[i / NR_SLOT_KINDS][i % NR_SLOT_KINDS]);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	pages_back = stuck || pages_are_back(unaccounted);
	leaks = leaks_find();

	for (i = 0; i < NR_FAULTS; i++)
		faults_sum += shared->injected[i];
	json[0] = '{';
	json_number(json, "seed", seed);
	json_number(json, "seconds", seconds);
	json_number(json, "moved_bytes", moved * PAGE);
	json_number(json, "demoted_pages", demoted);
	json_number(json, "promoted_pages", promoted);
	json_number(json, "balanced_pages", balanced);
	json_number(json, "verified_bytes", shared->verified);
	json_number(json, "wrong_words", shared->wrong);
	json_number(json, "unexpected_errors", shared->unexpected);
	json_number(json, "elsewhere_pages", shared->elsewhere);
	json_number(json, "moved_ksm_pages", shared->merged_moved);
	json_number(json, "stuck", stuck);
	json_number(json, "faults_total", faults_sum);
	sprintf(json + strlen(json), "\"leaks\":%s,",
		leaks == LEAKS_UNKNOWN ? "null" :
		leaks == LEAKS_FOUND ? "true" : "false");
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		json_number(json, parts[i].name, parts[i].count);
	print_counts("verified_pages", shared->pages_of_kind, slot_names,
		     NR_SLOT_KINDS, json);
	print_counts("faults", shared->injected, fault_names, NR_FAULTS, json);
	print_counts("operations", shared->done, operation_names,
		     NR_OPERATIONS, json);
	print_counts("statuses", shared->statuses, NULL, NR_ERRORS, json);
	print_counts("calls", shared->call_errors, NULL, NR_ERRORS, json);
	json[strlen(json) - 1] = '}';
	/* ksft_print_msg() has no room for that. */
	printf("# json %s\n", json);

	test_result(!shared->wrong, "no byte is wrong");
	test_result(!shared->unexpected, "no call gave what it must not");
	test_result(!failed && !shared->died, "no process died");
	test_result(!stuck, "nobody is stuck");
	test_result(hogs_ran, "stress-ng ran until the end");
	test_result(pages_back, "no page is lost, none is isolated");
	test_leaks(leaks);
	test_result(moved && shared->verified && disturbed() &&
		    (seconds < LONG_S || !has_tiers() ||
		     (demoted && promoted)),
		    "it moved, was verified and disturbed");
	test_result(all_took_part(), "all took part: helpers, engines, swap, each kind of memory");
	tests_end();
}
