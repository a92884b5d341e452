// SPDX-License-Identifier: GPL-2.0-only
/* A node: its CPUs, its free memory, and memory that is bound to it. */
#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

bool bind_memory(void *start, size_t bytes, unsigned long node)
{
	unsigned long mask[16] = { 0 };
	const unsigned long bits = sizeof(unsigned long) * CHAR_BIT;

	if (node >= sizeof(mask) * CHAR_BIT) {
		fail("node %lu is out of range", node);
		return false;
	}
	mask[node / bits] |= 1UL << (node % bits);
	if (syscall(SYS_mbind, start, bytes, MPOL_BIND, mask,
		    sizeof(mask) * CHAR_BIT, 0) < 0) {
		fail("cannot bind memory to node %lu: %s", node, strerror(errno));
		return false;
	}
	return true;
}

/* Bytes that are free on @node. */
size_t free_bytes(unsigned long node)
{
	char path[64], *line = NULL;
	size_t size = 0, kb = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/meminfo", node);
	file = fopen(path, "r");
	while (file && getline(&line, &size, file) > 0)
		if (sscanf(line, "Node %*u MemFree: %zu kB", &kb) == 1)
			break;
	free(line);
	if (file)
		fclose(file);
	return kb << 10;
}

/* Bytes that the kernel keeps free on @node: the high watermarks of its zones. */
size_t wanted_free_bytes(unsigned long node)
{
	size_t size = 0, pages = 0, high;
	unsigned long of = ULONG_MAX;
	char *line = NULL;
	FILE *file;

	file = fopen("/proc/zoneinfo", "r");
	while (file && getline(&line, &size, file) > 0) {
		sscanf(line, "Node %lu, zone", &of);
		/* Those of the CPUs' lists have a colon. */
		if (of == node && sscanf(line, " high %zu", &high) == 1)
			pages += high;
	}
	free(line);
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Returns false if the node has none, or is not there. */
bool node_cpus(unsigned long node, cpu_set_t *cpus)
{
	char path[64], text[256], *cursor = text;

	CPU_ZERO(cpus);
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/cpulist", node);
	if (read_text(path, text, sizeof(text)) < 0)
		return false;
	while (*cursor) {
		unsigned long first = strtoul(cursor, &cursor, 10), last = first;

		if (*cursor == '-')
			last = strtoul(cursor + 1, &cursor, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, cpus);
		cursor += *cursor == ',';
	}
	return CPU_COUNT(cpus) > 0;
}
