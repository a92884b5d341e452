// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the time goes: samples of the program counter at the ends of turns, each with
 * its call chain, and the cache lines that travelled, by the instruction that took
 * them. And the sections that the guest's program marks, for which all of this is.
 *
 * There are no frame pointers in the guest. So a call chain is made of whatever on the
 * stack is the address after a call that has been translated; the reader of the file,
 * who knows the functions, drops what cannot be.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vtime.h"

#define SITE_BITS	16
/* A table that is full would be searched without end. */
#define MAX_SITES	(3 << SITE_BITS >> 2)
#define CALL_BITS	20
#define CHAIN		24
#define STACK_BYTES	4096
#define KERNEL		0xffff800000000000ULL
#define MAX_SECTIONS	8192
/* Some 3 GB. */
#define MAX_SAMPLES	(1 << 24)

/* The numbers of marks. */
enum { SECTION_BEGINS = 1, SECTION_ENDS = 2 };

bool profiling;
bool kernel_runs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct line_site *sites[1 << SITE_BITS];
static struct line_site other_sites;	/* those for which there was no room */
static unsigned int nr_sites;
static struct {
	uint64_t back;		/* where the call returns to */
	uint64_t target;	/* 0: only known when it is made */
} calls[1 << CALL_BITS];

/* A section that the guest has marked. */
static struct section {
	struct totals before;
	struct totals after;
	int64_t began;
	int64_t ended;
	unsigned int cpu;
} sections[MAX_SECTIONS];
static unsigned int nr_sections;
bool in_section;

static struct sample {
	int64_t ps;
	unsigned int cpu;
	unsigned int depth;
	uint64_t chain[CHAIN];	/* the innermost first */
} *samples;
static size_t nr_samples, max_samples;

