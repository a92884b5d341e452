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
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define FAULT_DIR	"/sys/kernel/debug/softdma"
#define PARAM_DIR	"/sys/module/softdma/parameters"
#define DRIVER_DIR	"/sys/bus/platform/drivers/softdma"
#define DMA_CLASS	"/sys/class/dma"
/* Those of softdma, and the most that dcbm takes. */
#define SOFT_CHANNELS	4
#define MAX_CHANNELS	64
/* Seconds of a test, and a second more for each MB, and each cycle, of it. */
#define TIMEOUT		600
/* Rounds through all kinds of memory until the engine has had its part. */
#define TRIES		5
#define TIMEOUT_MS	40
#define DELAY_MS	150

/* Whose knobs and counters we use. */
static const char *engine = "dcbm";
static unsigned int channels = SOFT_CHANNELS;
static size_t megabytes = 128;
static unsigned int cycles = 100;

static const char * const faults[] = {
	"fail_transfer", "fail_delay", "fail_drop", "fail_duplicate",
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
 * @also: What is injected, too, always; NULL for nothing.
 * @evidence: The counter of the channels that shows it; NULL for those of the
 *	engine that show that it copies.
 * @exclusive: The CPU copies only what is left.
 * @depth: Chunks of a channel at a time.
 * @poll_kb: Chunks up to that size are polled.
 */
static const struct trouble {
	const char *name;
	const char *fault;
	unsigned int percent;
	const char *also;
	const char *evidence;
	bool exclusive;
	unsigned int depth;
	unsigned int poll_kb;
} troubles[] = {
	{ "nothing fails", NULL, 0, NULL, NULL, false, 2, 64 },
	{ "nothing fails, no CPU", NULL, 0, NULL, NULL, true, 4, 0 },
	{ "nothing fails, polled", NULL, 0, NULL, NULL, true, 1, 2048 },
	{ "transfers fail", "fail_transfer", 20, NULL, "failed", false, 2, 64 },
	{ "transfers fail, no CPU", "fail_transfer", 20, NULL, "failed", true,
	  2, 64 },
	{ "all transfers fail", "fail_transfer", 100, NULL, "retired", true, 2,
	  64 },
	{ "descriptors are refused", "fail_prep", 60, NULL, "rejected", true, 2,
	  64 },
	{ "descriptors are refused and reported", "fail_submit", 30, NULL,
	  "rejected", true, 2, 64 },
	{ "completions are reported twice", "fail_duplicate", 50, NULL,
	  "spurious", true, 4, 64 },
	{ "completions are not reported", "fail_drop", 1, NULL, "timeouts",
	  true, 2, 64 },
	{ "transfers are late", "fail_delay", 1, NULL, "timeouts", true, 2, 64 },
	/* Beside the CPUs a channel gets little: what it gets is to be late. */
	{ "transfers are late, polled", "fail_delay", 20, NULL, "timeouts", false,
	  4, 2048 },
	{ "transfers are late and go on", "fail_delay", 1, "fail_terminate",
	  "lost", true, 2, 64 },
	{ "a device disappears", "fail_device", 1, NULL, "timeouts", true, 2,
	  64 },
};

static void engine_set(const char *knob, uint64_t value)
{
	engine_knob(engine, knob, value);
}

static uint64_t engine_get(const char *name)
{
	char path[128];
	uint64_t value;

	snprintf(path, sizeof(path), ENGINES_DIR "/%s/%s", engine, name);
	require(!file_read_number(path, &value), "cannot read %s", path);
	return value;
}

/* The sum of a counter over all the channels that there ever were. */
static uint64_t channels_sum(const char *name)
{
	uint64_t sum = 0, value;
	char path[128];
	int i;

	for (i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), ENGINES_DIR "/dcbm/channel%d/%s",
			 i, name);
		if (!file_exists(path) || file_read_number(path, &value))
			break;
		sum += value;
	}
	return sum;
}

static bool can_fail(void)
{
	return file_exists(FAULT_DIR);
}

static void fault_set(const char *name, unsigned int percent)
{
	char path[128];

	snprintf(path, sizeof(path), FAULT_DIR "/%s/times", name);
	require(!file_write(path, "-1"), "cannot write %s", path);
	snprintf(path, sizeof(path), FAULT_DIR "/%s/probability", name);
	require(!file_write_number(path, percent), "cannot write %s", path);
}

static void faults_clear(void)
{
	size_t i;

	if (!can_fail())
		return;
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		fault_set(faults[i], 0);
	require(!file_write(FAULT_DIR "/revive", "1"), "cannot revive");
}

