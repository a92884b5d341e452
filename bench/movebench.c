// SPDX-License-Identifier: GPL-2.0-only
/*
 * movebench - move anonymous memory between two NUMA nodes and time it
 *
 * One "cell" is one configuration: a folio size, a number of folios, a number
 * of callers and the knobs of the kernel. The folios are moved to the other
 * node and back with move_pages(2), every byte of them is verified after every
 * move, and one line of JSON is printed for the cell. A plan, a file with the
 * options of one cell a line, runs many cells in one boot of a guest.
 *
 * Folios that can be moved only once (see moves_only_once()) are faulted in
 * anew for every move. Only the system call is timed. It is given one address a folio, the first:
 * the kernel moves the whole folio for it, and an address for each base page
 * would measure the lookup of tail pages that have already moved.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BASE_KB			4UL
#define BASE_SIZE		(BASE_KB << 10)
#define WORDS			(BASE_SIZE / sizeof(uint64_t))
#define MAX_CALLERS		256
#define MAX_KNOBS		16
#define MAX_SETTINGS		64
#define MAX_COUNTERS		64
#define MAX_STATUSES		16
#define MAX_ATTEMPTS		10
#define FIRST_LOOK_NS		(10 * 1000 * 1000)
#define LAST_LOOK_NS		(250 * 1000 * 1000)
#define STATUS_UNSET		INT_MIN
/* Odd, so that no two words of a region hold the same value. */
#define PATTERN_STEP		0x9e3779b97f4a7c15ULL

#define THP_DIR			"/sys/kernel/mm/transparent_hugepage"
#define MIGRATE_COPY_DIR	"/sys/kernel/mm/migrate_copy"

/* Bits of /proc/kpageflags and /proc/PID/pagemap: Documentation/admin-guide/mm/pagemap.rst */
#define KPF_COMPOUND_HEAD	(1ULL << 15)
#define KPF_COMPOUND_TAIL	(1ULL << 16)
#define KPF_HUGE		(1ULL << 17)
#define PM_PRESENT		(1ULL << 63)
#define PM_PFN			((1ULL << 55) - 1)

struct cell {
	const char *label;
	unsigned long folio_kb;
	unsigned long folios;
	unsigned long reps;
	unsigned long warmups;
	unsigned long callers;
	unsigned long from;
	unsigned long to;
	unsigned long seed;
	unsigned long touch_us;
	bool hugetlb;
	const char *knobs[MAX_KNOBS];
	int nr_knobs;
};

/* The memory being moved. It outlives a cell when the next one has the same shape. */
struct region {
	unsigned long folio_kb;
	unsigned long folios;
	unsigned long home;	/* the node it was faulted in on */
	unsigned long node;	/* the node it is on now */
	bool hugetlb;
	void *map;
	size_t map_bytes;
	uint64_t *start;
	size_t bytes;
	uint64_t base;		/* pattern of the first word */
	void **addresses;	/* first byte of each folio */
	int *targets;
	int *status;
};

struct counter {
	char name[64];
	uint64_t value;
};

struct counters {
	struct counter entry[MAX_COUNTERS];
	int nr;
};

struct caller {
	const struct region *region;
	unsigned long first;
	unsigned long folios;
	pthread_barrier_t *barrier;
	uint64_t start_ns;
	uint64_t end_ns;
	long rc;
	int error;
};

/* Part of a region that one thread verifies. */
struct span {
	uint64_t *start;
	size_t words;
	uint64_t old_value;
	uint64_t new_value;
	uint64_t mismatches;
	uint64_t *first_bad;
};

struct status_count {
	int status;
	uint64_t count;
};

static struct region region;
static long workers;
static volatile sig_atomic_t stop;

/* Why the running cell cannot be measured; empty while nothing is wrong. */
static char cell_error[512];

static struct {
	char path[256];
	char original[64];
} settings[MAX_SETTINGS];
static int nr_settings;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
	va_list args;

	if (cell_error[0])
		return;
	va_start(args, format);
	vsnprintf(cell_error, sizeof(cell_error), format, args);
	va_end(args);
}

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* --- sysfs: every setting changed is put back when the program ends --- */

static int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length;

	if (fd < 0)
		return -1;
	length = read(fd, text, size - 1);
	close(fd);
	if (length < 0)
		return -1;
	while (length > 0 && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	return 0;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t length;
	int error;

	if (fd < 0)
		return -1;
	length = write(fd, text, strlen(text));
	error = errno;
	close(fd);
	errno = error;
	return length < 0 ? -1 : 0;
}

/* "always [madvise] never" is written back as "madvise". */
static void chosen_word(char *text)
{
	char *open_bracket = strchr(text, '[');
	char *end;

	if (!open_bracket)
		return;
	end = strchr(open_bracket, ']');
	if (!end)
		return;
	*end = '\0';
	memmove(text, open_bracket + 1, strlen(open_bracket + 1) + 1);
}

