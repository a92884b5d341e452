// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy engines under load: whatever goes wrong with DMA, pages arrive with the
 * content that they had, and nothing else is overwritten.
 *
 * migrate_engine -d dcbm.ko -m mtcopy.ko [-f softdma.ko] [-b MB] [-c CYCLES]
 *
 * For each fault that softdma can be made to have, memory is moved to and fro
 * while another thread reads it: MB each time, by default 128. Then dcbm is loaded
 * and unloaded CYCLES times, by default 100, while pages move on all CPUs; softdma
 * with it as often, and mtcopy. Tests with faults are skipped where the kernel has
 * no fault injection.
 *
 * Where the kernel command line has swiotlb=force, no channel may be used, which is
 * all that is tested then.
 *
 * Where the machine has devices that QEMU has for tests (pci-testdev), softdma is the
 * driver of these, and the IOMMU, if there is one, is before them.
 *
 * Without softdma the channels are those of the machine, all of them, which
 * nothing makes fail: they must copy what they are given.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define PARAM_DIR	"/sys/module/softdma/parameters"
#define DCBM_STATUS	ENGINES_DIR "/dcbm/status"
#define DMA_CLASS	"/sys/class/dma"
/* Those of each device of softdma, and the most that dcbm takes. */
#define SOFT_CHANNELS	4
#define MAX_CHANNELS	64
/* Seconds of a test, and a second more for each MB of it. */
#define TIMEOUT		600
/* softdma alone takes half a second to go, and other work may be beside this. */
#define CYCLE_SECONDS	4
/* Rounds through all kinds of memory until the engine has had its part. */
#define TRIES		5
#define TIMEOUT_MS	40
/* What is late comes by then, were the machine as slow as emulated ones among others are. */
#define LATE_TRIES	300
#define LATE_US		100000
#define DELAY_MS	150
#define HALT_MS		6000
#define TELL_US		20000

/* Whose knobs and counters we use. */
static const char *engine = "dcbm";
static unsigned int channels = SOFT_CHANNELS;
static size_t megabytes = 128;
static unsigned int cycles = 100;

/* Of softdma: of platform devices, or of PCI devices. */
static const char *driver_dir = "/sys/bus/platform/drivers/softdma";

static const char * const faults[] = {
	"fail_transfer", "fail_delay", "fail_abort", "fail_drop", "fail_duplicate",
	"fail_prep", "fail_submit", "fail_terminate", "fail_device",
};

static const struct kind kinds[] = {
	{ "base", BACK_ANON, OF_PAGES(1), 8 * MB },
	{ "mthp", BACK_ANON, OF_PAGES(16), 8 * MB },
	{ "thp", BACK_ANON, 2 * MB, 16 * MB },
	{ "tmpfs", BACK_TMPFS, OF_PAGES(1), 8 * MB },
	{ "hugetlb_2m", BACK_HUGETLB, 2 * MB, 16 * MB },
};

/* For tests that move it many times. */
static const struct kind little = { "base", BACK_ANON, OF_PAGES(1), 2 * MB };

/**
 * struct trouble - what goes wrong in a test
 * @name: Name of the test.
 * @fault: What is injected; NULL for nothing.
 * @percent: For how many descriptors.
 * @evidence: The counter that shows it; NULL for that of the bytes that were copied.
 * @alone: The CPU copies only what is left.
 */
static const struct trouble {
	const char *name;
	const char *fault;
	unsigned int percent;
	const char *evidence;
	bool alone;
} troubles[] = {
	{ "nothing fails", NULL, 0, NULL, false },
	{ "nothing fails, no CPU", NULL, 0, NULL, true },
	{ "transfers fail", "fail_transfer", 20, "engine_failed", false },
	{ "transfers fail, no CPU", "fail_transfer", 20, "engine_failed", true },
	{ "all transfers fail", "fail_transfer", 100, "engine_failed", true },
	{ "descriptors are refused", "fail_prep", 60, "rejected", true },
	{ "descriptors are refused and reported", "fail_submit", 30, "rejected", true },
	{ "completions are reported twice", "fail_duplicate", 50, "spurious", true },
	{ "transfers are late", "fail_delay", 1, "engine_lost", true },
	{ "transfers are late, beside CPUs", "fail_delay", 5, "engine_lost", false },
	{ "transfers are aborted and go on", "fail_abort", 1, "engine_lost", true },
	{ "a device halts", "fail_device", 1, "engine_late", true },
};

static void engine_set(const char *knob, uint64_t value)
{
	engine_knob(engine, knob, value);
}

/* A line of dcbm's status that begins so, without that; false if there is none. */
static bool status_find(const char *begin, char *rest, size_t size)
{
	char text[8192], *line, *save;

	require(!file_read(DCBM_STATUS, text, sizeof(text)), "no %s", DCBM_STATUS);
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, begin, strlen(begin)))
			continue;
		snprintf(rest, size, "%s", line + strlen(begin));
		return true;
	}
	return false;
}

/* What dcbm says of itself, for whoever reads why a test has failed. */
static void print_status(void)
{
	char text[8192], *line, *save;

	require(!file_read(DCBM_STATUS, text, sizeof(text)), "no %s", DCBM_STATUS);
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		ksft_print_msg("status: %s\n", line);
}

/* Since boot, by engines; where one is used, by that. */
static uint64_t engine_bytes(void)
{
	return stat_read("bytes_engines");
}

/* A counter of engines, since boot, or one of the channels. */
static uint64_t count(const char *name)
{
	char begin[64], text[128];

	if (strstr(name, "engine"))
		return stat_read(name);
	snprintf(begin, sizeof(begin), "%s ", name);
	require(status_find(begin, text, sizeof(text)), "no %s is counted", name);
	return strtoull(text, NULL, 10);
}

static bool can_fail(void)
{
	return file_exists(SOFTDMA_DIR);
}

static void fault_set(const char *name, unsigned int percent)
{
	char path[128];

	snprintf(path, sizeof(path), SOFTDMA_DIR "/%s/times", name);
	require(!file_write(path, "-1"), "cannot write %s", path);
	snprintf(path, sizeof(path), SOFTDMA_DIR "/%s/probability", name);
	require(!file_write_number(path, percent), "cannot write %s", path);
}

