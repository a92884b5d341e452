// SPDX-License-Identifier: GPL-2.0-only
/* The options of workbench, of a run and of a cell. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

static void usage(FILE *file)
{
	fputs("usage: workbench [OPTION]...\n"
	      "Has a server and a client work while memory moves, and prints one line of JSON.\n"
	      "\n"
	      "  -p, --plan FILE      run a cell for each line of options in FILE (- for stdin)\n"
	      "  -T, --turns DIR      as movebench\n"
	      "  -o, --own-machine    as movebench\n"
	      "  -l, --label TEXT     name of the cell, repeated in its JSON\n"
	      "  -s, --service NAME   redis, memcached or postgres; or a program that works\n"
	      "                       on its memory, without a client: threads, gups: random\n"
	      "                       updates, bfs: searches of a graph (redis)\n"
	      "  -S, --scene NAME     drain: the server's memory moves; neighbour: that of a\n"
	      "                       process in another cgroup does; promoter: a program in\n"
	      "                       another cgroup comes to use its slow memory (drain)\n"
	      "  -w, --way NAME       migratepages; callers: threads that call move_pages(2);\n"
	      "                       move: the calls of `pagehaul move`; cpuset: cpuset.mems;\n"
	      "                       offlining: memory goes offline; demotion, promotion: its\n"
	      "                       memory goes to a slower tier, or comes back; balancing:\n"
	      "                       both, as the kernel sees fit, as long as the window;\n"
	      "                       compaction: somebody wants huge pages (move)\n"
	      "  -c, --callers N      of the ways callers and move (1)\n"
	      "  -y, --tries N        runs of the way, while more than a tenth stays (1)\n"
	      "  -b, --mb N           MiB of values in the server (512)\n"
	      "  -v, --value-bytes N  of a value (4000)\n"
	      "  -n, --connections N  of the client (4)\n"
	      "  -R, --rate N         requests a second in an open loop; 0: a closed loop (0)\n"
	      "  -e, --sets N         of 100 requests, those that set a value (20)\n"
	      "  -z, --zipf           keys are zipfian: one is asked for by its rank\n"
	      "  -q, --quiet-ms N     before the scene, and after it (40)\n"
	      "  -W, --window-ms N    from the start of the scene on, to compare ways (500)\n"
	      "  -N, --neighbour-mb N MiB of the neighbour (512)\n"
	      "  -a, --amount-mb N    MiB of demotion, promotion or compaction (128)\n"
	      "  -B, --balancing N    mode of NUMA balancing, of the way balancing (2)\n"
	      "  -F, --fast-mb N      MiB that node FROM has free for it; 0: what it has (0)\n"
	      "  -L, --slow-mb N      last MiB of a program, on node TO before it (0)\n"
	      "  -t, --threads N      of a program; 0: one for each CPU of its node (0)\n"
	      "  -C, --cold N         of 100 pages that they touch, those of the second half (10)\n"
	      "  -H, --huge           shared memory of hugetlb pages: postgres alone has them\n"
	      "  -r, --reps N         scenes (1)\n"
	      "  -f, --from NODE      where the memory is (0)\n"
	      "  -d, --to NODE        where it goes (1)\n"
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
	{ "tries", required_argument, NULL, 'y' },
	{ "mb", required_argument, NULL, 'b' },
	{ "value-bytes", required_argument, NULL, 'v' },
	{ "connections", required_argument, NULL, 'n' },
	{ "rate", required_argument, NULL, 'R' },
	{ "sets", required_argument, NULL, 'e' },
	{ "quiet-ms", required_argument, NULL, 'q' },
	{ "window-ms", required_argument, NULL, 'W' },
	{ "neighbour-mb", required_argument, NULL, 'N' },
	{ "huge", no_argument, NULL, 'H' },
	{ "zipf", no_argument, NULL, 'z' },
	{ "reps", required_argument, NULL, 'r' },
	{ "from", required_argument, NULL, 'f' },
	{ "amount-mb", required_argument, NULL, 'a' },
	{ "threads", required_argument, NULL, 't' },
	{ "cold", required_argument, NULL, 'C' },
	{ "balancing", required_argument, NULL, 'B' },
	{ "fast-mb", required_argument, NULL, 'F' },
	{ "slow-mb", required_argument, NULL, 'L' },
	{ "to", required_argument, NULL, 'd' },
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
		{ 'y', &cell->tries, 1, 1000 },
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
		{ 'a', &cell->amount_mb, 2, 1UL << 20 },
		{ 'B', &cell->balancing, 0, 3 },
		{ 'F', &cell->fast_mb, 0, 1UL << 20 },
		{ 'L', &cell->slow_mb, 0, 1UL << 20 },
		{ 't', &cell->threads, 0, MAX_THREADS },
		{ 'C', &cell->cold, 0, 100 },
		{ 'd', &cell->to, 0, 1023 },
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
void parse_cell(int argc, char **argv, struct cell *cell, struct run *run)
{
	int option;

	*cell = (struct cell) {
		.label = "", .service = find_service("redis"), .scene = find_scene("drain"),
		.way = find_way("move"), .mb = 512, .value_bytes = 4000, .connections = 4,
		.sets = 20, .quiet_ms = 40, .window_ms = 500, .reps = 1,
		.callers = 1, .tries = 1, .to = 1,
		.neighbour_mb = 512, .amount_mb = 128, .cold = 10, .balancing = 2,
	};
	optind = 0;
	while ((option = getopt_long(argc, argv, "p:T:ol:s:S:w:c:y:b:v:n:R:e:q:W:N:a:B:F:L:t:C:Hzr:f:d:k:h",
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
		case 'z':
			cell->zipf = true;
			break;
		case 'H':
			cell->huge = true;
			break;
		case 'k':
			add_knob(cell->knobs, &cell->nr_knobs, optarg);
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
	if (cell->huge && !cell->service->with_huge)
		usage_error("%s has no hugetlb pages", cell->service->name);
	if (cell->value_bytes % 8)
		usage_error("a value has words of 8 bytes");
}
