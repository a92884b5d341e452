// SPDX-License-Identifier: GPL-2.0-only
/*
 * workbench - real servers, and what their clients see while memory moves
 *
 * A cell has a server, a client that keeps it busy, and a scene: something that
 * moves memory while they work. A plan has the options of one cell a line. A
 * server outlives a cell where the next one wants the same. One line of JSON is
 * printed for each cell, as movebench prints them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"
#include "workbench.h"

/* After it the client has its pace. */
#define WARM_NS		(20 * NS_OF_MS)
/*
 * Callers that bring the memory back; nobody measures them. Of huge pages that are shared
 * only one at a time is unmapped, and a second caller would leave what it meets.
 */
#define RETURN_CALLERS	8
/* After it whoever was in a fault is through with it. */
#define AGAIN_NS	(10 * NS_OF_MS)

const char program_name[] = "workbench";

/* What was seen of one scene. */
struct sample {
	uint64_t ns;
	uint64_t cpu_ns;	/* CPU time of who moved the memory */
	uint64_t server_ns;	/* that of the server, during the scene */
	uint64_t client_ns;
	uint64_t waited_ns;	/* for a CPU, both of them, during the scene */
	uint64_t waited_before_ns;
	uint64_t moved_bytes, left_bytes;
	uint64_t before_ns;
	uint64_t after_ns;
	uint64_t window_ns;
	uint64_t done[PHASES];	/* answers */
};

struct outcome {
	struct sample samples[MAX_REPS];
	unsigned long nr;
	struct seen seen;
	struct counters counters;
	uint64_t checked, wrong;
	struct span span;	/* of the last scene */
	const struct load *load;
};

static struct cell served;	/* what the server is for */
static int server_settings;	/* of the kernel, as long as it is there */

static void end_all(void)
{
	if (!served.service)
		return;
	end_mover();
	served.scene->end();
	served.service->loader->close();
	end_server();
	if (served.way->end)
		served.way->end();
	served.service = NULL;
	server_settings = 0;
	restore_sysfs(0);
}

static bool same_server(const struct cell *cell)
{
	return served.service == cell->service && served.scene == cell->scene &&
	       served.mb == cell->mb && served.value_bytes == cell->value_bytes &&
	       served.connections == cell->connections && served.from == cell->from &&
	       served.to == cell->to &&
	       served.way->prepare == cell->way->prepare &&
	       served.neighbour_mb == cell->neighbour_mb && served.threads == cell->threads &&
	       served.cold == cell->cold && served.huge == cell->huge && served.zipf == cell->zipf;
}

static bool provide(const struct cell *cell)
{
	if (same_server(cell))
		return true;
	end_all();
	if (!start_server(cell))
		return false;
	served = *cell;
	/* The mover, which the scene starts, has to know what the way needs. */
	if ((cell->way->prepare && !cell->way->prepare(cell)) || !cell->scene->prepare(cell))
		return false;
	server_settings = nr_settings;
	return cell->service->loader->fill(cell);
}

static void sleep_until(uint64_t ns)
{
	uint64_t now = now_ns();

	if (now < ns)
		sleep_ns(ns - now);
}

static bool too_many(size_t left, const struct pages *pages)
{
	return left > pages->nr / 10;
}

/* Of the pages that were on the node before, how many are still there, and how many moved. */
static bool count_moved(const struct cell *cell, struct pages *pages, struct sample *sample)
{
	size_t left;

	if (!count_on(cell->scene->target(), pages, cell->from, &left))
		return false;
	sample->left_bytes = left * BASE_SIZE;
	if (!cell->way->counter)
		sample->moved_bytes = (pages->nr - left) * BASE_SIZE;
	if (!pages->nr)
		fail("no page was on node %lu", cell->from);
	if (!sample->moved_bytes && !cell->way->works)
		fail("nothing was moved");
	else if (!cell->way->counter && too_many(left, pages))
		fail("%zu of %zu pages did not move", left, pages->nr);
	return !failed();
}

static struct move move_of(const struct cell *cell)
{
	return (struct move) {
		.pid = cell->scene->target(), .from = cell->from, .to = cell->to,
		.callers = cell->callers, .all = cell->service->shared, .of_file = cell->huge,
		.bytes = cell->amount_mb << 20,
	};
}