static void faults_clear(void)
{
	size_t i;

	if (!can_fail())
		return;
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		fault_set(faults[i], 0);
	require(!file_write(SOFTDMA_DIR "/revive", "1"), "cannot revive");
}

/* All channels again. */
static void channels_renew(void)
{
	int try;

	/* Those that are late are released later. */
	for (try = 0; try < LATE_TRIES; try++) {
		engine_set("nr_dma_chan", 0);
		engine_set("nr_dma_chan", channels);
		if (dcbm_channels() == channels)
			return;
		usleep(LATE_US);
	}
	print_status();
	die("%u channels only", dcbm_channels());
}

static void engine_setup(const struct trouble *trouble)
{
	mode_enter(MODE_BATCH);
	faults_clear();
	file_write_number(PARAM_DIR "/delay_ms", DELAY_MS);
	engine_alone(trouble->alone);
	engine_set("timeout_ms", trouble->fault ? TIMEOUT_MS : 5000);
	engine_set("offloading", 1);
	channels_renew();
}

/**
 * struct reader - a thread that looks at memory while it moves
 * @r: The memory.
 * @lock: Held while the content changes.
 * @stop: Whether to end.
 * @bad: Words that were wrong.
 * @looks: How often it has looked at a piece.
 */
struct reader {
	struct region *r;
	pthread_rwlock_t lock;
	atomic_bool stop;
	atomic_ulong bad;
	atomic_ulong looks;
};

static void *read_on(void *data)
{
	struct reader *reader = data;
	unsigned int state = 1;

	while (!atomic_load(&reader->stop)) {
		size_t piece = 4 * KB;
		size_t at;

		pthread_rwlock_rdlock(&reader->lock);
		at = (size_t)rand_r(&state) % (reader->r->size / piece) * piece;
		reader->bad += pattern_bad(reader->r->map + at, piece,
					   reader->r->seed, at, 0);
		reader->looks++;
		pthread_rwlock_unlock(&reader->lock);
	}
	return NULL;
}

/*
 * Move a region to and fro, with new content each time: a transfer that comes too
 * late brings back old content.
 */
