// SPDX-License-Identifier: GPL-2.0-only
/* The server: started on the CPUs of the node where its memory is to be, and ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workbench.h"

#define START_S		30
#define LOOK_NS		(5 * 1000 * 1000)
#define MAX_WORKERS	64

pid_t server;

/* Processes of the server that answer. */
static pid_t workers[MAX_WORKERS];
static unsigned int nr_workers;

void add_worker(pid_t pid)
{
	if (nr_workers < MAX_WORKERS)
		workers[nr_workers++] = pid;
}

pid_t find_holder(void)
{
	return nr_workers ? workers[0] : server;
}

static uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_ns(clock);
}

/* Of the server, and of its processes that answer. */
static uint64_t sum_of_server(uint64_t (*ns_of)(pid_t pid))
{
	uint64_t sum = ns_of(server);

	for (unsigned int i = 0; i < nr_workers; i++)
		sum += ns_of(workers[i]);
	return sum;
}

uint64_t server_cpu_ns(void)
{
	return sum_of_server(process_cpu_ns);
}

/* How long the threads of a process had work and no CPU; those that have ended do not count. */
static uint64_t process_waited_ns(pid_t pid)
{
	uint64_t sum = 0, ns;
	struct dirent *entry;
	char path[128], text[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		/* In the directory above is that of the first thread. */
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", pid, entry->d_name);
		if (read_text(path, text, sizeof(text)) >= 0 &&
		    sscanf(text, "%*u %" SCNu64, &ns) == 1)
			sum += ns;
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

/* The same of the server and of its client, which is a thread of this program. */
uint64_t waited_ns(void)
{
	return process_waited_ns(getpid()) + sum_of_server(process_waited_ns);
}

/* This process runs, and therefore has its memory, on one node. */
void stay_on(unsigned long node)
{
	cpu_set_t cpus;

	if (node_cpus(node, &cpus) && sched_setaffinity(0, sizeof(cpus), &cpus) < 0)
		perror("workbench: sched_setaffinity");
}

static void run_server(const struct cell *cell)
{
	int null = open("/dev/null", O_RDWR);

	if (cell->service->as_nobody && (setgid(NOBODY) || setuid(NOBODY))) {
		perror("workbench: setuid");
		_exit(127);
	}
	/* Nobody else would end it if this program died. A change of the user undoes it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* What is large enough for a huge page would get one, where the machine is set so. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	stay_on(cell->from);
	if (cell->service->loader->run)
		cell->service->loader->run(cell);
	dup2(null, STDIN_FILENO);
	/* Whatever it says is no line of JSON. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execv(cell->service->program, cell->service->argv);
	fprintf(stderr, "workbench: %s: %s\n", cell->service->program, strerror(errno));
	_exit(127);
}

bool start_server(const struct cell *cell)
{
	const struct loader *loader = cell->service->loader;
	uint64_t deadline;

	if (!loader->prepare(cell))
		return false;
	nr_workers = 0;
	server = fork();
	if (!server)
		run_server(cell);
	if (server < 0) {
		server = 0;
		fail("cannot start a process: %s", strerror(errno));
		return false;
	}
	deadline = now_ns() + START_S * NS_OF_S;
	while (now_ns() < deadline) {
		if (loader->reachable(cell))
			return true;
		if (waitpid(server, NULL, WNOHANG) == server) {
			server = 0;
			fail("%s ended: is it installed?", cell->service->name);
			return false;
		}
		sleep_ns(LOOK_NS);
	}
	end_server();
	fail("%s cannot be reached after %d s", cell->service->name, START_S);
	return false;
}

void end_server(void)
{
	if (server) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	server = 0;
	nr_workers = 0;
}