static int set_sysfs(const char *path, const char *value)
{
	char current[64];
	int i;

	if (read_text(path, current, sizeof(current)) < 0)
		return -1;
	chosen_word(current);
	if (!strcmp(current, value))
		return 0;

	for (i = 0; i < nr_settings; i++)
		if (!strcmp(settings[i].path, path))
			break;
	if (i == nr_settings) {
		if (nr_settings == MAX_SETTINGS) {
			errno = ENOSPC;
			return -1;
		}
		snprintf(settings[i].path, sizeof(settings[i].path), "%s", path);
		snprintf(settings[i].original, sizeof(settings[i].original), "%s", current);
		nr_settings++;
	}
	return write_text(path, value);
}

/* Undoes all but the first @keep settings, the last one first. */
static void restore_sysfs(int keep)
{
	while (nr_settings > keep) {
		nr_settings--;
		if (write_text(settings[nr_settings].path, settings[nr_settings].original) < 0)
			fprintf(stderr, "movebench: cannot put %s back to %s: %s\n",
				settings[nr_settings].path, settings[nr_settings].original,
				strerror(errno));
	}
}

/* --- counters of the kernel --- */

static void add_counter(struct counters *counters, const char *group, const char *name,
			uint64_t value)
{
	struct counter *entry;

	if (counters->nr == MAX_COUNTERS)
		return;
	entry = &counters->entry[counters->nr++];
	snprintf(entry->name, sizeof(entry->name), "%.15s.%.40s", group, name);
	entry->value = value;
}

static void read_vmstat(struct counters *counters)
{
	static const char * const prefixes[] = {
		"pgmigrate_", "thp_migration_", "nr_tlb_remote_", "nr_tlb_local_flush_",
	};
	FILE *file = fopen("/proc/vmstat", "r");
	char name[64];
	uint64_t value;

	if (!file)
		return;
	while (fscanf(file, "%63s %" SCNu64, name, &value) == 2)
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
			if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
				add_counter(counters, "vmstat", name, value);
	fclose(file);
}

/* TLB shootdowns, function-call and rescheduling interrupts, all CPUs together. */
static void read_interrupts(struct counters *counters)
{
	static const char * const rows[] = { "TLB", "CAL", "RES" };
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return;
	while (getline(&line, &size, file) > 0) {
		char *name = line + strspn(line, " ");
		char *colon = strchr(name, ':');
		char *cursor, *end;
		uint64_t sum = 0;
		size_t i;

		if (!colon)
			continue;
		*colon = '\0';
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (!strcmp(name, rows[i]))
				break;
		if (i == sizeof(rows) / sizeof(rows[0]))
			continue;
		for (cursor = colon + 1;; cursor = end) {
			uint64_t value = strtoull(cursor, &end, 10);

			if (end == cursor)
				break;
			sum += value;
		}
		add_counter(counters, "irq", name, sum);
	}
	free(line);
	fclose(file);
}

static void read_migrate_copy(struct counters *counters)
{
	DIR *dir = opendir(MIGRATE_COPY_DIR "/stats");
	struct dirent *file;

	if (!dir)
		return;
	while ((file = readdir(dir))) {
		char path[sizeof(MIGRATE_COPY_DIR) + 8 + sizeof(file->d_name)];
		char text[64], *end;
		uint64_t value;

		if (file->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), MIGRATE_COPY_DIR "/stats/%s", file->d_name);
		if (read_text(path, text, sizeof(text)) < 0)
			continue;
		value = strtoull(text, &end, 10);
		if (end != text && *end == '\0')
			add_counter(counters, "migrate_copy", file->d_name, value);
	}
	closedir(dir);
}

static void read_counters(struct counters *counters)
{
	counters->nr = 0;
	read_vmstat(counters);
	read_interrupts(counters);
	read_migrate_copy(counters);
}

/* Adds what happened between two readings to @sum, which starts empty. */
static void accumulate(struct counters *sum, const struct counters *before,
		       const struct counters *after)
{
	for (int i = 0; i < after->nr; i++) {
		const struct counter *entry = &after->entry[i];
		uint64_t old = 0;
		int j;

		for (j = 0; j < before->nr; j++)
			if (!strcmp(before->entry[j].name, entry->name))
				old = before->entry[j].value;
		for (j = 0; j < sum->nr; j++)
			if (!strcmp(sum->entry[j].name, entry->name))
				break;
		if (j == sum->nr) {
			if (sum->nr == MAX_COUNTERS)
				continue;
			sum->entry[sum->nr++] = (struct counter) { .value = 0 };
			memcpy(sum->entry[j].name, entry->name, sizeof(entry->name));
		}
		sum->entry[j].value += entry->value - old;
	}
}

/* --- the pattern --- */

static uint64_t count_mismatches(const uint64_t *page, uint64_t value)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < WORDS; i++, value += PATTERN_STEP)
		bad += page[i] != value;
	return bad;
}