static void move_on(struct region *r, const struct trouble *trouble, size_t total)
{
	struct reader reader = {
		.r = r,
		.lock = PTHREAD_RWLOCK_INITIALIZER,
	};
	pthread_t thread;
	size_t moved;
	int from, to, tmp;

	nodes_find(&from, &to);
	require(!pthread_create(&thread, NULL, read_on, &reader), "no thread");
	for (moved = 0; moved < total; moved += r->size) {
		pthread_rwlock_wrlock(&reader.lock);
		r->seed++;
		pattern_fill(r->map, r->size, r->seed, 0, 0);
		pthread_rwlock_unlock(&reader.lock);

		require(!region_move_pages(r, from, to), "%s: did not move",
			r->kind->name);
		require(region_on_node(r, to) && region_intact(r),
			"%s: wrong after %zu MB", r->kind->name, moved / MB);
		tmp = from;
		from = to;
		to = tmp;
		if (trouble->fault)
			file_write(SOFTDMA_DIR "/revive", "1");
		if (trouble->fault && dcbm_channels() < channels)
			channels_renew();
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	require(!reader.bad, "%lu words were wrong in between",
		(unsigned long)reader.bad);
	require(reader.looks, "nobody has looked");
}

/* Move a region, free it, and return the trace of that. */
static FILE *trace_moves(struct region *r, const struct trouble *trouble)
{
	FILE *trace;

	move_on(r, trouble, 2 * r->size);
	region_free(r);
	file_write(TRACING "/events/enable", "0");
	trace = fopen(TRACING "/trace", "r");
	require(trace, "cannot read the trace");
	return trace;
}

/* The engine as a test wants it, and memory to move. */
static void prepare(const struct trouble *trouble, const struct kind *kind,
		    struct region *r)
{
	int from, to;

	nodes_find(&from, &to);
	engine_setup(trouble);
	region_make(r, kind, from, false);
}

static void wait_for_quarantine(void)
{
	int i;

	for (i = 0; i < LATE_TRIES && engine_quarantined(); i++)
		usleep(LATE_US);
	if (engine_quarantined())
		print_status();
	require(!engine_quarantined(), "pages stay in quarantine");
}

/* Whether the engine has copied, or what should happen to it has happened. */
static bool has_copied(const struct trouble *trouble, uint64_t bytes,
		       uint64_t evidence)
{
	if (!trouble->evidence)
		return engine_bytes() > bytes;
	return count(trouble->evidence) > evidence;
}

static void test_trouble(const void *arg)
{
	const struct trouble *trouble = arg;
	size_t nr = ARRAY_SIZE(kinds), i;
	uint64_t bytes, by_cpus, evidence = 0;
	int from, to;

	if (trouble->fault && !can_fail())
		skip("no fault injection");
	nodes_find(&from, &to);
	engine_setup(trouble);
	bytes = engine_bytes();
	by_cpus = stat_read("bytes_caller");
	if (trouble->evidence)
		evidence = count(trouble->evidence);
	if (trouble->fault)
		fault_set(trouble->fault, trouble->percent);

	/* Beside CPUs the engine may come too late by chance. */
	for (i = 0; i < nr * TRIES; i++) {
		struct region r;

		if (i >= nr && has_copied(trouble, bytes, evidence))
			break;
		region_make(&r, &kinds[i % nr], from, false);
		move_on(&r, trouble, megabytes * MB / nr);
		region_free(&r);
	}

	faults_clear();
	wait_for_quarantine();
	bytes = engine_bytes() - bytes;
	by_cpus = stat_read("bytes_caller") - by_cpus;
	ksft_print_msg("%llu MB by DMA, %llu MB by CPUs\n",
		       (unsigned long long)(bytes / MB),
		       (unsigned long long)(by_cpus / MB));
	if (!trouble->evidence) {
		require(bytes, "no byte was copied by DMA");
		/* The threads of softdma may be late, as any thread. */
		require(softdma_path || !trouble->alone || bytes > by_cpus,
			"the channels left most to the CPUs");
		return;
	}
	evidence = count(trouble->evidence) - evidence;
	ksft_print_msg("%s: %llu\n", trouble->evidence,
		       (unsigned long long)evidence);
	require(evidence, "%s: none", trouble->evidence);
}

/* Every chunk that is lost comes back: in the end as much is free as before. */
static void test_leak(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t before, after, lost;
	struct region r;
	int from, to, i;

	if (!can_fail())
		skip("no fault injection");
	nodes_find(&from, &to);
	engine_setup(trouble);
	/* The first time, memory is used that stays in use. */
	for (i = 0, before = 0, lost = 0; i < 2; i++) {
		before = free_pages();
		lost = count("engine_lost");
		fault_set(trouble->fault, trouble->percent);
		region_make(&r, &kinds[2], from, false);
		move_on(&r, trouble, megabytes * MB);
		region_free(&r);
		faults_clear();
		wait_for_quarantine();
	}
	lost = count("engine_lost") - lost;
	after = free_pages();
	ksft_print_msg("%llu chunks lost, %lld pages fewer are free\n",
		       (unsigned long long)lost, (long long)(before - after));
	require(lost >= 4, "too few chunks were lost to see a leak");
	/* Each would keep a folio of 512 pages. */
	require(before < after + lost * 512 / 4, "a leak");
}

struct mover {
	pthread_t thread;
	struct region r;
	atomic_bool *stop;
	unsigned long rounds;
	bool failed;
};

static void *move_around(void *data)
{
	struct mover *mover = data;
	int from, to, tmp;

	nodes_find(&from, &to);
	while (!atomic_load(mover->stop) && !mover->failed) {
		mover->failed = region_move_pages(&mover->r, from, to) ||
				!region_intact(&mover->r);
		mover->rounds++;
		tmp = from;
		from = to;
		to = tmp;
	}
	return NULL;
}

static int softdma_load(const char *more)
{
	char params[128];

	snprintf(params, sizeof(params), "channels=%d devices=2 pci=%d %s",
		 SOFT_CHANNELS, !!strstr(driver_dir, "pci"), more);
	return module_load(softdma_path, params);
}

/* A chunk keeps the module of its engine, and so do transfers that are late. */
static void must_unload(const char *name)
{
	char path[128];
	int try;

	snprintf(path, sizeof(path), ENGINES_DIR "/%s/offloading", name);
	for (try = 0; try < LATE_TRIES; try++) {
		if (!module_unload(name))
			return;
		require(errno == EAGAIN || errno == EBUSY, "cannot unload %s: %s",
			name, strerror(errno));
		file_write(path, "0");
		usleep(LATE_US);
	}
	die("%s stays loaded", name);
}

/*
 * Another engine stays in use, with nothing to do: with the first one and the
 * last one the kernel patches its code, which the emulation of several CPUs may
 * not survive a thousand times.
 */
static void keep(const char *other, const char *knob)
{
	char path[128];

	snprintf(path, sizeof(path), ENGINES_DIR "/%s/reasons", other);
	require(!file_write(path, "none"), "cannot write %s", path);
	engine_knob(other, knob, 1);
	engine_knob(other, "offloading", 1);
}

/**
 * struct cycled - a module that comes and goes
 * @name: Name of the test.
 * @engine: Which engine it is, or gives channels to.
 * @other: The one that stays.
 * @knob: How many channels or threads that engine has.
 * @other_knob: How many the other one has.
 * @provider: Whether the channels go with the engine.
 */
static const struct cycled {
	const char *name;
	const char *engine;
	const char *other;
	const char *knob;
	const char *other_knob;
	bool provider;
} cycled[] = {
	{ "load and unload", "dcbm", "mtcopy", "nr_dma_chan", "threads", false },
	{ "load and unload, with the channels", "dcbm", "mtcopy", "nr_dma_chan",
	  "threads", true },
	{ "load and unload of threads", "mtcopy", "dcbm", "threads", "nr_dma_chan",
	  false },
};

static void cycle_out(const struct cycled *what)
{
	must_unload(what->engine);
	if (what->provider)
		must_unload("softdma");
}

static void cycle_in(const struct cycled *what)
{
	const char *path = strcmp(what->engine, "dcbm") ? mtcopy_path : dcbm_path;

	if (what->provider)
		require(!softdma_load(""), "cannot load softdma: %s",
			strerror(errno));
	require(!module_load(path, ""), "cannot load %s: %s", path,
		strerror(errno));
}

/* Says again and again what is known of devices, also to a module that goes. */
static void *tell(void *stop)
{
	while (!atomic_load((atomic_bool *)stop)) {
		file_write(DCBM_PARAM_DIR "/devices", "any");
		usleep(TELL_US);
	}
	return NULL;
}

/*
 * A module comes and goes while pages move on all CPUs. Its parameters are written all
 * the time: they go last.
 */
static void test_cycles(const void *arg)
{
	/*
	 * Beside CPUs dcbm declines folios below 64 KB. Those of 64 KB become such:
	 * once migrated they count as mapped in part, and the next move splits them.
	 */
	static const struct kind kind = { "thp", BACK_ANON, 2 * MB, 4 * MB };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	struct mover *movers = calloc(cpus, sizeof(*movers));
	const struct cycled *what = arg;
	uint64_t bytes = 0, before;
	atomic_bool stop = false;
	unsigned int cycle;
	pthread_t teller;
	int from, to;

	nodes_find(&from, &to);
	mode_enter(MODE_BATCH);
	faults_clear();
	for (i = 0; i < cpus; i++) {
		region_make(&movers[i].r, &kind, from, false);
		movers[i].stop = &stop;
	}
	for (i = 0; i < cpus; i++)
		require(!pthread_create(&movers[i].thread, NULL, move_around,
					&movers[i]), "no thread");

	require(!pthread_create(&teller, NULL, tell, &stop), "no thread");

	keep(what->other, what->other_knob);
	engine = what->engine;
	cycle_out(what);
	for (cycle = 0; cycle < cycles; cycle++) {
		cycle_in(what);
		before = engine_bytes();
		engine_set(what->knob, channels);
		engine_set("offloading", 1);
		/* At times it goes as soon as it has come, at times amid its work. */
		for (i = cycle % 4 ? LATE_TRIES : 0; i > 0; i--) {
			if (engine_bytes() > before)
				break;
			usleep(20000);
		}
		bytes += engine_bytes() - before;
		cycle_out(what);
	}
	stop = true;
	pthread_join(teller, NULL);
	for (i = 0; i < cpus; i++) {
		pthread_join(movers[i].thread, NULL);
		require(!movers[i].failed && movers[i].rounds > 1,
			"mover %ld failed", i);
	}
	ksft_print_msg("%llu MB by %s\n", (unsigned long long)(bytes / MB),
		       engine);
	require(bytes, "no byte was copied by %s", engine);
	cycle_in(what);
}

/* The name of the device of a channel, as in "devices". */
static bool device_of(const char *channel, char *device, size_t size)
{
	char path[320], target[512];
	ssize_t len;

	snprintf(path, sizeof(path), DMA_CLASS "/%s/device", channel);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	snprintf(device, size, "%s", basename(target));
	return true;
}

/* The name of the engine's first channel. */
static void channel_first(char *channel, size_t size)
{
	char rest[128];

	require(status_find("dma", rest, sizeof(rest)), "there is no channel");
	rest[strcspn(rest, " ")] = '\0';
	snprintf(channel, size, "dma%.20s", rest);
}

/* Of the device of the engine's first channel, the name; how many it has. */
static unsigned int device_find(char *device, size_t size)
{
	char channel[64], other[64];
	struct dirent *entry;
	unsigned int nr = 0;
	DIR *dir;

	channel_first(channel, sizeof(channel));
	dir = opendir(DMA_CLASS);
	require(dir && device_of(channel, device, size), "no device of %s",
		channel);
	while ((entry = readdir(dir)))
		nr += device_of(entry->d_name, other, sizeof(other)) &&
		      !strcmp(other, device);
	closedir(dir);
	return nr;
}

/* Values that are not valid change nothing. */
static void test_knobs(const void *arg)
{
	static const struct {
		const char *dir, *name, *good, *shown, *bad;
	} knobs[] = {
		{ ENGINES_DIR "/dcbm", "offloading", "1", "1", "2" },
		{ ENGINES_DIR "/dcbm", "timeout_ms", "77", "77", "0" },
		{ ENGINES_DIR "/dcbm", "timeout_ms", "77", "77", "10001" },
		{ ENGINES_DIR "/dcbm", "reasons", "demotion", "demotion", "love" },
		{ DCBM_PARAM_DIR, "nr_dma_chan", "3", "3", "65" },
		{ DCBM_PARAM_DIR, "nr_dma_chan", "3", "3", "x" },
	};
	char path[128], text[128], device[64], channel[64];
	unsigned int has;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		snprintf(path, sizeof(path), "%s/%s", knobs[i].dir, knobs[i].name);
		require(!file_write(path, knobs[i].good), "%s: %s refused",
			knobs[i].name, knobs[i].good);
		require(file_write(path, knobs[i].bad) && errno == EINVAL,
			"%s: %s taken", knobs[i].name, knobs[i].bad);
		require(!file_read(path, text, sizeof(text)) &&
			!strncmp(text, knobs[i].shown, strlen(knobs[i].shown)),
			"%s is %s", knobs[i].name, text);
	}
	require(!file_write(ENGINES_DIR "/dcbm/reasons", "all"),
		"cannot write reasons");
	has = device_find(device, sizeof(device));
	channel_first(channel, sizeof(channel));
	/* Only the devices that were named; those that are not there give none. */
	require(!file_write(DCBM_PARAM_DIR "/devices", "nothing-like-this"),
		"cannot write devices");
	require(!dcbm_channels(), "a device that was not named");
	require(status_find(channel, text, sizeof(text)) &&
		strstr(text, "not among the devices"), "nobody says why: %s", text);
	snprintf(text, sizeof(text), "nothing, %s\n", device);
	require(!file_write(DCBM_PARAM_DIR "/devices", text),
		"cannot write devices");
	require(dcbm_channels() == (has < 3 ? has : 3),
		"not of the device named, %s", device);
	require(!file_write(DCBM_PARAM_DIR "/devices", channel),
		"cannot write devices");
	require(dcbm_channels() == 1, "not the channel named, %s",
		channel);
	require(!file_write(DCBM_PARAM_DIR "/devices", "any"),
		"cannot write devices");
}

