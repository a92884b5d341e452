// SPDX-License-Identifier: GPL-2.0-only
/* Counters of the kernel. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

/* With this begin those of Pagehaul. */
#define OURS	"migrate_copy_"

static void add_counter(struct counters *counters, const char *group, const char *name,
			uint64_t value)
{
	struct counter *entry;

	if (counters->nr == MAX_COUNTERS)
		return;
	entry = &counters->entry[counters->nr++];
	snprintf(entry->name, sizeof(entry->name), "%.15s.%.40s", group, name);
	entry->value = value;
}

static void read_vmstat(struct counters *counters)
{
	static const char * const prefixes[] = {
		"pgmigrate_", "thp_migration_", "nr_tlb_remote_", "nr_tlb_local_flush_",
		"pgdemote_", "pgpromote_success", "numa_pages_migrated", "compact_migrate_scanned",
		"compact_isolated", "compact_stall", "thp_fault_alloc", "thp_fault_fallback",
	};
	FILE *file = fopen("/proc/vmstat", "r");
	char name[64];
	uint64_t value;

	if (!file)
		return;
	while (fscanf(file, "%63s %" SCNu64, name, &value) == 2) {
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
			if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
				add_counter(counters, "vmstat", name, value);
		if (!strncmp(name, OURS, strlen(OURS)))
			add_counter(counters, "migrate_copy", name + strlen(OURS), value);
	}
	fclose(file);
}

/* TLB shootdowns, function-call and rescheduling interrupts, all CPUs together. */
static void read_interrupts(struct counters *counters)
{
	static const char * const rows[] = { "TLB", "CAL", "RES" };
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return;
	while (getline(&line, &size, file) > 0) {
		char *name = line + strspn(line, " ");
		char *colon = strchr(name, ':');
		char *cursor, *end;
		uint64_t sum = 0;
		size_t i;

		if (!colon)
			continue;
		*colon = '\0';
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (!strcmp(name, rows[i]))
				break;
		if (i == sizeof(rows) / sizeof(rows[0]))
			continue;
		for (cursor = colon + 1;; cursor = end) {
			uint64_t value = strtoull(cursor, &end, 10);

			if (end == cursor)
				break;
			sum += value;
		}
		add_counter(counters, "irq", name, sum);
	}
	free(line);
	fclose(file);
}

static void add_run_time(const char *pid, void *sum)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	if (read_text(path, text, sizeof(text)) == 0)
		*(uint64_t *)sum += strtoull(text, NULL, 10);
}

/*
 * The CPU time of the threads that feed channels and ask them. The kernel's own counter
 * has only what goes into chunks.
 */
static void read_channels(struct counters *counters)
{
	uint64_t sum = 0;

	if (access("/sys/module/dcbm", F_OK) < 0)
		return;
	each_kernel_thread("dcbm/", add_run_time, &sum);
	add_counter(counters, "sched", "dcbm_ns", sum);
}

void read_counters(struct counters *counters)
{
	counters->nr = 0;
	read_channels(counters);
	read_vmstat(counters);
	read_interrupts(counters);
}

/* The sum of the counters of /proc/vmstat whose names begin with @prefix. */
uint64_t count_now(const char *prefix)
{
	struct counters counters = { .nr = 0 };
	uint64_t sum = 0;

	read_vmstat(&counters);
	for (int i = 0; i < counters.nr; i++)
		if (!strncmp(counters.entry[i].name, prefix, strlen(prefix)))
			sum += counters.entry[i].value;
	return sum;
}

/* Adds what happened between two readings to @sum, which starts empty. */
void accumulate(struct counters *sum, const struct counters *before,
		       const struct counters *after)
{
	for (int i = 0; i < after->nr; i++) {
		const struct counter *entry = &after->entry[i];
		uint64_t old = 0;
		int j;

		for (j = 0; j < before->nr; j++)
			if (!strcmp(before->entry[j].name, entry->name))
				old = before->entry[j].value;
		for (j = 0; j < sum->nr; j++)
			if (!strcmp(sum->entry[j].name, entry->name))
				break;
		if (j == sum->nr) {
			if (sum->nr == MAX_COUNTERS)
				continue;
			sum->entry[sum->nr++] = (struct counter) { .value = 0 };
			memcpy(sum->entry[j].name, entry->name, sizeof(entry->name));
		}
		sum->entry[j].value += entry->value - old;
	}
}