/*
 * Compares every word of a span with the pattern of this repetition and
 * writes the pattern of the next one, in a single pass over the memory.
 */
static void *verify_span(void *argument)
{
	struct span *span = argument;
	uint64_t old_value = span->old_value, new_value = span->new_value;

	for (size_t done = 0; done < span->words; done += WORDS) {
		uint64_t *page = span->start + done;
		uint64_t value = old_value, difference = 0;

		for (size_t i = 0; i < WORDS; i++, value += PATTERN_STEP)
			difference |= page[i] ^ value;
		if (difference) {
			span->mismatches += count_mismatches(page, old_value);
			if (!span->first_bad)
				span->first_bad = page;
		}
		old_value = value;
		for (size_t i = 0; i < WORDS; i++, new_value += PATTERN_STEP)
			page[i] = new_value;
	}
	return NULL;
}

/* Returns the number of 64-bit words that were not what had been written. */
static uint64_t verify_region(uint64_t next_base)
{
	struct span spans[MAX_CALLERS];
	pthread_t threads[MAX_CALLERS];
	size_t pages = region.bytes / BASE_SIZE, first = 0;
	uint64_t mismatches = 0;
	long nr = workers;

	if ((size_t)nr > pages)
		nr = pages;
	for (long i = 0; i < nr; i++) {
		size_t end = pages * (i + 1) / nr;

		spans[i] = (struct span) {
			.start = region.start + first * WORDS,
			.words = (end - first) * WORDS,
			.old_value = region.base + first * WORDS * PATTERN_STEP,
			.new_value = next_base + first * WORDS * PATTERN_STEP,
		};
		first = end;
	}
	for (long i = 1; i < nr; i++) {
		if (pthread_create(&threads[i], NULL, verify_span, &spans[i])) {
			fprintf(stderr, "movebench: cannot start a thread\n");
			exit(EXIT_FAILURE);
		}
	}
	verify_span(&spans[0]);
	for (long i = 1; i < nr; i++)
		pthread_join(threads[i], NULL);
	for (long i = 0; i < nr; i++) {
		mismatches += spans[i].mismatches;
		if (spans[i].first_bad)
			fprintf(stderr, "movebench: wrong content in the page at %p\n",
				(void *)spans[i].first_bad);
	}
	region.base = next_base;
	return mismatches;
}

/* --- the memory --- */

static void free_region(void)
{
	if (region.map)
		munmap(region.map, region.map_bytes);
	free(region.addresses);
	free(region.targets);
	free(region.status);
	memset(&region, 0, sizeof(region));
}

/* Makes the kernel fault in folios of exactly the wanted size where a hint asks for it. */
static bool choose_folio_size(unsigned long folio_kb)
{
	bool found = folio_kb == BASE_KB;
	struct dirent *entry;
	DIR *dir = opendir(THP_DIR);

	if (!dir) {
		if (!found)
			fail("the kernel has no transparent huge pages");
		return found;
	}
	while ((entry = readdir(dir))) {
		char path[sizeof(THP_DIR) + 16 + sizeof(entry->d_name)];
		bool wanted;
		unsigned long kb;

		if (sscanf(entry->d_name, "hugepages-%lukB", &kb) != 1)
			continue;
		wanted = kb == folio_kb;
		found |= wanted;
		snprintf(path, sizeof(path), THP_DIR "/%s/enabled", entry->d_name);
		/* Sizes that exist for page cache only have no such file. */
		if (access(path, F_OK) < 0)
			continue;
		if (set_sysfs(path, wanted ? "madvise" : "never") < 0)
			fail("cannot write %s: %s", path, strerror(errno));
	}
	closedir(dir);
	if (!found && folio_kb == 2048)
		/* Before 6.8 there is one size and one file. */
		found = set_sysfs(THP_DIR "/enabled", "madvise") == 0;
	if (!found)
		fail("the kernel has no transparent huge pages of %lu kB", folio_kb);
	return !cell_error[0];
}

static bool reserve_hugetlb(unsigned long folio_kb, unsigned long folios, unsigned long node)
{
	char path[160], text[64];
	unsigned long total, free_pages;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%lu/hugepages/hugepages-%lukB/free_hugepages",
		 node, folio_kb);
	if (read_text(path, text, sizeof(text)) < 0) {
		fail("node %lu has no hugetlb pages of %lu kB", node, folio_kb);
		return false;
	}
	free_pages = strtoul(text, NULL, 10);
	if (free_pages >= folios)
		return true;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%lu/hugepages/hugepages-%lukB/nr_hugepages",
		 node, folio_kb);
	if (read_text(path, text, sizeof(text)) < 0) {
		fail("cannot read %s: %s", path, strerror(errno));
		return false;
	}
	total = strtoul(text, NULL, 10) - free_pages + folios;
	snprintf(text, sizeof(text), "%lu", total);
	if (set_sysfs(path, text) < 0) {
		fail("cannot write %s: %s", path, strerror(errno));
		return false;
	}
	/* The kernel takes what it can get and says nothing. */
	if (read_text(path, text, sizeof(text)) < 0 || strtoul(text, NULL, 10) < total) {
		fail("node %lu has no memory for %lu hugetlb pages of %lu kB", node, folios,
		     folio_kb);
		return false;
	}
	return true;
}

