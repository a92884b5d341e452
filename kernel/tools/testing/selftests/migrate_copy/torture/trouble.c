// SPDX-License-Identifier: GPL-2.0-only
/*
 * What gets in the way: faults, engines, CPUs and memory that go, and other users.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "torture.h"

#define KSM_DIR		"/sys/kernel/mm/ksm"
#define PINS		16
/* What DAMON has to move at once, and how many of these, with a hole, there are. */
#define DAMON_PART	(512 * MB)
#define DAMON_PARTS	8

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
	{ FAULT_COPY, TEST_DIR "/fail_copy", 1 },
	{ FAULT_DMA_TRANSFER, SOFTDMA_DIR "/fail_transfer", 5 },
	{ FAULT_DMA_DELAY, SOFTDMA_DIR "/fail_delay", 1 },
	{ FAULT_DMA_DUPLICATE, SOFTDMA_DIR "/fail_duplicate", 5 },
	{ FAULT_DMA_PREP, SOFTDMA_DIR "/fail_prep", 5 },
	{ FAULT_DMA_SUBMIT, SOFTDMA_DIR "/fail_submit", 5 },
	{ FAULT_DMA_DEVICE, SOFTDMA_DIR "/fail_device", 1 },
};

#define TIMES		1000000000UL
#define NO_NAMES	"\n"

static void random_knob(void)
{
	static const char * const knobs[][5] = {
		{ KNOB_DIR "/enabled", "0", "1", "1", "1" },
		{ KNOB_DIR "/max_helpers", "0", "1", "3", "3" },
		{ KNOB_DIR "/placement", "spread", "fill", "spread", "fill" },
		{ KNOB_DIR "/priority", "normal", "high", "normal", "high" },
		{ TEST_DIR "/parallel_batches", "0", "1", "1", "1" },
		{ TEST_DIR "/chunk_kb", "4", "16", "128", "2048" },
		{ TEST_DIR "/batch_pages", "512", "1024", "4096", "32768" },
		{ KNOB_DIR "/reasons", "all", "none", "demotion damon", "all" },
		{ KNOB_DIR "/non_temporal", "never", "far", "always", "demotion" },
		{ MT_PAGE_COPY, "0", "1", "2", "1" },
		{ DCBM_PARAM_DIR "/nr_dma_chan", "0", "1", "4", "4" },
		{ DCBM_PARAM_DIR "/devices", "any", "any", "softdma", "softdma.0" },
	};
	static const char * const engine_knobs[][5] = {
		{ "/offloading", "0", "1", "1", "1" },
		{ "/reasons", "all", "none", "demotion", "all" },
		{ "/threads", "0", "1", "2", "2" },
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

void injections_all(bool on)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(injections); i++) {
		injection_count(i);
		injection_set(i, on ? injections[i].percent : 0);
	}
	file_write(TEST_DIR "/stretch", on ?
		   "isolated unmapped flushed checked copying helping copied switching remapping" :
		   NO_NAMES);
	file_write(TEST_DIR "/stretch_us", on ? "300" : "0");
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
void engines_load(void)
{
	if (softdma_path)
		module_load(softdma_path, "channels=4 seg_kb=64 coalesce=1");
	if (dcbm_path)
		module_load(dcbm_path, "");
	if (mtcopy_path)
		module_load(mtcopy_path, "");
	file_write(DCBM_PARAM_DIR "/nr_dma_chan", "4");
	file_write(ENGINES_DIR "/dcbm/timeout_ms", "40");
	file_write(ENGINES_DIR "/dcbm/offloading", "1");
	file_write(ENGINES_DIR "/mtcopy/threads", "2");
	file_write(ENGINES_DIR "/mtcopy/offloading", "1");
	file_write("/sys/module/softdma/parameters/delay_ms", "100");
}

/* At first nothing keeps a module from being loaded, if it is there to be. */
void engines_loaded(void)
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

void engines_unload(bool all)
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
	file_write(DCBM_PARAM_DIR "/nr_dma_chan", "4");
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

/* Somebody else moves the memory of a worker, and is killed during that. */
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

/* What others read from pages of a slot, which nobody writes to at that time. */
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

static_assert(ARRAY_SIZE(troubles) == NR_TROUBLES, "a process for each");

void __noreturn trouble_main(unsigned int id)
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

/* A minute may go by without most of the kinds of trouble. */
#define KINDS_SHORT	3

/*
 * What this kernel, this machine and these modules have to offer: NULL is for
 * what every Linux has. What the kernel injects has a directory for it.
 */
static bool available[NR_FAULTS];

void find_available(void)
{
	static const char * const needs[NR_FAULTS] = {
		[FAULT_STRETCH]		= TEST_DIR "/stretch",
		[FAULT_CPU_OFFLINE]	= "/sys/devices/system/cpu/cpu1/online",
		[FAULT_MEMORY_OFFLINE]	= "/sys/devices/system/memory",
		[FAULT_ENGINE_UNLOAD]	= "/sys/module/dcbm",
		[FAULT_KNOB]		= KNOB_DIR,
		[FAULT_SUSPEND]		= "/sys/power/pm_test",
		[FAULT_COMPACT]		= "/proc/sys/vm/compact_memory",
		[FAULT_SOFT_OFFLINE]	= "/sys/devices/system/memory/soft_offline_page",
		[FAULT_KSM]		= KSM_DIR,
		[FAULT_BALANCING]	= "/proc/sys/kernel/numa_balancing",
		[FAULT_DAMON]		= DAMON_DIR,
	};
	size_t i;

	for (i = 0; i < NR_FAULTS; i++)
		available[i] = !needs[i] || file_exists(needs[i]);
	available[FAULT_OOM] = file_exists(cgroup_file("oom", "memory.max"));
	available[FAULT_FREEZE] = file_exists(cgroup_file("workers", "cgroup.freeze"));
	available[FAULT_RECLAIM] = file_exists(cgroup_file("workers", "memory.reclaim"));
	available[FAULT_LIMIT] = file_exists(cgroup_file("workers", "memory.high"));
	for (i = 0; i < ARRAY_SIZE(injections); i++)
		available[injections[i].fault] = file_exists(injections[i].dir);
}

/*
 * Did enough go wrong? In a long run each kind that there is must have come. Says
 * which have not.
 */
bool disturbed(void)
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