/* Channels that have no descriptors for a while are used as soon as they have. */
static void test_shortage(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t rejected, bytes;
	time_t end;
	struct region r;
	int i;

	if (!can_fail())
		skip("no fault injection");
	prepare(trouble, &little, &r);
	end = time(NULL) + 2;
	rejected = count("rejected");
	fault_set("fail_prep", 100);
	for (i = 0; i < 20 && time(NULL) < end; i++)
		move_on(&r, trouble, 2 * r.size);
	faults_clear();
	rejected = count("rejected") - rejected;
	ksft_print_msg("%llu rejected\n", (unsigned long long)rejected);
	require(rejected, "nothing was short");
	bytes = engine_bytes();
	move_on(&r, trouble, 2 * r.size);
	require(engine_bytes() > bytes, "they are not used again");
	region_free(&r);
}

/* The first device of softdma. */
static void soft_device(char *name, size_t size)
{
	DIR *dir = opendir(driver_dir);
	struct dirent *entry;

	require(dir, "no %s", driver_dir);
	*name = 0;
	while ((entry = readdir(dir))) {
		/* The others are bind, module and so on. */
		if (strpbrk(entry->d_name, ".:") && entry->d_name[0] != '.' &&
		    (!*name || strcmp(entry->d_name, name) < 0))
			snprintf(name, size, "%.*s", (int)size - 1, entry->d_name);
	}
	closedir(dir);
	require(*name, "softdma has no device");
}