static bool bind_region(unsigned long node)
{
	unsigned long mask[16] = { 0 };
	const unsigned long bits = sizeof(unsigned long) * CHAR_BIT;

	if (node >= sizeof(mask) * CHAR_BIT) {
		fail("node %lu is out of range", node);
		return false;
	}
	mask[node / bits] |= 1UL << (node % bits);
	if (syscall(SYS_mbind, region.start, region.bytes, MPOL_BIND, mask,
		    sizeof(mask) * CHAR_BIT, 0) < 0) {
		fail("cannot bind memory to node %lu: %s", node, strerror(errno));
		return false;
	}
	return true;
}

/*
 * Checks in /proc/kpageflags that every folio is one compound page of the
 * size asked for: a head first, then tails in adjacent frames. The next folio
 * starting with a head shows that no folio is larger.
 */
static bool check_backing(void)
{
	unsigned long pages_per_folio = region.folio_kb / BASE_KB;
	size_t pages = region.bytes / BASE_SIZE;
	uint64_t entries[512], flags[512], head_pfn = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	int kpageflags = open("/proc/kpageflags", O_RDONLY);
	bool good = false;

	if (pagemap < 0 || kpageflags < 0) {
		fail("cannot check the folios: /proc/kpageflags: %s (run as root, with CONFIG_PROC_PAGE_MONITOR)",
		     strerror(errno));
		goto out;
	}
	for (size_t first = 0; first < pages; first += 512) {
		size_t nr = pages - first < 512 ? pages - first : 512;
		off_t offset = ((uintptr_t)region.start / BASE_SIZE + first) * sizeof(uint64_t);
		size_t run;

		if (pread(pagemap, entries, nr * sizeof(uint64_t), offset) !=
		    (ssize_t)(nr * sizeof(uint64_t))) {
			fail("cannot read /proc/self/pagemap: %s", strerror(errno));
			goto out;
		}
		for (size_t i = 0; i < nr; i += run) {
			uint64_t pfn = entries[i] & PM_PFN;

			for (run = 1; i + run < nr; run++)
				if ((entries[i + run] & PM_PFN) != pfn + run)
					break;
			if (!(entries[i] & PM_PRESENT) || !pfn) {
				fail("page %zu is not present, or its frame is hidden (run as root)",
				     first + i);
				goto out;
			}
			if (pread(kpageflags, flags + i, run * sizeof(uint64_t),
				  pfn * sizeof(uint64_t)) != (ssize_t)(run * sizeof(uint64_t))) {
				fail("cannot read /proc/kpageflags: %s", strerror(errno));
				goto out;
			}
		}
		for (size_t i = 0; i < nr; i++) {
			size_t position = (first + i) % pages_per_folio;
			uint64_t pfn = entries[i] & PM_PFN, expected;

			if (!position)
				head_pfn = pfn;
			expected = pages_per_folio == 1 ? 0 :
				   position ? KPF_COMPOUND_TAIL : KPF_COMPOUND_HEAD;
			if (region.hugetlb)
				expected |= KPF_HUGE;
			if ((flags[i] & (KPF_COMPOUND_HEAD | KPF_COMPOUND_TAIL | KPF_HUGE)) !=
			    expected || pfn != head_pfn + position) {
				fail("page %zu of folio %zu is not part of a folio of %lu kB (flags %#" PRIx64 ")",
				     position, (first + i) / pages_per_folio, region.folio_kb,
				     flags[i]);
				goto out;
			}
		}
	}
	good = true;
out:
	if (pagemap >= 0)
		close(pagemap);
	if (kpageflags >= 0)
		close(kpageflags);
	return good;
}

/* Asks the kernel, without moving anything, where every folio is. */
static bool check_nodes(void)
{
	if (syscall(SYS_move_pages, 0, region.folios, region.addresses, NULL, region.status, 0)) {
		fail("cannot ask where the pages are: %s", strerror(errno));
		return false;
	}
	for (unsigned long i = 0; i < region.folios; i++) {
		if (region.status[i] != (int)region.node) {
			fail("folio %lu is on node %d and not on node %lu", i, region.status[i],
			     region.node);
			return false;
		}
	}
	return true;
}

static int hugetlb_flag(unsigned long folio_kb)
{
	return MAP_HUGETLB | __builtin_ctzl(folio_kb << 10) << 26 /* MAP_HUGE_SHIFT */;
}

