// SPDX-License-Identifier: GPL-2.0-only
/*
 * A migration is made to stand still between two of its steps, somebody does
 * the wrong thing, and it goes on: nothing may be lost, torn or foreign. Then
 * rules of the migration are broken on purpose: the same tests must see it.
 *
 * migrate_windows [-a ACT] [-b RULE] windows [MODE]... plays the scenes, on a
 * kernel with CONFIG_MIGRATE_COPY_TEST_WINDOWS, migrate_windows [-a ACT] breaks
 * those of the rules. Without a mode: batch; with helpers, what is done is done to
 * one kind of memory only. -a names the only thing that is done.
 *
 * migrate_windows [-a ACT] [-b RULE] -d dcbm.ko -f softdma.ko dma: the same while
 * DMA that has copied a part waits with the rest, and the rules that are broken
 * then.
 *
 * migrate_windows [-b RULE] eject [MODE]: the same while the block of memory that a
 * folio moves to leaves the machine, one for each window. They do not come back.
 *
 * -b RULE breaks a rule in every scene: those that fail would notice.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/io_uring.h>
#include <linux/nbd.h>
#include <linux/udmabuf.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migrate_test.h"

/* Of Linux 6.1, not in every libc. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
/* Of the kernel's headers only. */
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

#define WINDOWS_DIR	"/sys/kernel/debug/migrate_copy"
#define CGROUP		"/tmp/migrate_windows_cgroup"
#define TIMEOUT		60
/* What stands in a window goes on by itself then. */
#define GATE_MS		6000
#define STAND_MS	500
/* For those who have to wait until the migration goes on. */
#define GRACE_MS	150
/* How long anything may take once it has gone on, and what is slow. */
#define AFTER_MS	20000
#define AFTER_SLOW_MS	60000
/* Moves until a helper, or the mover itself, has surely got to a chunk. */
#define HELPED_MOVES	20
/* Some batches, for helpers to take. */
#define SHARED_SIZE	(4 * MB)
/* What a CPU takes of it at least. */
#define LEAST_PIECE	(64 * PAGE)
/* Attempts to see a broken rule: chance may hide it. */
#define BREACH_TRIES	10
/* And to have what chance may take from a scene, such as a stale TLB. */
#define SCENE_TRIES	5
/*
 * Who waits for a folio's lock with a reference to it keeps it where it is: one
 * at a time, and then the next.
 */
#define SOME_STAY	8
/* Where a block of memory is looked for that can go offline. */
#define FILL_SIZE	(512 * MB)
#define FILL_RUN	(2 * MB)
/* For what is written in a window. */
#define OTHER_SEED(s)	((s)->r.seed + 0x777777)

/* What DMA copies before it waits, and what it waits for. */
#define DMA_CHUNK	(16 * KB)
#define SOFTDMA_FAULT	"/sys/kernel/debug/softdma/fail_delay"
#define SOFTDMA_GOES_ON	"/sys/kernel/debug/softdma/fail_terminate"
#define SOFTDMA_DELAY	"/sys/module/softdma/parameters/delay_ms"
#define DCBM_STATS	ENGINES_DIR "/dcbm/stats"
/* Of the thread that is the channel, until that CPU has gone offline once. */
#define DMA_CPU		"1"
/* More than it waits. */
#define DMA_TIMEOUT_MS	10000
/* Soon whoever waits for DMA that is late has gone; how late it will be is up to us. */
#define LATE_TIMEOUT_MS	100
#define LATE_MS		60000

/*
 * The windows, in the kernel's words. The last but one is softdma's: a chunk has been
 * copied, the next one is on its way. The last one comes first, where helpers take
 * pieces: one of these is isolated.
 */
static const char * const window_names[] = {
	"unmapped", "flushed", "checked", "copying", "copied", "switching",
	"remapping", "helping", "dma", "isolated",
};

#define BIT(n)		(1U << (n))
#define W_UNMAPPED	BIT(0)
#define W_FLUSHED	BIT(1)
#define W_CHECKED	BIT(2)
#define W_COPYING	BIT(3)
#define W_COPIED	BIT(4)
#define W_SWITCHING	BIT(5)
#define W_REMAPPING	BIT(6)
#define W_HELPING	BIT(7)
#define W_DMA		BIT(8)
#define W_ISOLATED	BIT(9)
#define W_ALL		((BIT(7) - 1) | W_ISOLATED)
/* Who stands there keeps his CPU, and other CPUs cannot do without it. */
#define W_SPINS		W_COPYING
/* What a huge page passes that is pinned: it is a batch of its own. */
#define W_WITH_PINNED	(W_UNMAPPED | W_FLUSHED | W_COPIED)
/* A hugetlb page has its own way, and no batch. */
#define W_HUGETLB	(W_UNMAPPED | W_CHECKED | W_COPYING | W_SWITCHING | \
			 W_REMAPPING | W_HELPING | W_ISOLATED)

static const struct kind base = { "base", BACK_ANON, OF_PAGES(1), 512 * KB };
static const struct kind thp = { "thp", BACK_ANON, 2 * MB, 4 * MB };
static const struct kind shmem = { "shmem", BACK_SHMEM, OF_PAGES(1), 512 * KB };
static const struct kind tmpfs = { "tmpfs", BACK_TMPFS, OF_PAGES(1), 512 * KB };
static const struct kind memfd = { "memfd", BACK_MEMFD, OF_PAGES(1), 512 * KB };
static const struct kind xfs = { "xfs", BACK_XFS, OF_PAGES(1), 512 * KB };

static const struct kind ext4 = {
	"ext4", BACK_EXT4, OF_PAGES(1), 512 * KB
};

static const struct kind tmpfs_huge = {
	"tmpfs_huge", BACK_TMPFS_HUGE, 2 * MB, 4 * MB
};

static const struct kind huge_range = {
	"base_4m", BACK_ANON, OF_PAGES(1), 4 * MB
};

static const struct kind ksm = {
	"ksm", BACK_ANON, OF_PAGES(1), 2 * MB, KIND_KSM
};

static const struct kind swapcache = {
	"swapcache", BACK_ANON, OF_PAGES(1), 512 * KB, KIND_SWAPCACHE
};

static const struct kind hugetlb = {
	"hugetlb", BACK_HUGETLB, 2 * MB, 4 * MB
};

static const struct kind hugetlb_shared = {
	"hugetlb_shared", BACK_HUGETLB_SHARED, 2 * MB, 4 * MB
};

static const struct kind mlocked = {
	"mlocked", BACK_ANON, OF_PAGES(1), 512 * KB, KIND_MLOCK
};

struct act;

/**
 * struct scene - One window, and who does something in it
 * @act: what is done
 * @window: its number
 * @mode: how the kernel copies
 * @r: the memory that moves
 * @from: its node
 * @to: where it goes
 * @gone: so many bytes at its start, where the window is, are no more
 * @written: this many bytes after them have been written anew
 * @absent: so many bytes at its end were not there when it was to move
 * @pinned: somebody has it for longer than the scene
 * @fd: what the act needs
 * @other: what the act needs, another
 * @map: a second mapping, or what else the act needs
 * @child: its process
 * @begun: it is on its way
 * @done: it has come to its end
 * @over: so has the migration, if a thread makes it
 * @unlucky: chance has taken from it what it is about
 * @reached: somebody stands in the window, or has stood there
 * @victim: the process whose memory moves; 0 for this one
 * @mover: the process that moves it, or 0 if a thread of this one does
 * @flags: of move_pages
 */
struct scene {
	const struct act *act;
	unsigned int window;
	enum copy_mode mode;
	struct region r;
	int from, to;
	size_t gone;
	size_t written;
	size_t absent;
	bool pinned;
	int fd, other;
	char *map;
	pid_t child;
	atomic_bool begun;
	atomic_bool done;
	atomic_bool over;
	atomic_bool unlucky;
	atomic_bool *reached;
	pid_t victim;
	pid_t mover;
	int flags;
	pthread_t thread;
	char where[64];
};

/**
 * struct act - Somebody who does something while a migration stands still
 * @name: for messages
 * @kinds: what it can be done to
 * @windows: where, as bits
 * @before: what comes first; may be NULL
 * @act: what is done in the window; may have to wait for its end
 * @check: whether all is right then; NULL for what is written by the scene
 * @by_process: the mover is a process of its own
 * @no_thread: a thread more would have the TLBs flushed for its stack
 * @too_long: nobody can open the gate meanwhile: it opens after STAND_MS
 * @in_time: it need not wait for the migration, and ends before the gate opens
 * @no_copy: what has been copied is gone then, or copied once more
 * @own_copy: what is written is a new page, of any node
 * @wanders: it may go elsewhere, or nowhere
 * @hides: what is looked up afterwards is elsewhere, or mapped twice, and stays
 * @slow: each of its tries takes long where KASAN or page poisoning is told of a
 *	block of memory
 * @stay: so many folios may stay where they are for it
 * @pins: it pins one for a moment, which with shared batches may be another one
 *	than that which stands in the window, and then may stay, too
 */
struct act {
	const char *name;
	const struct kind *kinds[7];
	unsigned int windows;
	void (*before)(struct scene *s);
	void (*act)(struct scene *s);
	void (*check)(struct scene *s);
	bool by_process;
	bool too_long;
	bool no_thread;
	bool in_time;
	bool no_copy;
	bool own_copy;
	bool wanders;
	bool hides;
	bool pins;
	bool slow;
	unsigned int stay;
};

/* Whether what failed was the content: shared with the test's process. */
static atomic_bool *data_wrong;

static void __printf(2, 3) right(bool ok, const char *fmt, ...)
{
	char text[256];
	va_list args;

	if (ok)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	*data_wrong = true;
	die("%s", text);
}

static void control(const char *name, const char *text)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), WINDOWS_DIR "/%s", name);
	err = file_write(path, text);
	require(!err, "cannot write %s to %s: %s", text, path, strerror(-err));
}

static void control_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	control(name, text);
}

static uint64_t window_count(const char *name)
{
	return file_count(WINDOWS_DIR "/counts", name);
}