/* A device goes while the engine has its channels, and comes back. */
static void test_unbind(const void *arg)
{
	const struct trouble *trouble = arg;
	char path[128], device[64];
	unsigned int round;
	uint64_t bytes;
	struct region r;
	int from, to, i;

	nodes_find(&from, &to);
	engine_setup(trouble);
	region_make(&r, &little, from, false);
	for (round = 0; round < 3; round++) {
		pid_t mover = fork();

		require(mover >= 0, "no process");
		if (!mover) {
			struct region mine;

			region_make(&mine, &little, from, false);
			for (i = 0; i < 10; i++)
				move_on(&mine, trouble, 2 * mine.size);
			_exit(0);
		}
		usleep(50000);
		soft_device(device, sizeof(device));
		snprintf(path, sizeof(path), "%s/unbind", driver_dir);
		require(!file_write(path, device), "cannot unbind: %s", strerror(errno));
		move_on(&r, trouble, 2 * r.size);
		/* Those that are requested now must be of the other device. */
		engine_set("nr_dma_chan", 0);
		/* Those that are not released yet come later. */
		for (i = 0; i < LATE_TRIES && dcbm_channels() != SOFT_CHANNELS; i++) {
			engine_set("nr_dma_chan", MAX_CHANNELS);
			usleep(LATE_US);
		}
		if (dcbm_channels() != SOFT_CHANNELS)
			print_status();
		require(dcbm_channels() == SOFT_CHANNELS, "%u channels of one device",
			dcbm_channels());
		move_on(&r, trouble, 2 * r.size);
		require(waitpid(mover, &i, 0) == mover && !i, "the mover failed");

		snprintf(path, sizeof(path), "%s/bind", driver_dir);
		require(!file_write(path, device), "cannot bind: %s", strerror(errno));
		engine_set("nr_dma_chan", MAX_CHANNELS);
		require(dcbm_channels() == 2 * SOFT_CHANNELS,
			"channels do not come back");
		bytes = engine_bytes();
		move_on(&r, trouble, 2 * r.size);
		require(engine_bytes() > bytes, "nothing is copied");
		channels_renew();
	}
	region_free(&r);
}

/**
 * struct peculiar - a device that is not as others are
 * @name: Name of the test.
 * @params: What softdma is told.
 * @fault: What is injected, too; NULL for nothing.
 * @percent: For how many descriptors.
 * @check: What is expected after memory was moved, besides that it is right.
 */
struct peculiar {
	const char *name;
	const char *params;
	const char *fault;
	unsigned int percent;
	void (*check)(void);
};

/* Counters when the test began. */
static uint64_t bytes_before, late_before, lost_before;

static void counts_begin(void)
{
	bytes_before = engine_bytes();
	late_before = count("engine_late");
	lost_before = count("engine_lost");
}

static uint64_t bytes_copied(void)
{
	return engine_bytes() - bytes_before;
}

static void check_copied(void)
{
	require(bytes_copied(), "no byte was copied by DMA");
}

/* Nobody waits for what a device would do some day. */
static void check_punctual(void)
{
	require(bytes_copied(), "no byte was copied by DMA");
	require(count("engine_late") == late_before, "transfers are late");
}

/* What the two channels near to a destination copy in tests of their speed, in MB/s. */
#define PACE_MB		8

/* How long the moves of a peculiar device have taken. */
static double peculiar_seconds;

/* No faster than they may be; a slow machine is slower. */
static void check_pace(void)
{
	double mb = bytes_copied() / 1e6 / peculiar_seconds;

	check_punctual();
	ksft_print_msg("%.1f MB/s\n", mb);
	require(mb < 1.05 * PACE_MB, "%.1f MB/s instead of %d", mb, PACE_MB);
}

/* How often a CPU was interrupted since softdma was loaded. */
static uint64_t interrupts_now(void)
{
	uint64_t value;

	require(!file_read_number(SOFTDMA_DIR "/interrupted", &value), "nobody counts");
	return value;
}

/* Each descriptor interrupts; here they have 16 KB at most. */
static void check_interrupts(void)
{
	uint64_t interrupts = interrupts_now();

	check_punctual();
	require(interrupts * 16 * KB >= bytes_copied(), "%llu interrupts",
		(unsigned long long)interrupts);
}

static void check_lost(void)
{
	require(count("engine_lost") > lost_before, "no chunk was lost");
}

/* What is reported as aborted goes on: it is lost, and nothing that the CPU may copy. */
static void check_aborted(void)
{
	require(count("engine_lost") > lost_before, "nothing was aborted");
	wait_for_quarantine();
	usleep(2 * DELAY_MS * 1000);
	require(!count("spurious"), "%llu transfers were taken for over, and went on",
		(unsigned long long)count("spurious"));
}

/* Channels of a device that cannot reach all memory are not taken, and that is said. */
static void check_refused(void)
{
	char text[128];

	require(!dcbm_channels() && !bytes_copied(), "it needs bounce buffers");
	require(status_find("dma", text, sizeof(text)) &&
		strstr(text, "needs bounce buffers"), "nobody says why: %s", text);
}

/* Some turn out to need bounce buffers only when we have them. */
static void check_unfit(void)
{
	require(!dcbm_channels() && !bytes_copied(), "it needs bounce buffers");
}

/* Neither a caller nor an administrator waits for a device that has halted. */
static void check_halted(void)
{
	double start = now();

	require(engine_quarantined(), "the device has not halted");
	engine_set("nr_dma_chan", 0);
	require(now() - start < 5, "nr_dma_chan takes %f s", now() - start);
	start = now();
	require(module_unload("dcbm"), "it is unloaded, whatever is written");
	require(now() - start < 5, "to unload takes %f s", now() - start);
}

