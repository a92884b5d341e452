// SPDX-License-Identifier: GPL-2.0-only
/*
 * movebench - move anonymous memory between two NUMA nodes and time it
 *
 * One "cell" is one configuration: a folio size, a number of folios, a number
 * of callers and the knobs of the kernel. The folios are moved to the other
 * node and back with move_pages(2), every byte of them is verified after every
 * move, or after all moves of a repetition (--at-least), and one line of JSON is
 * printed for the cell. A plan, a file with the options of one cell a line, runs
 * many cells in one boot of a guest.
 *
 * Folios that can be moved only once (see moves_only_once()) are faulted in
 * again for every move. Only the system call is timed. It is given one address a
 * folio, the first: the kernel moves the whole folio for it, and an address for
 * each base page would measure the lookup of tail pages that have already moved.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mark.h"
#include "movebench.h"
#include "turns.h"

#define MAX_ATTEMPTS		10

const char program_name[] = "movebench";

long workers;

/* --- a cell --- */

/* More moves make no repetition, however short they are: of memory that is faulted in again. */
#define MAX_MOVES		4096
#define MAX_ONCE		64

/* What was seen of one repetition: sums over its moves. */
struct sample {
	uint64_t moves;
	uint64_t ns;
	uint64_t cpu_ns;	/* CPU time of the callers */
	uint64_t moved_bytes;
	uint64_t touch_ns;	/* the longest */
	uint64_t hog_ns;	/* CPU time of the hogs */
	/* Means, when it is over. */
	struct remaps remaps;
	uint64_t figures[MAX_METERS][MAX_FIGURES];
};

/* What was seen of a cell. */
struct outcome {
	struct sample *samples;
	unsigned long nr_samples;
	unsigned long nr_verified;	/* how often */
	struct waits waits;		/* of all touches */
	struct counters counters;
	struct status_count statuses[MAX_STATUSES];
	int nr_statuses;
	uint64_t not_moved;
	uint64_t bytes_verified;
	uint64_t mismatches;
};

static void print_field(const char *name, const struct outcome *outcome, size_t offset)
{
	print_samples(name, outcome->samples, outcome->nr_samples, sizeof(*outcome->samples),
		      offset);
}

static void print_outcome(const struct cell *cell, const struct outcome *outcome)
{
	printf("{\"label\":");
	print_string(cell->label);
	printf(",\"folio_kb\":%lu,\"folios\":%lu,\"hugetlb\":%s,\"callers\":%lu,\"bytes\":%" PRIu64,
	       cell->folio_kb, cell->folios, cell->hugetlb ? "true" : "false", cell->callers,
	       (uint64_t)cell->folios * (cell->folio_kb << 10));
	print_field("moves", outcome, offsetof(struct sample, moves));
	print_field("ns", outcome, offsetof(struct sample, ns));
	print_field("cpu_ns", outcome, offsetof(struct sample, cpu_ns));
	print_field("moved_bytes", outcome, offsetof(struct sample, moved_bytes));
	if (cell->touch_us) {
		print_field("touch_ns", outcome, offsetof(struct sample, touch_ns));
		print_waits("touches", &outcome->waits);
	}
	if (cell->hogs)
		print_field("hog_ns", outcome, offsetof(struct sample, hog_ns));
	if (cell->remaps) {
		print_field("first_ns", outcome, offsetof(struct sample, remaps.first_ns));
		print_field("last_ns", outcome, offsetof(struct sample, remaps.last_ns));
		print_field("away_ns", outcome, offsetof(struct sample, remaps.away_ns));
	}
	for (int i = 0; i < nr_meters; i++)
		for (int k = 0; cell->meters[i] && k < MAX_FIGURES && meters[i]->names[k]; k++)
			print_field(meters[i]->names[k], outcome,
				    offsetof(struct sample, figures[i][k]));
	printf(",\"not_moved\":%" PRIu64 ",\"statuses\":{", outcome->not_moved);
	for (int i = 0; i < outcome->nr_statuses; i++)
		printf("%s\"%d\":%" PRIu64, i ? "," : "", outcome->statuses[i].status,
		       outcome->statuses[i].count);
	putchar('}');
	print_integrity(outcome->bytes_verified, outcome->mismatches, &outcome->counters);
}