/* Wait until DMA that was late has come to its end; false if it does not. */
static bool dma_ends(void)
{
	double end = now() + AFTER_MS / 1e3;
	uint64_t left;

	while (!file_read_number(DCBM_STATS "/quarantined", &left) && left) {
		if (now() >= end)
			return false;
		usleep(10000);
	}
	return true;
}

/* What is late comes to its end, with the rules as they were. */
static void dma_right_again(void)
{
	file_write(SOFTDMA_FAULT "/probability", "0");
	file_write(SOFTDMA_GOES_ON "/probability", "0");
	file_write(SOFTDMA_DELAY, "0");
	file_write_number(ENGINES_DIR "/dcbm/timeout_ms", DMA_TIMEOUT_MS);
	dma_ends();
}

/* Also at the end of a test that was killed. */
static void all_right_again(void)
{
	int cpu;

	if (file_exists(SOFTDMA_DELAY))
		dma_right_again();
	file_write(WINDOWS_DIR "/broken", "\n");
	file_write(WINDOWS_DIR "/gate", "open");
	file_write(WINDOWS_DIR "/fail_copy/probability", "0");
	file_write(WINDOWS_DIR "/fail_copy/times", "1");
	file_write(WINDOWS_DIR "/skip", "0");
	file_write(CGROUP "/test/cgroup.freeze", "0");
	file_write(CGROUP "/test/memory.max", "max");
	for (cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
		cpu_set_online(cpu, true);
}

static void softdma_set(const char *path, uint64_t value)
{
	int err = file_write_number(path, value);

	require(!err, "cannot write to %s: %s", path, strerror(-err));
}

static uint64_t dma_count(const char *name)
{
	uint64_t value;
	char path[128];

	snprintf(path, sizeof(path), DCBM_STATS "/%s", name);
	require(!file_read_number(path, &value), "cannot read %s", path);
	return value;
}

/*
 * The first chunk goes by; the next one waits, for so long or until dma_open(), and
 * with it all that the channel has.
 */
static void dma_close(unsigned int ms)
{
	softdma_set(SOFTDMA_DELAY, ms);
	softdma_set(SOFTDMA_FAULT "/times", 1);
	softdma_set(SOFTDMA_FAULT "/space", DMA_CHUNK + 1);
	softdma_set(SOFTDMA_FAULT "/probability", 100);
}

static void dma_open(void)
{
	softdma_set(SOFTDMA_FAULT "/probability", 0);
	softdma_set(SOFTDMA_DELAY, 0);
}

static int dma_wait(uint64_t chunks)
{
	double end = now() + GATE_MS / 1e3;

	while (dma_count("chunks") == chunks) {
		if (now() >= end)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return 0;
}

static void gate_close(const char *window, pid_t pid, unsigned int ms)
{
	control_number("timeout_ms", ms);
	control_number("pid", pid);
	control("gate", window);
}

static void gate_open(void)
{
	control("gate", "open");
}

/* Wait until somebody stands there; his name on success. */
static int gate_wait(char *who, size_t size)
{
	double end = now() + GATE_MS / 1e3;
	int err;

	/* Each attempt lasts until the gate would open by itself. */
	do {
		err = file_read(WINDOWS_DIR "/gate", who, size);
	} while (err == -ETIMEDOUT && now() < end);
	return err;
}

/* Move what is at one address in so many bytes, once: what is in use may stay. */
static void move_each(struct scene *s, size_t step, int to)
{
	size_t n = s->r.size / step, i;
	void *pages[n];
	int nodes[n], status[n];

	for (i = 0; i < n; i++) {
		pages[i] = s->r.map + i * step;
		nodes[i] = to;
	}
	sys_move_pages(s->victim, n, pages, nodes, status, s->flags);
}

static void move_all(struct scene *s, int to)
{
	move_each(s, s->r.folio, to);
}

/*
 * Amid a shared copy: it is left to chance whether a helper or the mover gets there,
 * and who stands there keeps his CPU, on which others may have to wait.
 */
static bool amid_shared_copy(const struct scene *s)
{
	return s->mode != MODE_BATCH &&
	       (BIT(s->window) & (W_COPYING | W_HELPING));
}

/* Once; to and fro, where that may not be enough to get to the window. */
static void mover_moves(struct scene *s)
{
	int moves = amid_shared_copy(s) ? HELPED_MOVES : 1;
	int i;

	for (i = 0; i < moves && !*s->reached; i++)
		move_all(s, i % 2 ? s->from : s->to);
}

static void *mover_main(void *arg)
{
	struct scene *s = arg;

	mover_moves(s);
	s->over = true;
	return NULL;
}

static void *act_main(void *arg)
{
	struct scene *s = arg;

	s->begun = true;
	s->act->act(s);
	s->done = true;
	return NULL;
}

static bool wait_true(atomic_bool *what, unsigned int ms)
{
	double end = now() + ms / 1e3;

	while (!*what && now() < end)
		usleep(1000);
	return *what;
}

/* How long what is done may take once the migration goes on. */
static unsigned int after_ms(const struct scene *s)
{
	return s->act->slow ? AFTER_SLOW_MS : AFTER_MS;
}

static void join_within(pthread_t thread, unsigned int ms, const char *who)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	require(!pthread_timedjoin_np(thread, NULL, &end),
		"%s does not come to its end", who);
}

static void join(pthread_t thread, const char *who)
{
	join_within(thread, AFTER_MS, who);
}

/* What was written in the window, and what was there before. */
static void check_content(struct scene *s)
{
	size_t old = s->gone + s->written;

	right(!pattern_bad(s->r.map + s->gone, s->written, OTHER_SEED(s), 0, 0),
	      "what was written meanwhile is lost");
	right(!pattern_bad(s->r.map + old, s->r.size - old, s->r.seed, old,
			   s->r.period), "what was there is wrong");
}

static void mover_start(struct scene *s)
{
	if (!s->act->by_process) {
		require(!pthread_create(&s->thread, NULL, mover_main, s),
			"no thread");
		return;
	}
	/* Before this one, s->mover waits for the gate to be closed. */
	kill(s->mover, SIGUSR1);
}

static void mover_fork(struct scene *s)
{
	sigset_t usr1;
	int sig;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	s->victim = s->victim ?: getpid();
	s->flags = MPOL_MF_MOVE_ALL;
	s->mover = fork();
	require(s->mover >= 0, "no process");
	if (s->mover)
		return;
	/* The memory is not this one's. */
	munmap(s->r.map, s->r.size);
	sigwait(&usr1, &sig);
	mover_moves(s);
	_exit(0);
}

static void mover_join(struct scene *s)
{
	double end = now() + AFTER_MS / 1e3;

	if (!s->act->by_process) {
		join(s->thread, "the migration");
		return;
	}
	while (now() < end) {
		if (waitpid(s->mover, NULL, WNOHANG))
			return;
		usleep(1000);
	}
	die("the migration does not come to its end");
}

static void scene_make(struct scene *s, const struct kind *kind)
{
	nodes_find(&s->from, &s->to);
	region_make(&s->r, kind, s->from, false);
	s->fd = -1;
	s->other = -1;
	/* The mover may be a process of its own. */
	s->reached = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(s->reached != MAP_FAILED, "no memory");
	s->flags = kind->flags & KIND_KSM ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE;
}

/**
 * struct counts - What shows whether somebody stood in the window
 * @timeouts: gates that opened by themselves
 * @jobs: what DMA has been asked to copy
 * @chunks: what DMA has copied, and of that
 * @bytes: so much
 * @trouble: chunks that DMA has not
 */
struct counts {
	uint64_t timeouts, jobs, chunks, bytes, trouble;
};

static struct counts counts_now(const struct scene *s)
{
	struct counts c = { .timeouts = window_count("gate_timeouts") };

	if (BIT(s->window) & W_DMA) {
		c.jobs = dma_count("jobs");
		c.chunks = dma_count("chunks");
		c.bytes = dma_count("bytes");
		c.trouble = dma_count("failed") + dma_count("timeouts") +
			    dma_count("lost");
	}
	return c;
}

static void window_close(const struct scene *s)
{
	unsigned int ms = s->act->too_long ? STAND_MS : GATE_MS;

	if (BIT(s->window) & W_DMA)
		dma_close(ms);
	else
		gate_close(window_names[s->window], s->mover ?: getpid(), ms);
}

static void window_wait(struct scene *s, const struct counts *before)
{
	int err;

	if (BIT(s->window) & W_DMA) {
		snprintf(s->where, sizeof(s->where), "dma 0 " DMA_CPU);
		err = dma_wait(before->chunks);
		/* Somebody else's memory may move, too. */
		s->unlucky = dma_count("jobs") != before->jobs + 1;
	} else {
		err = gate_wait(s->where, sizeof(s->where));
	}
	require(!err, "nobody comes to the window: %s", strerror(-err));
}

static void window_open(const struct scene *s, const struct counts *before)
{
	if (BIT(s->window) & W_DMA) {
		require(s->act->too_long || s->unlucky ||
			dma_count("chunks") == before->chunks + 1,
			"DMA did not wait until the end");
		dma_open();
	} else {
		gate_open();
	}
}

static void check_stood(const struct scene *s, const struct counts *before)
{
	struct counts after = counts_now(s);

	require(s->act->too_long || after.timeouts == before->timeouts,
		"it did not stand in the window until the end");
	if (!(BIT(s->window) & W_DMA))
		return;
	require(after.bytes > before->bytes + DMA_CHUNK,
		"DMA has not copied the rest");
	require(after.trouble == before->trouble, "DMA has failed");
}

/* The whole scene, up to the checks. */
static void scene_play(struct scene *s)
{
	struct counts before = counts_now(s);
	pthread_t actor;

	window_close(s);
	mover_start(s);
	window_wait(s, &before);
	*s->reached = true;
	if (s->act->no_thread)
		act_main(s);
	else
		require(!pthread_create(&actor, NULL, act_main, s),
			"no thread");
	require(wait_true(&s->begun, GATE_MS), "%s does not begin",
		s->act->name);
	if (s->act->in_time && !amid_shared_copy(s))
		require(wait_true(&s->done, GATE_MS / 2),
			"%s is not done in the window", s->act->name);
	else
		wait_true(&s->done, GRACE_MS);
	window_open(s, &before);
	mover_join(s);
	if (!s->act->no_thread)
		join_within(actor, after_ms(s), s->act->name);
	check_stood(s, &before);
}

/**
 * struct variant - A scene with memory of one kind
 * @act: who does something
 * @kind: of the memory
 * @window: where
 * @mode: how the kernel copies
 * @failing: copies fail meanwhile
 */
struct variant {
	const struct act *act;
	const struct kind *kind;
	unsigned int window;
	enum copy_mode mode;
	bool failing;
};

/* So many of those that follow. */
static void copies_fail(int times)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", times);
	control("fail_copy/verbose", "0");
	control("fail_copy/times", text);
	control("fail_copy/probability", "100");
}