static const struct peculiar peculiars[] = {
	{ "segments of 64 KB", "seg_kb=64", NULL, 0, check_punctual },
	{ "segments of one page", "seg_kb=4", NULL, 0, check_copied },
	{ "a boundary at 64 KB", "boundary_kb=64", NULL, 0, check_copied },
	{ "out of order", "no_order=1 coalesce=1 bandwidth_mb=20", NULL, 0, check_punctual },
	{ "reported together, some fail", "coalesce=1", "fail_transfer", 2, check_copied },
	{ "out of order, some are late", "no_order=1 coalesce=1", "fail_delay", 2,
	  check_lost },
	{ "four descriptors, reported together", "queue=4 coalesce=1", NULL, 0,
	  check_punctual },
	{ "four descriptors, for which one waits", "queue=4 block=1", NULL, 0,
	  check_punctual },
	{ "it halts while one waits for a descriptor", "queue=4 block=1",
	  "fail_device", 2, check_halted },
	{ "it needs bounce buffers", "mask_bits=24", NULL, 0, check_refused },
	{ "it needs bounce buffers, once it is ours", "own_bits=24", NULL, 0, check_unfit },
	{ "segments of 64 KB, once it is ours", "own_bits=64 seg_kb=64", NULL, 0,
	  check_punctual },
	{ "it aborts at once, and goes on", "issue_us=5000", "fail_abort", 100,
	  check_aborted },
	{ "it interrupts a CPU", "irq_cpu=0 seg_kb=16", NULL, 0, check_interrupts },
	{ "it interrupts a CPU, some fail", "irq_cpu=1", "fail_transfer", 2, check_copied },
	{ "two channels share a speed", "group=2 group_mb=8", NULL, 0, check_pace },
	{ "all channels share a speed", "all_mb=8", NULL, 0, check_pace },
	{ "each page takes a channel longer", "page_ns=1024000", NULL, 0, check_pace },
};

/* Whether something is to be late; all else has the time that a slow machine takes. */
static bool comes_late(const struct peculiar *what)
{
	return what->check == check_lost || what->check == check_aborted ||
	       what->check == check_halted;
}

/* Loads both modules afresh, whatever state a test before has left. */
static void load_again(const char *params)
{
	faults_clear();
	if (file_exists("/sys/module/dcbm"))
		must_unload("dcbm");
	if (file_exists("/sys/module/softdma"))
		must_unload("softdma");
	require(!softdma_load(params) && !module_load(dcbm_path, ""),
		"cannot load with %s", params);
}

/* Modules as they are for other tests. */
static void usual_again(void)
{
	load_again("");
}

/* Few channels are of many devices, two of which are on each node. */
static void test_devices(const void *arg)
{
	char device[64], rest[128], channel[64];
	unsigned int i, there = 0, ours = 0;

	load_again("devices=4");
	engine_set("nr_dma_chan", 4);
	print_status();
	for (i = 0; i < 64; i++) {
		snprintf(channel, sizeof(channel), "dma%uchan0", i);
		if (!device_of(channel, device, sizeof(device)))
			continue;
		there++;
		snprintf(channel, sizeof(channel), "dma%uchan", i);
		ours += status_find(channel, rest, sizeof(rest)) && strstr(rest, ": ready");
	}
	usual_again();
	require(ours && ours == (there < 4 ? there : 4), "channels of %u of %u devices",
		ours, there);
}

/* Memory moves by a peculiar device, which is not misused. */
static void test_peculiar(const void *arg)
{
	const struct peculiar *what = arg;
	unsigned int i, try;
	uint64_t misused;
	int from, to;

	if (!can_fail())
		skip("no fault injection");
	nodes_find(&from, &to);
	mode_enter(MODE_BATCH);
	load_again(what->params);
	file_write_number(PARAM_DIR "/delay_ms", DELAY_MS);
	engine_alone(true);
	engine_set("timeout_ms", comes_late(what) ? TIMEOUT_MS : 5000);
	engine_set("nr_dma_chan", channels);
	engine_set("offloading", 1);
	counts_begin();
	if (what->fault)
		fault_set(what->fault, what->percent);
	peculiar_seconds = 0;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* Those of a pool first: their chunks are large, and to free them ends a halt. */
		const struct kind *kind = &kinds[ARRAY_SIZE(kinds) - 1 - i];
		size_t moved;
		double start;
		struct region r;
		int a = from, b = to, tmp;

		region_make(&r, kind, from, false);
		for (moved = 0; moved < megabytes * MB / 8; moved += r.size) {
			r.seed++;
			pattern_fill(r.map, r.size, r.seed, 0, 0);
			/* Where all destinations were late, pages stay. */
			start = now();
			for (try = 0; try < TRIES && region_move_pages(&r, a, b); try++)
				require(what->fault, "%s: did not move", kind->name);
			peculiar_seconds += now() - start;
			require(region_on_node(&r, b), "%s: did not move",
				kind->name);
			require(region_intact(&r), "%s: wrong after %zu MB",
				kind->name, moved / MB);
			tmp = a;
			a = b;
			b = tmp;
		}
		region_free(&r);
	}
	what->check();
	require(!file_read_number(SOFTDMA_DIR "/misused", &misused) && !misused,
		"the device was misused %llu times", (unsigned long long)misused);
	faults_clear();
	wait_for_quarantine();
	usual_again();
}

/* While an engine has no channel, offloading changes nothing. */
static void test_no_channel(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t copied;
	struct region r;

	prepare(trouble, &kinds[2], &r);
	engine_set("nr_dma_chan", 0);
	copied = stat_read("folios_copied");
	move_on(&r, trouble, 2 * r.size);
	require(stat_read("folios_copied") == copied, "folios are batched for nobody");
	channels_renew();
	move_on(&r, trouble, 2 * r.size);
	require(stat_read("folios_copied") > copied, "nothing is offloaded");
	region_free(&r);
}

static uint64_t pool_pages(const char *name)
{
	char path[128];
	uint64_t value;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", name);
	require(!file_read_number(path, &value), "cannot read %s", path);
	return value;
}

