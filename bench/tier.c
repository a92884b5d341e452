// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two nodes as tiers of memory: what has not been used for long goes to the slower one,
 * as an agent asks for that, and what is used there comes back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "workbench.h"

#define RECLAIM		SERVING "/memory.reclaim"
/* Of the kernel: pages. */
#define DEMOTED		"vmstat.pgdemote_"
#define PROMOTED	"vmstat.pgpromote_success"

/* A reclaim that has demoted nothing so often demotes nothing any more. */
#define TRIES		3
/* Of 100 pages that were demoted, those that have to come back. */
#define ENOUGH		80
/* Pages that may be busy. */
#define FEW		64
#define LOOK_NS		(2 * NS_OF_MS)
#define MOST_NS		(10 * NS_OF_S)

/* Of the program: what it does not use yet, and how it comes to use that. */
static char *unused;
static bool (*shift)(void);
static const struct cell *balanced;

static bool prepare_demotion(const struct cell *cell)
{
	(void)cell;
	return enable_demotion() && place_server("memory");
}

/* The kernel looks for what has not been used, and demotes it: there is no swap. */
static bool demote(uint64_t bytes)
{
	uint64_t first = count_now(DEMOTED), done = 0, before;
	int idle = 0;

	while (done < bytes && idle < TRIES) {
		char text[32];

		snprintf(text, sizeof(text), "%lu", (unsigned long)(bytes - done));
		/* EAGAIN: less than that could be had. */
		if (write_text(RECLAIM, text) < 0 && errno != EAGAIN) {
			fail("cannot reclaim memory: %s", strerror(errno));
			return false;
		}
		before = done;
		done = (count_now(DEMOTED) - first) * BASE_SIZE;
		idle = done > before ? 0 : idle + 1;
	}
	if (done < bytes / 10 * 9)
		fail("reclaim demoted %lu of %lu bytes: is there a slower tier of memory?",
		     (unsigned long)done, (unsigned long)bytes);
	return !failed();
}

static bool run_demotion(const struct move *move)
{
	return demote(move->bytes);
}

const struct way by_demotion = {
	.name = "demotion", .run = run_demotion, .counter = DEMOTED, .counts = BASE_SIZE,
	.prepare = prepare_demotion, .once = true,
};

/* --- what is used in the slower tier comes back --- */

static bool prepare_promotion(const struct cell *cell)
{
	if (!cell->service->loader->shift || cell->amount_mb > cell->mb / 2) {
		fail("%s has no %lu MB to use later", cell->service->name, cell->amount_mb);
		return false;
	}
	unused = (char *)cell->service->loader->memory() + (cell->mb << 20) / 2;
	shift = cell->service->loader->shift;
	/* Nodes are tiers, as they are on a machine that has both. */
	return enable_demotion() && set_balancing("0");
}

static bool balance(const char *mode)
{
	if (write_text(BALANCING, mode) < 0)
		fail("cannot set " BALANCING ": %s", strerror(errno));
	return !failed();
}

static bool make_slow(const struct move *move, void *start, size_t bytes)
{
	struct pages pages = { .nr = 0 };

	if (add_pages(&pages, start, bytes / BASE_SIZE))
		call_move_pages(move, &pages, 0);
	if (!failed() && keep_on(move->pid, &pages, move->from) && pages.nr > FEW)
		fail("%zu pages are not on node %lu", pages.nr, move->to);
	free_pages(&pages);
	return !failed();
}

/* The unused half begins in slow memory, as if reclaim had demoted it. */
static bool begin_promotion(const struct move *move)
{
	return make_slow(move, unused, move->bytes) && balance("2");
}

/* After a scene, also one that failed. */
static void end_promotion(void)
{
	write_text(BALANCING, "0");
}

/*
 * The program comes to use what was demoted; waits until most of that has come back. The
 * kernel goes on with the rest.
 */
static bool run_promotion(const struct move *move)
{
	uint64_t first = count_now(PROMOTED), deadline = now_ns() + MOST_NS;
	uint64_t wanted = move->bytes / 100 * ENOUGH / BASE_SIZE;

	if (!shift())
		return false;
	while (count_now(PROMOTED) - first < wanted && now_ns() < deadline)
		sleep_ns(LOOK_NS);
	if (now_ns() >= deadline)
		fail("only %lu of %lu pages were promoted",
		     (unsigned long)(count_now(PROMOTED) - first),
		     (unsigned long)wanted);
	return !failed();
}

const struct way by_promotion = {
	.name = "promotion", .begin = begin_promotion, .run = run_promotion,
	.counter = PROMOTED, .counts = BASE_SIZE, .prepare = prepare_promotion,
	.end = end_promotion, .once = true,
};

/* --- both at once, for a while --- */

/*
 * Scans are forty times as frequent as by default. So a page is hot that is used within a
 * fortieth of the default time after a scan.
 */
#define HOT_MS		"25"
#define HOT		"/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms"

/* The program of a cell, if it is one, is what comes to use other memory. */
bool balance_program(const struct cell *cell)
{
	balanced = cell;
	shift = cell->service->loader->shift;
	return true;
}

static bool prepare_balancing(const struct cell *cell)
{
	balance_program(cell);
	if (!enable_demotion() || !set_balancing("0"))
		return false;
	if (set_sysfs(HOT, HOT_MS) < 0)
		fail("cannot set " HOT ": %s", strerror(errno));
	return !failed() && (!cell->fast_mb || leave_free(cell->from, cell->fast_mb << 10));
}

static bool begin_balancing(const struct move *move)
{
	size_t bytes = balanced->slow_mb << 20;
	char *memory;

	if (!bytes)
		return true;
	memory = balanced->service->loader->memory();
	return make_slow(move, memory + (balanced->mb << 20) - bytes, bytes);
}

/* The program comes to use its other half, if it has one, and the kernel follows. */
static bool run_balancing(const struct move *move)
{
	char mode[8];

	(void)move;
	snprintf(mode, sizeof(mode), "%lu", balanced->balancing);
	if (!balance(mode) || (shift && !shift()))
		return false;
	sleep_ns(balanced->window_ms * NS_OF_MS);
	return true;
}

static void end_balancing(void)
{
	end_promotion();
	drop_fragments();
}

const struct way by_balancing = {
	.name = "balancing", .begin = begin_balancing, .run = run_balancing,
	.counter = PROMOTED, .counts = BASE_SIZE, .prepare = prepare_balancing,
	.end = end_balancing, .works = true, .once = true,
};