/*
 * Has the migration come to its end, rather than given up? Where it went to and
 * fro, it may have ended anywhere.
 */
static void check_moved(struct scene *s)
{
	bool own_copy = s->act->own_copy || s->r.kind->flags & KIND_KSM;
	size_t begin = s->gone + (own_copy ? s->r.folio : 0);
	size_t end = s->r.size - s->absent;
	size_t piece = s->r.folio > LEAST_PIECE ? s->r.folio : LEAST_PIECE;
	size_t stay = s->act->stay;
	size_t bad;

	if (s->act->wanders || amid_shared_copy(s))
		return;
	if (begin >= end)
		return;
	/*
	 * Of pieces that are isolated one after the other only that which stands in
	 * the window is sure to be isolated by then.
	 */
	if (s->mode == MODE_PARALLEL && s->act->hides)
		stay += (end - begin - piece) / s->r.folio;
	bad = pages_elsewhere(s->r.map + begin, end - begin, s->r.folio,
			      s->to);
	if (s->act->pins && s->mode == MODE_PARALLEL)
		stay++;
	require(bad <= stay, "%zu folios have not moved", bad);
}

/* Returns false if it was another scene than it should have been. */
static bool scene_passes(const struct variant *v)
{
	struct kind kind = *v->kind;
	struct scene s = {
		.act = v->act, .window = v->window, .mode = v->mode,
	};

	mode_enter(v->mode);
	if (v->mode == MODE_PARALLEL && kind.size < SHARED_SIZE)
		kind.size = SHARED_SIZE;
	scene_make(&s, &kind);
	if (s.act->by_process && !s.act->before)
		mover_fork(&s);
	if (s.act->before)
		s.act->before(&s);
	/* Those of the scene, whatever else the act moves. */
	if (v->failing)
		copies_fail(s.r.size / s.r.folio);
	scene_play(&s);
	check_moved(&s);
	if (s.act->check)
		s.act->check(&s);
	else
		check_content(&s);
	/* Locks and references must be gone: it moves. */
	if (!s.gone && s.r.map) {
		/* Who else had it may be gone, or it may be mapped twice, or split. */
		s.victim = 0;
		s.flags = MPOL_MF_MOVE_ALL;
		move_each(&s, PAGE, s.from);
		require(s.pinned || region_on_node(&s.r, s.from),
			"it does not move any more");
		if (!s.act->check)
			check_content(&s);
	}
	if (s.unlucky)
		region_free(&s.r);
	return !s.unlucky;
}

static void test_scene(const void *arg)
{
	int try;

	for (try = 0; try < SCENE_TRIES; try++) {
		if (scene_passes(arg))
			return;
	}
	die("chance has taken from it what it is about, %d times", SCENE_TRIES);
}

/*
 * Writers
 */

static void act_store(struct scene *s)
{
	s->written = s->r.folio;
	pattern_fill(s->r.map + s->gone, s->written, OTHER_SEED(s), 0, 0);
}

static void act_process_write(struct scene *s)
{
	struct iovec from = { .iov_len = s->r.folio };
	struct iovec to = { s->r.map, s->r.folio };

	from.iov_base = malloc(s->r.folio);
	pattern_fill(from.iov_base, s->r.folio, OTHER_SEED(s), 0, 0);
	require(process_vm_writev(getpid(), &from, 1, &to, 1, 0) ==
		(ssize_t)s->r.folio, "process_vm_writev: %s", strerror(errno));
	s->written = s->r.folio;
}

static void *sleeper_main(void *tid)
{
	*(atomic_int *)tid = syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

/* Another process writes as a debugger does, through a thread that it stops. */
static void before_poke(struct scene *s)
{
	static atomic_int tid;
	pthread_t thread;

	require(!pthread_create(&thread, NULL, sleeper_main, &tid),
		"no thread");
	while (!tid)
		usleep(1000);
	s->fd = tid;
}

static void act_poke(struct scene *s)
{
	uint64_t words[PAGE / sizeof(uint64_t)];
	int status;
	pid_t pid;
	size_t i;

	pattern_fill(words, PAGE, OTHER_SEED(s), 0, 0);
	pid = fork();
	if (!pid) {
		if (ptrace(PTRACE_ATTACH, s->fd, NULL, NULL) ||
		    waitpid(s->fd, &status, __WALL) != s->fd)
			_exit(1);
		for (i = 0; i < PAGE / sizeof(uint64_t); i++) {
			if (ptrace(PTRACE_POKEDATA, s->fd,
				   s->r.map + i * sizeof(uint64_t), words[i]))
				_exit(2);
		}
		_exit(ptrace(PTRACE_DETACH, s->fd, NULL, NULL) ? 3 : 0);
	}
	require(waitpid(pid, &status, 0) == pid && !status,
		"the debugger fails: %x", status);
	s->written = PAGE;
}

/* io_uring's registered buffer, pinned for long, filled without a fault. */
struct ring {
	int fd;
	char *sq, *cq;
	struct io_uring_sqe *sqe;
	struct io_uring_params p;
};

static struct ring ring;

static void *ring_map(size_t size, off_t offset)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring.fd, offset);

	require(map != MAP_FAILED, "cannot map a ring");
	return map;
}

static void before_io_uring(struct scene *s)
{
	struct iovec iov = { s->r.map, PAGE };
	int fds[2];

	ring.fd = syscall(SYS_io_uring_setup, 1, &ring.p);
	if (ring.fd < 0)
		skip("no io_uring: %s", strerror(errno));
	ring.sq = ring_map(ring.p.sq_off.array + sizeof(uint32_t),
			   IORING_OFF_SQ_RING);
	ring.cq = ring_map(ring.p.cq_off.cqes +
			   ring.p.cq_entries * sizeof(struct io_uring_cqe),
			   IORING_OFF_CQ_RING);
	ring.sqe = ring_map(sizeof(*ring.sqe), IORING_OFF_SQES);
	/* A long-term pin takes pages out of movable memory. */
	require(!node_bind(s->from), "cannot stay on the node");
	require(!syscall(SYS_io_uring_register, ring.fd,
			 IORING_REGISTER_BUFFERS, &iov, 1),
		"cannot register a buffer: %s", strerror(errno));
	node_unbind();
	require(!pipe(fds), "no pipe");
	s->fd = fds[0];
	s->other = fds[1];
}

static void act_io_uring(struct scene *s)
{
	char buf[PAGE];

	pattern_fill(buf, PAGE, OTHER_SEED(s), 0, 0);
	require(write(s->other, buf, PAGE) == (ssize_t)PAGE, "pipe is full");
	memset(ring.sqe, 0, sizeof(*ring.sqe));
	ring.sqe->opcode = IORING_OP_READ_FIXED;
	ring.sqe->fd = s->fd;
	ring.sqe->addr = (uintptr_t)s->r.map;
	ring.sqe->len = PAGE;
	ring.sqe->off = -1;
	*(uint32_t *)(ring.sq + ring.p.sq_off.array) = 0;
	__atomic_add_fetch((uint32_t *)(ring.sq + ring.p.sq_off.tail), 1,
			   __ATOMIC_RELEASE);
	require(syscall(SYS_io_uring_enter, ring.fd, 1, 1,
			IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		"io_uring: %s", strerror(errno));
	require(((struct io_uring_cqe *)(ring.cq + ring.p.cq_off.cqes))->res ==
		(int)PAGE, "io_uring has not read");
	/* And the pin is gone. */
	require(!syscall(SYS_io_uring_register, ring.fd,
			 IORING_UNREGISTER_BUFFERS, NULL, 0),
		"cannot unregister: %s", strerror(errno));
	s->written = PAGE;
}

/*
 * O_DIRECT: the request is in flight, and its pages are pinned, until the
 * server of a network block device, which is here, sends the data.
 */
#define NBD_HELD	(1024 * KB)
#define NBD_SIZE	(2048 * KB)

static struct {
	int dev;
	int socket;
	int kernel_socket;
	uint64_t seed;
	char *to;
	atomic_bool asked;
	atomic_bool answer;
	ssize_t got;
	pthread_t reader;
} nbd;

static bool transfer(int fd, void *buf, size_t size, bool out)
{
	while (size) {
		ssize_t n = out ? write(fd, buf, size) : read(fd, buf, size);

		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		size -= n;
	}
	return true;
}

static void *nbd_serve(void *unused)
{
	struct nbd_request request;
	struct nbd_reply reply = { .magic = htobe32(NBD_REPLY_MAGIC) };
	uint64_t from;
	uint32_t size;
	char *buf;

	while (transfer(nbd.socket, &request, sizeof(request), false)) {
		/* To that there is no answer, nor anybody who reads it. */
		if (be32toh(request.type) == NBD_CMD_DISC)
			break;
		from = be64toh(request.from);
		size = be32toh(request.len);
		buf = calloc(1, size);
		if (from >= NBD_HELD) {
			pattern_fill(buf, size, nbd.seed, from - NBD_HELD, 0);
			nbd.asked = true;
			while (!nbd.answer)
				usleep(500);
		}
		/* A handle, or a cookie in later headers. */
		memcpy((char *)&reply + 8, (char *)&request + 8, 8);
		if (!transfer(nbd.socket, &reply, sizeof(reply), true) ||
		    !transfer(nbd.socket, buf, size, true))
			break;
		free(buf);
	}
	return unused;
}

static void *nbd_do_it(void *fd)
{
	ioctl((int)(intptr_t)fd, NBD_DO_IT);
	return NULL;
}

/*
 * Asynchronously: a read that is waited for has the pages marked as dirty again,
 * under their locks, before their pins go. Those stay until the migration is over.
 */
static void *nbd_read(void *unused)
{
	struct iocb request = {
		.aio_fildes = nbd.dev,
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (uintptr_t)nbd.to,
		.aio_nbytes = PAGE,
		.aio_offset = NBD_HELD,
	};
	struct iocb *requests[] = { &request };
	aio_context_t context = 0;
	struct io_event event;

	require(!syscall(SYS_io_setup, 1, &context) &&
		syscall(SYS_io_submit, context, 1, requests) == 1,
		"cannot submit: %s", strerror(errno));
	require(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1,
		"no event: %s", strerror(errno));
	nbd.got = event.res;
	syscall(SYS_io_destroy, context);
	return unused;
}

static void before_direct(struct scene *s)
{
	pthread_t server, doer;
	int pair[2], control_fd;
	double end;

	control_fd = open("/dev/nbd0", O_RDWR);
	if (control_fd < 0)
		skip("no nbd");
	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "no sockets");
	nbd.socket = pair[1];
	nbd.seed = OTHER_SEED(s);
	nbd.to = s->r.map;
	ioctl(control_fd, NBD_CLEAR_SOCK);
	require(!ioctl(control_fd, NBD_SET_BLKSIZE, 512UL) &&
		!ioctl(control_fd, NBD_SET_SIZE, NBD_SIZE) &&
		!ioctl(control_fd, NBD_SET_SOCK, pair[0]),
		"nbd: %s", strerror(errno));
	require(!pthread_create(&server, NULL, nbd_serve, NULL) &&
		!pthread_create(&doer, NULL, nbd_do_it,
				(void *)(intptr_t)control_fd), "no thread");
	/* It has a size once it is connected. */
	end = now() + AFTER_MS / 1e3;
	while (now() < end) {
		char size[32];

		if (!file_read("/sys/block/nbd0/size", size, sizeof(size)) &&
		    strtoul(size, NULL, 10) && file_exists("/sys/block/nbd0/pid"))
			break;
		usleep(1000);
	}
	nbd.dev = open("/dev/nbd0", O_RDWR | O_DIRECT);
	require(nbd.dev >= 0, "cannot open nbd: %s", strerror(errno));
	s->fd = control_fd;
	require(!pthread_create(&nbd.reader, NULL, nbd_read, NULL),
		"no thread");
	require(wait_true(&nbd.asked, AFTER_MS), "nothing is asked of nbd");
}

