// SPDX-License-Identifier: GPL-2.0-only
/*
 * When each folio of the memory is out of the page tables during a move, and
 * when it is back: from the kernel's own tracepoints, in a trace instance of
 * ours.
 *
 * A thread that polls the memory could say so as well, but it occupies a CPU
 * that would otherwise be idle, and so be of help to the move, and it does not
 * see what is shorter than its period.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "movebench.h"

#define TRACEFS		"/sys/kernel/tracing"
#define INSTANCE	TRACEFS "/instances/movebench"

static bool active;	/* the instance exists */
static bool mounted;	/* so does tracefs, by our doing */

static bool set_up(void)
{
	static const char * const settings[][2] = {
		{ INSTANCE "/trace_clock", "mono" },
		{ INSTANCE "/events/migrate/set_migration_pte/enable", "1" },
		{ INSTANCE "/events/migrate/remove_migration_pte/enable", "1" },
		{ INSTANCE "/events/thp/set_migration_pmd/enable", "1" },
		{ INSTANCE "/events/thp/remove_migration_pmd/enable", "1" },
	};

	if (active)
		return true;
	if (access(TRACEFS "/instances", F_OK) < 0) {
		if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0) {
			fail("cannot mount %s: %s", TRACEFS, strerror(errno));
			return false;
		}
		mounted = true;
	}
	if (mkdir(INSTANCE, 0700) < 0 && errno != EEXIST) {
		fail("cannot make %s: %s", INSTANCE, strerror(errno));
		return false;
	}
	active = true;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (write_text(settings[i][0], settings[i][1]) < 0) {
			fail("cannot write %s: %s", settings[i][0], strerror(errno));
			return false;
		}
	}
	return true;
}

/* Ends tracing, if it goes on: it costs every page that anybody moves. */
void end_remaps(void)
{
	if (active && rmdir(INSTANCE) < 0)
		fprintf(stderr, "movebench: cannot remove %s: %s\n", INSTANCE, strerror(errno));
	active = false;
	if (mounted && umount(TRACEFS) < 0)
		fprintf(stderr, "movebench: cannot unmount %s: %s\n", TRACEFS, strerror(errno));
	mounted = false;
}

/* Forgets what was traced, before a move. */
bool start_remaps(void)
{
	FILE *trace;

	if (!set_up())
		return false;
	/* Opening it for writing empties the buffers. */
	trace = fopen(INSTANCE "/trace", "w");
	if (!trace) {
		fail("cannot empty %s/trace: %s", INSTANCE, strerror(errno));
		return false;
	}
	fclose(trace);
	return true;
}

/*
 * Takes a line such as "bench-7 [001] ..... 3.123456: set_migration_pte: addr=7f12, pte=..."
 * apart. Returns false for one that is about something else.
 */
static bool parse_event(const char *line, bool *set, uint64_t *ns, uintptr_t *address)
{
	const char *event = strstr(line, "_migration_p"), *time;
	uint64_t seconds, micros;

	if (!event || sscanf(event, "_migration_p%*[^:]: addr=%" SCNxPTR, address) != 1)
		return false;
	while (event > line && event[-1] != ' ')
		event--;
	*set = !strncmp(event, "set_", 4);
	if (!*set && strncmp(event, "remove_", 7))
		return false;
	for (time = event - 1; time > line && time[-1] != ' '; time--)
		;
	if (sscanf(time, "%" SCNu64 ".%6" SCNu64 ":", &seconds, &micros) != 2)
		return false;
	*ns = (seconds * 1000000 + micros) * 1000;
	return true;
}

/* Tells of the move that began at @start_ns; false if not all of it was seen. */
bool read_remaps(uint64_t start_ns, struct remaps *remaps)
{
	struct {
		uint64_t set_ns;
		uint64_t back_ns;
	} *folios = calloc(region.folios, sizeof(*folios));
	FILE *trace = fopen(INSTANCE "/trace", "r");
	unsigned long seen = 0;
	char *line = NULL;
	size_t size = 0;

	if (!folios || !trace) {
		fail("cannot read %s/trace: %s", INSTANCE, strerror(errno));
		goto out;
	}
	while (getline(&line, &size, trace) > 0) {
		uintptr_t address;
		uint64_t ns;
		bool set;
		size_t i;

		if (!parse_event(line, &set, &ns, &address) ||
		    address - (uintptr_t)region.start >= region.bytes)
			continue;
		i = (address - (uintptr_t)region.start) / (region.folio_kb << 10);
		/* A folio is back with the last of its pages, of its last attempt. */
		if (!set)
			folios[i].back_ns = ns;
		else if (!folios[i].set_ns)
			folios[i].set_ns = ns;
	}
	*remaps = (struct remaps) { .first_ns = UINT64_MAX };
	for (unsigned long i = 0; i < region.folios; i++) {
		uint64_t away, back;

		if (!folios[i].set_ns || folios[i].back_ns < folios[i].set_ns)
			continue;
		seen++;
		away = folios[i].back_ns - folios[i].set_ns;
		/* The clock of the trace counts in microseconds. */
		back = folios[i].back_ns > start_ns ? folios[i].back_ns - start_ns : 0;
		if (back < remaps->first_ns)
			remaps->first_ns = back;
		if (back > remaps->last_ns)
			remaps->last_ns = back;
		if (away > remaps->away_ns)
			remaps->away_ns = away;
	}
	if (seen != region.folios)
		fail("the trace has %lu of %lu folios", seen, region.folios);
out:
	free(folios);
	free(line);
	if (trace)
		fclose(trace);
	return seen == region.folios;
}
