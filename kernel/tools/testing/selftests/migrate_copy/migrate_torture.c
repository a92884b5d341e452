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
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "torture/torture.h"

#define BALANCING_DIR	"/sys/kernel/debug/sched/numa_balancing"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define STACK_DEPOT	"/sys/kernel/debug/stackdepot/stats"
/* For the last operations to end, on an emulated debug kernel. */
#define STUCK_S		120
/*
 * Pages that the kernel may take for itself at any time, for buffers, the entries
 * of dma-debug and the like. A page that is lost now and then is more in
 * thousands of moves.
 */
#define KEPT		(2 * MB / PAGE)
/* What stress-ng says. */
#define HOGS_SAID	"/tmp/migrate_torture.hogs"

/* Its last word before it works: by then it has read what the CPUs' caches are. */
#define HOGS_BEGUN	"vm: using method"
/* So many seconds it has for that. */
#define HOGS_BEGIN_S	120
/* So many seconds stress-ng runs, and so many it is stopped. */
#define HOG_S		10

const char * const fault_names[NR_FAULTS] = {
	[FAULT_SLAB]		= "failslab",
	[FAULT_PAGE_ALLOC]	= "fail_page_alloc",
	[FAULT_COPY]		= "fail_copy",
	[FAULT_STRETCH]		= "stretched_window",
	[FAULT_DMA_TRANSFER]	= "dma_fail_transfer",
	[FAULT_DMA_DELAY]	= "dma_fail_delay",
	[FAULT_DMA_DUPLICATE]	= "dma_fail_duplicate",
	[FAULT_DMA_PREP]	= "dma_fail_prep",
	[FAULT_DMA_SUBMIT]	= "dma_fail_submit",
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

static const char * const slot_names[NR_SLOT_KINDS] = {
	"base", "mthp", "thp", "ksm", "shmem", "tmpfs", "tmpfs_huge", "ext4",
	"xfs", "hugetlb",
};

struct shared *shared;

unsigned int seconds = 60;

unsigned int nr_workers = 6;

uint64_t seed = 1;

int nodes[MAX_NODES];

int nr_nodes;

int files[MAX_WORKERS][NR_SLOT_KINDS];

/* A file for O_DIRECT, and what is in it. */
int direct;

/* What stress-ng has said so far, or the end of it, or "". */
static void hogs_said(char *said, size_t size)
{
	FILE *file = fopen(HOGS_SAID, "r");
	size_t length = 0;

	if (file) {
		fseek(file, -(long)size + 1, SEEK_END);
		length = fread(said, 1, size - 1, file);
		fclose(file);
	}
	said[length] = '\0';
}

/*
 * What else a machine does; it does not end by itself, and tells what ended it.
 * It is waited for: when a CPU goes offline while stress-ng 0.15 reads what that
 * CPU's caches are, it takes the error for an index, overwrites a byte of a pointer
 * on its stack, and dies of that.
 */
static pid_t hogs_start(void)
{
	siginfo_t ended = { .si_pid = 0 };
	char said[4096];
	unsigned int i;
	pid_t pid;

	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		dup2(open(HOGS_SAID, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
		dup2(STDOUT_FILENO, STDERR_FILENO);
		setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
		execlp("stress-ng", "stress-ng", "--verbose", "--temp-path", "/tmp",
		       "--cpu", "1", "--vm", "1", "--vm-bytes", "32M", "--fork", "1",
		       "--timeout", "0", NULL);
		_exit(127);
	}
	for (i = 0; i < HOGS_BEGIN_S; i++) {
		hogs_said(said, sizeof(said));
		if (strstr(said, HOGS_BEGUN))
			break;
		/* Who waits for it then tells how. */
		if (!waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) &&
		    ended.si_pid)
			break;
		sleep(1);
	}
	if (i == HOGS_BEGIN_S)
		ksft_print_msg("stress-ng has not begun after %u s\n", i);
	return pid;
}

/* Has it ended? Then that is told, at once. */
static bool hogs_ended(pid_t hogs, unsigned int second)
{
	char said[4096], *line;
	int how = 0;

	if (!waitpid(hogs, &how, WNOHANG))
		return false;
	ksft_print_msg("stress-ng ended with %x after %u s\n", how, second);
	hogs_said(said, sizeof(said));
	for (line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
		ksft_print_msg("it said: %s\n", line);
	return true;
}

/*
 * Ends it and all that it has started, which are children of this process once
 * their parents are dead. Did it do something? A CPU that it has for a hundredth of
 * the time is less than it gets of four that are busy with thirty others.
 */
static bool hogs_stop(pid_t hogs)
{
	struct rusage usage;
	double used = 0;
	int how = 0;

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

	if (file_read(TEST_DIR "/counts", text, sizeof(text)))
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

/* What does a part of the work: without it, nothing is said of it. */
static struct part {
	const char *name;
	bool vm_event;		/* Not one of our statistics */
	const char *needs;	/* Where there is none of it without that */
	uint64_t count;
} parts[] = {
	{ "folios_copied" },
	{ "bytes_caller" },
	{ "bytes_helpers" },
	{ "pages_helpers" },
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
	pid_t pids[MAX_WORKERS + NR_TROUBLES], hogs;
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
	prepare();
	cgroup_make("workers", "+memory +cpu +cpuset");
	cgroup_make("oom", "+memory");
	cgroup_make("cpuset", "+cpuset");
	file_write(DEMOTION, "1");
	file_write("/proc/sys/kernel/numa_balancing", "1");
	/* As it is by default: here the kernel may move what it likes. */
	file_write(PROACTIVENESS, "20");
	/* What kills a process by a signal that leaves a core is told, with its registers. */
	file_write("/proc/sys/kernel/print-fatal-signals", "1");
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
	/* Whose parents die without having waited for them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	hogs = hogs_start();
	injections_all(true);
	for (i = 0; i < NR_TROUBLES; i++) {
		pids[nr_workers + i] = fork();
		if (!pids[nr_workers + i])
			trouble_main(i);
	}

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
		if (hogs > 0 && hogs_ended(hogs, i))
			hogs = -1;
		sleep(1);
	}

	shared->stop = true;
	hogs_ran = hogs > 0 && !hogs_ended(hogs, i) && hogs_stop(hogs);
	stuck2 = collect(pids + nr_workers, NR_TROUBLES, STUCK_S,
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
	cgroups_remove();
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
