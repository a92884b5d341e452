// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modes, evidence, nodes, physical addresses and patterns.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "migrate_test.h"

#define STAT_PREFIX	"migrate_copy_"
#define LARGER_BATCH_PAGES	4096

/* Why the running test is skipped; shared with its process. */
static char *skip_reason;

static void __noreturn __printf(2, 0) end_test(int status, const char *fmt,
					       va_list args)
{
	vsnprintf(skip_reason, PAGE, fmt, args);
	/* A thread whose write is stuck could not end. */
	thaw_all();
	if (status != KSFT_SKIP)
		ksft_print_msg("%s\n", skip_reason);
	_exit(status);
}

/* Fail the running test. */
void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	end_test(KSFT_FAIL, fmt, args);
}

/* Skip the running test: this machine or kernel lacks what it needs. */
void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	end_test(KSFT_SKIP, fmt, args);
}

/* Fail the running test if something does not hold. */
void require(bool ok, const char *fmt, ...)
{
	va_list args;

	if (ok)
		return;
	va_start(args, fmt);
	end_test(KSFT_FAIL, fmt, args);
}

/* Wait for a process, but not for ever. Returns its status, or -1. */
static int wait_for(pid_t pid, unsigned int seconds)
{
	struct timespec timeout = { .tv_sec = seconds };
	sigset_t chld;
	int status;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	while (!waitpid(pid, &status, WNOHANG)) {
		if (sigtimedwait(&chld, NULL, &timeout) < 0 && errno == EAGAIN)
			return -1;
	}
	return status;
}

/* The counts of kselftest.h are those of this file alone. */
void tests_start(unsigned int planned)
{
	skip_reason = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ksft_print_header();
	test_environment();
	ksft_set_plan(planned);
}

void test_result(bool ok, const char *name)
{
	ksft_test_result(ok, "%s\n", name);
}

void test_skipped(const char *name, const char *why)
{
	ksft_test_result_code(KSFT_SKIP, name, "%s", why);
}

enum leaks leaks_find(void)
{
	static const char * const file = "/sys/kernel/debug/kmemleak";
	static char text[4096];

	if (!file_exists(file))
		return LEAKS_UNKNOWN;
	if (file_write(file, "scan")) {
		ksft_print_msg("kmemleak is off\n");
		return LEAKS_FOUND;
	}
	/* What was just freed may look like a leak the first time. */
	sleep(6);
	file_write(file, "scan");
	if (file_read(file, text, sizeof(text)))
		snprintf(text, sizeof(text), "cannot read %s", file);
	if (!text[0])
		return LEAKS_NONE;
	ksft_print_msg("%s\n", text);
	return LEAKS_FOUND;
}

void test_leaks(enum leaks found)
{
	if (found == LEAKS_UNKNOWN)
		test_skipped("nothing leaks", "this kernel has no kmemleak");
	else
		test_result(found == LEAKS_NONE, "nothing leaks");
}

void tests_end(void)
{
	ksft_finished();
}

void test_run(const char *name, unsigned int seconds, test_fn fn,
	      const void *arg)
{
	struct timespec start, end;
	sigset_t chld;
	int status;
	pid_t pid;

	clock_gettime(CLOCK_MONOTONIC, &start);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	pid = fork();
	if (pid < 0)
		ksft_exit_fail_msg("cannot fork: %s\n", strerror(errno));
	if (!pid) {
		setpgid(0, 0);
		sigprocmask(SIG_UNBLOCK, &chld, NULL);
		fn(arg);
		_exit(KSFT_PASS);
	}
	status = wait_for(pid, seconds);
	/* A process in uninterruptible sleep may need to be let go first. */
	thaw_all();
	kill(-pid, SIGKILL);
	if (status < 0) {
		ksft_print_msg("not finished after %u seconds\n", seconds);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	} else if (WIFSIGNALED(status)) {
		ksft_print_msg("killed by signal %d\n", WTERMSIG(status));
	}

	clock_gettime(CLOCK_MONOTONIC, &end);
	ksft_print_msg("%ld ms\n", (end.tv_sec - start.tv_sec) * 1000 +
		       (end.tv_nsec - start.tv_nsec) / 1000000);
	if (status >= 0 && WIFEXITED(status) && !WEXITSTATUS(status))
		ksft_test_result_pass("%s\n", name);
	else if (status >= 0 && WIFEXITED(status) &&
		 WEXITSTATUS(status) == KSFT_SKIP)
		ksft_test_result_code(KSFT_SKIP, name, "%s", skip_reason);
	else
		ksft_test_result_fail("%s\n", name);
}

