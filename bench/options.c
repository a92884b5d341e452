// SPDX-License-Identifier: GPL-2.0-only
/* The options of movebench, on its command line and in a plan. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "movebench.h"

static void usage(FILE *file)
{
	fputs("usage: movebench [OPTION]...\n"
	      "Moves anonymous memory between two NUMA nodes and back with move_pages(2),\n"
	      "verifies all of it after every move and prints one line of JSON.\n"
	      "\n"
	      "  -p, --plan FILE      run a cell for each line of options in FILE (- for stdin)\n"
	      "  -T, --turns DIR      say \"ready\" on stderr, begin cell N of the plan when the\n"
	      "                       file DIR/N exists, stop when DIR/abandoned does\n"
	      "  -o, --own-machine    nobody else uses this machine: put the kernel thread that\n"
	      "                       moves wait for on the CPU of the first caller\n"
	      "  -l, --label TEXT     name of the cell, repeated in its JSON\n"
	      "  -s, --folio-kb N     size of a folio in KiB, a power of two (4)\n"
	      "  -n, --folios N       number of folios (1024)\n"
	      "  -r, --reps N         timed repetitions (5)\n"
	      "  -W, --ways N         moves of a repetition, there and back and so on (1)\n"
	      "  -a, --at-least US    a repetition goes on until its moves have taken so long;\n"
	      "                       verify after the last of them where that can be (0: no)\n"
	      "  -w, --warmups N      moves before them that are not timed (1)\n"
	      "  -c, --callers N      threads that each move a part, all at once (1)\n"
	      "  -f, --from NODE      node the memory starts on (0)\n"
	      "  -t, --to NODE        node it moves to (1)\n"
	      "  -1, --one-way        every move goes from the one to the other\n"
	      "  -N, --helpers NODE   CPUs that help are those of this node: a cpuset has them and\n"
	      "                       that of the first caller\n"
	      "  -H, --hugetlb        hugetlb pages, not transparent ones\n"
	      "  -k, --knob NAME=VAL  write VAL to " MIGRATE_COPY_DIR "/NAME for this cell;\n"
	      "                       may be repeated; an error on a kernel without it;\n"
	      "                       " SYSCTL_PREFIX "NAME is " SYSCTL_DIR "/NAME,\n"
	      "                       " MODULE_PREFIX "NAME is " MODULE_DIR "/NAME,\n"
	      "                       " DEBUG_PREFIX "NAME is " DEBUG_DIR "/NAME,\n"
	      "                       " NICE_PREFIX "NAME is the nice value of kernel threads NAME\n"
	      "  -S, --seed N         seed of the pattern (1)\n"
	      "  -x, --touch US       a thread reads a page of the memory every US microseconds\n"
	      "                       while it moves; tell how long the reads take (0: none)\n"
	      "  -R, --reason NAME    move the memory by other means than move_pages: mbind,\n"
	      "                       migrate_pages, cpuset, demotion, promotion, balancing,\n"
	      "                       compaction or offlining\n"
	      "  -g, --hogs N         N workers of stress-ng want the CPUs during moves; their\n"
	      "                       CPU time is told (0)\n"
	      "  -m, --remaps         tell when the first and the last folio are accessible\n"
	      "                       again, by tracing the kernel (which takes some time itself)\n",
	      file);
	for (int i = 0; i < nr_meters; i++)
		fputs(meters[i]->help, file);
	fputs("  -h, --help           this text\n"
	      "\n"
	      "Exit status: 0 all folios moved and all content right; 1 not so, or a cell\n"
	      "could not be measured (its \"error\" says why); 2 wrong options.\n", file);
}

static const struct option own_options[] = {
	{ "plan", required_argument, NULL, 'p' },
	{ "turns", required_argument, NULL, 'T' },
	{ "own-machine", no_argument, NULL, 'o' },
	{ "label", required_argument, NULL, 'l' },
	{ "folio-kb", required_argument, NULL, 's' },
	{ "folios", required_argument, NULL, 'n' },
	{ "reps", required_argument, NULL, 'r' },
	{ "ways", required_argument, NULL, 'W' },
	{ "at-least", required_argument, NULL, 'a' },
	{ "warmups", required_argument, NULL, 'w' },
	{ "callers", required_argument, NULL, 'c' },
	{ "from", required_argument, NULL, 'f' },
	{ "to", required_argument, NULL, 't' },
	{ "one-way", no_argument, NULL, '1' },
	{ "helpers", required_argument, NULL, 'N' },
	{ "hugetlb", no_argument, NULL, 'H' },
	{ "knob", required_argument, NULL, 'k' },
	{ "seed", required_argument, NULL, 'S' },
	{ "touch", required_argument, NULL, 'x' },
	{ "reason", required_argument, NULL, 'R' },
	{ "hogs", required_argument, NULL, 'g' },
	{ "remaps", no_argument, NULL, 'm' },
	{ "help", no_argument, NULL, 'h' },
};

#define OWN_LETTERS	"p:T:ol:s:n:r:W:a:w:c:f:t:1N:Hk:S:x:R:g:mh"
#define NR_OWN		(sizeof(own_options) / sizeof(own_options[0]))
#define FIRST_METER	256

/* Those of the meters follow; one without a letter has a number that is none. */
static struct option long_options[NR_OWN + MAX_METERS + 1];
static char letters[sizeof(OWN_LETTERS) + 2 * MAX_METERS] = OWN_LETTERS;