static bool make_region(const struct cell *cell)
{
	size_t folio_bytes = cell->folio_kb << 10;
	uint64_t value;

	region.folio_kb = cell->folio_kb;
	region.folios = cell->folios;
	region.home = cell->from;
	region.node = cell->from;
	region.hugetlb = cell->hugetlb;
	region.bytes = folio_bytes * cell->folios;
	region.addresses = calloc(cell->folios, sizeof(*region.addresses));
	region.targets = calloc(cell->folios, sizeof(*region.targets));
	region.status = calloc(cell->folios, sizeof(*region.status));
	if (!region.addresses || !region.targets || !region.status) {
		fail("out of memory");
		return false;
	}

	if (cell->hugetlb) {
		if (!reserve_hugetlb(cell->folio_kb, cell->folios, cell->from) ||
		    !reserve_hugetlb(cell->folio_kb, cell->folios, cell->to))
			return false;
	}

	/* Room to align: hugetlb memory is aligned by the kernel itself. */
	region.map_bytes = region.bytes + (cell->hugetlb ? 0 : folio_bytes);
	region.map = mmap(NULL, region.map_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS |
			  (cell->hugetlb ? hugetlb_flag(cell->folio_kb) : 0), -1, 0);
	if (region.map == MAP_FAILED) {
		region.map = NULL;
		fail("cannot map %zu bytes: %s", region.map_bytes, strerror(errno));
		return false;
	}
	region.start = (uint64_t *)(((uintptr_t)region.map + folio_bytes - 1) &
				    ~(uintptr_t)(folio_bytes - 1));
	if (!bind_region(cell->from))
		return false;
	if (!cell->hugetlb && !choose_folio_size(cell->folio_kb))
		return false;
	if (!cell->hugetlb &&
	    madvise(region.start, region.bytes,
		    cell->folio_kb == BASE_KB ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) < 0 &&
	    cell->folio_kb != BASE_KB) {
		fail("cannot ask for large folios: %s", strerror(errno));
		return false;
	}

	for (unsigned long i = 0; i < cell->folios; i++)
		region.addresses[i] = (char *)region.start + i * folio_bytes;
	region.base = mix(cell->seed ^ mix((uintptr_t)region.start));
	value = region.base;
	for (size_t i = 0; i < region.bytes / sizeof(uint64_t); i++, value += PATTERN_STEP)
		region.start[i] = value;

	/* From here on nothing gives the kernel a reason to bring the memory home. */
	if (syscall(SYS_mbind, region.start, region.bytes, MPOL_DEFAULT, NULL, 0UL, 0) < 0) {
		fail("cannot release the binding: %s", strerror(errno));
		return false;
	}
	return check_nodes() && check_backing();
}

/*
 * Whether folios of this size are mapped by PTEs. Unmapping such a folio page
 * by page marks it partially mapped, 6.12 hands the mark to its destination,
 * and the next migration splits it: it can be moved as a large folio only once.
 */
static bool moves_only_once(const struct cell *cell)
{
	char text[64];

	if (cell->hugetlb || cell->folio_kb == BASE_KB ||
	    read_text(THP_DIR "/hpage_pmd_size", text, sizeof(text)) < 0)
		return false;
	return cell->folio_kb << 10 < strtoul(text, NULL, 10);
}

static bool prepare_region(const struct cell *cell)
{
	if (region.map && !moves_only_once(cell) && region.folio_kb == cell->folio_kb && region.folios == cell->folios &&
	    region.hugetlb == cell->hugetlb &&
	    (region.node == cell->from || region.node == cell->to))
		return true;
	free_region();
	/* The pool of hugetlb pages of the last cell would take memory from this one. */
	restore_sysfs(0);
	if (make_region(cell))
		return true;
	free_region();
	return false;
}

/* --- moving --- */

static void *call_move_pages(void *argument)
{
	struct caller *caller = argument;
	const struct region *r = caller->region;

	if (caller->barrier)
		pthread_barrier_wait(caller->barrier);
	caller->start_ns = now_ns();
	caller->rc = syscall(SYS_move_pages, 0, caller->folios, r->addresses + caller->first,
			     r->targets + caller->first, r->status + caller->first,
			     MPOL_MF_MOVE);
	caller->error = errno;
	caller->end_ns = now_ns();
	return NULL;
}

/*
 * Moves the whole region to @node once. Returns the nanoseconds between the
 * first caller's start and the last one's end, 0 when a call failed.
 */