/* Channels that were given up are not used again unless somebody asks. */
static void channels_renew(void)
{
	int try;

	/* Those that cannot be terminated are released later. */
	for (try = 0; try < 50; try++) {
		engine_set("channels", 0);
		engine_set("channels", channels);
		if (engine_get("channels_live") == channels)
			return;
		usleep(100000);
	}
	die("%llu channels only",
	    (unsigned long long)engine_get("channels_live"));
}

/* Whatever went wrong before, the engine is tried as if it were new. */
static void tried_anew(void)
{
	engine_set("offloading", 0);
	engine_set("offloading", 1);
}

static void engine_setup(const struct trouble *trouble)
{
	mode_enter(MODE_BATCH);
	faults_clear();
	file_write_number(PARAM_DIR "/delay_ms", DELAY_MS);
	tried_anew();
	engine_set("min_kb", 0);
	engine_set("timeout_ms", trouble->fault ? TIMEOUT_MS : 5000);
	engine_set("exclusive", trouble->exclusive);
	engine_set("depth", trouble->depth);
	engine_set("poll_kb", trouble->poll_kb);
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
		if (trouble->fault && engine_get("channels_live") < channels) {
			file_write(FAULT_DIR "/revive", "1");
			channels_renew();
		}
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	require(!reader.bad, "%lu words were wrong in between",
		(unsigned long)reader.bad);
	require(reader.looks, "nobody has looked");
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

	for (i = 0; i < 50 && engine_get("stats/quarantined"); i++)
		usleep(100000);
	require(!engine_get("stats/quarantined"), "pages stay in quarantine");
}

/* Whether the engine has copied, or what should happen to it has happened. */
static bool has_copied(const struct trouble *trouble, uint64_t bytes,
		       uint64_t evidence)
{
	if (!trouble->evidence)
		return engine_get("stats/bytes") > bytes;
	return channels_sum(trouble->evidence) > evidence;
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
	bytes = engine_get("stats/bytes");
	by_cpus = stat_read("bytes_caller");
	if (trouble->evidence)
		evidence = channels_sum(trouble->evidence);
	if (trouble->fault)
		fault_set(trouble->fault, trouble->percent);
	if (trouble->also)
		fault_set(trouble->also, 100);

	/* Beside CPUs the engine may seem too slow, by chance: try it anew then. */
	for (i = 0; i < nr * TRIES; i++) {
		struct region r;

		if (i >= nr && has_copied(trouble, bytes, evidence))
			break;
		if (i >= nr)
			tried_anew();
		region_make(&r, &kinds[i % nr], from, false);
		move_on(&r, trouble, megabytes * MB / nr);
		region_free(&r);
	}

	faults_clear();
	wait_for_quarantine();
	bytes = engine_get("stats/bytes") - bytes;
	by_cpus = stat_read("bytes_caller") - by_cpus;
	ksft_print_msg("%llu MB by DMA, %llu MB by CPUs\n",
		       (unsigned long long)(bytes / MB),
		       (unsigned long long)(by_cpus / MB));
	if (!trouble->evidence) {
		require(bytes, "no byte was copied by DMA");
		/* The threads of softdma may be late, as any thread. */
		require(softdma_path || !trouble->exclusive || bytes > by_cpus,
			"the channels left most to the CPUs");
		return;
	}
	evidence = channels_sum(trouble->evidence) - evidence;
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
		lost = engine_get("stats/lost");
		fault_set(trouble->fault, trouble->percent);
		fault_set(trouble->also, 100);
		region_make(&r, &kinds[2], from, false);
		move_on(&r, trouble, megabytes * MB);
		region_free(&r);
		faults_clear();
		wait_for_quarantine();
	}
	lost = engine_get("stats/lost") - lost;
	after = free_pages();
	ksft_print_msg("%llu chunks lost, %lld pages fewer are free\n",
		       (unsigned long long)lost, (long long)(before - after));
	require(lost >= 8, "too few chunks were lost to see a leak");
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

static int softdma_load(void)
{
	char params[64];

	snprintf(params, sizeof(params), "channels=%d devices=2", SOFT_CHANNELS);
	return module_load(softdma_path, params);
}

/*
 * Another engine stays in use, with nothing to do: with the first one and the
 * last one the kernel patches its code, which the emulation of several CPUs may
 * not survive a thousand times.
 */