int file_write(const char *path, const char *text)
{
	size_t len = strlen(text);
	ssize_t done;
	int err;
	int fd;

	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	done = write(fd, text, len);
	err = done == (ssize_t)len ? 0 : done < 0 ? -errno : -EIO;
	close(fd);
	return err;
}

int file_write_number(const char *path, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return file_write(path, text);
}

void cpu_pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	require(!sched_setaffinity(pid, sizeof(set), &set), "cannot run on %d",
		cpu);
}

int cpu_set_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	return file_write(path, online ? "1" : "0");
}

int suspend_tasks(unsigned int timeout_ms)
{
	int err;

	err = file_write("/sys/power/pm_test", "freezer");
	if (err)
		return err;
	file_write("/sys/module/suspend/parameters/pm_test_delay", "0");
	/* What has to be written may have to wait for a migration. */
	file_write("/sys/power/sync_on_suspend", "0");
	file_write_number("/sys/power/pm_freeze_timeout", timeout_ms);
	return file_write("/sys/power/state", "freeze");
}

int file_read(const char *path, char *buf, size_t size)
{
	ssize_t done;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	done = read(fd, buf, size - 1);
	close(fd);
	if (done < 0)
		return -errno;
	buf[done] = '\0';
	return 0;
}

int file_read_number(const char *path, uint64_t *value)
{
	char text[64];
	char *end;
	int err;

	err = file_read(path, text, sizeof(text));
	if (err)
		return err;
	*value = strtoull(text, &end, 10);
	return end == text ? -EINVAL : 0;
}

uint64_t file_count(const char *path, const char *name)
{
	char text[16384], *at;

	require(!file_read(path, text, sizeof(text)), "cannot read %s", path);
	for (at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, name, strlen(name)) && at[strlen(name)] == ' ')
			return strtoull(at + strlen(name), NULL, 10);
	}
	die("no %s in %s", name, path);
}

void trace_clear(void)
{
	int fd = open(TRACING "/trace", O_WRONLY | O_TRUNC);

	require(fd >= 0, "cannot clear the trace");
	close(fd);
}

uint64_t free_pages(void)
{
	unsigned long long count;
	uint64_t free;
	char line[256];
	FILE *zones;

	/* What the CPUs and the page cache hold back would look like a leak. */
	file_write("/proc/sys/vm/drop_caches", "3");
	file_write("/proc/sys/vm/stat_refresh", "1");
	free = file_count("/proc/vmstat", "nr_free_pages");
	zones = fopen("/proc/zoneinfo", "r");
	require(zones, "cannot read /proc/zoneinfo");
	while (fgets(line, sizeof(line), zones)) {
		if (sscanf(line, " count: %llu", &count) == 1)
			free += count;
	}
	fclose(zones);
	return free;
}

uint64_t node_free(int node)
{
	char path[64], name[32];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo",
		 node);
	snprintf(name, sizeof(name), "Node %d MemFree:", node);
	return file_count(path, name) * KB;
}

char *node_map_free(int node, size_t *size)
{
	char *map;

	*size = node_free(node);
	map = mmap(NULL, *size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	require(map != MAP_FAILED, "cannot map: %s", strerror(errno));
	require(!sys_mbind(map, *size, MPOL_BIND, node, 0), "cannot bind");
	madvise(map, *size, MADV_NOHUGEPAGE);
	return map;
}

bool file_exists(const char *path)
{
	return !access(path, F_OK);
}

const char *dcbm_path, *mtcopy_path, *softdma_path;

bool module_option(int option, const char *path)
{
	switch (option) {
	case 'd':
		dcbm_path = path;
		return true;
	case 'm':
		mtcopy_path = path;
		return true;
	case 'f':
		softdma_path = path;
		return true;
	default:
		return false;
	}
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static uint64_t random_state;

void random_start(uint64_t seed, uint64_t id)
{
	random_state = (seed * 1000003 + id) * 0x9e3779b97f4a7c15ULL | 1;
}

/* xorshift64* */
uint64_t rnd(uint64_t below)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 0x2545f4914f6cdd1dULL >> 16) % below;
}