static uint64_t move_region(unsigned long node, unsigned long nr_callers)
{
	struct caller callers[MAX_CALLERS];
	pthread_t threads[MAX_CALLERS];
	pthread_barrier_t barrier;
	unsigned long first = 0;
	uint64_t start = UINT64_MAX, end = 0;

	if (nr_callers > region.folios)
		nr_callers = region.folios;
	for (unsigned long i = 0; i < region.folios; i++) {
		region.targets[i] = node;
		region.status[i] = STATUS_UNSET;
	}
	pthread_barrier_init(&barrier, NULL, nr_callers);
	for (unsigned long i = 0; i < nr_callers; i++) {
		unsigned long last = region.folios * (i + 1) / nr_callers;

		callers[i] = (struct caller) {
			.region = &region,
			.first = first,
			.folios = last - first,
			.barrier = nr_callers > 1 ? &barrier : NULL,
		};
		first = last;
	}
	for (unsigned long i = 1; i < nr_callers; i++) {
		if (pthread_create(&threads[i], NULL, call_move_pages, &callers[i])) {
			fprintf(stderr, "movebench: cannot start a thread\n");
			exit(EXIT_FAILURE);
		}
	}
	call_move_pages(&callers[0]);
	for (unsigned long i = 1; i < nr_callers; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);

	for (unsigned long i = 0; i < nr_callers; i++) {
		if (callers[i].rc < 0) {
			fail("move_pages: %s", strerror(callers[i].error));
			return 0;
		}
		if (callers[i].start_ns < start)
			start = callers[i].start_ns;
		if (callers[i].end_ns > end)
			end = callers[i].end_ns;
	}
	return end > start ? end - start : 1;
}

/* --- a thread that uses the memory while it moves --- */

static struct {
	pthread_t thread;
	atomic_bool over;
	unsigned long pause_us;
	uint64_t state;		/* of the order in which pages are read */
	uint64_t longest_ns;
} toucher;

