// SPDX-License-Identifier: GPL-2.0-only
/* What the client has seen before, during and after the scene. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

/* Of the picture of latency over time. */
#define SLOT_NS		(2 * NS_OF_MS)

/* Notes a request that has been answered; false if there is no memory for that. */
bool add_request(struct load *load, uint64_t due_ns, uint64_t done_ns)
{
	if (load->nr == load->room) {
		size_t room = load->room ? 2 * load->room : 1 << 16;
		struct request *more = realloc(load->requests, room * sizeof(*more));

		if (!more)
			return false;
		load->requests = more;
		load->room = room;
	}
	load->requests[load->nr++] = (struct request) { due_ns, done_ns };
	return true;
}

void free_load(struct load *load)
{
	free(load->requests);
	*load = (struct load) { .nr = 0 };
}

/* A request that was under way for a part of the scene is one of the scene. */
static enum phase phase_of(const struct request *request, const struct span *span)
{
	if (request->done_ns <= span->scene_ns)
		return BEFORE;
	return request->due_ns < span->scene_end_ns ? DURING : AFTER;
}

static bool is_outside(const struct request *request, const struct span *span)
{
	return request->due_ns < span->begin_ns || request->due_ns >= span->end_ns;
}

static void note_wait(struct seen *seen, enum phase phase, uint64_t ns)
{
	add_wait(&seen->waits[phase], ns, ns);
	if (ns > seen->longest_ns[phase])
		seen->longest_ns[phase] = ns;
}

/* Adds what was seen; @done gets how many requests had their answers in each phase. */
void look_at(const struct load *load, const struct span *span, struct seen *seen,
	     uint64_t *done)
{
	memset(done, 0, PHASES * sizeof(*done));
	for (size_t i = 0; i < load->nr; i++) {
		const struct request *request = &load->requests[i];
		uint64_t ns = request->done_ns - request->due_ns;
		enum phase phase = phase_of(request, span);

		if (request->done_ns >= span->begin_ns && request->done_ns < span->end_ns)
			done[request->done_ns < span->scene_ns ? BEFORE :
			     request->done_ns < span->scene_end_ns ? DURING : AFTER]++;
		if (request->done_ns >= span->scene_ns && request->done_ns < span->window_end_ns)
			done[WINDOW]++;
		if (is_outside(request, span))
			continue;
		note_wait(seen, phase, ns);
		if (request->done_ns > span->scene_ns && request->due_ns < span->window_end_ns)
			note_wait(seen, WINDOW, ns);
	}
}

void print_seen(const struct seen *seen)
{
	static const char * const names[PHASES] = { "before", "during", "after", "window" };

	for (int i = 0; i < PHASES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "waits_%s", names[i]);
		print_waits(name, &seen->waits[i]);
	}
	printf(",\"longest_ns\":");
	for (int i = 0; i < PHASES; i++)
		printf("%c%" PRIu64, i ? ',' : '[', seen->longest_ns[i]);
	putchar(']');
}

struct timed {
	uint64_t slot;
	uint64_t ns;
};

static int compare(const void *one, const void *other)
{
	const struct timed *a = one, *b = other;

	if (a->slot != b->slot)
		return a->slot < b->slot ? -1 : 1;
	return (a->ns > b->ns) - (a->ns < b->ns);
}

/*
 * Prints, of each slot of time in which requests were due, its middle in us from the
 * start of the scene on, their number, and the latency of half of them and the longest.
 */
void print_timeline(const struct load *load, const struct span *span)
{
	struct timed *timed = calloc(load->nr + 1, sizeof(*timed));
	uint64_t before = span->scene_ns - span->begin_ns;
	const char *separator = "";
	size_t nr = 0;

	printf(",\"timeline\":[");
	for (size_t i = 0; timed && i < load->nr; i++) {
		const struct request *request = &load->requests[i];

		if (is_outside(request, span))
			continue;
		timed[nr++] = (struct timed) {
			(request->due_ns - span->begin_ns) / SLOT_NS,
			request->done_ns - request->due_ns,
		};
	}
	if (timed)
		qsort(timed, nr, sizeof(*timed), compare);
	for (size_t first = 0, end; first < nr; first = end) {
		for (end = first; end < nr && timed[end].slot == timed[first].slot;)
			end++;
		printf("%s[%" PRId64 ",%zu,%" PRIu64 ",%" PRIu64 "]", separator,
		       (int64_t)(timed[first].slot * SLOT_NS + SLOT_NS / 2 - before) / 1000,
		       end - first, timed[(first + end) / 2].ns, timed[end - 1].ns);
		separator = ",";
	}
	putchar(']');
	free(timed);
}