int module_load(const char *path, const char *params)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long err;

	if (fd < 0)
		return -1;
	err = syscall(SYS_finit_module, fd, params, 0);
	close(fd);
	return err;
}

int module_unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK);
}

void engine_knob(const char *engine, const char *knob, uint64_t value)
{
	char path[128];

	snprintf(path, sizeof(path), ENGINES_DIR "/%s/%s", engine, knob);
	/* What only this engine has is a parameter of its module. */
	if (!file_exists(path))
		snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", engine,
			 knob);
	require(!file_write_number(path, value), "cannot write %llu to %s",
		(unsigned long long)value, path);
}

void engine_alone(bool alone)
{
	require(!file_write_number(MT_PAGE_COPY, !alone), "cannot write %s", MT_PAGE_COPY);
}

uint64_t engine_quarantined(void)
{
	uint64_t stopped = stat_read("engine_stopped");

	/* The later one first: it may change in between. */
	return stat_read("engine_lost") - stopped;
}

unsigned int dcbm_channels(void)
{
	char text[8192], *at = text;
	unsigned int nr = 0;

	require(!file_read(ENGINES_DIR "/dcbm/status", text, sizeof(text)),
		"no status of dcbm");
	for (; (at = strstr(at, ": ready,")); at++)
		nr++;
	return nr;
}

static bool knob(const char *name, uint64_t value)
{
	char path[128];
	uint64_t seen;

	snprintf(path, sizeof(path), KNOB_DIR "/%s", name);
	return !file_write_number(path, value) &&
	       !file_read_number(path, &seen) && seen == value;
}

void constant(const char *name, uint64_t value)
{
	char path[128];

	snprintf(path, sizeof(path), TEST_DIR "/%s", name);
	require(!file_exists(path) || !file_write_number(path, value),
		"cannot write %llu to %s", (unsigned long long)value, path);
}

/* Not every architecture has copies that bypass the caches. */
static bool knob_non_temporal(bool always)
{
	int err = file_write(KNOB_DIR "/non_temporal",
			     always ? "always" : "never");

	return !err || (always && err == -EINVAL && !HAS_NON_TEMPORAL);
}

const char * const mode_names[NR_MODES] = {
	[MODE_PLAIN]	= "plain",
	[MODE_OFF]	= "off",
	[MODE_BATCH]	= "batch",
	[MODE_THREADS]	= "threads",
	[MODE_PARALLEL]	= "parallel",
};

unsigned int modes_wanted(int nr, char **names)
{
	unsigned int modes = 0, bit;
	int i, mode;

	for (i = 0; i < nr; i++) {
		for (mode = 0, bit = 0; mode < NR_MODES; mode++) {
			if (!strcmp(names[i], mode_names[mode]))
				bit = 1U << mode;
		}
		if (!bit)
			ksft_exit_fail_msg("unknown mode %s\n", names[i]);
		modes |= bit;
	}
	if (modes)
		return modes;
	if (!file_exists(KNOB_DIR))
		return 1U << MODE_PLAIN;
	return 1U << MODE_OFF | 1U << MODE_BATCH | 1U << MODE_THREADS |
	       1U << MODE_PARALLEL;
}

void mode_enter(enum copy_mode mode)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool ours = file_exists(KNOB_DIR);
	bool helpers = mode == MODE_THREADS || mode == MODE_PARALLEL;

	require(ours == (mode != MODE_PLAIN), "this kernel has %s migrate_copy",
		ours ? "a" : "no");
	if (mode == MODE_PLAIN)
		return;
	if (helpers && cpus < 2)
		skip("one CPU only, nobody to help");
	if (mode == MODE_THREADS && !file_exists(TEST_DIR "/parallel_batches"))
		skip("needs CONFIG_MIGRATE_COPY_JUDGE");

	require(knob("enabled", mode != MODE_OFF) &&
		knob("max_helpers", helpers ? cpus - 1 : 0) &&
		/* 1: for batches of any size. */
		!file_write_number(MT_PAGE_COPY, mode == MODE_OFF ? 2 : 1) &&
		knob_non_temporal(mode == MODE_THREADS),
		"cannot set the knobs in " KNOB_DIR " or " MT_PAGE_COPY);
	constant("parallel_batches", mode == MODE_PARALLEL);
	constant("chunk_kb", PAGE / KB);
	constant("batch_pages", mode == MODE_THREADS ? LARGER_BATCH_PAGES : BATCH_PAGES);
}

