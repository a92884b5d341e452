// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPU time of helpers, and of the threads of mtcopy, is charged to the cgroup
 * of the task that asks for the migration: to its cpu.stat, all of it, and once:
 * the root cgroup, whose time is that of the machine, has it no second time. And a
 * user without privileges gets no more CPU by helpers than its cgroup's weight
 * and quota allow.
 *
 * migrate_charge [mtcopy.ko]
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define MOVES		32
#define TIMEOUT		300
/* How often to measure, as what else runs in a guest has its share, too. */
#define MEASUREMENTS	5
/* For how long, while the CPUs of a guest are away when they are to help. */
#define PATIENCE_S	60
/* What the charge may be off by, of the time of the task and its helpers. */
#define PERCENT		5
/*
 * What the root cgroup may have more than the other two, of the helpers' time: it
 * has that of the rest of the machine, which is idle. It counts by ticks: of a
 * guest that has to wait for its CPUs it has less.
 */
#define ROOT_PERCENT	50

/* How long a turn lasts in which all CPUs are busy, and with which weights. */
#define BUSY_SECONDS	4
#define LIGHT		10
#define HEAVY		100
/*
 * What two such shares of the CPUs may differ by; nor may one be more than the
 * weight gives. Those of a single turn differ by more, of themselves, where the
 * CPUs of a guest come and go: so there are turns with help and without,
 * alternately, until all of them together are right, but only so many.
 */
#define SHARE_PERCENT	25
#define MIN_TURNS	2
#define MAX_TURNS	16

/* How long somebody with a quota moves memory, and the most of it that is used. */
#define QUOTA_SECONDS	8
#define QUOTA_MOST	1.25

static const char group[] = "moved", other[] = "other";

/**
 * struct payer - Who helps, and with what
 * @name: Name of the test.
 * @kind: What is moved: threads of mtcopy copy, which is most of it for huge
 *	pages only.
 * @thread: How the names of the threads that help begin.
 * @mode: How the kernel copies: with helper CPUs, or MODE_BATCH for the engine
 *	in their place.
 */
static const struct payer {
	const char *name;
	struct kind kind;
	const char *thread;
	enum copy_mode mode;
} payers[] = {
	{ "parallel: helpers are charged to the caller's cgroup",
	  { "base", BACK_ANON, OF_PAGES(1), 32 * MB }, "(kworker/",
	  MODE_PARALLEL },
	{ "threads: who shares a copy is charged to the caller's cgroup",
	  { "thp", BACK_ANON, 2 * MB, 32 * MB }, "(kworker/", MODE_THREADS },
	{ "mtcopy: its threads are charged to the caller's cgroup",
	  { "thp", BACK_ANON, 2 * MB, 32 * MB }, "(mtcopy/", MODE_BATCH },
};

static uint64_t usage_ns(const char *cgroup)
{
	return file_count(cgroup_file(cgroup, "cpu.stat"), "usage_usec") * 1000;
}

static uint64_t own_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000ULL +
	       (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000ULL;
}

/* Time of a process, in ticks of 1/100 s: utime and stime of its stat. */
static uint64_t process_ticks(const char *pid, const char *thread)
{
	unsigned long user, system;
	char path[320], text[512];
	const char *fields;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (file_read(path, text, sizeof(text)) || !strstr(text, thread))
		return 0;
	/* The name may have blanks; 11 fields are between it and utime. */
	fields = strrchr(text, ')');
	if (sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   &user, &system) != 2)
		die("cannot understand %s", path);
	return user + system;
}