static void act_direct(struct scene *s)
{
	nbd.answer = true;
	join(nbd.reader, "the read");
	require(nbd.got == (ssize_t)PAGE, "O_DIRECT read %zd", nbd.got);
	s->written = PAGE;
	ioctl(s->fd, NBD_DISCONNECT);
	ioctl(s->fd, NBD_CLEAR_SOCK);
}

/* A pipe has references to the pages; they go when they are read. */
static void before_vmsplice(struct scene *s)
{
	struct iovec iov = { s->r.map, 4 * PAGE };
	int fds[2];

	require(!pipe(fds) &&
		vmsplice(fds[1], &iov, 1, 0) == (ssize_t)(4 * PAGE),
		"vmsplice: %s", strerror(errno));
	s->fd = fds[0];
}

static void act_vmsplice(struct scene *s)
{
	char buf[4 * PAGE];

	require(transfer(s->fd, buf, sizeof(buf), false), "cannot read it");
	right(!pattern_bad(buf, sizeof(buf), s->r.seed, 0, s->r.period),
	      "the pipe has something else");
}

/* A device that shares memory pins it from the page cache, and writes. */
static int udmabuf_of(struct scene *s)
{
	struct udmabuf_create create = {
		.memfd = s->r.fd, .flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = 0, .size = PAGE,
	};
	int dev = open("/dev/udmabuf", O_RDWR);
	int fd;

	if (dev < 0)
		skip("no udmabuf");
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	require(fd >= 0, "udmabuf: %s", strerror(errno));
	close(dev);
	return fd;
}

static void udmabuf_write(struct scene *s, int fd)
{
	char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	require(map != MAP_FAILED, "cannot map a udmabuf: %s", strerror(errno));
	pattern_fill(map, PAGE, OTHER_SEED(s), 0, 0);
	munmap(map, PAGE);
	s->written = PAGE;
}

/* A pin takes pages out of movable memory: have that done before. */
static void before_udmabuf(struct scene *s)
{
	require(!node_bind(s->from), "cannot stay on the node");
	close(udmabuf_of(s));
	node_unbind();
}

static void act_udmabuf(struct scene *s)
{
	int fd = udmabuf_of(s);

	udmabuf_write(s, fd);
	close(fd);
}