/* Sum those of our counters in /proc/vmstat that have this name; NULL: all. */
static uint64_t stat_sum(const char *wanted)
{
	const size_t length = strlen(STAT_PREFIX);
	FILE *file = fopen("/proc/vmstat", "r");
	unsigned long long value, sum = 0;
	bool found = false;
	char name[64];

	if (!file)
		die("cannot read /proc/vmstat");
	while (fscanf(file, "%63s %llu", name, &value) == 2) {
		if (strncmp(name, STAT_PREFIX, length) ||
		    (wanted && strcmp(name + length, wanted)))
			continue;
		found = true;
		sum += value;
	}
	fclose(file);
	if (!found)
		die("there is no %s%s in /proc/vmstat", STAT_PREFIX,
		    wanted ?: "");
	return sum;
}

uint64_t stat_read(const char *name)
{
	return stat_sum(name);
}

void evidence_start(struct evidence *ev, enum copy_mode mode)
{
	memset(ev, 0, sizeof(*ev));
	ev->mode = mode;
	if (mode == MODE_PLAIN)
		return;
	ev->folios_before = stat_read("folios_copied");
	ev->caller_before = stat_read("bytes_caller");
	ev->helpers_before = stat_read("bytes_helpers");
	ev->fallback_before = stat_read("fallback");
	ev->sum_before = stat_sum(NULL);
}

/* Has a helper copied anything? True in modes that have no helpers. */
bool evidence_helpers(const struct evidence *ev)
{
	return ev->mode != MODE_THREADS ||
	       stat_read("bytes_helpers") > ev->helpers_before;
}

/* Have so many folios been copied in batches? True in modes that do not count. */
bool evidence_folios(const struct evidence *ev, size_t folios)
{
	return ev->mode == MODE_PLAIN || ev->mode == MODE_OFF ||
	       stat_read("folios_copied") >= ev->folios_before + folios;
}

/* Was a folio left out of a batch? True in modes that do not count. */
bool evidence_fallback(const struct evidence *ev)
{
	return ev->mode == MODE_PLAIN || ev->mode == MODE_OFF ||
	       stat_read("fallback") > ev->fallback_before;
}

/* Has nothing at all been copied? True on a kernel that does not count. */
bool evidence_untouched(const struct evidence *ev)
{
	return ev->mode == MODE_PLAIN ||
	       (stat_read("folios_copied") == ev->folios_before &&
		stat_read("bytes_caller") == ev->caller_before &&
		stat_read("bytes_helpers") == ev->helpers_before);
}

/* A part of what was moved may have taken another way for a passing reason. */
static size_t most_of(size_t n)
{
	return n - n / 4;
}

/*
 * Was the mode really in use for this many folios of this size? Says what is
 * missing if not.
 */
bool evidence_check(const struct evidence *ev, size_t folios, size_t folio,
		    bool batched)
{
	uint64_t copied, helpers, bytes, fallback;

	if (ev->mode == MODE_PLAIN)
		return true;

	copied = stat_read("folios_copied") - ev->folios_before;
	helpers = stat_read("bytes_helpers") - ev->helpers_before;
	bytes = stat_read("bytes_caller") - ev->caller_before + helpers;
	fallback = stat_read("fallback") - ev->fallback_before;

	if (ev->mode == MODE_OFF) {
		if (stat_sum(NULL) == ev->sum_before)
			return true;
		ksft_print_msg("off, but the statistics changed\n");
		return false;
	}
	if (ev->mode == MODE_BATCH && helpers) {
		ksft_print_msg("no helpers allowed, but they copied %llu bytes\n",
			       (unsigned long long)helpers);
		return false;
	}
	if (!batched) {
		if (fallback >= most_of(folios))
			return true;
		ksft_print_msg("%llu of %zu folios seen as not to be batched\n",
			       (unsigned long long)fallback, folios);
		return false;
	}
	if (copied < most_of(folios) ||
	    bytes < most_of(folios) * folio) {
		ksft_print_msg("%llu folios, %llu bytes copied in batches, %zu folios moved\n",
			       (unsigned long long)copied,
			       (unsigned long long)bytes, folios);
		return false;
	}
	if (ev->mode == MODE_THREADS && !helpers) {
		ksft_print_msg("no helper copied anything\n");
		return false;
	}
	return true;
}