static void keep(const char *other)
{
	engine_knob(other, "min_kb", GB / KB);
	engine_knob(other, "offloading", 1);
}

/**
 * struct cycled - a module that comes and goes
 * @name: Name of the test.
 * @engine: Which engine it is, or gives channels to.
 * @other: The one that stays.
 * @knob: How many channels or threads that engine has.
 * @provider: Whether the channels go with the engine.
 */
static const struct cycled {
	const char *name;
	const char *engine;
	const char *other;
	const char *knob;
	bool provider;
} cycled[] = {
	{ "load and unload", "dcbm", "mtcopy", "channels", false },
	{ "load and unload, with the channels", "dcbm", "mtcopy", "channels", true },
	{ "load and unload of threads", "mtcopy", "dcbm", "threads", false },
};

static void cycle_out(const struct cycled *what)
{
	require(!module_unload(what->engine), "cannot unload %s: %s",
		what->engine, strerror(errno));
	require(!what->provider || !module_unload("softdma"),
		"cannot unload softdma: %s", strerror(errno));
}

static void cycle_in(const struct cycled *what)
{
	const char *path = strcmp(what->engine, "dcbm") ? mtcopy_path : dcbm_path;

	if (what->provider)
		require(!softdma_load(), "cannot load softdma: %s",
			strerror(errno));
	require(!module_load(path, ""), "cannot load %s: %s", path,
		strerror(errno));
}

/* A module comes and goes while pages move on all CPUs. */
static void test_cycles(const void *arg)
{
	static const struct kind kind = { "base", BACK_ANON, OF_PAGES(1), 2 * MB };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	struct mover *movers = calloc(cpus, sizeof(*movers));
	const struct cycled *what = arg;
	uint64_t bytes = 0;
	atomic_bool stop = false;
	unsigned int cycle;
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

	keep(what->other);
	engine = what->engine;
	cycle_out(what);
	for (cycle = 0; cycle < cycles; cycle++) {
		cycle_in(what);
		engine_set("min_kb", 0);
		engine_set(what->knob, channels);
		engine_set("offloading", 1);
		/* At times it goes as soon as it has come, at times amid its work. */
		for (i = cycle % 4 ? 50 : 0; i < 50; i++) {
			if (engine_get("stats/bytes"))
				break;
			usleep(20000);
		}
		bytes += engine_get("stats/bytes");
		cycle_out(what);
	}
	stop = true;
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

/* Of the device of the engine's first channel, the name; how many it has. */
static unsigned int device_find(char *device, size_t size)
{
	char channel[64], other[64];
	struct dirent *entry;
	unsigned int nr = 0;
	DIR *dir;

	require(!file_read(ENGINES_DIR "/dcbm/channel0/name", channel,
			   sizeof(channel)), "the first channel has no name");
	channel[strcspn(channel, "\n")] = '\0';
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
		const char *name, *good, *bad;
	} knobs[] = {
		{ "offloading", "1", "2" },
		{ "exclusive", "1", "x" },
		{ "chunk_kb", "128", "0" },
		{ "chunk_kb", "128", "4096" },
		{ "timeout_ms", "77", "0" },
		{ "channels", "3", "65" },
		{ "depth", "3", "5" },
		{ "descriptors", "9", "0" },
		{ "near_only", "0", "-1" },
		{ "hold", "1", "2" },
	};
	char path[128], text[128], device[64];
	unsigned int has;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		snprintf(path, sizeof(path), ENGINES_DIR "/dcbm/%s",
			 knobs[i].name);
		require(!file_write(path, knobs[i].good), "%s: %s refused",
			knobs[i].name, knobs[i].good);
		require(file_write(path, knobs[i].bad) && errno == EINVAL,
			"%s: %s taken", knobs[i].name, knobs[i].bad);
		require(!file_read(path, text, sizeof(text)) &&
			!strncmp(text, knobs[i].good, strlen(knobs[i].good)),
			"%s is %s", knobs[i].name, text);
	}
	has = device_find(device, sizeof(device));
	/* Only the devices that were named; those that are not there give none. */
	require(!file_write(ENGINES_DIR "/dcbm/devices", "nothing-like-this"),
		"cannot write devices");
	require(!engine_get("channels_live"), "a device that was not named");
	snprintf(text, sizeof(text), "nothing, %s\n", device);
	require(!file_write(ENGINES_DIR "/dcbm/devices", text),
		"cannot write devices");
	require(engine_get("channels_live") == (has < 3 ? has : 3),
		"not of the device named, %s", device);
	require(!file_write(ENGINES_DIR "/dcbm/devices", "any"),
		"cannot write devices");
}