/* Reads a word of one page after the other, in no order, and times each read. */
static void *touch_pages(void *unused)
{
	const struct timespec pause = { .tv_nsec = toucher.pause_us * 1000 };
	unsigned long pages = region.bytes >> 12;

	(void)unused;
	toucher.longest_ns = 0;
	while (!atomic_load(&toucher.over)) {
		const char *page;
		uint64_t start, ns;

		toucher.state = mix(toucher.state + 1);
		page = (const char *)region.start + ((toucher.state % pages) << 12);
		start = now_ns();
		*(volatile const char *)page;
		ns = now_ns() - start;
		if (ns > toucher.longest_ns)
			toucher.longest_ns = ns;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void start_touching(void)
{
	atomic_store(&toucher.over, false);
	if (toucher.pause_us && pthread_create(&toucher.thread, NULL, touch_pages, NULL)) {
		fprintf(stderr, "movebench: cannot start a thread\n");
		exit(EXIT_FAILURE);
	}
}

static void stop_touching(void)
{
	atomic_store(&toucher.over, true);
	if (toucher.pause_us)
		pthread_join(toucher.thread, NULL);
}

/* Counts the folios that did not arrive, by the status the kernel gave. */
static uint64_t count_failures(unsigned long node, struct status_count *statuses, int *nr)
{
	uint64_t failures = 0;

	for (unsigned long i = 0; i < region.folios; i++) {
		int j;

		if (region.status[i] == (int)node)
			continue;
		failures++;
		for (j = 0; j < *nr; j++)
			if (statuses[j].status == region.status[i])
				break;
		if (j == *nr) {
			if (*nr == MAX_STATUSES)
				continue;
			statuses[(*nr)++] = (struct status_count) { .status = region.status[i] };
		}
		statuses[j].count++;
	}
	return failures;
}

static bool set_knobs(const struct cell *cell)
{
	for (int i = 0; i < cell->nr_knobs; i++) {
		const char *equals = strchr(cell->knobs[i], '=');
		char path[256];

		snprintf(path, sizeof(path), MIGRATE_COPY_DIR "/%.*s",
			 (int)(equals - cell->knobs[i]), cell->knobs[i]);
		if (set_sysfs(path, equals + 1) < 0) {
			fail("cannot set %s to %s: %s%s", path, equals + 1, strerror(errno),
			     errno == ENOENT ? " (a kernel without Pagehaul?)" : "");
			return false;
		}
	}
	return true;
}

/* --- a cell --- */

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

static void print_list(const char *name, const uint64_t *values, unsigned long nr)
{
	printf(",\"%s\":[", name);
	for (unsigned long i = 0; i < nr; i++)
		printf("%s%" PRIu64, i ? "," : "", values[i]);
	putchar(']');
}

/* Returns true when every folio moved and every word was right. */
static bool run_cell(const struct cell *cell)
{
	struct counters before, after, sum = { .nr = 0 };
	struct status_count statuses[MAX_STATUSES];
	int nr_statuses = 0;
	uint64_t bytes_verified = 0, mismatches = 0, not_moved = 0, next_base;
	uint64_t *ns = calloc(cell->reps, sizeof(*ns));
	uint64_t *moved = calloc(cell->reps, sizeof(*moved));
	uint64_t *touched = calloc(cell->reps, sizeof(*touched));
	unsigned long total = cell->warmups + cell->reps, done = 0;
	bool ready = ns && moved && touched, once = moves_only_once(cell);
	int nr_memory_settings;

	cell_error[0] = '\0';
	toucher.pause_us = cell->touch_us;
	if (!ready)
		fail("out of memory");
	ready = ready && prepare_region(cell);
	nr_memory_settings = nr_settings;
	if (ready && set_knobs(cell)) {
		for (unsigned long i = 0; i < total && !stop; i++) {
			unsigned long node = region.node == cell->from ? cell->to : cell->from;
			bool timed = i >= cell->warmups;
			uint64_t elapsed, failures;

			if (once && i) {
				free_region();
				if (!make_region(cell))
					break;
				node = cell->to;
			}
			if (timed) {
				read_counters(&before);
				start_touching();
			}
			elapsed = move_region(node, cell->callers);
			if (timed) {
				stop_touching();
				read_counters(&after);
			}
			if (!elapsed)
				break;
			failures = count_failures(node, statuses, &nr_statuses);
			not_moved += failures;
			if (timed) {
				accumulate(&sum, &before, &after);
				ns[done] = elapsed;
				touched[done] = toucher.longest_ns;
				moved[done++] = (region.folios - failures) * (region.folio_kb << 10);
			}
			/* The next repetition needs all of it on one node: untimed attempts. */
			for (int attempt = 0; failures && attempt < MAX_ATTEMPTS; attempt++) {
				struct status_count ignored[MAX_STATUSES];
				int nr_ignored = 0;

				if (!move_region(node, 1))
					break;
				failures = count_failures(node, ignored, &nr_ignored);
			}
			region.node = node;
			next_base = mix(region.base + i + 1);
			mismatches += verify_region(next_base);
			bytes_verified += region.bytes;
			if (!check_nodes() || ((once || i + 1 == total) && !check_backing()))
				break;
		}
	}
	restore_sysfs(nr_memory_settings);
	if (stop)
		fail("interrupted");

	printf("{\"label\":");
	print_string(cell->label);
	printf(",\"folio_kb\":%lu,\"folios\":%lu,\"hugetlb\":%s,\"callers\":%lu,\"bytes\":%" PRIu64,
	       cell->folio_kb, cell->folios, cell->hugetlb ? "true" : "false", cell->callers,
	       (uint64_t)cell->folios * (cell->folio_kb << 10));
	print_list("ns", ns, done);
	print_list("moved_bytes", moved, done);
	print_list("touch_ns", touched, cell->touch_us ? done : 0);
	printf(",\"not_moved\":%" PRIu64 ",\"statuses\":{", not_moved);
	for (int i = 0; i < nr_statuses; i++)
		printf("%s\"%d\":%" PRIu64, i ? "," : "", statuses[i].status, statuses[i].count);
	printf("},\"bytes_verified\":%" PRIu64 ",\"mismatches\":%" PRIu64 ",\"counters\":{",
	       bytes_verified, mismatches);
	for (int i = 0; i < sum.nr; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", sum.entry[i].name, sum.entry[i].value);
	printf("},\"error\":");
	if (cell_error[0])
		print_string(cell_error);
	else
		printf("null");
	printf("}\n");
	fflush(stdout);

	/* What went wrong in the middle of a cell leaves memory nobody can vouch for. */
	if (cell_error[0])
		free_region();
	free(ns);
	free(moved);
	free(touched);
	return !cell_error[0] && !not_moved && !mismatches;
}

/* --- options --- */

static void usage(FILE *file)
{
	fputs("usage: movebench [OPTION]...\n"
	      "Moves anonymous memory between two NUMA nodes and back with move_pages(2),\n"
	      "verifies all of it after every move and prints one line of JSON.\n"
	      "\n"
	      "  -p, --plan FILE      run a cell for each line of options in FILE (- for stdin)\n"
	      "  -T, --turns DIR      say \"ready\" on stderr, begin cell N of the plan when the\n"
	      "                       file DIR/N exists, stop when DIR/abandoned does\n"
	      "  -l, --label TEXT     name of the cell, repeated in its JSON\n"
	      "  -s, --folio-kb N     size of a folio in KiB, a power of two (4)\n"
	      "  -n, --folios N       number of folios (1024)\n"
	      "  -r, --reps N         timed moves (5)\n"
	      "  -w, --warmups N      moves before them that are not timed (1)\n"
	      "  -c, --callers N      threads that each move a part, all at once (1)\n"
	      "  -f, --from NODE      node the memory starts on (0)\n"
	      "  -t, --to NODE        node it moves to (1)\n"
	      "  -H, --hugetlb        hugetlb pages, not transparent ones\n"
	      "  -k, --knob NAME=VAL  write VAL to " MIGRATE_COPY_DIR "/NAME for this cell;\n"
	      "                       may be repeated; an error on a kernel without it\n"
	      "  -S, --seed N         seed of the pattern (1)\n"
	      "  -x, --touch US       a thread reads a page of the memory every US microseconds\n"
	      "                       while it moves; the longest read counts (0: none)\n"
	      "  -h, --help           this text\n"
	      "\n"
	      "Exit status: 0 all folios moved and all content right; 1 not so, or a cell\n"
	      "could not be measured (its \"error\" says why); 2 wrong options.\n", file);
}

static const struct option long_options[] = {
	{ "plan", required_argument, NULL, 'p' },
	{ "turns", required_argument, NULL, 'T' },
	{ "label", required_argument, NULL, 'l' },
	{ "folio-kb", required_argument, NULL, 's' },
	{ "folios", required_argument, NULL, 'n' },
	{ "reps", required_argument, NULL, 'r' },
	{ "warmups", required_argument, NULL, 'w' },
	{ "callers", required_argument, NULL, 'c' },
	{ "from", required_argument, NULL, 'f' },
	{ "to", required_argument, NULL, 't' },
	{ "hugetlb", no_argument, NULL, 'H' },
	{ "knob", required_argument, NULL, 'k' },
	{ "seed", required_argument, NULL, 'S' },
	{ "touch", required_argument, NULL, 'x' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void usage_error(const char *format, ...)
{
	va_list args;

	fputs("movebench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; see movebench --help\n", stderr);
	exit(2);
}

static unsigned long parse_number(const char *text, unsigned long min, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < min || value > max)
		usage_error("%s is not a number from %lu to %lu", text, min, max);
	return value;
}

/* What a command line has besides a cell. */
struct run {
	const char *plan;
	const char *turns;
};

/* Fills @cell from one command line; @run is NULL for a line of a plan. */
static void parse_cell(int argc, char **argv, struct cell *cell, struct run *run)
{
	int option;

	*cell = (struct cell) {
		.label = "", .folio_kb = BASE_KB, .folios = 1024, .reps = 5, .warmups = 1,
		.callers = 1, .from = 0, .to = 1, .seed = 1,
	};
	optind = 0;
	while ((option = getopt_long(argc, argv, "p:T:l:s:n:r:w:c:f:t:Hk:S:x:h", long_options,
				     NULL)) != -1) {
		switch (option) {
		case 'p':
		case 'T':
			if (!run)
				usage_error("a plan cannot name a plan");
			*(option == 'p' ? &run->plan : &run->turns) = optarg;
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
		case 'H':
			cell->hugetlb = true;
			break;
		case 'k':
			if (!strchr(optarg, '=') || strchr(optarg, '/'))
				usage_error("%s is not NAME=VALUE", optarg);
			if (cell->nr_knobs == MAX_KNOBS)
				usage_error("more than %d knobs", MAX_KNOBS);
			cell->knobs[cell->nr_knobs++] = optarg;
			break;
		case 'S':
			cell->seed = parse_number(optarg, 0, ULONG_MAX);
			break;
		case 'x':
			cell->touch_us = parse_number(optarg, 0, 999999);
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
	if (cell->from == cell->to)
		usage_error("memory cannot move from node %lu to itself", cell->from);
}

/*
 * Waits for the file of turn @number in @dir: somebody else says when this
 * program may load the machine. Returns false when the turn will not come.
 */
static bool wait_for_turn(const char *dir, unsigned long number)
{
	struct timespec interval = { .tv_nsec = FIRST_LOOK_NS };
	char turn[PATH_MAX], abandoned[PATH_MAX];

	snprintf(turn, sizeof(turn), "%s/%lu", dir, number);
	snprintf(abandoned, sizeof(abandoned), "%s/abandoned", dir);
	while (!stop && access(turn, F_OK) < 0) {
		if (access(abandoned, F_OK) == 0)
			return false;
		nanosleep(&interval, NULL);
		/* Looking often would take CPU time from whoever has the turn. */
		interval.tv_nsec *= 2;
		if (interval.tv_nsec > LAST_LOOK_NS)
			interval.tv_nsec = LAST_LOOK_NS;
	}
	return !stop;
}

static bool run_plan(const char *path, const char *turns)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
	unsigned long number = 0;
	bool good = true;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		usage_error("cannot read the plan %s: %s", path, strerror(errno));
	if (turns)
		fputs("movebench: ready\n", stderr);
	while (!stop && getline(&line, &size, file) > 0) {
		char *argv[64] = { (char *)"movebench" }, *word, *rest = line;
		struct cell cell;
		int argc = 1;

		while ((word = strsep(&rest, " \t\n"))) {
			if (!*word)
				continue;
			if (argc == 1 && *word == '#')
				break;
			if (argc == 63)
				usage_error("a line of the plan is too long");
			argv[argc++] = word;
		}
		if (argc == 1)
			continue;
		parse_cell(argc, argv, &cell, NULL);
		if (turns && !wait_for_turn(turns, ++number)) {
			good = false;
			break;
		}
		good &= run_cell(&cell);
	}
	free(line);
	if (file != stdin)
		fclose(file);
	return good;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct run run = { .plan = NULL };
	struct cell cell;
	bool good;

	parse_cell(argc, argv, &cell, &run);
	workers = sysconf(_SC_NPROCESSORS_ONLN);
	if (workers < 1)
		workers = 1;
	if (workers > MAX_CALLERS)
		workers = MAX_CALLERS;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	good = run.plan ? run_plan(run.plan, run.turns) : run_cell(&cell);
	free_region();
	restore_sysfs(0);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