int sys_move_pages(int pid, unsigned long nr, void **pages, const int *nodes,
		   int *status, int flags)
{
	return syscall(SYS_move_pages, pid, nr, pages, nodes, status, flags);
}

long move_range_stored(void *addr, size_t size, int node, int flags,
		       size_t *stored)
{
	size_t nr = size / PAGE, i;
	int *nodes = calloc(nr, sizeof(*nodes));
	int *status = calloc(nr, sizeof(*status));
	void **pages = calloc(nr, sizeof(*pages));
	long ret;

	require(nodes && status && pages, "out of memory");
	for (i = 0; i < nr; i++) {
		pages[i] = (char *)addr + i * PAGE;
		nodes[i] = node;
		status[i] = NO_STATUS;
	}
	ret = sys_move_pages(0, nr, pages, nodes, status, flags);
	ret = ret < 0 ? -errno : ret;
	for (i = 0, *stored = 0; i < nr; i++)
		*stored += status[i] != NO_STATUS;
	free(nodes);
	free(status);
	free(pages);
	return ret;
}

long move_range(void *addr, size_t size, int node, int flags)
{
	size_t stored;

	return move_range_stored(addr, size, node, flags, &stored);
}

int sys_mbind(const void *addr, unsigned long size, int mode, int node,
	      unsigned int flags)
{
	unsigned long mask = 1UL << node;

	return syscall(SYS_mbind, addr, size, mode, &mask, 8 * sizeof(mask),
		       flags);
}

int sys_migrate_pages(int pid, int from, int to)
{
	unsigned long old = 1UL << from;
	unsigned long new = 1UL << to;

	return syscall(SYS_migrate_pages, pid, 8 * sizeof(old), &old, &new);
}

int node_bind(int node)
{
	unsigned long mask = 1UL << node;

	return syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof(mask));
}

int node_unbind(void)
{
	return syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

/* Base pages in a block of memory; 0 where there are no blocks. */
uint64_t block_pages(void)
{
	char text[32];

	if (file_read("/sys/devices/system/memory/block_size_bytes", text,
		      sizeof(text)))
		return 0;
	return strtoull(text, NULL, 16) / PAGE;
}

/* Only such a one can go offline. */
bool block_is_movable(uint64_t block)
{
	char path[128], zone[64];

	snprintf(path, sizeof(path),
		 "/sys/devices/system/memory/memory%llu/valid_zones",
		 (unsigned long long)block);
	return !file_read(path, zone, sizeof(zone)) &&
	       !strncmp(zone, "Movable", 7);
}

static bool node_has_movable_block(int node)
{
	unsigned long long block;
	char path[320];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		found = sscanf(entry->d_name, "memory%llu", &block) == 1 &&
			block_is_movable(block);
	}
	closedir(dir);
	return found;
}

/* Two nodes with memory, the first one with memory that can go offline. */
void nodes_find(int *from, int *to)
{
	int first = -1, second = -1, movable = -1;
	char text[64];
	int node;

	for (node = 0; node < 64; node++) {
		snprintf(text, sizeof(text), "/sys/devices/system/node/node%d",
			 node);
		if (!file_exists(text))
			continue;
		/* A node without memory cannot be bound to. */
		if (node_bind(node))
			continue;
		if (first < 0)
			first = node;
		else if (second < 0)
			second = node;
		if (movable < 0 && node_has_movable_block(node))
			movable = node;
	}
	node_unbind();
	if (second < 0)
		skip("needs two nodes with memory");
	*from = movable < 0 ? second : movable;
	*to = *from == first ? second : first;
}