/* To another address. */
static void remap(struct scene *s)
{
	char *to = mmap(NULL, s->r.size, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(to != MAP_FAILED, "no address");
	to = mremap(s->r.map, s->r.size, s->r.size,
		    MREMAP_MAYMOVE | MREMAP_FIXED, to);
	require(to != MAP_FAILED, "mremap: %s", strerror(errno));
	s->r.map = to;
}

/*
 * A writer on another CPU that never faults: until the flush it may use what
 * its TLB has, and what it writes then must not be lost.
 */
static struct {
	uint64_t *word;
	atomic_bool stop;
	atomic_bool lost;
	atomic_bool renewed;	/* What is stored there may change */
	atomic_ullong count;
	atomic_ullong turns;
	pthread_t thread;
	sigjmp_buf denied;
	int cpu;
} stale;

/* One access each, and no other: what faults is the store. */
static uint64_t load(void)
{
	return __atomic_load_n(stale.word, __ATOMIC_RELAXED);
}

static void store(uint64_t value)
{
	__atomic_store_n(stale.word, value, __ATOMIC_RELAXED);
}

static void *stale_main(void *unused)
{
	uint64_t mine = 0, seen;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(stale.cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (sigsetjmp(stale.denied, 1))
		return unused;
	store(0);
	while (!stale.stop) {
		seen = load();
		if (seen != mine) {
			if (!stale.renewed)
				stale.lost = true;
			mine = seen;
		}
		store(++mine);
		stale.count = mine;
		stale.turns++;
	}
	return unused;
}

static void before_stale(struct scene *s)
{
	cpu_set_t cpus;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("one CPU only");
	/* Nobody else on its CPU, or its TLB would be flushed for that. */
	stale.cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	CPU_ZERO(&cpus);
	for (int i = 0; i < stale.cpu; i++)
		CPU_SET(i, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	stale.word = (uint64_t *)s->r.map;
	stale.stop = false;
	stale.lost = false;
	stale.renewed = false;
	stale.count = 0;
	require(!pthread_create(&stale.thread, NULL, stale_main, NULL),
		"no thread");
	while (stale.count < 10000)
		usleep(1000);
}

/* The writer is told that it must not write there any more, and ends. */
static void on_denied(int signal)
{
	if (!pthread_equal(pthread_self(), stale.thread))
		abort();
	siglongjmp(stale.denied, signal);
}

static void before_denied(struct scene *s)
{
	signal(SIGSEGV, on_denied);
	before_stale(s);
}

static void act_stale(struct scene *s)
{
	uint64_t before = stale.count;

	usleep(GRACE_MS * 1000 / 2);
	/*
	 * One that had begun may come to its end. With shared batches it may be another
	 * one that stands here.
	 */
	if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = stale.count <= before + 1;
}

static void check_stale(struct scene *s)
{
	usleep(20000);
	stale.stop = true;
	join(stale.thread, "the writer");
	right(!stale.lost, "a store is lost");
	right(load() == stale.count, "the last stores are lost");
	right(!pattern_bad(s->r.map + PAGE, s->r.size - PAGE, s->r.seed, PAGE,
			   s->r.period), "what was there is wrong");
}

/*
 * Gives up the page of the writer. From then on it has another one, whatever its
 * TLB says, and loses nothing that it stores there.
 */
static void act_renew(struct scene *s)
{
	double end = now() + GRACE_MS / 2e3;
	uint64_t before;

	stale.renewed = true;
	s->gone = PAGE;
	require(!madvise(s->r.map, PAGE, MADV_DONTNEED), "madvise: %s",
		strerror(errno));
	before = stale.turns;
	/* One turn may have begun before. After the flush it may have to wait. */
	while (stale.turns < before + 2 && now() < end)
		usleep(100);
	if (stale.turns >= before + 2)
		stale.renewed = false;
	else if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = true;
}

/* Has the writer a stale TLB? Before the flush it should, and goes on. */
static void expect_stale(struct scene *s)
{
	double end = now() + GRACE_MS / 2e3;
	uint64_t before = stale.count;

	while (stale.count < before + 2 && now() < end)
		usleep(100);
	if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = stale.count < before + 2;
}

/* From now on the writer may not write. It may not have counted its last store. */
static void expect_denied(void)
{
	uint64_t before = stale.count;

	usleep(GRACE_MS * 1000 / 2);
	right(stale.count <= before + 1, "it writes where it may not");
}

static void act_protect(struct scene *s)
{
	expect_stale(s);
	require(!mprotect(s->r.map, PAGE, PROT_READ), "mprotect: %s",
		strerror(errno));
	expect_denied();
}

static void act_take_away(struct scene *s)
{
	expect_stale(s);
	s->gone = PAGE;
	require(!munmap(s->r.map, PAGE), "munmap: %s", strerror(errno));
	expect_denied();
}

static void act_shift(struct scene *s)
{
	expect_stale(s);
	remap(s);
	expect_denied();
}

static void check_denied(struct scene *s)
{
	join(stale.thread, "the writer");
	if (!s->gone)
		right(*(uint64_t *)s->r.map == stale.count,
		      "its last stores are lost");
	right(!pattern_bad(s->r.map + PAGE, s->r.size - PAGE, s->r.seed, PAGE,
			   s->r.period), "what was there is wrong");
}

/*
 * Readers
 */

static void act_read(struct scene *s)
{
	char *buf = malloc(s->r.size);
	ssize_t n = pread(s->r.fd, buf, s->r.size, 0);

	require(n == (ssize_t)s->r.size, "read: %zd", n);
	right(!pattern_bad(buf, s->r.size, s->r.seed, 0, s->r.period),
	      "a read has seen something else");
	free(buf);
}

#define READAHEAD	(64 * KB)

/* How many pages of the second half are cached. */
static size_t cached(struct scene *s)
{
	size_t half = s->r.size / 2, n = 0, i;
	unsigned char there[half / PAGE];

	require(!mincore(s->r.map + half, half, there), "mincore: %s",
		strerror(errno));
	for (i = 0; i < half / PAGE; i++)
		n += there[i] & 1;
	return n;
}

/* The second half has to be read again, while the first one moves. */
static void before_readahead(struct scene *s)
{
	size_t half = s->r.size / 2;

	s->absent = half;
	require(!madvise(s->r.map + half, half, MADV_DONTNEED) &&
		!posix_fadvise(s->r.fd, half, half, POSIX_FADV_DONTNEED),
		"cannot drop the second half");
	require(!cached(s), "the second half is cached still");
}

static void act_readahead(struct scene *s)
{
	double end = now() + GATE_MS / 2e3;
	size_t i;

	/* Of all of it at once, only the beginning would be read. */
	for (i = 0; i < s->r.size; i += 2 * READAHEAD) {
		require(!posix_fadvise(s->r.fd, i, READAHEAD,
				       POSIX_FADV_WILLNEED) &&
			!readahead(s->r.fd, i + READAHEAD, READAHEAD),
			"readahead: %s", strerror(errno));
	}
	while (cached(s) < s->r.size / 2 / PAGE && now() < end)
		usleep(1000);
	require(cached(s) == s->r.size / 2 / PAGE, "it is not read ahead");
	act_read(s);
}

static void before_fault(struct scene *s)
{
	s->map = mmap(NULL, s->r.size, PROT_READ, MAP_SHARED, s->r.fd, 0);
	require(s->map != MAP_FAILED, "cannot map it twice");
}

static void act_fault(struct scene *s)
{
	right(!pattern_bad(s->map, s->r.size, s->r.seed, 0, s->r.period),
	      "a fault has found something else");
}

static void act_write_file(struct scene *s)
{
	char *buf = malloc(s->r.folio);

	pattern_fill(buf, s->r.folio, OTHER_SEED(s), 0, 0);
	require(pwrite(s->r.fd, buf, s->r.folio, 0) == (ssize_t)s->r.folio,
		"write: %s", strerror(errno));
	s->written = s->r.folio;
	free(buf);
}

static void check_file(struct scene *s)
{
	char *buf = malloc(s->r.size);

	check_content(s);
	require(pread(s->r.fd, buf, s->r.size, 0) == (ssize_t)s->r.size,
		"read: %s", strerror(errno));
	right(!memcmp(buf, s->r.map, s->r.size),
	      "the file is not what is mapped");
	free(buf);
}

static void act_process_read(struct scene *s)
{
	struct iovec from = { s->r.map, s->r.size };
	struct iovec to = { malloc(s->r.size), s->r.size };

	require(process_vm_readv(getpid(), &to, 1, &from, 1, 0) ==
		(ssize_t)s->r.size, "process_vm_readv: %s", strerror(errno));
	right(!pattern_bad(to.iov_base, s->r.size, s->r.seed, 0, s->r.period),
	      "process_vm_readv has seen something else");
}

/*
 * Those who change what is mapped
 */

/* What a child does with the memory that it shares; 0 if all was right. */
static int child_compares(const struct scene *s)
{
	return !!pattern_bad(s->r.map, s->r.size, s->r.seed, 0, s->r.period);
}

static int child_writes(const struct scene *s)
{
	uint64_t seed = OTHER_SEED(s) + 1;

	if (child_compares(s))
		return 1;
	pattern_fill(s->r.map, s->r.size, seed, 0, 0);
	return !!pattern_bad(s->r.map, s->r.size, seed, 0, 0);
}

/* A child that maps the same, and does that when it is asked. */
static void child_fork(struct scene *s, int (*does)(const struct scene *s))
{
	int talk[2];
	char byte;

	require(!pipe(talk), "no pipe");
	s->child = fork();
	require(s->child >= 0, "no process");
	if (!s->child) {
		/* Or else nobody would be left to ask, and it would not end. */
		close(talk[1]);
		if (read(talk[0], &byte, 1) != 1)
			_exit(0);
		_exit(does(s));
	}
	close(talk[0]);
	s->other = talk[1];
	s->flags = MPOL_MF_MOVE_ALL;
}

static void child_ask(struct scene *s)
{
	int status;

	require(write(s->other, "v", 1) == 1 &&
		waitpid(s->child, &status, 0) == s->child && WIFEXITED(status),
		"the child is dead");
	right(!WEXITSTATUS(status), "the child has something else");
}

static void act_fork(struct scene *s)
{
	int status;
	pid_t pid = fork();

	require(pid >= 0, "no process");
	if (!pid)
		_exit(child_writes(s));
	act_store(s);
	require(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
		"the child is dead");
	right(!WEXITSTATUS(status), "the child has something else");
}

static void act_ksm(struct scene *s)
{
	require(!madvise(s->r.map, s->r.size, MADV_MERGEABLE) &&
		!file_write("/sys/kernel/mm/ksm/run", "1"), "no KSM");
	usleep(100000);
	act_store(s);
	file_write("/sys/kernel/mm/ksm/run", "2");
	file_write("/sys/kernel/mm/ksm/run", "0");
}

static void before_uffd(struct scene *s)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_register reg = {
		.range = { (uintptr_t)s->r.map, s->r.size },
		.mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING,
	};

	s->fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || ioctl(s->fd, UFFDIO_API, &api) ||
	    ioctl(s->fd, UFFDIO_REGISTER, &reg))
		skip("no userfaultfd: %s", strerror(errno));
	/* The last page is missing, the others are not. */
	require(!madvise(s->r.map + s->r.size - PAGE, PAGE, MADV_DONTNEED),
		"cannot make a hole");
	s->absent = PAGE;
}

static void *store_first(void *arg)
{
	act_store(arg);
	return NULL;
}

static void act_uffd(struct scene *s)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)s->r.map, s->r.size - PAGE },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	struct uffdio_copy copy = {
		.dst = (uintptr_t)s->r.map + s->r.size - PAGE, .len = PAGE,
	};
	struct pollfd event = { .fd = s->fd, .events = POLLIN };
	char *buf = aligned_alloc(PAGE, PAGE);
	struct uffd_msg msg;
	pthread_t thread;

	require(!ioctl(s->fd, UFFDIO_WRITEPROTECT, &wp),
		"cannot protect: %s", strerror(errno));
	pattern_fill(buf, PAGE, s->r.seed, s->r.size - PAGE, s->r.period);
	copy.src = (uintptr_t)buf;
	require(!ioctl(s->fd, UFFDIO_COPY, &copy), "cannot fill the hole: %s",
		strerror(errno));
	/* What is protected in a migration entry is protected after it. */
	require(!pthread_create(&thread, NULL, store_first, s), "no thread");
	right(poll(&event, 1, GATE_MS) == 1, "a store is not seen");
	require(read(s->fd, &msg, sizeof(msg)) == sizeof(msg) &&
		msg.event == UFFD_EVENT_PAGEFAULT, "no event");
	right(msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP,
	      "the protection is lost");
	wp.mode = 0;
	require(!ioctl(s->fd, UFFDIO_WRITEPROTECT, &wp),
		"cannot unprotect: %s", strerror(errno));
	join(thread, "the store");
}

static void act_mremap(struct scene *s)
{
	remap(s);
	act_store(s);
}

static void act_munmap(struct scene *s)
{
	s->gone = s->r.size / 2;
	require(!munmap(s->r.map, s->gone), "munmap: %s", strerror(errno));
	act_store(s);
}

/* Of what was given up, nothing is left; or what was there, where that may be. */
static void check_zeroes(struct scene *s, bool or_old)
{
	char *at = s->r.map;
	size_t i, j;

	for (i = 0; i < s->gone; i += PAGE) {
		for (j = 0; j < PAGE && !at[i + j]; j++)
			;
		if (j == PAGE)
			continue;
		right(or_old, "what was given up is still there");
		right(!pattern_bad(at + i, PAGE, s->r.seed, i, s->r.period),
		      "neither old nor zero");
	}
}

static void check_dontneed(struct scene *s)
{
	check_zeroes(s, false);
	check_content(s);
}

static void check_free(struct scene *s)
{
	check_zeroes(s, true);
	check_content(s);
}

static void act_madvise(struct scene *s, int advice)
{
	require(!madvise(s->r.map, s->r.size / 2, advice), "madvise: %s",
		strerror(errno));
}

static void act_give_up(struct scene *s, int advice)
{
	s->gone = s->r.size / 2;
	act_madvise(s, advice);
}

static void act_dontneed(struct scene *s)
{
	act_give_up(s, MADV_DONTNEED);
}

static void act_remove(struct scene *s)
{
	act_give_up(s, MADV_REMOVE);
}

static void act_free(struct scene *s)
{
	act_give_up(s, MADV_FREE);
}

/*
 * The folios are in the swap cache, and a child has entries of the page table that
 * lead there: it swaps them in, to read and to write.
 */
static void before_swapin(struct scene *s)
{
	require(region_swap_out(&s->r, s->from), "cannot swap out");
	child_fork(s, child_writes);
	/* Into ours: what moves is mapped here, and in the swap cache for the child. */
	node_bind(s->from);
	require(region_swap_in(&s->r), "not in the swap cache");
	node_unbind();
}

static void act_swapin(struct scene *s)
{
	child_ask(s);
	act_store(s);
}

