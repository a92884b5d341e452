// SPDX-License-Identifier: GPL-2.0-only
/*
 * faultbench - fault memory in and time it: by several threads, with folios of
 * several sizes, where free memory is in pieces, or by compilers
 *
 * One line of JSON for each cell, as movebench prints them.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "faultbench.h"
#include "turns.h"

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define DEBUGFS		"/sys/kernel/debug"
#define DRAIN_SWITCH	DEBUGFS "/migrate_copy/lru_drain"

const char program_name[] = "faultbench";

/* --- options --- */

static void usage(FILE *file)
{
	fputs("usage: faultbench [OPTION]...\n"
	      "Faults memory in and prints one line of JSON.\n"
	      "\n"
	      "  -p, --plan FILE      run a cell for each line of options in FILE (- for stdin)\n"
	      "  -T, --turns DIR      as movebench\n"
	      "  -l, --label TEXT     name of the cell, repeated in its JSON\n"
	      "  -k, --kind KIND      compaction: latency of faults for huge pages on a node\n"
	      "                       whose free memory is in pieces; pft: every base page is\n"
	      "                       faulted in and freed; compile: commands are run\n"
	      "  -r, --reps N         timed repetitions (5)\n"
	      "  -w, --warmups N      repetitions before them that are not timed (1)\n"
	      "  -c, --threads N      threads that each fault in a part, or commands at once (1)\n"
	      "  -b, --mb N           MiB faulted in by all of them (64)\n"
	      "  -n, --node N         of compaction: the node (0)\n"
	      "  -m, --mlocked        of compaction: what is in the way is mlocked\n"
	      "  -d, --drain WORD     write WORD to " DRAIN_SWITCH "\n"
	      "  -t, --thp LIST       transparent huge pages of these sizes in KiB, no others\n"
	      "  -C, --commands FILE  of compile: commands, one a line\n"
	      "  -h, --help           this text\n"
	      "\n"
	      "Exit status: 0 everything measured and all content right; 1 not so; 2 wrong\n"
	      "options.\n", file);
}