bool tiers_find(int *fast, int *slow)
{
	char path[80], cpus[80];
	int node;

	*fast = -1;
	*slow = -1;
	for (node = 0; node < 64; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		if (file_read(path, cpus, sizeof(cpus)))
			continue;
		if (cpus[0] > ' ' && *fast < 0)
			*fast = node;
		else if (cpus[0] <= ' ')
			*slow = node;
	}
	return *fast >= 0 && *slow >= 0;
}

#define DAMON_CONTEXT	DAMON_DIR "/0/contexts/0"
#define DAMON_SCHEME	DAMON_CONTEXT "/schemes/0"

/* While kdamond looks whether it is told something, it cannot be told. */
#define DAMON_BUSY_S	5

static int damon_tell(const char *state)
{
	double end = now() + DAMON_BUSY_S;
	int err;

	for (;;) {
		err = file_write(DAMON_DIR "/0/state", state);
		if (err != -EBUSY || now() > end)
			return err;
		usleep(1000);
	}
}

int damon_start(uint64_t start, uint64_t end, int node)
{
	/* Looks often, and takes everything, whether it is used or not. */
	const struct {
		const char *file;
		uint64_t value;
	} numbers[] = {
		{ DAMON_CONTEXT "/monitoring_attrs/intervals/sample_us", 1000 },
		{ DAMON_CONTEXT "/monitoring_attrs/intervals/aggr_us", 5000 },
		{ DAMON_CONTEXT "/monitoring_attrs/intervals/update_us", 100000 },
		{ DAMON_CONTEXT "/monitoring_attrs/nr_regions/min", 3 },
		{ DAMON_CONTEXT "/monitoring_attrs/nr_regions/max", 10 },
		{ DAMON_CONTEXT "/targets/nr_targets", 1 },
		{ DAMON_CONTEXT "/targets/0/regions/nr_regions", 1 },
		{ DAMON_CONTEXT "/targets/0/regions/0/start", start },
		{ DAMON_CONTEXT "/targets/0/regions/0/end", end },
		{ DAMON_CONTEXT "/schemes/nr_schemes", 1 },
		{ DAMON_SCHEME "/target_nid", node },
		{ DAMON_SCHEME "/access_pattern/sz/max", UINT64_MAX },
		{ DAMON_SCHEME "/access_pattern/nr_accesses/max", UINT32_MAX },
		{ DAMON_SCHEME "/access_pattern/age/max", UINT32_MAX },
	};
	int err;
	size_t i;

	err = file_write(DAMON_DIR "/nr_kdamonds", "1") ?:
	      file_write(DAMON_DIR "/0/contexts/nr_contexts", "1") ?:
	      file_write(DAMON_CONTEXT "/operations", "paddr");
	for (i = 0; !err && i < ARRAY_SIZE(numbers); i++)
		err = file_write_number(numbers[i].file, numbers[i].value);
	return err ?: file_write(DAMON_SCHEME "/action", "migrate_cold") ?:
		      damon_tell("on");
}

uint64_t damon_stop(void)
{
	uint64_t applied = 0;

	/* An error of the first is no loss of more than a count. */
	damon_tell("update_schemes_stats");
	damon_tell("off");
	file_read_number(DAMON_SCHEME "/stats/nr_applied", &applied);
	file_write(DAMON_DIR "/nr_kdamonds", "0");
	return applied;
}

int page_node(void *addr)
{
	int status = -1;

	if (sys_move_pages(0, 1, &addr, NULL, &status, 0))
		return -errno;
	return status;
}

#define QUERY	1024

size_t pages_elsewhere(const void *addr, size_t size, size_t step, int node)
{
	size_t offset = 0, bad = 0, n, i;
	void *pages[QUERY];
	int status[QUERY];

	while (offset < size) {
		for (n = 0; n < QUERY && offset < size; n++, offset += step)
			pages[n] = (char *)addr + offset;
		if (sys_move_pages(0, n, pages, NULL, status, 0)) {
			ksft_print_msg("move_pages cannot tell nodes: %s\n",
				       strerror(errno));
			return size / step;
		}
		for (i = 0; i < n; i++) {
			if (status[i] == node)
				continue;
			if (!bad++)
				ksft_print_msg("page at +%zu: node or error %d, not %d\n",
					       (char *)pages[i] - (char *)addr,
					       status[i], node);
		}
	}
	return bad;
}