static void wait_for_release(const char *when)
{
	int i;

	for (i = 0; i < 50 && engine_get("channels_live"); i++)
		usleep(100000);
	require(!engine_get("channels_live"), "idle channels are held %s", when);
}

/* Channels that are not held go when nothing moves, and come back when needed. */
static void test_hold(const void *arg)
{
	const struct trouble *trouble = arg;
	struct region r;
	int i;

	prepare(trouble, &kinds[2], &r);
	engine_set("hold", 0);
	wait_for_release("though nothing has moved");
	engine_set("channels", channels);
	require(engine_get("channels_live") == channels, "no channels");
	wait_for_release("after they were requested");
	engine_set("channels", channels);
	move_on(&r, trouble, 2 * r.size);
	wait_for_release("after a migration");
	for (i = 0; i < 50 && !engine_get("channels_live"); i++)
		move_on(&r, trouble, 2 * r.size);
	require(engine_get("channels_live"), "channels do not come back");
	engine_set("hold", 1);
	region_free(&r);
}

/* Channels that were given up stay so, held or not, until somebody asks for them. */
static void test_retired(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t before, retired = 0;
	struct region r;
	int i;

	if (!can_fail())
		skip("no fault injection");
	prepare(trouble, &little, &r);
	/* All there are: there is no other one to take instead. */
	engine_set("channels", MAX_CHANNELS);
	engine_set("hold", 0);
	before = channels_sum("retired");
	fault_set("fail_transfer", 100);
	for (i = 0; i < 500 && retired < 2 * SOFT_CHANNELS; i++) {
		move_on(&r, trouble, 2 * r.size);
		retired = channels_sum("retired") - before;
	}
	require(retired == 2 * SOFT_CHANNELS, "%llu channels were given up",
		(unsigned long long)retired);
	faults_clear();
	for (i = 0; i < 15; i++) {
		move_on(&r, trouble, 2 * r.size);
		require(!engine_get("channels_live"), "they are used again");
		usleep(100000);
	}
	engine_set("hold", 1);
	engine_set("channels", MAX_CHANNELS);
	require(engine_get("channels_live") == 2 * SOFT_CHANNELS,
		"they do not come back");
	channels_renew();
	region_free(&r);
}

/* Channels that have no descriptors for a while are left alone, and then used. */
static void test_shortage(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t retired, rejected, bytes;
	time_t end;
	struct region r;
	int i;

	if (!can_fail())
		skip("no fault injection");
	prepare(trouble, &little, &r);
	end = time(NULL) + 2;
	retired = channels_sum("retired");
	rejected = channels_sum("rejected");
	fault_set("fail_prep", 100);
	/* Some of the four seconds after which they are given up. */
	for (i = 0; i < 20 && time(NULL) < end; i++)
		move_on(&r, trouble, 2 * r.size);
	faults_clear();
	rejected = channels_sum("rejected") - rejected;
	ksft_print_msg("%llu rejected\n", (unsigned long long)rejected);
	require(rejected, "nothing was short");
	require(channels_sum("retired") == retired, "channels were given up");
	bytes = engine_get("stats/bytes");
	/* Nobody waits for longer than two seconds. */
	for (i = 0; i < 50 && engine_get("stats/bytes") == bytes; i++) {
		usleep(100000);
		move_on(&r, trouble, 2 * r.size);
	}
	require(engine_get("stats/bytes") > bytes, "they are not used again");
	region_free(&r);
}

/* The names of all channels, which must be names, or none. */
static void names_read(void)
{
	char path[128], name[64];
	int i;

	for (i = 0; i < MAX_CHANNELS; i++) {
		snprintf(path, sizeof(path), ENGINES_DIR "/dcbm/channel%d/name",
			 i);
		if (!file_exists(path))
			break;
		require(!file_read(path, name, sizeof(name)), "cannot read %s",
			path);
		require(!strncmp(name, "dma", 3) || !strcmp(name, "none\n"),
			"%s is %s", path, name);
	}
}

