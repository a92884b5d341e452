// SPDX-License-Identifier: GPL-2.0-only
/*
 * What anybody could write into the knobs: random bytes, numbers at the edges
 * of their types, words that mean something elsewhere, while memory moves. Each
 * write is taken or refused with an error that says why, what is refused changes
 * nothing, what can be read stays readable, and the memory stays right. Who is
 * not root can write nothing. The same for the parameters that a module is loaded
 * with: it stays out, or what it shows is what it was given, and possible.
 *
 * Usage: migrate_fuzz [-t SECONDS] [-s SEED] [-d FILE] [-m FILE] [-f FILE]
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define MAX_KNOBS	256
#define MAX_TEXT	8192
/* Seconds for the memory to come to rest, all knobs being as before. */
#define REST		180
/* For modules that are loaded with anything. */
#define LOAD_SECONDS	10

static struct knob {
	char path[256];
	char before[1024];
	bool readable;
} knobs[MAX_KNOBS];

static size_t nr_knobs;

static unsigned int seconds = 20;
static uint64_t seed = 1;

/* Those with parameters that may be knobs. */
static const char * const modules[] = { "softdma", "dcbm", "mtcopy" };

/* Parameters of a module and what they may be; a text if there is no largest. */
static const struct parameter {
	const char *name;
	unsigned long least, most;
} parameters[] = {
	{ "channels", 1, 64 }, { "devices", 1, 8 }, { "cpus" },
	{ "bandwidth_mb", 0, UINT_MAX }, { "delay_ms", 0, UINT_MAX },
};

#define NR_PARAMETERS	(sizeof(parameters) / sizeof(*parameters))

/* What the mover tells, and is told. */
static struct shared {
	bool stop;
	unsigned long moves;
	bool wrong;
} *shared;

static const char * const words[] = {
	"0", "1", "2", "-1", "-0", "+1", "00", "010", "0x10", "0x", "1e3", "1.5",
	"127", "128", "255", "256", "65535", "65536", "2147483647",
	"2147483648", "-2147483648", "4294967295", "4294967296",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"18446744073709551615", "18446744073709551616", "1\n", "1\n\n", "\n1",
	" 1", "1 ", "1 2", "1,2", "0-1", "\n", " ", "y", "n", "Y", "on", "off",
	"auto", "automatic", "normal", "high", "spread", "fill", "never", "far",
	"demotion", "always", "all", "none", "compaction damon", "damon,damon",
	"compaction,,damon", "all none", "(null)", "%s%s%n", "../../etc/passwd",
	"/", "dma0chan0", "softdma.0", "dma0chan0 dma0chan0",
};

/* Refusals that say what is wrong with a text, or with asking now. */
static const int refusals[] = {
	EINVAL, ERANGE, EOPNOTSUPP, ENODEV, EBUSY,
};

static int knob_found(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	struct knob *knob = &knobs[nr_knobs];

	(void)ftw;
	if (type != FTW_F || !(st->st_mode & 0200))
		return 0;
	if (nr_knobs == MAX_KNOBS)
		ksft_exit_fail_msg("more than %d knobs\n", MAX_KNOBS);
	snprintf(knob->path, sizeof(knob->path), "%s", path);
	knob->readable = st->st_mode & 0400;
	if (knob->readable &&
	    file_read(path, knob->before, sizeof(knob->before)))
		ksft_exit_fail_msg("cannot read %s\n", path);
	nr_knobs++;
	return 0;
}

static void find_knobs(void)
{
	char path[128];
	struct stat st;
	size_t i;

	nftw(KNOB_DIR, knob_found, 16, FTW_PHYS);
	for (i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		snprintf(path, sizeof(path), "/sys/module/%s/parameters",
			 modules[i]);
		nftw(path, knob_found, 16, FTW_PHYS);
	}
	if (!stat(MT_PAGE_COPY, &st))
		knob_found(MT_PAGE_COPY, &st, FTW_F, NULL);
}

/* Unlike file_write(), with any bytes. Returns 0 or a negative error. */
static int write_bytes(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) < 0)
		err = -errno;
	close(fd);
	return err;
}

static void test_other_users(const void *unused)
{
	int module = dcbm_path ? open(dcbm_path, O_RDONLY) : -1;
	size_t i;
	int err;

	(void)unused;
	require(!dcbm_path || module >= 0, "cannot open %s", dcbm_path ?: "nothing");
	require(!setgid(NOBODY) && !setuid(NOBODY), "cannot become nobody");
	if (module >= 0) {
		err = syscall(SYS_finit_module, module, "", 0) ? errno : 0;
		require(err == EPERM, "a module: %s", strerror(err));
	}
	for (i = 0; i < nr_knobs; i++) {
		err = write_bytes(knobs[i].path, "1", 1);
		require(err == -EACCES, "%s: %s", knobs[i].path,
			err ? strerror(-err) : "written");
	}
}