static const struct option long_options[] = {
	{ "plan", required_argument, NULL, 'p' },
	{ "turns", required_argument, NULL, 'T' },
	{ "label", required_argument, NULL, 'l' },
	{ "kind", required_argument, NULL, 'k' },
	{ "reps", required_argument, NULL, 'r' },
	{ "warmups", required_argument, NULL, 'w' },
	{ "threads", required_argument, NULL, 'c' },
	{ "mb", required_argument, NULL, 'b' },
	{ "node", required_argument, NULL, 'n' },
	{ "mlocked", no_argument, NULL, 'm' },
	{ "drain", required_argument, NULL, 'd' },
	{ "thp", required_argument, NULL, 't' },
	{ "commands", required_argument, NULL, 'C' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char *parse_kind(const char *text)
{
	if (strcmp(text, "compaction") && strcmp(text, "pft") && strcmp(text, "compile"))
		usage_error("not a kind: %s", text);
	return text;
}

/* @run is NULL for a line of a plan. */
static void parse_load(int argc, char **argv, struct load *load, struct run *run)
{
	int option;

	*load = (struct load) {
		.label = "", .kind = "pft", .reps = 5, .warmups = 1, .threads = 1, .mb = 64,
	};
	optind = 0;
	while ((option = getopt_long(argc, argv, "p:T:l:k:r:w:c:b:n:md:t:C:h", long_options,
				     NULL)) != -1) {
		switch (option) {
		case 'p':
		case 'T':
			if (!run)
				usage_error("a plan cannot name a plan");
			*(option == 'p' ? &run->plan : &run->turns) = optarg;
			break;
		case 'l':
			load->label = optarg;
			break;
		case 'k':
			load->kind = parse_kind(optarg);
			break;
		case 'r':
			load->reps = parse_number(optarg, 1, 1000000);
			break;
		case 'w':
			load->warmups = parse_number(optarg, 0, 1000000);
			break;
		case 'c':
			load->threads = parse_number(optarg, 1, MAX_THREADS);
			break;
		case 'b':
			load->mb = parse_number(optarg, 1, 1UL << 24);
			break;
		case 'n':
			load->node = parse_number(optarg, 0, 1023);
			break;
		case 'm':
			load->mlocked = true;
			break;
		case 'd':
			load->drain = optarg;
			break;
		case 't':
			load->thp = optarg;
			break;
		case 'C':
			load->commands = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc)
		usage_error("unexpected argument %s", argv[optind]);
	if (!strcmp(load->kind, "compile") != !!load->commands)
		usage_error("compile, and nothing else, needs --commands");
	if (strcmp(load->kind, "compile") && load->mb < 2 * load->threads)
		usage_error("each thread needs 2 MiB: --mb is too small");
}

/* --- a cell --- */

static bool is_listed(const char *list, unsigned long kb)
{
	unsigned long size;
	int length;

	for (; sscanf(list, "%lu%n", &size, &length) == 1; list += length + (list[length] == ',')) {
		if (size == kb)
			return true;
	}
	return false;
}

/* All base pages of huge sizes that are not in the list stay what they are. */
static bool choose_sizes(const struct load *load)
{
	struct dirent *entry;
	DIR *dir = opendir(THP_DIR);
	unsigned long kb;

	if (!dir) {
		fail("the kernel has no transparent huge pages");
		return false;
	}
	while ((entry = readdir(dir))) {
		char path[sizeof(THP_DIR) + 16 + sizeof(entry->d_name)];

		if (sscanf(entry->d_name, "hugepages-%lukB", &kb) != 1)
			continue;
		snprintf(path, sizeof(path), THP_DIR "/%s/enabled", entry->d_name);
		/* Sizes that exist for page cache only have no such file. */
		if (access(path, F_OK) == 0 &&
		    set_sysfs(path, is_listed(load->thp, kb) ? "always" : "never") < 0)
			fail("cannot write %s: %s", path, strerror(errno));
	}
	closedir(dir);
	return !failed();
}

static bool set_up(const struct load *load)
{
	if (load->thp && !choose_sizes(load))
		return false;
	if (load->drain && access(DRAIN_SWITCH, F_OK) < 0)
		mount("debugfs", DEBUGFS, "debugfs", 0, NULL);
	if (load->drain && set_sysfs(DRAIN_SWITCH, load->drain) < 0)
		fail("cannot write %s to " DRAIN_SWITCH ": %s", load->drain, strerror(errno));
	else if (!strcmp(load->kind, "compaction") &&
		 set_sysfs(THP_DIR "/defrag", "madvise") < 0)
		fail("cannot have faults compact: %s", strerror(errno));
	return !failed();
}

static void print_field(const char *name, const struct sample *samples, unsigned long nr,
			size_t offset)
{
	print_samples(name, samples, nr, sizeof(*samples), offset);
}

static void print_line(const struct load *load, const struct sample *samples, unsigned long nr,
		       const struct counters *counters)
{
	uint64_t verified = 0, mismatches = 0;

	for (unsigned long i = 0; i < nr; i++) {
		verified += samples[i].verified;
		mismatches += samples[i].mismatches;
	}
	printf("{\"label\":");
	print_string(load->label);
	print_field("ns", samples, nr, offsetof(struct sample, ns));
	print_field("cpu_ns", samples, nr, offsetof(struct sample, cpu_ns));
	print_field("user_ns", samples, nr, offsetof(struct sample, user_ns));
	print_field("latency_ns", samples, nr, offsetof(struct sample, latency_ns));
	print_field("moved_bytes", samples, nr, offsetof(struct sample, bytes));
	printf(",\"not_moved\":0");
	print_integrity(verified, mismatches, counters);
}

static bool run_load(const struct load *load)
{
	struct sample *samples = calloc(load->reps + 1, sizeof(*samples));
	struct counters before, after, sum = { .nr = 0 };
	unsigned long nr = 0;
	bool good = true;

	forget_failure();
	if (!samples)
		fail("out of memory");
	good = samples && set_up(load);
	for (unsigned long i = 0; good && !stop && i < load->warmups + load->reps; i++) {
		struct sample *sample = &samples[nr];

		memset(sample, 0, sizeof(*sample));
		read_counters(&before);
		good = strcmp(load->kind, "compile") ? fault_in(load, sample) :
		       compile(load, sample);
		read_counters(&after);
		if (!good || i < load->warmups)
			continue;
		accumulate(&sum, &before, &after);
		good = !sample->mismatches;
		nr++;
	}
	drop_fragments();
	restore_sysfs(0);
	if (stop)
		fail("interrupted");
	print_line(load, samples, nr, &sum);
	free(samples);
	return good && !failed();
}

static struct load planned;

static void parse_planned(int argc, char **argv)
{
	parse_load(argc, argv, &planned, NULL);
}

static bool measure_planned(void)
{
	return run_load(&planned);
}

static const struct plan plan = { parse_planned, measure_planned };

int main(int argc, char **argv)
{
	struct run run = { .plan = NULL };
	struct load load;

	parse_load(argc, argv, &load, &run);
	stop_on_signals();
	return (run.plan ? run_plan(&run, &plan) : run_load(&load)) ? EXIT_SUCCESS : EXIT_FAILURE;
}