/* A device goes while the engine has its channels, and comes back. */
static void test_unbind(const void *arg)
{
	const struct trouble *trouble = arg;
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
		require(!file_write(DRIVER_DIR "/unbind", "softdma.0"),
			"cannot unbind: %s", strerror(errno));
		names_read();
		move_on(&r, trouble, 2 * r.size);
		/* Those that are requested now must be of the other device. */
		engine_set("channels", 0);
		engine_set("channels", MAX_CHANNELS);
		require(engine_get("channels_live") == SOFT_CHANNELS,
			"%llu channels of one device",
			(unsigned long long)engine_get("channels_live"));
		names_read();
		move_on(&r, trouble, 2 * r.size);
		require(waitpid(mover, &i, 0) == mover && !i, "the mover failed");

		require(!file_write(DRIVER_DIR "/bind", "softdma.0"),
			"cannot bind: %s", strerror(errno));
		engine_set("channels", MAX_CHANNELS);
		require(engine_get("channels_live") == 2 * SOFT_CHANNELS,
			"channels do not come back");
		bytes = engine_get("stats/bytes");
		move_on(&r, trouble, 2 * r.size);
		require(engine_get("stats/bytes") > bytes, "nothing is copied");
		channels_renew();
	}
	region_free(&r);
}

/* Threads copy, alone or with the caller, and come and go meanwhile. */
static void test_threads(const void *arg)
{
	const struct trouble *trouble = arg;
	uint64_t bytes;
	struct region r;
	int from, to, i, try;

	nodes_find(&from, &to);
	mode_enter(MODE_BATCH);
	engine = "mtcopy";
	engine_set("offloading", 1);
	engine_set("min_kb", 0);
	keep("dcbm");
	region_make(&r, &kinds[2], from, false);
	for (i = 0; i < 8; i++) {
		engine_set("threads", 1 + i % 4);
		engine_set("exclusive", i % 2);
		/* Nobody waits for threads that run too late to begin. */
		for (try = 0, bytes = 0; try < 20 && !bytes; try++) {
			tried_anew();
			bytes = engine_get("stats/bytes");
			move_on(&r, trouble, 2 * r.size);
			bytes = engine_get("stats/bytes") - bytes;
		}
		require(bytes, "%d threads copied nothing", 1 + i % 4);
	}
	engine_set("threads", 0);
	move_on(&r, trouble, 2 * r.size);
	region_free(&r);
	require(!engine_get("stats/failed") && !engine_get("stats/lost"),
		"threads failed");
	require(!module_unload("mtcopy"), "cannot unload: %s", strerror(errno));
}

static void setup(void)
{
	uint64_t live;

	mkdir("/sys/kernel/debug", 0755);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (softdma_path && softdma_load() && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", softdma_path,
			       strerror(errno));
	if (module_load(dcbm_path, "") && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", dcbm_path,
			       strerror(errno));
	if (module_load(mtcopy_path, "") && errno != EEXIST)
		ksft_exit_skip("cannot load %s: %s\n", mtcopy_path,
			       strerror(errno));
	keep("mtcopy");
	if (softdma_path)
		return;
	if (file_write_number(ENGINES_DIR "/dcbm/channels", MAX_CHANNELS) ||
	    file_read_number(ENGINES_DIR "/dcbm/channels_live", &live) || !live)
		ksft_exit_skip("no channels that copy memory\n");
	channels = live;
	ksft_print_msg("%u channels\n", channels);
}

/* Only softdma can be made to have faults. */
static bool applies(const struct trouble *trouble)
{
	return softdma_path || !trouble->fault;
}

int main(int argc, char **argv)
{
	size_t nr = ARRAY_SIZE(troubles), planned = 6, i;
	static const struct trouble lossy = {
		"", "fail_delay", 5, "fail_terminate", "lost", true, 2, 64
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

	for (i = 0; i < nr; i++)
		planned += applies(&troubles[i]);
	planned += applies(&lossy);
	planned += softdma_path ? 4 : 0;
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
	test_run("channels are not held", TIMEOUT, test_hold, &troubles[1]);
	if (softdma_path) {
		test_run("channels stay given up", TIMEOUT, test_retired,
			 &troubles[1]);
		test_run("channels are short of descriptors", TIMEOUT,
			 test_shortage, &troubles[1]);
		test_run("a device is unbound", TIMEOUT, test_unbind,
			 &troubles[1]);
	}
	for (i = 0; i < ARRAY_SIZE(cycled); i++) {
		if (softdma_path || !cycled[i].provider)
			test_run(cycled[i].name, TIMEOUT + cycles, test_cycles,
				 &cycled[i]);
	}
	test_run("threads", TIMEOUT, test_threads, &troubles[0]);
	module_unload("dcbm");
	if (softdma_path)
		module_unload("softdma");
	test_leaks(leaks_find());
	tests_end();
}