/* What all such threads have run, by the scheduler: those that help are among them. */
static uint64_t threads_ns(const char *thread)
{
	struct dirent *entry;
	uint64_t ticks = 0;
	DIR *dir;

	dir = opendir("/proc");
	require(dir, "cannot read /proc");
	while ((entry = readdir(dir))) {
		if (isdigit(entry->d_name[0]))
			ticks += process_ticks(entry->d_name, thread);
	}
	closedir(dir);
	return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

static void groups_make(void)
{
	require(!cgroup_make(group, "+cpu") && !cgroup_make(other, "+cpu"),
		"cannot make cgroups");
}

static bool within(uint64_t seen, uint64_t expected, const char *what)
{
	uint64_t off = seen > expected ? seen - expected : expected - seen;

	ksft_print_msg("%s: %llu us, expected %llu us\n", what,
		       (unsigned long long)seen / 1000,
		       (unsigned long long)expected / 1000);
	return off * 100 <= expected * PERCENT;
}

enum verdict { CHARGED, NOT_CHARGED, NO_HELP };

/* Moves the region to and fro; says what is not as it should be. */
static enum verdict move_and_compare(const struct payer *payer, struct region *r,
				     int from, int to)
{
	uint64_t charged, alone, helpers, counted, elsewhere, machine;
	bool as_counted, paid;
	int i;

	charged = usage_ns(group);
	elsewhere = usage_ns(other);
	machine = usage_ns("");
	alone = own_ns();
	counted = stat_read("helper_ns");
	helpers = threads_ns(payer->thread);
	for (i = 0; i < MOVES; i++) {
		require(!region_move_pages(r, i % 2 ? to : from,
					   i % 2 ? from : to),
			"not all pages moved");
	}
	helpers = threads_ns(payer->thread) - helpers;
	counted = stat_read("helper_ns") - counted;
	alone = own_ns() - alone;
	machine = usage_ns("") - machine;
	elsewhere = usage_ns(other) - elsewhere;
	charged = usage_ns(group) - charged;

	ksft_print_msg("the task itself: %llu us\n",
		       (unsigned long long)alone / 1000);
	require(!elsewhere, "another cgroup has paid");
	if (helpers * 10 <= alone) {
		ksft_print_msg("hardly any help\n");
		return NO_HELP;
	}
	if (payer->mode != MODE_PARALLEL) {
		/* That of copies, not that of waking up for them. */
		ksft_print_msg("%llu us counted, of %llu us of the threads\n",
			       (unsigned long long)counted / 1000,
			       (unsigned long long)helpers / 1000);
		if (counted * 2 <= helpers ||
		    counted * 100 >= helpers * (100 + PERCENT)) {
			ksft_print_msg("not the time of the threads' copies\n");
			return NOT_CHARGED;
		}
		helpers = counted;
	}
	as_counted = within(counted, helpers, "counted by the helpers");
	paid = within(charged, alone + helpers, "charged to the cgroup");
	ksft_print_msg("the machine: %llu us\n",
		       (unsigned long long)machine / 1000);
	return as_counted && paid &&
	       machine * 100 < charged * 100 + helpers * ROOT_PERCENT ?
		CHARGED : NOT_CHARGED;
}

/* Runs in the cgroup. */
static void move_and_measure(const struct payer *payer)
{
	double begin = now(), alone = 0;
	struct region r;
	int from, to, measured = 0;

	nodes_find(&from, &to);
	region_make(&r, &payer->kind, from, false);
	while (measured < MEASUREMENTS) {
		enum verdict verdict = move_and_compare(payer, &r, from, to);

		if (verdict == CHARGED)
			return;
		measured += verdict == NOT_CHARGED;
		if (verdict == NO_HELP)
			alone += now() - begin;
		require(alone < PATIENCE_S, "hardly any help, for %d s", PATIENCE_S);
		begin = now();
	}
	die("task and helpers have not been charged to the cgroup, and to no other");
}

static void enter(const char *cgroup)
{
	require(!cgroup_write(cgroup, "cgroup.procs", "0"), "cannot enter %s", cgroup);
}

static void set_weight(const char *cgroup, unsigned int weight)
{
	require(!file_write_number(cgroup_file(cgroup, "cpu.weight"), weight),
		"cannot set the weight of %s", cgroup);
}

static void mtcopy_start(void)
{
	require(!module_load(mtcopy_path, ""), "cannot load %s: %s", mtcopy_path,
		strerror(errno));
	engine_alone(true);
	engine_knob("mtcopy", "threads", 2);
	engine_knob("mtcopy", "offloading", 1);
}

static void test_charge(const void *arg)
{
	const struct payer *payer = arg;
	bool mtcopy = payer->mode == MODE_BATCH;
	int status;
	pid_t pid;

	if (mtcopy && !mtcopy_path)
		skip("needs mtcopy.ko");
	mode_enter(payer->mode);
	/* A step of its own for each page would take most of its time for itself. */
	if (payer->mode == MODE_THREADS)
		constant("chunk_kb", 512);
	if (mtcopy) {
		/* All of it is one batch: to wake up for many takes long, too. */
		constant("batch_pages", payer->kind.size / PAGE);
		mtcopy_start();
	}
	groups_make();
	pid = fork();
	if (!pid) {
		enter(group);
		move_and_measure(payer);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cgroups_remove();
	if (mtcopy)
		require(!module_unload("mtcopy"), "cannot unload mtcopy");
	require(WIFEXITED(status) && !WEXITSTATUS(status), "failed");
}

/**
 * struct asker - A request for more than its task may have
 * @name: Name of the test.
 * @kind: What is moved.
 * @mode: How the kernel helps.
 */
static const struct asker {
	const char *name;
	struct kind kind;
	enum copy_mode mode;
} askers[] = {
	{ "busy CPUs: no more for anybody than without help",
	  { "base", BACK_ANON, OF_PAGES(1), 8 * MB }, MODE_PARALLEL },
	{ "busy CPUs: no more for anybody than without shared copies",
	  { "thp", BACK_ANON, 2 * MB, 8 * MB }, MODE_THREADS },
};

/*
 * Moves memory for so long as anybody, asking for all the help there is, and
 * returns the time of the helpers.
 */
static uint64_t move_as_nobody(const struct kind *kind, unsigned int seconds)
{
	uint64_t before = stat_read("helper_ns");
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		time_t end = time(NULL) + seconds;
		int from, to, swap;
		struct region r;

		nodes_find(&from, &to);
		region_make(&r, kind, from, false);
		enter(group);
		require(!setgid(NOBODY) && !setuid(NOBODY),
			"cannot become nobody");
		while (time(NULL) < end) {
			require(!sys_mbind(r.map, kind->size, MPOL_BIND, to,
					   MPOL_MF_MOVE | MPOL_MF_MOVE_MT),
				"cannot move: %s", strerror(errno));
			swap = from;
			from = to;
			to = swap;
		}
		require(!pages_elsewhere(r.map, kind->size, PAGE, from),
			"not all pages moved");
		_exit(0);
	}
	require(waitpid(pid, &status, 0) == pid && !status, "failed");
	return stat_read("helper_ns") - before;
}

/* CPU time in turns in which all CPUs are busy, in ns. */
struct busy {
	enum copy_mode mode;
	uint64_t light;		/* of the mover and who helps it */
	uint64_t helped;	/* of these, the helpers' */
	uint64_t heavy;		/* of the others */
	uint64_t idle;		/* of nobody */
};

/* For how long CPUs have been idle, all together. */
static uint64_t idle_ns(void)
{
	unsigned long long ticks;
	FILE *f;

	f = fopen("/proc/stat", "r");
	require(f && fscanf(f, "cpu %*u %*u %*u %llu", &ticks) == 1,
		"/proc/stat: no idle time");
	fclose(f);
	return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

/* Moves memory as nobody, while all CPUs are busy in the other cgroup. */
static void busy_turn(struct busy *busy, const struct kind *kind)
{
	uint64_t light, heavy, idle;

	mode_enter(busy->mode);
	light = usage_ns(group);
	heavy = usage_ns(other);
	idle = idle_ns();
	busy->helped += move_as_nobody(kind, BUSY_SECONDS);
	busy->light += usage_ns(group) - light;
	busy->heavy += usage_ns(other) - heavy;
	busy->idle += idle_ns() - idle;
}

/* How much of all the time the mover's cgroup got, in 1/1000. */
static uint64_t busy_share(const struct busy *busy)
{
	ksft_print_msg("%s: mover %llu us, of it helpers %llu us, others %llu us, idle %llu us\n",
		       mode_names[busy->mode],
		       (unsigned long long)busy->light / 1000,
		       (unsigned long long)busy->helped / 1000,
		       (unsigned long long)busy->heavy / 1000,
		       (unsigned long long)busy->idle / 1000);
	return busy->light * 1000 / (busy->light + busy->heavy);
}

/* With all CPUs busy nobody gets more by asking for help than without. */
static void test_weight(const void *arg)
{
	const struct asker *asker = arg;
	struct busy with = { asker->mode }, without = { MODE_OFF };
	uint64_t helped, alone, share;
	pid_t hogs[64];
	long nr, i;
	bool fair = false;
	int turn;

	nr = sysconf(_SC_NPROCESSORS_ONLN);
	require(nr <= 64, "too many CPUs");
	groups_make();
	set_weight(group, LIGHT);
	set_weight(other, HEAVY);
	mode_enter(asker->mode);
	helped = move_as_nobody(&asker->kind, 2);
	ksft_print_msg("idle: helpers %llu us\n",
		       (unsigned long long)helped / 1000);
	require(helped, "no help on an idle machine");

	for (i = 0; i < nr; i++) {
		hogs[i] = fork();
		if (!hogs[i]) {
			enter(other);
			for (;;)
				touch(group);
		}
	}
	sleep(1);
	for (turn = 1; turn <= MAX_TURNS; turn++) {
		busy_turn(&without, &asker->kind);
		busy_turn(&with, &asker->kind);
		alone = busy_share(&without);
		share = busy_share(&with);
		fair = share * 100 <= alone * (100 + SHARE_PERCENT) &&
		       share * (LIGHT + HEAVY) <= 1000 * LIGHT;
		if (fair && turn >= MIN_TURNS)
			break;
	}
	for (i = 0; i < nr; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	cgroups_remove();
	/* A CPU is idle until the scheduler brings it somebody: help is welcome there. */
	require(with.helped * 100 <= with.light * PERCENT + without.idle * 100,
		"helpers on busy CPUs");
	require(fair, "%llu/1000 of the CPUs, %llu/1000 without help, %u/1000 by weight",
		(unsigned long long)share, (unsigned long long)alone,
		1000 * LIGHT / (LIGHT + HEAVY));
}

/* A cgroup with a quota has no help, as helpers are not subject to it. */
static void test_quota(const void *arg)
{
	static const struct kind kind = { "base", BACK_ANON, OF_PAGES(1), 8 * MB };
	uint64_t used, helped, free;
	struct timespec start, end;
	double wall;

	groups_make();
	mode_enter(MODE_PARALLEL);
	free = move_as_nobody(&kind, 2);
	require(free, "no help on an idle machine");

	require(!cgroup_write(group, "cpu.max", "20000 100000"), "cannot set a quota");
	used = usage_ns(group);
	clock_gettime(CLOCK_MONOTONIC, &start);
	helped = move_as_nobody(&kind, QUOTA_SECONDS);
	clock_gettime(CLOCK_MONOTONIC, &end);
	used = usage_ns(group) - used;
	wall = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;
	ksft_print_msg("%.2f s of %.2f s, helpers %.2f s; without a quota %.2f s in 2 s\n",
		       used / 1e9, wall, helped / 1e9, free / 1e9);
	cgroups_remove();
	require(!helped, "help in spite of a quota");
	require(used / 1e9 <= QUOTA_MOST * 0.2 * wall, "more than the quota");
}

int main(int argc, char **argv)
{
	size_t nr_payers = sizeof(payers) / sizeof(*payers);
	size_t nr_askers = sizeof(askers) / sizeof(*askers);
	size_t i;

	if (argc > 2)
		ksft_exit_fail_msg("usage: %s [mtcopy.ko]\n", argv[0]);
	mtcopy_path = argv[1];
	tests_start(nr_payers + nr_askers + 1);
	for (i = 0; i < nr_payers; i++)
		test_run(payers[i].name, TIMEOUT, test_charge, &payers[i]);
	for (i = 0; i < nr_askers; i++)
		test_run(askers[i].name, TIMEOUT, test_weight, &askers[i]);
	test_run("quota: no more than that, and no helpers", TIMEOUT, test_quota,
		 NULL);
	tests_end();
}