/*
 * Runs the way, and again while more than a tenth of the pages stays, if that is allowed.
 * The kernel leaves a hugetlb page that processes share as long as one of them is in a fault
 * of this memory: it tries ten times, in some milliseconds, and a task without a CPU, or one
 * on an emulated CPU without a real one, is in its fault for longer.
 */
static bool run_tries(const struct cell *cell, const struct way *way, const struct move *move,
		      struct pages *pages, struct moved *sum)
{
	struct moved moved;
	size_t left;

	if (!run_mover(way, move, sum))
		return false;
	for (unsigned long tries = 1; !way->counter && tries < cell->tries; tries++) {
		if (!count_on(move->pid, pages, move->from, &left))
			return false;
		if (!too_many(left, pages))
			break;
		sleep_ns(AGAIN_NS);
		if (!run_mover(way, move, &moved))
			return false;
		sum->end_ns = moved.end_ns;
		sum->cpu_ns += moved.cpu_ns;
		sum->bytes += moved.bytes;
	}
	return true;
}

static bool play(const struct cell *cell, struct pages *pages, struct sample *sample,
		 struct span *span)
{
	const struct move move = move_of(cell);
	uint64_t server_ns, client_ns, waited_first_ns = waited_ns(), waited_last_ns;
	struct moved moved;

	span->begin_ns = now_ns();
	sleep_ns(cell->quiet_ms * NS_OF_MS);
	waited_last_ns = waited_ns();
	server_ns = server_cpu_ns();
	client_ns = cell->service->loader->cpu_ns();
	sample->waited_before_ns = waited_last_ns - waited_first_ns;
	if (!run_tries(cell, cell->way, &move, pages, &moved))
		return false;
	sample->server_ns = server_cpu_ns() - server_ns;
	sample->client_ns = cell->service->loader->cpu_ns() - client_ns;
	sample->waited_ns = waited_ns() - waited_last_ns;
	span->scene_ns = moved.begin_ns;
	span->scene_end_ns = moved.end_ns;
	span->window_end_ns = moved.begin_ns + cell->window_ms * NS_OF_MS;
	span->end_ns = moved.end_ns + cell->quiet_ms * NS_OF_MS;
	if (span->end_ns < span->window_end_ns)
		span->end_ns = span->window_end_ns;
	sleep_until(span->end_ns);
	sample->ns = moved.end_ns - moved.begin_ns;
	sample->moved_bytes = moved.bytes;
	sample->cpu_ns = moved.cpu_ns;
	sample->before_ns = span->scene_ns - span->begin_ns;
	sample->after_ns = span->end_ns - span->scene_end_ns;
	sample->window_ns = span->window_end_ns - span->scene_ns;
	return true;
}

static void note_checked(struct outcome *outcome, const struct load *load)
{
	outcome->checked += load->checked;
	outcome->wrong += load->wrong;
}

/* What the client has asked for is right; now all the rest. */
static bool verify(bool (*look)(struct load *load), struct outcome *outcome)
{
	struct load load;
	bool good;

	if (!look)
		return true;
	good = look(&load);
	note_checked(outcome, &load);
	return good;
}

/* Plays the scene once, while the client works. */
static bool repeat(const struct cell *cell, struct outcome *outcome)
{
	struct sample *sample = &outcome->samples[outcome->nr];
	struct counters before, after;
	struct pages pages = { .nr = 0 };
	const struct way *way = cell->way;
	const struct move move = move_of(cell);
	bool good;

	if ((way->begin && !way->begin(&move)) || !find_pages(cell->scene->target(), &pages, NULL) ||
	    !keep_on(cell->scene->target(), &pages, cell->from) ||
	    !cell->service->loader->start(cell)) {
		free_pages(&pages);
		return false;
	}
	sleep_ns(WARM_NS);
	read_counters(&before);
	good = play(cell, &pages, sample, &outcome->span);
	read_counters(&after);
	outcome->load = cell->service->loader->end();
	note_checked(outcome, outcome->load);
	good = good && !failed() && count_moved(cell, &pages, sample) &&
	       verify(cell->service->loader->verify, outcome) &&
	       verify(cell->scene->verify, outcome);
	free_pages(&pages);
	if (!good)
		return false;
	accumulate(&outcome->counters, &before, &after);
	look_at(outcome->load, &outcome->span, &outcome->seen, sample->done);
	if (way->works)
		sample->moved_bytes = sample->done[DURING] * BASE_SIZE;
	outcome->nr++;
	return true;
}

