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
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"
#include "workbench.h"

#define MAX_REPS	64
/* After it the client has its pace. */
#define WARM_NS		(20 * NS_OF_MS)
/* Callers that bring the memory back; nobody measures them. */
#define RETURN_CALLERS	8

const char program_name[] = "workbench";

/* --- options --- */

static void usage(FILE *file)
{
	fputs("usage: workbench [OPTION]...\n"
	      "Has a server and a client work while memory moves, and prints one line of JSON.\n"
	      "\n"
	      "  -p, --plan FILE      run a cell for each line of options in FILE (- for stdin)\n"
	      "  -T, --turns DIR      as movebench\n"
	      "  -o, --own-machine    as movebench\n"
	      "  -l, --label TEXT     name of the cell, repeated in its JSON\n"
	      "  -s, --service NAME   redis or memcached (redis)\n"
	      "  -S, --scene NAME     drain: the server's memory moves; neighbour: that of a\n"
	      "                       process in another cgroup does (drain)\n"
	      "  -w, --way NAME       migratepages; callers: threads that call move_pages(2);\n"
	      "                       move: the calls of `pagehaul move` (move)\n"
	      "  -c, --callers N      of the ways callers and move (1)\n"
	      "  -b, --mb N           MiB of values in the server (512)\n"
	      "  -v, --value-bytes N  of a value (4000)\n"
	      "  -n, --connections N  of the client (4)\n"
	      "  -R, --rate N         requests a second in an open loop; 0: a closed loop (0)\n"
	      "  -e, --sets N         of 100 requests, those that set a value (20)\n"
	      "  -q, --quiet-ms N     before the scene, and after it (40)\n"
	      "  -W, --window-ms N    from the start of the scene on, to compare ways (500)\n"
	      "  -N, --neighbour-mb N MiB of the neighbour (512)\n"
	      "  -r, --reps N         scenes (1)\n"
	      "  -f, --from NODE      where the memory is (0)\n"
	      "  -t, --to NODE        where it goes (1)\n"
	      "  -k, --knob NAME=TEXT as movebench\n"
	      "  -h, --help           this text\n"
	      "\n"
	      "Exit status: 0 everything measured and all answers right; 1 not so; 2 wrong\n"
	      "options.\n", file);
}

static const struct option long_options[] = {
	{ "plan", required_argument, NULL, 'p' },
	{ "turns", required_argument, NULL, 'T' },
	{ "own-machine", no_argument, NULL, 'o' },
	{ "label", required_argument, NULL, 'l' },
	{ "service", required_argument, NULL, 's' },
	{ "scene", required_argument, NULL, 'S' },
	{ "way", required_argument, NULL, 'w' },
	{ "callers", required_argument, NULL, 'c' },
	{ "mb", required_argument, NULL, 'b' },
	{ "value-bytes", required_argument, NULL, 'v' },
	{ "connections", required_argument, NULL, 'n' },
	{ "rate", required_argument, NULL, 'R' },
	{ "sets", required_argument, NULL, 'e' },
	{ "quiet-ms", required_argument, NULL, 'q' },
	{ "window-ms", required_argument, NULL, 'W' },
	{ "neighbour-mb", required_argument, NULL, 'N' },
	{ "reps", required_argument, NULL, 'r' },
	{ "from", required_argument, NULL, 'f' },
	{ "to", required_argument, NULL, 't' },
	{ "knob", required_argument, NULL, 'k' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const void *known(const void *found, const char *text)
{
	if (!found)
		usage_error("not known: %s", text);
	return found;
}

/* Options of a whole run, which a line of a plan cannot have. */
static void parse_run(int option, struct run *run)
{
	if (!run)
		usage_error("a plan cannot have that option");
	if (option == 'o')
		run->own_machine = true;
	else
		*(option == 'p' ? &run->plan : &run->turns) = optarg;
}

static void parse_number_option(int option, struct cell *cell)
{
	const struct {
		int option;
		unsigned long *where, least, most;
	} numbers[] = {
		{ 'c', &cell->callers, 1, MAX_CALLERS },
		{ 'b', &cell->mb, 1, 1UL << 20 },
		{ 'v', &cell->value_bytes, 8, 1UL << 20 },
		{ 'n', &cell->connections, 1, 64 },
		{ 'R', &cell->rate, 0, 10000000 },
		{ 'e', &cell->sets, 0, 100 },
		{ 'q', &cell->quiet_ms, 1, 3600000 },
		{ 'W', &cell->window_ms, 1, 3600000 },
		{ 'N', &cell->neighbour_mb, 1, 1UL << 20 },
		{ 'r', &cell->reps, 1, MAX_REPS },
		{ 'f', &cell->from, 0, 1023 },
		{ 't', &cell->to, 0, 1023 },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i].option != option)
			continue;
		*numbers[i].where = parse_number(optarg, numbers[i].least, numbers[i].most);
		return;
	}
	usage(stderr);
	exit(2);
}