/* Adds what the trace tells of a move that began at @start_ns. */
static bool add_remaps(struct remaps *sum, uint64_t start_ns)
{
	struct remaps remaps;

	if (!read_remaps(start_ns, &remaps))
		return false;
	sum->first_ns += remaps.first_ns;
	sum->last_ns += remaps.last_ns;
	sum->away_ns += remaps.away_ns;
	return true;
}

/* Moves the memory to @node, and adds what was seen to the sample. */
static bool move_once(const struct cell *cell, unsigned long node, bool timed,
		      struct sample *sample, struct outcome *outcome)
{
	uint64_t elapsed, start_ns = 0, cpu_ns = 0, pages, failures = 0;

	if (cell->remaps && !start_remaps())
		return false;
	if (timed)
		mark_begin();
	elapsed = cell->reason ? move_by_reason(cell, &pages) :
		  move_region(node, cell->callers, &start_ns, &cpu_ns);
	if (timed)
		mark_end();
	sample->cpu_ns += cpu_ns;
	if (!elapsed)
		return false;
	if (!cell->reason) {
		failures = count_failures(node, outcome->statuses, &outcome->nr_statuses);
		pages = (region.folios - failures) * (region.folio_kb / BASE_KB);
	}
	outcome->not_moved += failures;
	sample->moves++;
	sample->ns += elapsed;
	sample->moved_bytes += pages * BASE_SIZE;
	if (timed && cell->remaps && !add_remaps(&sample->remaps, start_ns))
		return false;
	/* The next move needs all of it on one node: untimed attempts. */
	for (int attempt = 0; failures && attempt < MAX_ATTEMPTS; attempt++) {
		struct status_count ignored[MAX_STATUSES];
		int nr_ignored = 0;

		if (!move_region(node, 1, &start_ns, &cpu_ns))
			break;
		failures = count_failures(node, ignored, &nr_ignored);
	}
	region.node = node;
	return true;
}

/* Whether something is measured that needs the moves of a repetition one by one. */
static bool one_by_one(const struct cell *cell)
{
	for (int i = 0; i < nr_meters; i++)
		if (cell->meters[i] && meters[i]->each_move)
			return true;
	return false;
}

static void begin_meters(const struct cell *cell, struct sample *sample)
{
	for (int i = 0; i < nr_meters; i++)
		if (cell->meters[i])
			meters[i]->begin(cell->meters[i], sample->figures[i]);
}

static void end_meters(const struct cell *cell, struct sample *sample)
{
	for (int i = 0; i < nr_meters; i++)
		if (cell->meters[i])
			meters[i]->end(sample->figures[i]);
}

/* Whether a repetition needs more moves, or the cell more of them before the first one. */
static bool goes_on(const struct cell *cell, const struct sample *sample, bool timed, bool once)
{
	if (!timed)
		return sample->moves < cell->warmups;
	if (sample->moves % cell->ways)
		return true;
	return sample->ns < cell->at_least_us * 1000 &&
	       sample->moves < (once ? MAX_ONCE : MAX_MOVES);
}

/*
 * Makes the moves from one look at the content to the next one: a single move,
 * or all of a repetition. Reading all counters takes longer than a small move.
 */
static bool move_on(const struct cell *cell, bool timed, bool once, struct sample *sample,
		    struct outcome *outcome)
{
	bool single = once || !cell->at_least_us || one_by_one(cell), good;
	struct counters before, after;
	uint64_t touch_ns, ns = sample->ns;