/* Whatever is late, no page of a hugetlb pool is in quarantine. */
static void test_pool(const void *arg)
{
	static const struct trouble late = {
		"", "fail_delay", 100, "engine_lost", true
	};
	uint64_t pages, lost;
	struct region r;
	int i;

	if (!can_fail())
		skip("no fault injection");
	for (i = 0; i < 2; i++) {
		prepare(&late, &kinds[4], &r);
		pages = pool_pages("nr_hugepages") - pool_pages("surplus_hugepages");
		lost = count("engine_lost");
		fault_set(late.fault, late.percent);
		move_on(&r, &late, 2 * r.size);
		require(count("engine_lost") == lost, "hugetlb folios were lost");
		require(pool_pages("nr_hugepages") - pool_pages("surplus_hugepages") == pages,
			"the pool has changed");
		region_free(&r);
		faults_clear();
	}
}

/* The event of a batch says how much engines have copied. */
static void test_event(const void *arg)
{
	const struct trouble *trouble = arg;
	unsigned long pages = 0;
	struct region r;
	char line[512];
	FILE *trace;

	prepare(trouble, &kinds[2], &r);
	trace_clear();
	if (file_write(EVENTS "/migrate_copy_batch/enable", "1"))
		skip("no events");
	trace = trace_moves(&r, trouble);
	while (fgets(line, sizeof(line), trace)) {
		const char *at = strstr(line, " engine_pages=");

		if (at)
			pages += strtoul(at + strlen(" engine_pages="), NULL, 10);
	}
	fclose(trace);
	require(pages, "no event tells of engines");
}

/* The system sleeps while a program moves memory, and channels are used again. */
static void test_suspend(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t bytes;
	struct region r;
	pid_t mover;
	int i;

	if (file_write("/sys/power/pm_test", "freezer"))
		skip("no tests of suspend");
	prepare(trouble, &little, &r);
	mover = fork();
	require(mover >= 0, "no process");
	if (!mover) {
		for (i = 0; i < 100; i++)
			move_on(&r, trouble, 2 * r.size);
		_exit(0);
	}
	i = file_write("/sys/power/state", "freeze");
	file_write("/sys/power/pm_test", "none");
	require(!i, "the system does not sleep: %s", strerror(errno));
	require(waitpid(mover, &i, 0) == mover && !i, "the mover failed");
	require(dcbm_channels() == channels, "channels do not come back");
	bytes = engine_bytes();
	move_on(&r, trouble, 2 * r.size);
	require(engine_bytes() > bytes, "nothing is offloaded");
	region_free(&r);

	/* A late transfer would write to memory that is being saved. */
	if (!can_fail())
		return;
	file_write("/sys/power/pm_test", "freezer");
	prepare(trouble, &little, &r);
	fault_set("fail_device", 100);
	engine_set("timeout_ms", TIMEOUT_MS);
	move_on(&r, trouble, 2 * r.size);
	require(engine_quarantined(), "the device has not halted");
	require(file_write("/sys/power/state", "freeze"), "the system sleeps");
	faults_clear();
	file_write("/sys/power/pm_test", "none");
	wait_for_quarantine();
	channels_renew();
	region_free(&r);
}

/*
 * A device that halts delays a migration by its time-out, once: what it has is lost
 * then, and it gets nothing more.
 */
static void test_delay(const void *arg)
{
	static const double most = HALT_MS / 1000.;
	static const struct {
		const struct kind *kind;
		bool alone;
	} moves[] = {
		{ &kinds[2], false }, { &kinds[2], true }, { &kinds[0], true },
	};
	struct trouble trouble = { "", "fail_device", 100, "engine_lost", false };
	char device[64];
	unsigned int i;

	if (!can_fail())
		skip("no fault injection");
	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		const struct kind *kind = moves[i].kind;
		double before, start, took;
		struct region r;
		uint64_t lost;
		int from, to;

		nodes_find(&from, &to);
		trouble.alone = moves[i].alone;
		prepare(&trouble, kind, &r);
		/* All channels of one device are equally near: one job is for all. */
		device_find(device, sizeof(device));
		require(!file_write(DCBM_PARAM_DIR "/devices", device) && dcbm_channels(),
			"no channels of %s", device);
		engine_set("timeout_ms", HALT_MS);
		start = now();
		require(!region_move_pages(&r, from, to) && !region_move_pages(&r, to, from),
			"%s: did not move", kind->name);
		before = (now() - start) / 2;

		lost = count("engine_lost");
		fault_set(trouble.fault, trouble.percent);
		start = now();
		/* Where all destinations were late, pages stay. */
		region_move_pages(&r, from, to);
		took = now() - start;
		lost = count("engine_lost") - lost;
		ksft_print_msg("%s%s: %.2f s, %.2f s beside %llu chunks that are lost\n",
			       kind->name, trouble.alone ? ", alone" : "", before, took,
			       (unsigned long long)lost);
		faults_clear();
		require(lost, "the device has not halted");
		require(region_intact(&r), "%s: wrong", kind->name);
		require(took - before < 1.2 * most, "%s: it took %.2f s", kind->name, took);
		wait_for_quarantine();
		require(!file_write(DCBM_PARAM_DIR "/devices", "any"), "cannot write devices");
		region_free(&r);
	}
}

/* To unmap may take long: interrupts stay enabled. */
static void test_unmap(const void *arg)
{
	static const char * const names[] = { "dma_unmap_phys", "dma_unmap_page" };
	const struct trouble *trouble = arg;
	unsigned long seen = 0, disabled = 0;
	char path[128], line[512], device[64];
	struct region r;
	FILE *trace;
	size_t i;

	prepare(trouble, &kinds[2], &r);
	soft_device(device, sizeof(device));
	trace_clear();
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), TRACING "/events/dma/%s/enable",
			 names[i]);
		seen += !file_write(path, "1");
	}
	if (!seen)
		skip("no events of the DMA API");
	seen = 0;
	trace = trace_moves(&r, trouble);
	while (fgets(line, sizeof(line), trace)) {
		const char *flags = strstr(line, "] ");

		if (line[0] == '#' || !flags || !strstr(line, device))
			continue;
		seen++;
		disabled += flags[2] == 'd' || flags[2] == 'D';
	}
	fclose(trace);
	require(seen, "nothing was unmapped");
	require(!disabled, "%lu of %lu were unmapped with interrupts disabled",
		disabled, seen);
}

