// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hogs: workers of stress-ng that want all CPUs while memory moves. They sleep,
 * stopped by a signal, when it does not: then they would only keep this
 * program, and another guest of this machine, from their work.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "movebench.h"

/* Processes of stress-ng: the workers, and their parents. */
#define MAX_PROCESSES	(4 * MAX_CALLERS)
#define START_S		60
#define LOOK_NS		(50 * 1000 * 1000)
/* After it the scheduler has found a place for everybody who was woken. */
#define SETTLE_NS	(20 * 1000 * 1000)
/* After it everybody who was stopped has left its CPU. */
#define STOPPED_NS	(1000 * 1000)

static pid_t leader;		/* also the process group's id; 0: there are none */
static unsigned long running;	/* hogs */
static pid_t processes[MAX_PROCESSES];
static int nr_processes;
static uint64_t resumed_ns;	/* when they went on */
static uint64_t resumed_cpu_ns;	/* their CPU time until then */

/* Of each process, when the search for those that work began. */
static uint64_t process_ns[MAX_PROCESSES];

static void find_processes(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	nr_processes = 0;
	if (!dir)
		return;
	while ((entry = readdir(dir)) && nr_processes < MAX_PROCESSES) {
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    getpgid(atoi(entry->d_name)) == leader)
			processes[nr_processes++] = atoi(entry->d_name);
	}
	closedir(dir);
}

static uint64_t cpu_ns_of(pid_t process)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(process, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/*
 * CPU time of all hogs so far. Of one that runs on another CPU the kernel does not
 * tell what it has used since the last tick.
 */
static uint64_t hogs_ns(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < nr_processes; i++) {
		process_ns[i] = cpu_ns_of(processes[i]);
		sum += process_ns[i];
	}
	return sum;
}

/*
 * Each hog has a CPU of its own, as far as there are some. Where one more wants a
 * CPU, the scheduler would let it have one for a tenth of a second, or share one.
 * Those that work are the processes that had CPU time since hogs_ns().
 */
static void place_hogs(void)
{
	cpu_set_t cpus, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return;
	for (int i = 0; i < nr_processes; i++) {
		if (cpu_ns_of(processes[i]) < process_ns[i] + LOOK_NS / 4)
			continue;
		do {
			cpu = (cpu + 1) % CPU_SETSIZE;
		} while (!CPU_ISSET(cpu, &cpus));
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(processes[i], sizeof(one), &one) < 0)
			perror("movebench: cannot place a hog");
	}
}

void end_hogs(void)
{
	if (!leader)
		return;
	kill(-leader, SIGKILL);
	waitpid(leader, NULL, 0);
	leader = 0;
	running = 0;
}

static void stop_hogs(void)
{
	kill(-leader, SIGSTOP);
	/* On the only CPU they do not run while we do. */
	if (workers > 1)
		sleep_ns(STOPPED_NS);
}

static void read_clocks(void)
{
	resumed_cpu_ns = hogs_ns();
	resumed_ns = now_ns();
}

void resume_hogs(void)
{
	if (!leader)
		return;
	read_clocks();
	kill(-leader, SIGCONT);
	sleep_ns(SETTLE_NS);
	/* On the only CPU no clock lags: their time until now is not of interest. */
	if (workers == 1)
		read_clocks();
}

/*
 * Stops the hogs. Returns how much CPU time they had during the @busy_ns that
 * somebody else wanted some: in the rest of the time it was all theirs.
 */
uint64_t pause_hogs(uint64_t busy_ns)
{
	uint64_t wanted, had;

	if (!leader)
		return 0;
	wanted = (now_ns() - resumed_ns) * running;
	stop_hogs();
	had = hogs_ns() - resumed_cpu_ns;
	/* They begin a moment late, and end so. */
	if (had > wanted)
		had = wanted;
	wanted -= had;
	return busy_ns * running > wanted ? busy_ns * running - wanted : 0;
}

static void run_stress_ng(const char *workers_text)
{
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	/* Nobody else would end them if this program died. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execlp("stress-ng", "stress-ng", "--cpu", workers_text, "--timeout", "0", "--temp-path",
	       "/tmp", NULL);
	_exit(127);
}

/* Whether there are @nr hogs, paused or not. */
bool have_hogs(unsigned long nr)
{
	return running == nr;
}

/* Provides @nr hogs, paused; they stay from cell to cell. */
bool start_hogs(unsigned long nr)
{
	uint64_t deadline = now_ns() + START_S * 1000000000ULL;
	char text[32];

	end_hogs();
	snprintf(text, sizeof(text), "%lu", nr);
	leader = fork();
	if (!leader)
		run_stress_ng(text);
	if (leader < 0) {
		leader = 0;
		fail("cannot start a process: %s", strerror(errno));
		return false;
	}
	setpgid(leader, leader);
	/* They are there when they get most of what @nr CPUs have to give. */
	for (uint64_t start_ns, before; now_ns() < deadline;) {
		find_processes();
		start_ns = now_ns();
		before = hogs_ns();
		sleep_ns(LOOK_NS);
		place_hogs();
		if (hogs_ns() - before > (now_ns() - start_ns) * nr * 3 / 4 &&
		    nr_processes > (int)nr) {
			running = nr;
			stop_hogs();
			return true;
		}
		if (waitpid(leader, NULL, WNOHANG) == leader) {
			leader = 0;
			fail("stress-ng ended: is it installed?");
			return false;
		}
	}
	end_hogs();
	fail("stress-ng does not use %lu CPUs after %d s", nr, START_S);
	return false;
}