/* Returns the length of what is to be written into a knob that has @now. */
static size_t make_text(char *text, const char *now)
{
	uint64_t number;
	size_t len, i;

	switch (rnd(8)) {
	case 0:
		len = 1 + rnd(32);
		break;
	case 1:
		len = 1 + rnd(MAX_TEXT);
		break;
	case 2:
		/* One by one: the order in which operands are evaluated is not fixed. */
		number = rnd(1ULL << 32) << 32;
		number |= rnd(1ULL << 32);
		number >>= rnd(64);
		return sprintf(text, "%llu", (unsigned long long)number);
	case 3:
		len = snprintf(text, MAX_TEXT, "%s", now);
		if (len)
			text[rnd(len)] = rnd(256);
		return len ? len : 1;
	case 4:
		return snprintf(text, MAX_TEXT, "%s", nr_knobs ?
				knobs[rnd(nr_knobs)].before : now) ?: 1;
	case 5:
		return sprintf(text, "%llu", (unsigned long long)rnd(17));
	default:
		return sprintf(text, "%s",
			       words[rnd(sizeof(words) / sizeof(*words))]);
	}
	for (i = 0; i < len; i++)
		text[i] = rnd(256);
	return len;
}

static bool refusal(int err)
{
	size_t i;

	for (i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		if (err == -refusals[i])
			return true;
	}
	return false;
}

/* The text as it can be shown. */
static const char *shown(const char *text, size_t len)
{
	static char copy[64];
	size_t i;

	for (i = 0; i < len && i < sizeof(copy) - 1; i++)
		copy[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
	copy[i] = '\0';
	return copy;
}

/* Whether what was written is taken. */
static bool write_one(const struct knob *knob)
{
	static char before[MAX_TEXT], after[MAX_TEXT], text[MAX_TEXT + 1];
	size_t len, i;
	int err;

	before[0] = '\0';
	if (knob->readable)
		require(!file_read(knob->path, before, sizeof(before)),
			"cannot read %s", knob->path);
	len = make_text(text, before);
	err = write_bytes(knob->path, text, len);
	require(!err || refusal(err), "%s: \"%s\" (%zu bytes): %s", knob->path,
		shown(text, len), len, strerror(-err));
	if (!knob->readable)
		return !err;
	require(!file_read(knob->path, after, sizeof(after)),
		"%s: cannot be read after \"%s\"", knob->path, shown(text, len));
	require(!err || !strcmp(before, after),
		"%s: \"%s\" is refused, and changes it", knob->path,
		shown(text, len));
	for (i = 0; after[i]; i++)
		require(isprint((unsigned char)after[i]) || after[i] == '\n',
			"%s: shows the byte %u", knob->path,
			(unsigned char)after[i]);
	return !err;
}

/* Moves memory to and fro until it is told to stop, and looks at it. */
static void __noreturn mover(void)
{
	static const struct kind kinds[] = {
		{ "base", BACK_ANON, OF_PAGES(1), 2 * MB },
		{ "thp", BACK_ANON, 2 * MB, 8 * MB },
		{ "shmem", BACK_SHMEM, OF_PAGES(1), 1 * MB },
	};
	struct region regions[sizeof(kinds) / sizeof(*kinds)];
	int from, to, swap;
	size_t i;

	shared->wrong = true;
	nodes_find(&from, &to);
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		region_make(&regions[i], &kinds[i], from, false);
	while (!shared->stop) {
		for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
			require(!region_move_pages(&regions[i], from, to) &&
				region_on_node(&regions[i], to) &&
				region_intact(&regions[i]), "%s is not right",
				kinds[i].name);
			shared->moves++;
		}
		swap = from;
		from = to;
		to = swap;
	}
	shared->wrong = false;
	_exit(0);
}

/* Whether a module shows a value that a parameter may have. */
static bool possible(const struct parameter *par)
{
	char path[128], text[MAX_TEXT];
	unsigned long value;
	char *end;

	snprintf(path, sizeof(path), "/sys/module/softdma/parameters/%s",
		 par->name);
	require(!file_read(path, text, sizeof(text)), "cannot read %s", path);
	if (!par->most)
		return true;
	value = strtoul(text, &end, 10);
	return end != text && (!*end || *end == '\n') && value >= par->least &&
	       value <= par->most;
}