/* It waits for what is in the swap cache. */
static void act_swapoff(struct scene *s)
{
	int err = swap_off();

	require(!err, "swapoff: %s", strerror(-err));
	swap_on();
	act_store(s);
}

static void before_pageout(struct scene *s)
{
	swap_on();
}

static void act_pageout(struct scene *s)
{
	act_madvise(s, MADV_PAGEOUT);
	act_madvise(s, MADV_COLD);
}

/* khugepaged's work, at once; what is isolated stands in its way. */
static void act_collapse(struct scene *s)
{
	madvise(s->r.map, s->r.size, MADV_COLLAPSE);
	act_store(s);
}

static void split_mapping(struct scene *s)
{
	require(!mprotect(s->r.map + PAGE, PAGE, PROT_READ) &&
		!mprotect(s->r.map + PAGE, PAGE, PROT_READ | PROT_WRITE),
		"mprotect: %s", strerror(errno));
}

static void act_split(struct scene *s)
{
	char text[64];

	snprintf(text, sizeof(text), "%d,%#lx,%#lx", getpid(),
		 (unsigned long)s->r.map,
		 (unsigned long)s->r.map + s->r.size);
	file_write("/sys/kernel/debug/split_huge_pages", text);
	/* And in the page table. */
	split_mapping(s);
	act_store(s);
}

static void before_child(struct scene *s)
{
	child_fork(s, child_compares);
}

/* In the page table of one process: what was not writable is not in parts, either. */
static void act_split_mapping(struct scene *s)
{
	split_mapping(s);
	act_store(s);
}

static void check_child(struct scene *s)
{
	child_ask(s);
	check_content(s);
}

static void act_mlock(struct scene *s)
{
	require(!mlock(s->r.map, s->r.size), "mlock: %s", strerror(errno));
	act_store(s);
	require(!munlock(s->r.map, s->r.size), "munlock: %s", strerror(errno));
}

static void act_mprotect(struct scene *s)
{
	require(!mprotect(s->r.map, s->r.size, PROT_READ) &&
		!mprotect(s->r.map, s->r.size, PROT_READ | PROT_WRITE),
		"mprotect: %s", strerror(errno));
	act_store(s);
}

static void act_truncate(struct scene *s)
{
	s->gone = s->r.size;
	require(!ftruncate(s->r.fd, 0) && !ftruncate(s->r.fd, s->r.size),
		"truncate: %s", strerror(errno));
}

static void act_punch(struct scene *s)
{
	s->gone = s->r.size / 2;
	require(!fallocate(s->r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   0, s->gone), "hole: %s", strerror(errno));
}

/*
 * Less than a page is given up: its bytes are set to zero where they are, under
 * the folio's lock.
 */
#define PART	512

static void check_part(struct scene *s, size_t begin, size_t size)
{
	size_t end = begin + size, i;

	for (i = begin; i < end && !s->r.map[i]; i++)
		;
	right(i == end, "what was given up is there again");
	right(!pattern_bad(s->r.map, begin, s->r.seed, 0, s->r.period) &&
	      !pattern_bad(s->r.map + end, s->r.size - end, s->r.seed, end,
			   s->r.period), "what was there is wrong");
}

static void act_punch_part(struct scene *s)
{
	require(!fallocate(s->r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   PAGE + PART, PART), "hole: %s", strerror(errno));
}

static void check_punch_part(struct scene *s)
{
	check_part(s, PAGE + PART, PART);
}

static void act_truncate_part(struct scene *s)
{
	require(!ftruncate(s->r.fd, s->r.size - PAGE / 2) &&
		!ftruncate(s->r.fd, s->r.size), "truncate: %s",
		strerror(errno));
}

static void check_truncate_part(struct scene *s)
{
	check_part(s, s->r.size - PAGE / 2, PAGE / 2);
}

static void act_drop_caches(struct scene *s)
{
	file_write("/proc/sys/vm/drop_caches", "3");
	file_write("/proc/sys/vm/compact_memory", "1");
}

/*
 * Memory that fails, or goes
 */

static void before_pfn(struct scene *s)
{
	s->map = (char *)page_pfn(s->r.map);
}

static sigjmp_buf poisoned;

static void on_sigbus(int sig)
{
	siglongjmp(poisoned, 1);
}

static void act_poison(struct scene *s)
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
static void check_poison(struct scene *s)
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

static void act_soft_offline(struct scene *s)
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
 * Fill the destination up to a block that is wanted, from which what is moved there
 * will come: what is taken before is taken here.
 */
static void fill_up_to(struct scene *s, bool (*wanted)(uint64_t block),
		       const char *otherwise)
{
	uint64_t block, last = UINT64_MAX, per_block = block_pages();
	bool can_go = false;
	size_t i, run = 0;
	int to = s->from;

	/* Such memory may be on the first node only: from the second one, then. */
	move_all(s, s->to);
	s->from = s->to;
	s->to = to;
	if (!per_block)
		skip("no memory blocks");
	s->map = mmap(NULL, FILL_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	require(s->map != MAP_FAILED &&
		!sys_mbind(s->map, FILL_SIZE, MPOL_BIND, to, 0),
		"cannot bind to the node");
	madvise(s->map, FILL_SIZE, MADV_NOHUGEPAGE);
	for (i = 0; i < FILL_SIZE; i += PAGE) {
		s->map[i] = 1;
		block = page_pfn(s->map + i) / per_block;
		if (block != last) {
			can_go = wanted(block);
			run = 0;
		}
		last = block;
		run += PAGE;
		/* Less may have been what lay about, a page here and there. */
		if (can_go && run >= FILL_RUN) {
			s->other = block;
			return;
		}
	}
	skip("%s", otherwise);
}

static void before_offline(struct scene *s)
{
	fill_up_to(s, block_can_go,
		   "no block that can go offline: boot with movablecore=");
}

/*
 * While the migration stands its destinations cannot go, and the block with them.
 * Once it is over, that must not last.
 */
static void act_offline(struct scene *s)
{
	double end = now() + after_ms(s) / 1e3;
	char path[128];
	int err;

	block_path(path, sizeof(path), s->other, "state");
	/* They are locked. If none is there, it is about other memory. */
	if (!block_has(s->other, KPF_LOCKED))
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

static void before_eject(struct scene *s)
{
	fill_up_to(s, block_can_leave,
		   "no memory that can be taken out: boot with modules");
}

/* The destination leaves the machine: as soon as it can, which is not yet. */
static void act_eject(struct scene *s)
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

/*
 * Processes and CPUs
 */

static void act_kill_mover(struct scene *s)
{
	require(!kill(s->mover, SIGKILL), "cannot kill");
}

static const char *cgroup_dir(void)
{
	mkdir(CGROUP, 0755);
	if (!file_exists(CGROUP "/cgroup.procs"))
		mount("none", CGROUP, "cgroup2", 0, NULL);
	require(file_exists(CGROUP "/cgroup.procs"), "no cgroup: %s",
		strerror(errno));
	file_write(CGROUP "/cgroup.subtree_control", "+memory");
	mkdir(CGROUP "/test", 0755);
	return CGROUP "/test";
}

static void cgroup_set(const char *name, const char *value)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), "%s/%s", cgroup_dir(), name);
	err = file_write(path, value);
	require(!err, "%s: %s", path, strerror(-err));
}

static void cgroup_take(pid_t pid)
{
	char text[24];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_set("cgroup.procs", text);
}

/* Whoever migrates is frozen: nobody else may have to wait for him. */
static void before_freeze(struct scene *s)
{
	mover_fork(s);
	cgroup_take(s->mover);
}

static void *thaw_main(void *arg)
{
	struct scene *s = arg;

	/* It has been let go, and cannot leave: all of it must be usable. */
	usleep((GRACE_MS + 300) * 1000);
	check_content(s);
	cgroup_set("cgroup.freeze", "0");
	return NULL;
}

static void act_freeze(struct scene *s)
{
	static pthread_t thread;

	cgroup_set("cgroup.freeze", "1");
	require(!pthread_create(&thread, NULL, thaw_main, s), "no thread");
}

static void before_suspend(struct scene *s)
{
	if (!file_exists("/sys/power/pm_test"))
		skip("this kernel cannot suspend");
}

/* It waits for the migration, whose helpers go on working for it. */
static void act_suspend(struct scene *s)
{
	int err = suspend_tasks(GATE_MS);

	require(!err, "suspend: %s", strerror(-err));
}

/* It gives up, as nobody is frozen who migrates. */
static void act_suspend_fails(struct scene *s)
{
	int err = suspend_tasks(GRACE_MS);

	require(err == -EBUSY, "suspend: %s", strerror(-err));
}

/* Of a process whose memory is to move: it has what it needs. */
static void child_ready(const int *ready)
{
	if (write(ready[1], "r", 1) != 1)
		_exit(1);
}

static void victim_await(struct scene *s, const int *ready)
{
	char byte;

	/* The child's end of the pipe is the last one: it may have died. */
	close(ready[1]);
	require(read(ready[0], &byte, 1) == 1, "no process to be moved");
	close(ready[0]);
	s->victim = s->child;
}

/* A child whose memory moves, while others have it, too. */
static void child_make(struct scene *s, void (*last)(int signal))
{
	int ready[2];

	require(!pipe(ready), "no pipe");
	s->child = fork();
	if (!s->child) {
		signal(SIGUSR1, last);
		for (size_t i = 0; i < s->r.size; i += PAGE)
			touch(s->r.map + i);
		child_ready(ready);
		for (;;)
			pause();
	}
	victim_await(s, ready);
	mover_fork(s);
}

static void before_exit(struct scene *s)
{
	child_make(s, SIG_DFL);
}

/* It dies. */
static void act_exit(struct scene *s)
{
	kill(s->child, SIGKILL);
	waitpid(s->child, NULL, 0);
}

static void exec_other(int signal)
{
	(void)signal;
	execl("/bin/true", "true", NULL);
	_exit(1);
}

static void before_exec(struct scene *s)
{
	child_make(s, exec_other);
}

/* It goes on in another program, and other memory. */
static void act_exec(struct scene *s)
{
	int status;

	kill(s->child, SIGUSR1);
	require(waitpid(s->child, &status, 0) == s->child && !status,
		"it cannot execute anything");
}