	if (timed) {
		read_counters(&before);
		start_touching(cell->touch_us, &outcome->waits);
	}
	begin_meters(cell, sample);
	if (cell->hogs)
		resume_hogs();
	do {
		unsigned long node = region.node == cell->from ? cell->to : cell->from;

		good = !failed() && move_once(cell, node, timed, sample, outcome);
	} while (good && !single && !stop && goes_on(cell, sample, timed, once));
	sample->hog_ns += pause_hogs(sample->ns - ns);
	if (good)
		end_meters(cell, sample);
	if (timed) {
		touch_ns = stop_touching();
		if (touch_ns > sample->touch_ns)
			sample->touch_ns = touch_ns;
		read_counters(&after);
		if (good)
			accumulate(&outcome->counters, &before, &after);
	}
	return good;
}

static void take_means(struct sample *sample)
{
	sample->remaps.first_ns /= sample->moves;
	sample->remaps.last_ns /= sample->moves;
	sample->remaps.away_ns /= sample->moves;
	for (int i = 0; i < nr_meters; i++)
		for (int k = 0; k < MAX_FIGURES; k++)
			sample->figures[i][k] /= sample->moves;
}

/* Makes a repetition or, unless @timed, the moves before the first one. */
static bool repeat(const struct cell *cell, bool timed, struct outcome *outcome)
{
	struct sample *sample = &outcome->samples[outcome->nr_samples];
	bool once = moves_only_once(cell);

	memset(sample, 0, sizeof(*sample));
	do {
		if (once && outcome->nr_verified) {
			free_region();
			if (!make_region(cell))
				return false;
		}
		if (!move_on(cell, timed, once, sample, outcome))
			return false;
		outcome->mismatches += verify_region(mix(region.base + ++outcome->nr_verified));
		outcome->bytes_verified += region.bytes;
		/* The kernel need not move everything for a reason of its own. */
		if (!cell->reason && (!check_nodes() || (once && !check_backing())))
			return false;
	} while (!stop && goes_on(cell, sample, timed, once));
	if (timed) {
		take_means(sample);
		outcome->nr_samples++;
	}
	return true;
}

/* Provides the memory of a cell, and its hogs. */
static bool provide(const struct cell *cell)
{
	if (!prepare_region(cell))
		return false;
	if (!cell->hogs || have_hogs(cell->hogs))
		return true;
	/* A new process would share the pages for a moment: they would be copied when written. */
	free_region();
	return start_hogs(cell->hogs) && prepare_region(cell);
}

/* Returns true when every folio moved and every word was right. */
static bool run_cell(const struct cell *cell)
{
	struct outcome outcome = { .samples = calloc(cell->reps, sizeof(struct sample)) };
	int nr_memory_settings;
	bool ready;

	forget_failure();
	if (!outcome.samples)
		fail("out of memory");
	if (!cell->remaps)
		end_remaps();
	ready = !failed() && provide(cell);
	nr_memory_settings = nr_settings;
	if (ready && set_knobs(cell->knobs, cell->nr_knobs) &&
	    (!cell->helpers_chosen || choose_helpers(cell->helpers))) {
		ready = !cell->warmups || repeat(cell, false, &outcome);
		while (ready && !stop && outcome.nr_samples < cell->reps)
			ready = repeat(cell, true, &outcome);
		if (ready && !stop && !cell->reason)
			check_backing();
	}
	leave_helpers();
	restore_sysfs(nr_memory_settings);
	if (stop)
		fail("interrupted");
	print_outcome(cell, &outcome);

	/* Nobody can vouch for the memory after an error in the middle of a cell. */
	if (failed() || cell->reason) {
		free_region();
		restore_sysfs(0);
	}
	free(outcome.samples);
	return !failed() && !outcome.not_moved && !outcome.mismatches;
}

/* CPUs that this program may run on: some may be set apart, as part of a device. */
static long usable_cpus(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || !CPU_COUNT(&cpus))
		return 1;
	return CPU_COUNT(&cpus);
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
	workers = usable_cpus();
	if (workers > MAX_CALLERS)
		workers = MAX_CALLERS;
	stop_on_signals();

	good = run.plan ? run_plan(&run, &plan) : run_cell(&cell);
	free_region();
	end_remaps();
	end_hogs();
	restore_sysfs(0);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