static unsigned int place(uint64_t key, unsigned int bits)
{
	return key * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

struct line_site *line_site(uint64_t pc)
{
	unsigned int at = place(pc, SITE_BITS);
	struct line_site *site;

	pthread_mutex_lock(&lock);
	while (sites[at] && sites[at]->pc != pc)
		at = (at + 1) & ((1 << SITE_BITS) - 1);
	site = sites[at];
	if (!site && nr_sites >= MAX_SITES) {
		site = &other_sites;
	} else if (!site) {
		site = calloc(1, sizeof(*site));
		if (!site)
			abort();
		site->pc = pc;
		sites[at] = site;
		nr_sites++;
	}
	pthread_mutex_unlock(&lock);
	return site;
}

/* Sites that share an entry hide each other: a chain lacks a function then. */
void profile_call_site(uint64_t back, uint64_t target)
{
	unsigned int at = place(back, CALL_BITS);

	calls[at].back = back;
	calls[at].target = target;
}

static bool follows_call(uint64_t pc)
{
	return pc && calls[place(pc, CALL_BITS)].back == pc;
}

static void read_chain(struct cpu *cpu, struct sample *sample)
{
	uint64_t sp = 0, word;
	size_t len, at;

	if (sample->chain[0] < KERNEL || !cpu->rsp)
		return;
	g_byte_array_set_size(cpu->bytes, 0);
	if (qemu_plugin_read_register(cpu->rsp, cpu->bytes) != (int)sizeof(sp))
		return;
	memcpy(&sp, cpu->bytes->data, sizeof(sp));
	/* Up to the end of the page: beyond it may be nothing. */
	len = STACK_BYTES - (sp & (STACK_BYTES - 1));
	g_byte_array_set_size(cpu->bytes, 0);
	if (sp < KERNEL || !qemu_plugin_read_memory_vaddr(sp, cpu->bytes, len))
		return;
	for (at = 0; at + sizeof(word) <= len && sample->depth < CHAIN; at += sizeof(word)) {
		memcpy(&word, cpu->bytes->data + at, sizeof(word));
		if (word >= KERNEL && follows_call(word))
			sample->chain[sample->depth++] = word;
	}
}

/* The CPU that has the turn is at @pc; 0 where it goes to sleep. In its own thread. */
void profile_sample(struct cpu *cpu, uint64_t pc)
{
	int64_t now = cpu_now(cpu), ps = now - cpu->sampled;
	struct sample *sample;

	cpu->sampled = now;
	if (!in_section || ps <= 0 || nr_samples == MAX_SAMPLES)
		return;
	if (nr_samples == max_samples) {
		max_samples = max_samples ? 2 * max_samples : 1 << 16;
		samples = realloc(samples, max_samples * sizeof(*samples));
		if (!samples)
			abort();
	}
	sample = &samples[nr_samples++];
	sample->ps = ps;
	sample->cpu = cpu->index;
	sample->depth = 1;
	sample->chain[0] = pc;
	if (pc)
		read_chain(cpu, sample);
}

static void set_device_speed(int64_t speed)
{
	unsigned int i;

	for (i = 0; i < nr_cpus; i++)
		if (cpus[i].device)
			cpus[i].speed = speed;
}

/* The guest's program begins a timed section, or ends it. */
void mark_reached(unsigned int index, void *number)
{
	struct section *section = &sections[nr_sections];
	unsigned int i;

	if (nr_sections == MAX_SECTIONS)
		return;
	switch ((uintptr_t)number) {
	case SECTION_BEGINS:
		section->before = totals;
		section->began = cpu_now(&cpus[index]);
		section->cpu = index;
		for (i = 0; i < nr_cpus; i++)
			if (cpus[i].sampled < section->began)
				cpus[i].sampled = section->began;
		in_section = true;
		set_device_speed(DEVICE_SPEED);
		break;
	case SECTION_ENDS:
		if (!in_section)
			break;
		in_section = false;
		set_device_speed(1);
		section->after = totals;
		section->ended = cpu_now(&cpus[index]);
		nr_sections++;
		break;
	}
}

static void print_totals(FILE *file, const struct totals *from, const struct totals *to)
{
	fprintf(file, "\"slices\":%" PRIu64 ",\"forced\":%" PRIu64 ",\"transfers\":%" PRIu64
		",\"ipis\":%" PRIu64 ",\"wakes\":%" PRIu64 ",\"copied_bytes\":%" PRIu64 ",\"warps\":%" PRIu64
		",\"tsc_reads\":%" PRIu64 ",\"polls\":%" PRIu64 ",\"told\":%" PRIu64 ",\"due\":%" PRIu64,
		to->slices - from->slices, to->forced - from->forced,
		to->transfers - from->transfers, to->ipis - from->ipis, to->wakes - from->wakes,
		to->copies - from->copies, to->warps - from->warps, to->tsc_reads - from->tsc_reads,
		to->polls - from->polls, to->told - from->told, to->due - from->due);
}

void write_report(const char *path)
{
	static const struct totals none;
	FILE *file = fopen(path, "w");
	unsigned int i;

	if (!file) {
		perror(path);
		return;
	}
	fputc('{', file);
	print_totals(file, &none, &totals);
	fprintf(file, ",\"now_ns\":%" PRId64 ",\"cells\":[", global_now() / PS_PER_NS);
	for (i = 0; i < nr_sections; i++) {
		const struct section *section = &sections[i];

		fprintf(file, "%s{\"ns\":%" PRId64 ",\"cpu\":%u,", i ? "," : "",
			(section->ended - section->began) / PS_PER_NS, section->cpu);
		print_totals(file, &section->before, &section->after);
		fputc('}', file);
	}
	fputs("]}\n", file);
	fclose(file);
}

/*
 * A line a record: "S cpu ps pc caller ...", a sample, the pc 0 where a CPU went to
 * sleep; "L pc transfers ps", where lines were taken from other CPUs; "C back target",
 * the calls that the kernel has.
 */
void write_profile(const char *path)
{
	FILE *file = fopen(path, "w");
	unsigned int at;
	size_t i;

	if (!file) {
		perror(path);
		return;
	}
	for (i = 0; i < nr_samples; i++) {
		fprintf(file, "S %u %" PRId64, samples[i].cpu, samples[i].ps);
		for (at = 0; at < samples[i].depth; at++)
			fprintf(file, " %" PRIx64, samples[i].chain[at]);
		fputc('\n', file);
	}
	for (at = 0; at < 1 << SITE_BITS; at++)
		if (sites[at] && sites[at]->transfers)
			fprintf(file, "L %" PRIx64 " %" PRIu64 " %" PRId64 "\n", sites[at]->pc,
				sites[at]->transfers, sites[at]->ps);
	for (at = 0; at < 1 << CALL_BITS; at++)
		if (calls[at].back >= KERNEL && calls[at].target)
			fprintf(file, "C %" PRIx64 " %" PRIx64 "\n", calls[at].back,
				calls[at].target);
	fclose(file);
}
