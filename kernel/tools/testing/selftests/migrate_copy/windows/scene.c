// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scene: a migration that stands in a window while somebody does something.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "windows.h"

#define STAND_MS	500
#define AFTER_SLOW_MS	60000
/* Moves until a helper, or the mover itself, has surely got to a chunk. */
#define HELPED_MOVES	20
/* Some batches, for helpers to take. */
#define SHARED_SIZE	(4 * MB)
/* What a CPU takes of it at least. */
#define LEAST_PIECE	(64 * PAGE)

#define SOFTDMA_FAULT	SOFTDMA_DIR "/fail_delay"
#define SOFTDMA_DELAY	"/sys/module/softdma/parameters/delay_ms"

const char * const window_names[NR_WINDOWS] = {
	"unmapped", "flushed", "checked", "copying", "copied", "switching",
	"remapping", "helping", "dma", "isolated",
};

const struct kind base = { "base", BACK_ANON, OF_PAGES(1), 512 * KB };

const struct kind thp = { "thp", BACK_ANON, 2 * MB, 4 * MB };

const struct kind shmem = { "shmem", BACK_SHMEM, OF_PAGES(1), 512 * KB };

const struct kind tmpfs = { "tmpfs", BACK_TMPFS, OF_PAGES(1), 512 * KB };

const struct kind memfd = { "memfd", BACK_MEMFD, OF_PAGES(1), 512 * KB };

const struct kind xfs = { "xfs", BACK_XFS, OF_PAGES(1), 512 * KB };

const struct kind ext4 = {
	"ext4", BACK_EXT4, OF_PAGES(1), 512 * KB
};

const struct kind huge_range = {
	"base_4m", BACK_ANON, OF_PAGES(1), 4 * MB
};

const struct kind ksm = {
	"ksm", BACK_ANON, OF_PAGES(1), 2 * MB, KIND_KSM
};

/* Whether what failed was the content: shared with the test's process. */
atomic_bool *data_wrong;

void __printf(2, 3) right(bool ok, const char *fmt, ...)
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

void control(const char *name, const char *text)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), TEST_DIR "/%s", name);
	err = file_write(path, text);
	require(!err, "cannot write %s to %s: %s", text, path, strerror(-err));
}

static void control_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	control(name, text);
}

uint64_t window_count(const char *name)
{
	return file_count(TEST_DIR "/counts", name);
}