/* @run is NULL for a line of a plan. */
static void parse_cell(int argc, char **argv, struct cell *cell, struct run *run)
{
	int option;

	*cell = (struct cell) {
		.label = "", .service = find_service("redis"), .scene = find_scene("drain"),
		.way = find_way("move"), .mb = 512, .value_bytes = 4000, .connections = 4,
		.sets = 20, .quiet_ms = 40, .window_ms = 500, .reps = 1,
		.callers = 1, .to = 1,
		.neighbour_mb = 512,
	};
	optind = 0;
	while ((option = getopt_long(argc, argv, "p:T:ol:s:S:w:c:b:v:n:R:e:q:W:N:r:f:t:k:h",
				     long_options, NULL)) != -1) {
		switch (option) {
		case 'p':
		case 'T':
		case 'o':
			parse_run(option, run);
			break;
		case 'l':
			cell->label = optarg;
			break;
		case 's':
			cell->service = known(find_service(optarg), optarg);
			break;
		case 'S':
			cell->scene = known(find_scene(optarg), optarg);
			break;
		case 'w':
			cell->way = known(find_way(optarg), optarg);
			break;
		case 'k':
			if (!strchr(optarg, '=') || cell->nr_knobs == MAX_KNOBS)
				usage_error("not NAME=VALUE, or too many: %s", optarg);
			cell->knobs[cell->nr_knobs++] = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			parse_number_option(option, cell);
		}
	}
	if (optind < argc)
		usage_error("unexpected argument %s", argv[optind]);
	if (cell->value_bytes % 8)
		usage_error("a value has words of 8 bytes");
}

/* --- a cell --- */