/* A process whose memory moves may have next to nothing any more. */
static void before_limit(struct scene *s)
{
	int ready[2];

	require(!pipe(ready), "no pipe");
	cgroup_set("memory.max", "max");
	s->child = fork();
	if (!s->child) {
		cgroup_set("cgroup.procs", "0");
		/* Its own copy of it, at its cgroup's expense, to be moved. */
		node_bind(s->from);
		pattern_fill(s->r.map, s->r.size, OTHER_SEED(s), 0, 0);
		child_ready(ready);
		while (!pattern_bad(s->r.map, s->r.size, OTHER_SEED(s), 0, 0))
			;
		_exit(1);
	}
	victim_await(s, ready);
	mover_fork(s);
}

static void act_limit(struct scene *s)
{
	static const char * const events = CGROUP "/test/memory.events";
	uint64_t kills = file_count(events, "oom_kill");
	int status;

	file_write(CGROUP "/test/memory.swap.max", "0");
	cgroup_set("memory.max", "65536");
	/* What moves cannot be reclaimed: it has been killed for that. */
	require(file_count(events, "oom_kill") > kills, "nobody is killed");
	require(waitpid(s->child, &status, 0) == s->child, "no child");
	right(WIFSIGNALED(status), "its memory was wrong");
	cgroup_set("memory.max", "max");
}

/*
 * The first CPU cannot go. Whose CPU is to go gets another one: a helper does if
 * the mover is on the first.
 */
static void before_cpu_offline(struct scene *s)
{
	bool helper = BIT(s->window) & W_HELPING;
	cpu_set_t cpus;
	int cpu;

	CPU_ZERO(&cpus);
	for (cpu = !helper; cpu < (helper ? 1 : sysconf(_SC_NPROCESSORS_CONF));
	     cpu++)
		CPU_SET(cpu, &cpus);
	require(!sched_setaffinity(0, sizeof(cpus), &cpus), "cannot move: %s",
		strerror(errno));
}

/* The CPU of a helper that is amid a chunk, or else that of the migration. */
static void act_cpu_offline(struct scene *s)
{
	int task, cpu, err;

	require(sscanf(s->where, "%*s %d %d", &task, &cpu) == 2,
		"who stands there? %s", s->where);
	/* A helper that has a batch may be on the first one nevertheless. */
	if (!cpu) {
		s->unlucky = true;
		return;
	}
	err = cpu_set_online(cpu, false);
	require(!err, "CPU %d does not go: %s", cpu, strerror(-err));
	require(!cpu_set_online(cpu, true), "CPU %d does not come back", cpu);
}

/* The knobs are turned while it is on its way. */
static void act_knobs(struct scene *s)
{
	static const char * const words[][2] = {
		{ "enabled", "0" }, { "enabled", "1" },
		{ "max_helpers", "0" }, { "max_helpers", "3" },
		{ "chunk_kb", "2048" }, { "parallel_batches", "0" },
		{ "enabled", "0" },
	};
	char path[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		snprintf(path, sizeof(path), KNOB_DIR "/%s", words[i][0]);
		require(!file_write(path, words[i][1]), "no knob %s", path);
	}
	act_store(s);
}

static const struct act acts[] = {
	{ "stores",
	  { &base, &thp, &shmem, &xfs, &swapcache, &hugetlb, &hugetlb_shared },
	  W_ALL, NULL, act_store },
	{ "a store by a stale TLB", { &base, &shmem }, W_ALL,
	  before_stale, act_stale, check_stale, false, false, true },
	{ "MADV_DONTNEED and a stale TLB", { &base }, W_ALL,
	  before_stale, act_renew, check_stale },
	{ "mprotect and a stale TLB", { &base }, W_ALL,
	  before_denied, act_protect, check_denied },
	{ "munmap and a stale TLB", { &base }, W_ALL,
	  before_denied, act_take_away, check_denied },
	{ "mremap and a stale TLB", { &base }, W_ALL,
	  before_denied, act_shift, check_denied, .hides = true },
	{ "process_vm_writev", { &base, &thp, &shmem, &hugetlb }, W_ALL,
	  NULL, act_process_write, .stay = SOME_STAY },
	{ "ptrace", { &base, &thp, &shmem, &hugetlb }, W_ALL, before_poke, act_poke,
	  .own_copy = true },
	{ "io_uring", { &base, &shmem, &tmpfs }, W_ALL,
	  before_io_uring, act_io_uring, .in_time = true, .pins = true },
	{ "O_DIRECT", { &base, &shmem, &tmpfs }, W_ALL,
	  before_direct, act_direct, .in_time = true, .pins = true },
	{ "io_uring, huge page", { &thp }, W_WITH_PINNED,
	  before_io_uring, act_io_uring, .in_time = true, .pins = true },
	{ "O_DIRECT, huge page", { &thp }, W_WITH_PINNED,
	  before_direct, act_direct, .in_time = true, .pins = true },
	{ "vmsplice", { &base, &thp, &shmem }, W_ALL,
	  before_vmsplice, act_vmsplice, .in_time = true,
	  .stay = SOME_STAY },
	{ "udmabuf", { &memfd }, W_ALL, before_udmabuf, act_udmabuf,
	  .stay = SOME_STAY },
	{ "read", { &tmpfs, &tmpfs_huge, &xfs, &ext4 }, W_ALL,
	  NULL, act_read, .stay = SOME_STAY },
	{ "a fault", { &tmpfs, &tmpfs_huge, &xfs, &ext4 }, W_ALL,
	  before_fault, act_fault, .stay = SOME_STAY },
	{ "readahead", { &xfs, &ext4 }, W_ALL,
	  before_readahead, act_readahead, .stay = SOME_STAY },
	{ "write", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_write_file, check_file, .stay = SOME_STAY },
	{ "process_vm_readv", { &base, &shmem }, W_ALL,
	  NULL, act_process_read, .stay = SOME_STAY },
	{ "fork", { &base, &thp, &swapcache }, W_ALL, NULL, act_fork,
	  .own_copy = true, .hides = true, .stay = SOME_STAY },
	{ "KSM", { &ksm }, W_ALL, NULL, act_ksm, .wanders = true },
	{ "userfaultfd", { &base }, W_ALL, before_uffd, act_uffd },
	{ "mremap", { &base, &thp, &shmem }, W_ALL, NULL, act_mremap,
	  .hides = true },
	{ "munmap", { &base, &thp, &shmem, &hugetlb }, W_ALL, NULL, act_munmap },
	{ "MADV_DONTNEED", { &base, &thp, &hugetlb }, W_ALL,
	  NULL, act_dontneed, check_dontneed },
	{ "MADV_REMOVE", { &shmem }, W_ALL, NULL, act_remove, check_dontneed,
	  .stay = SOME_STAY },
	{ "MADV_FREE", { &base, &thp }, W_ALL, NULL, act_free, check_free },
	{ "MADV_PAGEOUT", { &base, &swapcache, &xfs }, W_ALL,
	  before_pageout, act_pageout, .wanders = true },
	{ "swap in", { &swapcache }, W_ALL, before_swapin, act_swapin,
	  .own_copy = true, .stay = SOME_STAY },
	{ "swapoff", { &swapcache }, W_ALL, NULL, act_swapoff,
	  .stay = SOME_STAY },
	{ "MADV_COLLAPSE", { &huge_range }, W_ALL, NULL, act_collapse,
	  .wanders = true },
	{ "a split", { &thp, &tmpfs_huge }, W_ALL, NULL, act_split,
	  .stay = SOME_STAY },
	{ "a split of what a child maps", { &thp }, W_ALL,
	  before_child, act_split_mapping, check_child, .own_copy = true },
	{ "mlock", { &base, &mlocked, &shmem }, W_ALL, NULL, act_mlock },
	{ "mprotect", { &base, &thp }, W_ALL, NULL, act_mprotect },
	{ "truncate", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_truncate, check_dontneed, .no_copy = true },
	{ "a hole", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_punch, check_dontneed, .stay = SOME_STAY },
	{ "a hole in a page", { &tmpfs }, W_ALL,
	  NULL, act_punch_part, check_punch_part, .stay = SOME_STAY },
	{ "truncate in a page", { &tmpfs }, W_ALL,
	  NULL, act_truncate_part, check_truncate_part, .stay = SOME_STAY },
	{ "drop_caches and compaction", { &base, &xfs, &ext4 }, W_ALL,
	  NULL, act_drop_caches, .stay = SOME_STAY },
	/* What is mapped is lost then, and does not move any more. */
	{ "memory failure", { &base, &thp, &shmem }, W_ALL & ~W_ISOLATED,
	  before_pfn, act_poison, check_poison, .stay = 1 },
	{ "soft offline", { &base, &thp, &shmem }, W_ALL,
	  before_pfn, act_soft_offline, .stay = 1 },
	{ "memory offline", { &base }, W_ALL & ~W_SPINS,
	  before_offline, act_offline, .wanders = true, .slow = true },
	{ "a fatal signal", { &base, &thp, &shmem, &hugetlb }, W_ALL,
	  NULL, act_kill_mover, NULL, true },
	{ "the freezer", { &base, &shmem, &hugetlb }, W_ALL,
	  before_freeze, act_freeze, NULL, true },
	{ "a suspend", { &base, &shmem }, W_ALL,
	  before_suspend, act_suspend, .too_long = true },
	{ "a suspend that gives up", { &base, &shmem }, W_ALL,
	  before_suspend, act_suspend_fails, .in_time = true },
	{ "exit", { &base, &shmem, &tmpfs }, W_ALL,
	  before_exit, act_exit, NULL, true },
	{ "exec", { &base, &shmem }, W_ALL,
	  before_exec, act_exec, NULL, true },
	{ "a cgroup's limit", { &base }, W_ALL,
	  before_limit, act_limit, NULL, true, .no_copy = true,
	  .wanders = true },
	{ "CPU offline", { &base }, W_ALL & ~W_SPINS,
	  before_cpu_offline, act_cpu_offline },
	{ "knobs", { &base, &thp, &shmem }, W_ALL, NULL, act_knobs,
	  .no_copy = true },
};