/* A file with a 64-bit number for each page, kept open by one process. */
struct page_file {
	const char *path;
	pid_t owner;
	int fd;
};

/* Numbers from such a file; 0 behind its end. */
static void numbers_at(struct page_file *file, uint64_t index,
		       uint64_t *values, size_t n)
{
	ssize_t done = -1;

	/* An open pagemap is that of the process that opened it. */
	if (file->owner != getpid()) {
		file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
		file->owner = getpid();
	}
	memset(values, 0, n * sizeof(*values));
	if (file->fd >= 0)
		done = pread(file->fd, values, n * sizeof(*values),
			     index * sizeof(*values));
	if (done < 0)
		die("cannot read %s: %s", file->path, strerror(errno));
}

static struct page_file pagemap = { .path = "/proc/self/pagemap" };
static struct page_file kpageflags = { .path = "/proc/kpageflags" };

#define PAGEMAP_PRESENT	0x8000000000000000ULL
#define PAGEMAP_PFN	0x007fffffffffffffULL

/* 0 where nothing is mapped. */
uint64_t page_pfn(const void *addr)
{
	uint64_t entry;

	numbers_at(&pagemap, (uintptr_t)addr / PAGE, &entry, 1);
	return entry & PAGEMAP_PRESENT ? entry & PAGEMAP_PFN : 0;
}

void pfn_flags_of(uint64_t pfn, uint64_t *flags, size_t n)
{
	numbers_at(&kpageflags, pfn, flags, n);
}

uint64_t pfn_flags(uint64_t pfn)
{
	uint64_t flags;

	pfn_flags_of(pfn, &flags, 1);
	return flags;
}

#define TAILS	512

size_t folio_size_at(const void *addr)
{
	uint64_t pfn = page_pfn(addr);
	uint64_t flags[TAILS];
	size_t pages, i;

	if (!pfn || pfn_flags(pfn) & KPF_COMPOUND_TAIL)
		return 0;
	if (!(pfn_flags(pfn) & KPF_COMPOUND_HEAD))
		return PAGE;
	for (pages = 1; pages < GB / PAGE; ) {
		size_t n = pages == 1 ? TAILS - 1 : TAILS;

		numbers_at(&kpageflags, pfn + pages, flags, n);
		for (i = 0; i < n; i++, pages++) {
			if (!(flags[i] & KPF_COMPOUND_TAIL))
				return pages * PAGE;
		}
	}
	return pages * PAGE;
}

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t x = (seed + index) * 0x9e3779b97f4a7c15ULL;

	return x ^ (x >> 29);
}

void pattern_fill(void *addr, size_t size, uint64_t seed, size_t offset,
		  size_t period)
{
	uint64_t index = offset / sizeof(uint64_t);
	uint64_t words = period / sizeof(uint64_t);
	uint64_t *word = addr;
	size_t i;

	for (i = 0; i < size / sizeof(uint64_t); i++, index++)
		word[i] = pattern_word(seed, words ? index % words : index);
}

char *node_memory(int node, size_t size, uint64_t seed)
{
	const size_t all = size + 4 * MB;
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(p != MAP_FAILED, "cannot map %zu bytes", size);
	madvise(p, all, MADV_HUGEPAGE);
	p = (char *)(((uintptr_t)p + 2 * MB - 1) & ~(2 * MB - 1));
	require(!node_bind(node), "cannot bind to node %d", node);
	pattern_fill(p, size, seed, 0, 0);
	require(!node_unbind(), "cannot unbind");
	return p;
}

/* Number of words that are not what pattern_fill() wrote. */
size_t pattern_bad(const void *addr, size_t size, uint64_t seed, size_t offset,
		   size_t period)
{
	uint64_t index = offset / sizeof(uint64_t);
	uint64_t words = period / sizeof(uint64_t);
	const uint64_t *word = addr;
	size_t i, bad = 0;

	for (i = 0; i < size / sizeof(uint64_t); i++, index++) {
		uint64_t want = pattern_word(seed,
					     words ? index % words : index);

		if (word[i] == want)
			continue;
		if (!bad++)
			ksft_print_msg("byte %zu: %016llx, not %016llx\n",
				       offset + i * sizeof(uint64_t),
				       (unsigned long long)word[i],
				       (unsigned long long)want);
	}
	return bad;
}