/* One or two parameters, with anything for values. */
static void make_parameters(char *text, size_t size)
{
	char value[MAX_TEXT + 1];
	size_t len = 0, n;

	for (n = 1 + rnd(2); n; n--) {
		value[make_text(value, "1")] = '\0';
		len += snprintf(text + len, size - len, "%s=%s ",
				parameters[rnd(NR_PARAMETERS)].name, value);
	}
}

static void test_load(const void *unused)
{
	static char text[3 * MAX_TEXT];
	double end = now() + LOAD_SECONDS;
	unsigned long taken = 0, refused = 0;
	size_t i;

	(void)unused;
	if (!softdma_path)
		skip("needs softdma.ko");
	while (now() < end) {
		make_parameters(text, sizeof(text));
		if (module_load(softdma_path, text)) {
			/* A text or a CPU may be out of all bounds. */
			require(refusal(-errno) || errno == ENOSPC ||
				errno == EOVERFLOW, "\"%s\": %s",
				shown(text, strlen(text)), strerror(errno));
			require(!file_exists("/sys/module/softdma"),
				"\"%s\" is refused, and it is there",
				shown(text, strlen(text)));
			refused++;
			continue;
		}
		for (i = 0; i < NR_PARAMETERS; i++)
			require(possible(&parameters[i]), "\"%s\": %s",
				shown(text, strlen(text)), parameters[i].name);
		require(!module_unload("softdma"), "\"%s\": cannot unload: %s",
			shown(text, strlen(text)), strerror(errno));
		taken++;
	}
	ksft_print_msg("%lu taken, %lu refused\n", taken, refused);
	require(taken && refused, "too little was done");
}

static void restore(void)
{
	size_t i;

	for (i = 0; i < nr_knobs; i++) {
		if (knobs[i].readable)
			file_write(knobs[i].path, knobs[i].before);
	}
}

static void test_random(const void *unused)
{
	double end = now() + seconds;
	unsigned long writes, taken = 0;
	int status;
	pid_t pid;

	(void)unused;
	pid = fork();
	if (!pid)
		mover();
	for (writes = 0; now() < end; writes++) {
		taken += write_one(&knobs[rnd(nr_knobs)]);
		require(waitpid(pid, &status, WNOHANG) <= 0,
			"the mover has ended");
	}
	restore();
	shared->stop = true;
	for (end = now() + REST; waitpid(pid, &status, WNOHANG) <= 0;) {
		require(now() < end, "a move does not end");
		usleep(10000);
	}
	ksft_print_msg("%lu writes, %lu of them taken, %lu moves\n", writes, taken,
		       shared->moves);
	require(!shared->wrong && !status, "the memory is not right");
	require(shared->moves && writes > nr_knobs && taken && taken < writes,
		"too little was done");
}

/* Every knob can be given the value again that it had. */
static void test_restored(const void *unused)
{
	char text[1024];
	size_t i;

	(void)unused;
	for (i = 0; i < nr_knobs; i++) {
		if (!knobs[i].readable)
			continue;
		require(!file_read(knobs[i].path, text, sizeof(text)) &&
			!strcmp(text, knobs[i].before), "%s is \"%s\"",
			knobs[i].path, text);
	}
}

static void load_module(const char *path, const char *params)
{
	if (path && module_load(path, params))
		ksft_exit_fail_msg("cannot load %s: %s\n", path,
				   strerror(errno));
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:s:d:m:f:")) != -1) {
		switch (option) {
		case 't':
			seconds = strtoul(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		default:
			if (!module_option(option, optarg))
				return KSFT_FAIL;
		}
	}
	tests_start(4);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	random_start(seed, 0);
	test_run("random parameters of a module", LOAD_SECONDS + 60, test_load,
		 NULL);
	/* It may have failed. */
	module_unload("softdma");
	load_module(softdma_path, "channels=2");
	load_module(dcbm_path, "");
	load_module(mtcopy_path, "");
	find_knobs();
	ksft_print_msg("%zu knobs, seed %llu\n", nr_knobs,
		       (unsigned long long)seed);
	test_run("other users can write nothing", 60, test_other_users, NULL);
	test_run("random bytes, while memory moves", seconds + REST + 60,
		 test_random, NULL);
	restore();
	test_run("every knob has its value again", 60, test_restored, NULL);
	if (mtcopy_path)
		module_unload("mtcopy");
	if (dcbm_path)
		module_unload("dcbm");
	if (softdma_path)
		module_unload("softdma");
	tests_end();
}