/* Brings the memory back for the next scene, if that has the same server. */
static bool bring_back(const struct cell *cell)
{
	struct move move = move_of(cell);
	struct pages pages = { .nr = 0 };
	struct moved moved;
	size_t left;

	if (cell->way->undo && !cell->way->undo())
		return false;
	if (cell->way->once)
		return true;
	move.from = cell->to;
	move.to = cell->from;
	move.callers = cell->huge ? 1 : RETURN_CALLERS;
	if (find_pages(move.pid, &pages, NULL) && keep_on(move.pid, &pages, move.from) &&
	    run_tries(cell, find_way("callers"), &move, &pages, &moved) &&
	    count_on(move.pid, &pages, move.from, &left) && too_many(left, &pages))
		fail("%zu of %zu pages have not come back", left, pages.nr);
	free_pages(&pages);
	return !failed();
}

static void print_field(const char *name, const struct outcome *outcome, size_t offset)
{
	print_samples(name, outcome->samples, outcome->nr, sizeof(outcome->samples[0]), offset);
}

static void print_outcome(const struct cell *cell, const struct outcome *outcome)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
		{ "ns", offsetof(struct sample, ns) },
		{ "cpu_ns", offsetof(struct sample, cpu_ns) },
		{ "server_ns", offsetof(struct sample, server_ns) },
		{ "client_ns", offsetof(struct sample, client_ns) },
		{ "waited_ns", offsetof(struct sample, waited_ns) },
		{ "waited_before_ns", offsetof(struct sample, waited_before_ns) },
		{ "moved_bytes", offsetof(struct sample, moved_bytes) },
		{ "left_bytes", offsetof(struct sample, left_bytes) },
		{ "before_ns", offsetof(struct sample, before_ns) },
		{ "after_ns", offsetof(struct sample, after_ns) },
		{ "window_ns", offsetof(struct sample, window_ns) },
		{ "done_before", offsetof(struct sample, done[BEFORE]) },
		{ "done_during", offsetof(struct sample, done[DURING]) },
		{ "done_after", offsetof(struct sample, done[AFTER]) },
		{ "done_window", offsetof(struct sample, done[WINDOW]) },
	};

	printf("{\"label\":");
	print_string(cell->label);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		print_field(fields[i].name, outcome, fields[i].offset);
	print_seen(&outcome->seen);
	if (outcome->nr)
		print_timeline(outcome->load, &outcome->span);
	printf(",\"not_moved\":0,\"statuses\":{}");
	print_integrity(outcome->checked, outcome->wrong, &outcome->counters);
}

/* Of a way after which the next scene would find another machine. */
static bool renew(const struct cell *cell, const struct outcome *outcome)
{
	if (!cell->way->once || outcome->nr == cell->reps)
		return true;
	end_all();
	return provide(cell) && set_knobs(cell->knobs, cell->nr_knobs);
}

static struct outcome outcome;

static bool run_cell(const struct cell *cell)
{
	bool ready;

	memset(&outcome, 0, sizeof(outcome));
	forget_failure();
	ready = provide(cell) && set_knobs(cell->knobs, cell->nr_knobs);
	while (ready && !stop && outcome.nr < cell->reps)
		ready = repeat(cell, &outcome) && bring_back(cell) && renew(cell, &outcome);
	restore_sysfs(server_settings);
	if (stop)
		fail("interrupted");
	print_outcome(cell, &outcome);
	/* Nobody knows what became of the server. */
	if (failed() || cell->way->once)
		end_all();
	return !failed() && !outcome.wrong;
}

static struct cell planned;

static void parse_planned(int argc, char **argv)
{
	parse_cell(argc, argv, &planned, NULL);
}

static bool measure_planned(void)
{
	return run_cell(&planned);
}

static const struct plan plan = { parse_planned, measure_planned };

int main(int argc, char **argv)
{
	struct run run = { .plan = NULL };
	struct cell cell;
	bool good;

	parse_cell(argc, argv, &cell, &run);
	if (run.own_machine)
		place_kernel_threads();
	stop_on_signals();
	good = run.plan ? run_plan(&run, &plan) : run_cell(&cell);
	end_all();
	restore_sysfs(0);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