static void add_meters(void)
{
	if (long_options[0].name)
		return;
	memcpy(long_options, own_options, sizeof(own_options));
	for (int i = 0; i < nr_meters; i++) {
		const struct meter *meter = meters[i];
		char letter[3] = { meter->letter, meter->most ? ':' : '\0' };

		long_options[NR_OWN + i] = (struct option) {
			meter->option, meter->most ? required_argument : no_argument, NULL,
			meter->letter ? meter->letter : FIRST_METER + i,
		};
		strcat(letters, letter);
	}
}

/* Has the meter that an option is of measure; false if it is of none. */
static bool ask_meter(int option, struct cell *cell)
{
	for (int i = 0; i < nr_meters; i++) {
		if (option != FIRST_METER + i && option != meters[i]->letter)
			continue;
		cell->meters[i] = meters[i]->most ? parse_number(optarg, 0, meters[i]->most) : 1;
		return true;
	}
	return false;
}

/* Fills @cell from one command line; @run is NULL for a line of a plan. */
void parse_cell(int argc, char **argv, struct cell *cell, struct run *run)
{
	int option;

	*cell = (struct cell) {
		.label = "", .folio_kb = BASE_KB, .folios = 1024, .reps = 5, .ways = 1, .warmups = 1,
		.callers = 1, .from = 0, .to = 1, .seed = 1,
	};
	add_meters();
	optind = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		switch (option) {
		case 'p':
		case 'T':
			if (!run)
				usage_error("a plan cannot name a plan");
			*(option == 'p' ? &run->plan : &run->turns) = optarg;
			break;
		case 'o':
			if (!run)
				usage_error("a plan is no matter of whose machine it is");
			run->own_machine = true;
			break;
		case 'l':
			cell->label = optarg;
			break;
		case 's':
			cell->folio_kb = parse_number(optarg, BASE_KB, 1UL << 24);
			if (cell->folio_kb & (cell->folio_kb - 1))
				usage_error("%s is not a power of two", optarg);
			break;
		case 'n':
			cell->folios = parse_number(optarg, 1, 1UL << 30);
			break;
		case 'r':
			cell->reps = parse_number(optarg, 1, 1000000);
			break;
		case 'W':
			cell->ways = parse_number(optarg, 1, 1000);
			break;
		case 'a':
			cell->at_least_us = parse_number(optarg, 0, 1000000000);
			break;
		case 'w':
			cell->warmups = parse_number(optarg, 0, 1000000);
			break;
		case 'c':
			cell->callers = parse_number(optarg, 1, MAX_CALLERS);
			break;
		case 'f':
			cell->from = parse_number(optarg, 0, 1023);
			break;
		case 't':
			cell->to = parse_number(optarg, 0, 1023);
			break;
		case '1':
			cell->one_way = true;
			break;
		case 'N':
			cell->helpers_chosen = true;
			cell->helpers = parse_number(optarg, 0, 1023);
			break;
		case 'H':
			cell->hugetlb = true;
			break;
		case 'k':
			add_knob(cell->knobs, &cell->nr_knobs, optarg);
			break;
		case 'S':
			cell->seed = parse_number(optarg, 0, ULONG_MAX);
			break;
		case 'x':
			cell->touch_us = parse_number(optarg, 0, 999999);
			break;
		case 'R':
			cell->reason = find_reason(optarg);
			if (!cell->reason)
				usage_error("%s is no reason to move memory", optarg);
			break;
		case 'g':
			cell->hogs = parse_number(optarg, 0, MAX_CALLERS);
			break;
		case 'm':
			cell->remaps = true;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			if (ask_meter(option, cell))
				break;
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc)
		usage_error("unexpected argument %s", argv[optind]);
	if (cell->from == cell->to)
		usage_error("memory cannot move from node %lu to itself", cell->from);
}