/* Where a block of memory can leave the machine, each once. */
static const struct act ejected[] = {
	{ "memory leaves", { &base }, W_ALL & ~W_SPINS,
	  before_eject, act_eject, .wanders = true, .slow = true },
};

/* With helpers, and only if one gets to a chunk. */
static const struct act helped[] = {
	/* It waits for the helper's CPU with all the others. */
	{ "CPU offline", { &thp }, W_HELPING,
	  before_cpu_offline, act_cpu_offline, .too_long = true },
	{ "read", { &tmpfs_huge }, W_HELPING, NULL, act_read },
	{ "stores", { &thp }, W_HELPING, NULL, act_store },
	{ "stores", { &hugetlb }, W_HELPING, NULL, act_store },
	{ "munmap", { &hugetlb }, W_HELPING, NULL, act_munmap },
	{ "a fatal signal", { &thp }, W_HELPING,
	  NULL, act_kill_mover, NULL, true },
	{ "a suspend", { &thp }, W_HELPING,
	  before_suspend, act_suspend, .too_long = true },
};

/* Amid a helper's chunk they are others. */
static const struct act *find_act(const char *name, unsigned int window)
{
	const struct act *list = window & W_HELPING ? helped : acts;
	size_t n = window & W_HELPING ? ARRAY_SIZE(helped) : ARRAY_SIZE(acts);
	size_t i;

	for (i = 0; i < n; i++) {
		if (!strcmp(list[i].name, name))
			return &list[i];
	}
	return NULL;
}

/*
 * What is left of it when a rule is broken
 */

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
	uint64_t lost = dma_count("lost"), live;
	double end = now() + AFTER_MS / 1e3;

	mode_enter(MODE_BATCH);
	scene_make(&s, &base);
	/* Again: a channel that was late is given up. */
	do {
		require(now() < end, "there is no channel");
		engine_knob("dcbm", "channels", 0);
		engine_knob("dcbm", "channels", 1);
		require(!file_read_number(ENGINES_DIR "/dcbm/channels_live",
					  &live), "cannot read channels_live");
	} while (!live);
	engine_knob("dcbm", "timeout_ms", LATE_TIMEOUT_MS);
	require(!file_write(SOFTDMA_GOES_ON "/times", "-1"),
		"cannot make DMA go on");
	softdma_set(SOFTDMA_GOES_ON "/probability", 100);
	dma_close(LATE_MS);
	move_all(&s, s.to);
	require(dma_count("lost") > lost, "DMA was not late");
	pattern_fill(s.r.map, s.r.size, OTHER_SEED(&s), 0, 0);
	s.written = s.r.size;
	region_make(&others, &kind, s.to, false);
	require(dma_count("quarantined"), "DMA was not late enough");
	dma_open();
	require(dma_ends(), "DMA never ends");
	check_content(&s);
	right(region_intact(&others), "what others have is wrong");
}

/**
 * struct breach - A rule that is broken, and the test that has to see it
 * @rule: what is broken; kept in the control
 * @also: broken in the control, too: "" for nothing
 * @what: an act, or what @test does
 * @kind: of the scene with this act
 * @window: of it, as a bit
 * @mode: how the kernel copies; without one, the caller does it alone
 * @failing: all copies fail meanwhile
 * @test: what to do instead of a scene, or NULL
 */
struct breach {
	const char *rule;
	const char *also;
	const char *what;
	const struct kind *kind;
	unsigned int window;
	enum copy_mode mode;
	bool failing;
	void (*test)(void);
};

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
	/* Nobody can write between two attempts unless he could pin. */
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
static const char *only;
/* The name of the rule that is broken in each scene, or NULL. */
static const char *broken_rule;

static bool usable(const struct variant *v)
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

static void breach_run(const struct breach *b)
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
static unsigned int breaches_listed(bool dma, bool run)
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

/*
 * Runs all broken rules, or counts them: each act's test must see it, too, when
 * copies that have failed are taken for good.
 */
static unsigned int breaches_all(bool run)
{
	static const unsigned int where[] = { W_REMAPPING, W_COPIED };
	unsigned int nr = breaches_listed(false, run);
	size_t i, w;

	for (i = 0; i < ARRAY_SIZE(acts); i++) {
		struct breach b = {
			.rule = "failed", .also = "", .what = acts[i].name,
			.kind = acts[i].kinds[0], .failing = true,
		};
		struct variant v = { .act = &acts[i], .kind = b.kind };

		if (acts[i].no_copy)
			continue;
		for (w = 0; w < ARRAY_SIZE(where); w++) {
			v.window = __builtin_ctz(where[w]);
			if (usable(&v))
				break;
		}
		if (w == ARRAY_SIZE(where))
			continue;
		b.window = where[w];
		nr++;
		if (run)
			breach_run(&b);
	}
	return nr;
}

/* Runs the scenes of a list in some windows, or counts them. */
static unsigned int scenes(const struct act *list, size_t n,
			   enum copy_mode mode, unsigned int windows, bool run)
{
	struct variant v = { .mode = mode };
	unsigned int nr = 0;
	char name[128];
	size_t i, k;

	for (i = 0; i < n; i++) {
		v.act = &list[i];
		for (k = 0; k < ARRAY_SIZE(v.act->kinds); k++) {
			v.kind = v.act->kinds[k];
			if (!v.kind || (k && mode == MODE_THREADS))
				break;
			for (v.window = 0; v.window < ARRAY_SIZE(window_names);
			     v.window++) {
				if (!(windows & BIT(v.window)) || !usable(&v))
					continue;
				nr++;
				if (!run)
					continue;
				snprintf(name, sizeof(name), "%s, %s, %s: %s",
					 mode_names[mode], v.kind->name,
					 window_names[v.window], v.act->name);
				if (broken_rule)
					control("broken", broken_rule);
				test_run(name, v.act->slow ? SCENE_TRIES * TIMEOUT :
					 TIMEOUT, test_scene, &v);
				all_right_again();
			}
		}
	}
	return nr;
}

/* Runs all of a mode, or counts it. */
static unsigned int mode_scenes(enum copy_mode mode, bool run)
{
	unsigned int nr = scenes(acts, ARRAY_SIZE(acts), mode, ~W_DMA, run);

	if (mode == MODE_THREADS)
		nr += scenes(helped, ARRAY_SIZE(helped), mode, ~W_DMA, run);
	return nr;
}

/* Runs all there is about DMA, or counts it. */
static unsigned int dma_scenes(bool run)
{
	return scenes(acts, ARRAY_SIZE(acts), MODE_BATCH, W_DMA, run) +
	       breaches_listed(true, run);
}

/* One channel that copies everything, in small chunks. */
static void dma_start(void)
{
	if (module_load(softdma_path, "channels=1 cpus=" DMA_CPU) ||
	    module_load(dcbm_path, ""))
		ksft_exit_fail_msg("cannot load the modules: %s\n",
				   strerror(errno));
	engine_knob("dcbm", "channels", 1);
	engine_knob("dcbm", "near_only", 0);
	engine_knob("dcbm", "exclusive", 1);
	engine_knob("dcbm", "min_kb", 0);
	engine_knob("dcbm", "chunk_kb", DMA_CHUNK / KB);
	engine_knob("dcbm", "timeout_ms", DMA_TIMEOUT_MS);
	engine_knob("dcbm", "offloading", 1);
}

static void dma_stop(void)
{
	if (module_unload("dcbm") || module_unload("softdma"))
		ksft_exit_fail_msg("cannot unload the modules: %s\n",
				   strerror(errno));
}

static void __noreturn wrong_options(void)
{
	fprintf(stderr,
		"usage: migrate_windows [-a ACT] [-b RULE] windows [MODE]...\n"
		"       migrate_windows [-b RULE] eject [MODE]...\n"
		"       migrate_windows [-a ACT] breaks\n"
		"       migrate_windows [-a ACT] [-b RULE] -d dcbm.ko -f softdma.ko dma\n");
	exit(KSFT_FAIL);
}

/* Runs, or counts, what is asked for. */
static unsigned int run_all(const char *what, unsigned int modes, bool run)
{
	unsigned int nr = 0;
	enum copy_mode mode;

	if (!strcmp(what, "breaks"))
		return breaches_all(run);
	if (!strcmp(what, "dma"))
		return dma_scenes(run);
	for (mode = 0; mode < NR_MODES; mode++) {
		if (!(modes & 1U << mode))
			continue;
		nr += strcmp(what, "eject") ? mode_scenes(mode, run) :
		      scenes(ejected, ARRAY_SIZE(ejected), mode, ~W_DMA, run);
	}
	return nr;
}

int main(int argc, char **argv)
{
	unsigned int modes;
	const char *what;
	bool dma;
	int option;

	while ((option = getopt(argc, argv, "+a:b:d:f:m:")) != -1) {
		if (option == 'a')
			only = optarg;
		else if (option == 'b')
			broken_rule = optarg;
		else if (!module_option(option, optarg))
			wrong_options();
	}
	argc -= optind;
	argv += optind;
	what = argc ? argv[0] : "";
	dma = !strcmp(what, "dma");
	if ((strcmp(what, "windows") && strcmp(what, "breaks") &&
	     strcmp(what, "eject") && !dma) ||
	    (dma && (!softdma_path || !dcbm_path)) ||
	    (!strcmp(what, "breaks") && broken_rule))
		wrong_options();
	if (!file_exists(WINDOWS_DIR "/gate"))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	modes = argc > 1 ? modes_wanted(argc - 1, argv + 1) : 1U << MODE_BATCH;
	tests_start(run_all(what, modes, false));
	if (!file_exists(WINDOWS_DIR "/gate"))
		ksft_exit_skip("this kernel has no CONFIG_MIGRATE_COPY_TEST_WINDOWS\n");
	data_wrong = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (dma)
		dma_start();
	all_right_again();
	run_all(what, modes, true);
	if (dma)
		dma_stop();
	umount2(CGROUP, MNT_DETACH);
	rmdir(CGROUP);
	tests_end();
}