/* What was seen of one scene. */
struct sample {
	uint64_t ns;
	uint64_t cpu_ns;	/* CPU time of who moved the memory */
	uint64_t server_ns;	/* that of the server, during the scene */
	uint64_t client_ns;
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

static void end_all(void)
{
	if (!served.service)
		return;
	end_mover();
	served.scene->end();
	close_connections();
	end_server();
	served.service = NULL;
}

static bool same_server(const struct cell *cell)
{
	return served.service == cell->service && served.scene == cell->scene &&
	       served.mb == cell->mb && served.value_bytes == cell->value_bytes &&
	       served.connections == cell->connections && served.from == cell->from &&
	       served.neighbour_mb == cell->neighbour_mb;
}

static bool provide(const struct cell *cell)
{
	if (same_server(cell))
		return true;
	end_all();
	if (!start_server(cell))
		return false;
	served = *cell;
	return cell->scene->prepare(cell) && fill_server(cell);
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = { ns / NS_OF_S, ns % NS_OF_S };

	nanosleep(&time, NULL);
}

static void sleep_until(uint64_t ns)
{
	uint64_t now = now_ns();

	if (now < ns)
		sleep_ns(ns - now);
}

static uint64_t server_cpu_ns(void)
{
	clockid_t clock;

	return clock_getcpuclockid(server, &clock) ? 0 : clock_ns(clock);
}

/* Of the pages that were on the node before, how many are still there, and how many moved. */
static bool count_moved(const struct cell *cell, struct pages *pages, struct sample *sample)
{
	size_t before = pages->nr;

	if (!keep_on(cell->scene->target(), pages, cell->from))
		return false;
	sample->left_bytes = pages->nr * BASE_SIZE;
	sample->moved_bytes = (before - pages->nr) * BASE_SIZE;
	if (pages->nr > before / 10)
		fail("%zu of %zu pages did not move", pages->nr, before);
	return !failed();
}

static bool play(const struct cell *cell, struct sample *sample, struct span *span)
{
	struct move move = { cell->scene->target(), cell->from, cell->to, cell->callers };
	uint64_t server_ns, client_ns;
	struct moved moved;

	span->begin_ns = now_ns();
	sleep_ns(cell->quiet_ms * NS_OF_MS);
	server_ns = server_cpu_ns();
	client_ns = load_cpu_ns();
	if (!run_mover(cell->way, &move, &moved))
		return false;
	sample->server_ns = server_cpu_ns() - server_ns;
	sample->client_ns = load_cpu_ns() - client_ns;
	span->scene_ns = moved.begin_ns;
	span->scene_end_ns = moved.end_ns;
	span->window_end_ns = moved.begin_ns + cell->window_ms * NS_OF_MS;
	span->end_ns = moved.end_ns + cell->quiet_ms * NS_OF_MS;
	if (span->end_ns < span->window_end_ns)
		span->end_ns = span->window_end_ns;
	sleep_until(span->end_ns);
	sample->ns = moved.end_ns - moved.begin_ns;
	sample->cpu_ns = moved.cpu_ns;
	sample->before_ns = span->scene_ns - span->begin_ns;
	sample->after_ns = span->end_ns - span->scene_end_ns;
	sample->window_ns = span->window_end_ns - span->scene_ns;
	return true;
}

/* Plays the scene once, while the client works. */
static bool repeat(const struct cell *cell, struct outcome *outcome)
{
	struct sample *sample = &outcome->samples[outcome->nr];
	struct counters before, after;
	struct pages pages = { .nr = 0 };
	bool good;

	if (!find_pages(cell->scene->target(), &pages, NULL, false) ||
	    !keep_on(cell->scene->target(), &pages, cell->from) || !start_load(cell))
		return false;
	sleep_ns(WARM_NS);
	read_counters(&before);
	good = play(cell, sample, &outcome->span);
	read_counters(&after);
	outcome->load = end_load();
	outcome->checked += outcome->load->checked;
	outcome->wrong += outcome->load->wrong;
	good = good && !failed() && count_moved(cell, &pages, sample);
	free_pages(&pages);
	if (!good)
		return false;
	accumulate(&outcome->counters, &before, &after);
	look_at(outcome->load, &outcome->span, &outcome->seen, sample->done);
	outcome->nr++;
	return true;
}

/* Brings the memory back for the next scene. */
static bool bring_back(const struct cell *cell)
{
	const struct move move = { cell->scene->target(), cell->to, cell->from, RETURN_CALLERS };
	struct moved moved;

	return run_mover(find_way("callers"), &move, &moved);
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

static struct outcome outcome;

static bool run_cell(const struct cell *cell)
{
	bool ready;

	memset(&outcome, 0, sizeof(outcome));
	forget_failure();
	ready = provide(cell) && set_knobs(cell->knobs, cell->nr_knobs);
	while (ready && !stop && outcome.nr < cell->reps)
		ready = repeat(cell, &outcome) && bring_back(cell);
	restore_sysfs(0);
	if (stop)
		fail("interrupted");
	print_outcome(cell, &outcome);
	/* Nobody knows what became of the server. */
	if (failed())
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