/* Wait until DMA that was late has come to its end; false if it does not. */
bool dma_ends(void)
{
	double end = now() + AFTER_MS / 1e3;

	while (engine_quarantined()) {
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
void all_right_again(void)
{
	int cpu;

	if (file_exists(SOFTDMA_DELAY))
		dma_right_again();
	file_write(TEST_DIR "/broken", "\n");
	file_write(TEST_DIR "/gate", "open");
	file_write(TEST_DIR "/fail_copy/probability", "0");
	file_write(TEST_DIR "/fail_copy/times", "1");
	file_write(TEST_DIR "/skip", "0");
	cgroup_write("test", "cgroup.freeze", "0");
	cgroup_write("test", "memory.max", "max");
	for (cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
		cpu_set_online(cpu, true);
}

void softdma_set(const char *path, uint64_t value)
{
	int err = file_write_number(path, value);

	require(!err, "cannot write to %s: %s", path, strerror(-err));
}

/*
 * The first chunk goes by; the next one waits, for so long or until dma_open(), and
 * with it all that the channel has.
 */
void dma_close(unsigned int ms)
{
	softdma_set(SOFTDMA_DELAY, ms);
	softdma_set(SOFTDMA_FAULT "/times", 1);
	softdma_set(SOFTDMA_FAULT "/space", DMA_CHUNK + 1);
	softdma_set(SOFTDMA_FAULT "/probability", 100);
}

void dma_open(void)
{
	softdma_set(SOFTDMA_FAULT "/probability", 0);
	softdma_set(SOFTDMA_DELAY, 0);
}

static int dma_wait(uint64_t chunks)
{
	double end = now() + GATE_MS / 1e3;

	while (window_count("engine_chunks") == chunks) {
		if (now() >= end)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return 0;
}

void gate_close(const char *window, pid_t pid, unsigned int ms)
{
	control_number("timeout_ms", ms);
	control_number("pid", pid);
	control("gate", window);
}

void gate_open(void)
{
	control("gate", "open");
}

/* Wait until a task stands there; its name on success. */
int gate_wait(char *who, size_t size)
{
	double end = now() + GATE_MS / 1e3;
	int err;

	/* Each attempt lasts until the gate would open by itself. */
	do {
		err = file_read(TEST_DIR "/gate", who, size);
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

void move_all(struct scene *s, int to)
{
	move_each(s, s->r.folio, to);
}

/*
 * Amid a shared copy: it is left to chance whether a helper or the mover gets there,
 * and the task that stands there keeps its CPU, on which others may have to wait.
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

void *mover_main(void *arg)
{
	struct scene *s = arg;

	if (s->on_first)
		cpu_pin(0, 0);
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

bool wait_true(atomic_bool *what, unsigned int ms)
{
	double end = now() + ms / 1e3;

	while (!*what && now() < end)
		usleep(1000);
	return *what;
}

/* How long what is done may take once the migration goes on. */
unsigned int after_ms(const struct scene *s)
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

void join(pthread_t thread, const char *who)
{
	join_within(thread, AFTER_MS, who);
}

/* What was written in the window, and what was there before. */
void check_content(struct scene *s)
{
	size_t old = s->gone + s->written;

	right(!pattern_bad(s->r.map + s->gone, s->written, OTHER_SEED(s), 0, 0),
	      "what was written during it is lost");
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

void mover_fork(struct scene *s)
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

void scene_make(struct scene *s, const struct kind *kind)
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
 * @chunks: what DMA has copied
 * @trouble: chunks that DMA has not
 */
struct counts {
	uint64_t timeouts, jobs, chunks, trouble;
};

static struct counts counts_now(const struct scene *s)
{
	struct counts c = { .timeouts = window_count("gate_timeouts") };

	if (BIT(s->window) & W_DMA) {
		c.jobs = window_count("engine_jobs");
		c.chunks = window_count("engine_chunks");
		c.trouble = stat_read("engine_failed") + stat_read("engine_late") +
			    stat_read("engine_lost");
	}
	return c;
}

static void window_close(const struct scene *s)
{
	unsigned int ms = s->act->too_long ? STAND_MS : GATE_MS;

	if (BIT(s->window) & W_DMA) {
		engine_alone(true);
		dma_close(ms);
	} else {
		gate_close(window_names[s->window], s->mover ?: getpid(), ms);
	}
}

static void window_wait(struct scene *s, const struct counts *before)
{
	int err;

	if (BIT(s->window) & W_DMA) {
		snprintf(s->where, sizeof(s->where), "dma 0 " DMA_CPU);
		err = dma_wait(before->chunks);
		/* Somebody else's memory may move, too. */
		s->unlucky = window_count("engine_jobs") != before->jobs + 1;
	} else {
		err = gate_wait(s->where, sizeof(s->where));
	}
	require(!err, "nobody comes to the window: %s", strerror(-err));
}

static void window_open(const struct scene *s, const struct counts *before)
{
	if (BIT(s->window) & W_DMA) {
		require(s->act->too_long || s->unlucky ||
			window_count("engine_chunks") == before->chunks + 1,
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
	require(after.chunks > before->chunks + 1,
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

/* So many of those that follow. */
void copies_fail(int times)
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

void test_scene(const void *arg)
{
	int try;

	for (try = 0; try < SCENE_TRIES; try++) {
		if (scene_passes(arg))
			return;
	}
	die("chance has taken from it what it is about, %d times", SCENE_TRIES);
}
