// SPDX-License-Identifier: GPL-2.0-only
/* What the benchmark programs have in common: errors, options, plans and JSON. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "turns.h"

/* Why the running cell cannot be measured; empty while nothing is wrong. */
static char cell_error[512];
static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

void fail(const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&error_lock);
	if (!cell_error[0]) {
		va_start(args, format);
		vsnprintf(cell_error, sizeof(cell_error), format, args);
		va_end(args);
	}
	pthread_mutex_unlock(&error_lock);
}

bool failed(void)
{
	return cell_error[0];
}

/* What went wrong; empty for nothing. */
const char *failure(void)
{
	return cell_error;
}

void forget_failure(void)
{
	cell_error[0] = '\0';
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* --- options and plans --- */

void usage_error(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "; see %s --help\n", program_name);
	exit(2);
}

unsigned long parse_number(const char *text, unsigned long min, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < min || value > max)
		usage_error("%s is not a number from %lu to %lu", text, min, max);
	return value;
}

/* Whether all of it came before the end. */
bool read_all(int fd, void *data, size_t size)
{
	for (char *at = data; size;) {
		ssize_t done = read(fd, at, size);

		if (done <= 0)
			return false;
		at += done;
		size -= done;
	}
	return true;
}

bool write_all(int fd, const void *data, size_t size)
{
	for (const char *at = data; size;) {
		ssize_t done = write(fd, at, size);

		if (done <= 0)
			return false;
		at += done;
		size -= done;
	}
	return true;
}

void sleep_ns(uint64_t ns)
{
	const struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

/* A number that looks random, another one for each. */
uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* The next one of a row of them. */
uint64_t next_random(uint64_t *seed)
{
	*seed = mix(*seed + 0x9e3779b97f4a7c15ULL);
	return *seed;
}

bool run_plan(const struct run *run, const struct plan *plan)
{
	FILE *file = strcmp(run->plan, "-") ? fopen(run->plan, "r") : stdin;
	unsigned long number = 0;
	bool good = true;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		usage_error("cannot read the plan %s: %s", run->plan, strerror(errno));
	/* What tells that the guest has booted, for whatever program. */
	if (run->turns)
		fputs("movebench: ready\n", stderr);
	while (!stop && getline(&line, &size, file) > 0) {
		char *argv[64] = { (char *)program_name }, *word, *rest = line;
		int argc = 1;

		while ((word = strsep(&rest, " \t\n"))) {
			if (!*word)
				continue;
			if (argc == 1 && *word == '#')
				break;
			if (argc == 63)
				usage_error("a line of the plan is too long");
			argv[argc++] = word;
		}
		if (argc == 1)
			continue;
		plan->parse(argc, argv);
		if (run->turns && !wait_for_turn(run->turns, ++number)) {
			good = false;
			break;
		}
		good &= plan->measure();
	}
	free(line);
	if (file != stdin)
		fclose(file);
	return good;
}

/* --- JSON --- */

void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

/* Prints the field at @offset of all @samples, each of @size bytes. */
void print_samples(const char *name, const void *samples, unsigned long nr, size_t size,
		   size_t offset)
{
	printf(",\"%s\":[", name);
	for (unsigned long i = 0; i < nr; i++)
		printf("%s%" PRIu64, i ? "," : "",
		       *(const uint64_t *)((const char *)samples + i * size + offset));
	putchar(']');
}

/* Prints the end of a line: what was right, what was counted, and what went wrong. */
void print_integrity(uint64_t bytes_verified, uint64_t mismatches,
		     const struct counters *counters)
{
	printf(",\"bytes_verified\":%" PRIu64 ",\"mismatches\":%" PRIu64 ",\"counters\":{",
	       bytes_verified, mismatches);
	for (int i = 0; i < counters->nr; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", counters->entry[i].name,
		       counters->entry[i].value);
	printf("},\"error\":");
	if (failed())
		print_string(cell_error);
	else
		printf("null");
	printf("}\n");
	fflush(stdout);
}
