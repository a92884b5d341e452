// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where helpers run: the kernel asks only CPUs of the caller's cpuset. This one has
 * the CPU of the caller and those of one node.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "movebench.h"

#define CGROUPS		"/sys/fs/cgroup"
#define CGROUP		CGROUPS "/movebench-helpers"

static bool inside;
static char former[512];	/* the file of the cgroup that this process comes from */
static cpu_set_t usable;	/* CPUs, before */

static bool find_former(void)
{
	char text[256];
	const char *path;

	if (read_text("/proc/self/cgroup", text, sizeof(text)) < 0 || !(path = strstr(text, "0::")))
		return false;
	snprintf(former, sizeof(former), CGROUPS "%s/cgroup.procs", path + strlen("0::"));
	return true;
}

/* The first CPU that this process may use is that of the first caller. */
static int first_cpu(void)
{
	int cpu = 0;

	while (!CPU_ISSET(cpu, &usable))
		cpu++;
	return cpu;
}

/* Lists CPUs as the kernel wants it: 0,8,9 */
static void list_cpus(const cpu_set_t *cpus, char *text, size_t size)
{
	size_t length = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE && length < size; cpu++)
		if (CPU_ISSET(cpu, cpus))
			length += snprintf(text + length, size - length, length ? ",%d" : "%d", cpu);
}

/* Lets only CPUs of @node help, until leave_helpers(). */
bool choose_helpers(unsigned long node)
{
	static char text[5 * CPU_SETSIZE];
	cpu_set_t cpus;

	if (!node_cpus(node, &cpus)) {
		fail("node %lu has no CPU that could help", node);
		return false;
	}
	if (sched_getaffinity(0, sizeof(usable), &usable) < 0 || !find_former()) {
		fail("cannot find out where this process is: %s", strerror(errno));
		return false;
	}
	CPU_SET(first_cpu(), &cpus);
	list_cpus(&cpus, text, sizeof(text));
	if (write_text(CGROUPS "/cgroup.subtree_control", "+cpuset") < 0 ||
	    (mkdir(CGROUP, 0700) < 0 && errno != EEXIST) ||
	    write_text(CGROUP "/cpuset.cpus", text) < 0 ||
	    write_text(CGROUP "/cgroup.procs", "0") < 0) {
		fail("cannot make a cpuset of CPUs %s: %s", text, strerror(errno));
		rmdir(CGROUP);
		return false;
	}
	inside = true;
	return true;
}

void leave_helpers(void)
{
	if (!inside)
		return;
	inside = false;
	if (write_text(former, "0") < 0 || rmdir(CGROUP) < 0 ||
	    sched_setaffinity(0, sizeof(usable), &usable) < 0)
		fprintf(stderr, "movebench: cannot leave %s: %s\n", CGROUP, strerror(errno));
}