/* Threads, which come and go, copy alone or with the caller. */
static void test_threads(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t bytes, failed = count("engine_failed"), lost = count("engine_lost");
	struct region r;
	int from, to, i, try;

	nodes_find(&from, &to);
	mode_enter(MODE_BATCH);
	engine = "mtcopy";
	engine_set("offloading", 1);
	keep("dcbm", "nr_dma_chan");
	region_make(&r, &kinds[2], from, false);
	for (i = 0; i < 8; i++) {
		engine_set("threads", 1 + i % 4);
		engine_alone(i % 2);
		/* Nobody waits for threads that run too late to begin. */
		for (try = 0, bytes = 0; try < 20 && !bytes; try++) {
			bytes = engine_bytes();
			move_on(&r, trouble, 2 * r.size);
			bytes = engine_bytes() - bytes;
		}
		require(bytes, "%d threads copied nothing", 1 + i % 4);
	}
	engine_set("threads", 0);
	move_on(&r, trouble, 2 * r.size);
	region_free(&r);
	require(count("engine_failed") == failed && count("engine_lost") == lost,
		"threads failed");
	require(!module_unload("mtcopy"), "cannot unload: %s", strerror(errno));
}

/* Every device goes through bounce buffers, by swiotlb=force. */
static bool all_bounce(void)
{
	char text[4096];

	return !file_read("/proc/cmdline", text, sizeof(text)) &&
	       strstr(text, "swiotlb=force");
}

static bool has_test_devices(void)
{
	DIR *dir = opendir("/sys/bus/pci/devices");
	char path[512], text[128];
	struct dirent *entry;
	bool has = false;

	while (dir && !has && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/modalias",
			 entry->d_name);
		has = !file_read(path, text, sizeof(text)) &&
		      !strncmp(text, "pci:v00001B36d00000005", 22);
	}
	if (dir)
		closedir(dir);
	return has;
}

static void setup(void)
{
	if (has_test_devices())
		driver_dir = "/sys/bus/pci/drivers/softdma";
	if (softdma_path && softdma_load("") && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", softdma_path,
			       strerror(errno));
	if (module_load(dcbm_path, "") && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", dcbm_path,
			       strerror(errno));
	if (module_load(mtcopy_path, "") && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", mtcopy_path,
			       strerror(errno));
	keep("mtcopy", "threads");
	if (softdma_path)
		return;
	engine_set("nr_dma_chan", MAX_CHANNELS);
	channels = dcbm_channels();
	if (!channels)
		ksft_exit_skip("no channels that copy memory\n");
	ksft_print_msg("%u channels\n", channels);
}

/* Only softdma can be made to have faults. */
static bool applies(const struct trouble *trouble)
{
	return softdma_path || !trouble->fault;
}

int main(int argc, char **argv)
{
	size_t nr = ARRAY_SIZE(troubles), planned = 7, i;
	static const struct trouble lossy = { "", "fail_delay", 100, "engine_lost", true };
	static const struct peculiar bounced = {
		"all memory is bounced", "", NULL, 0, check_refused
	};
	int opt;

	while ((opt = getopt(argc, argv, "b:c:d:f:m:")) != -1) {
		switch (opt) {
		case 'b':
			megabytes = strtoul(optarg, NULL, 10);
			break;
		case 'c':
			cycles = strtoul(optarg, NULL, 10);
			break;
		default:
			if (!module_option(opt, optarg))
				optind = argc + 1;
		}
	}
	if (optind != argc)
		ksft_exit_fail_msg("usage: %s -d dcbm.ko -m mtcopy.ko %s\n",
				   argv[0], "[-f softdma.ko] [-b MB] [-c CYCLES]");
	if (!dcbm_path || !mtcopy_path)
		ksft_exit_skip("needs -d dcbm.ko -m mtcopy.ko\n");

	if (all_bounce() && softdma_path) {
		tests_start(1);
		setup();
		test_run(bounced.name, TIMEOUT + megabytes, test_peculiar, &bounced);
		tests_end();
	}

	for (i = 0; i < nr; i++)
		planned += applies(&troubles[i]);
	planned += applies(&lossy);
	planned += softdma_path ? 8 + ARRAY_SIZE(peculiars) : 0;
	tests_start(planned);
	setup();
	test_run("knobs of the engine", TIMEOUT, test_knobs, NULL);
	for (i = 0; i < nr; i++) {
		if (applies(&troubles[i]))
			test_run(troubles[i].name, TIMEOUT + megabytes,
				 test_trouble, &troubles[i]);
	}
	if (applies(&lossy))
		test_run("lost chunks come back", TIMEOUT + megabytes, test_leak,
			 &lossy);
	if (softdma_path) {
		for (i = 0; i < ARRAY_SIZE(peculiars); i++)
			test_run(peculiars[i].name, TIMEOUT + megabytes,
				 test_peculiar, &peculiars[i]);
		test_run("a hugetlb pool", TIMEOUT, test_pool, NULL);
		test_run("few channels are of many devices", TIMEOUT, test_devices, NULL);
		test_run("suspend", TIMEOUT, test_suspend, &troubles[1]);
		test_run("a device that halts delays a migration once", TIMEOUT, test_delay,
			 NULL);
		test_run("unmapped with interrupts enabled", TIMEOUT, test_unmap,
			 &troubles[1]);
		test_run("channels are short of descriptors", TIMEOUT,
			 test_shortage, &troubles[1]);
		test_run("a device is unbound", TIMEOUT, test_unbind,
			 &troubles[1]);
	}
	test_run("there is no channel", TIMEOUT, test_no_channel, &troubles[1]);
	test_run("the event of a batch", TIMEOUT, test_event, &troubles[1]);
	for (i = 0; i < ARRAY_SIZE(cycled); i++) {
		if (softdma_path || !cycled[i].provider)
			test_run(cycled[i].name, TIMEOUT + CYCLE_SECONDS * cycles, test_cycles,
				 &cycled[i]);
	}
	test_run("threads", TIMEOUT, test_threads, &troubles[0]);
	module_unload("dcbm");
	if (softdma_path)
		module_unload("softdma");
	test_leaks(leaks_find());
	tests_end();
}
