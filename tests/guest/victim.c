// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process whose pages are moved by somebody else.
 *
 *   victim KIND=MB...
 *
 * maps a region for each argument and fills it with a pattern on node 0; KIND is one of
 *
 *   base      base pages
 *   large     whatever folios the kernel gives with madvise (mTHP)
 *   thp       transparent huge pages
 *   hugetlb   hugetlb pages of the default size
 *   file      such pages of a file
 *   pinned    base pages that a pipe holds, by vmsplice()
 *   shared    base pages that a child process maps too
 *
 * It then prints "ready" and obeys the lines it reads, with "done" at the end of each:
 *
 *   check            print, for each region, its kind, the words that do not hold the pattern, and
 *                    the base pages on each node ("base 0 0:12 1:500")
 *   fork             make a child process that has all regions, too
 *   join             let the child compare every word and exit; "wrong" instead of "done" if one
 *                    does not hold the pattern
 *   swap             ask the kernel to swap all regions out
 *   exec KIND=MB     replace the program by a new one with this region; "ready" again
 *
 * At the end of the input it exits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MPOL_DEFAULT	0
#define MPOL_BIND	2

#define MAX_REGIONS	16
#define MAX_NODES	64
#define THP_SIZE	(2UL << 20)

struct region {
	const char *kind;
	char *start;
	size_t size;
};

static struct region regions[MAX_REGIONS];
static int nr_regions;
static size_t page_size;
static pid_t child;
static int to_child;

static void die(const char *what)
{
	fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Differs for each word, so that a page in the wrong place is found too. */
static unsigned long pattern(const unsigned long *word)
{
	return ((uintptr_t)word ^ 0x5bd1e995) * 0x9e3779b97f4a7c15UL;
}

static void allocate_on(unsigned long nodes)
{
	int mode = nodes ? MPOL_BIND : MPOL_DEFAULT;

	if (syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL, nodes ? MAX_NODES + 1 : 0))
		die("set_mempolicy");
}

/* A pipe keeps a reference to each page, as a pinned buffer of a device would. */
static void pin(struct region *region)
{
	struct iovec iov = { .iov_base = region->start, .iov_len = region->size };
	int ends[2];

	if (pipe(ends))
		die("pipe");
	if (fcntl(ends[1], F_SETPIPE_SZ, region->size) < 0)
		die("F_SETPIPE_SZ");
	while (iov.iov_len) {
		ssize_t done = vmsplice(ends[1], &iov, 1, SPLICE_F_NONBLOCK);

		if (done <= 0)
			die("vmsplice");
		iov.iov_base = (char *)iov.iov_base + done;
		iov.iov_len -= done;
	}
}

static void map_region(const char *kind, size_t size)
{
	struct region *region = &regions[nr_regions++];
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	unsigned long *word, *end;
	int advice;

	region->kind = kind;
	region->size = size;
	if (!strcmp(kind, "hugetlb") || !strcmp(kind, "file")) {
		flags = (*kind == 'f' ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_HUGETLB;
		region->start = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (region->start == MAP_FAILED)
			die("hugetlb mmap");
	} else {
		region->start = mmap(NULL, size + THP_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (region->start == MAP_FAILED)
			die("mmap");
		region->start += -(uintptr_t)region->start & (THP_SIZE - 1);
		advice = strcmp(kind, "thp") && strcmp(kind, "large") ? MADV_NOHUGEPAGE
								      : MADV_HUGEPAGE;
		if (madvise(region->start, size, advice))
			die("madvise");
	}
	if (strcmp(kind, "shared") && madvise(region->start, size, MADV_DONTFORK))
		die("MADV_DONTFORK");
	word = (unsigned long *)region->start;
	end = (unsigned long *)(region->start + size);
	for (; word < end; word++)
		*word = pattern(word);
	if (!strcmp(kind, "pinned"))
		pin(region);
}

static unsigned long wrong_words(const struct region *region)
{
	const unsigned long *word = (const unsigned long *)region->start;
	const unsigned long *end = (const unsigned long *)(region->start + region->size);
	unsigned long wrong = 0;

	for (; word < end; word++)
		wrong += *word != pattern(word);
	return wrong;
}

static void check(const struct region *region)
{
	size_t pages = region->size / page_size;
	size_t on_node[MAX_NODES] = { 0 };
	unsigned long wrong = wrong_words(region);
	void **addresses = calloc(pages, sizeof(*addresses));
	int *status = calloc(pages, sizeof(*status));

	if (!addresses || !status)
		die("calloc");
	for (size_t i = 0; i < pages; i++)
		addresses[i] = region->start + i * page_size;
	if (syscall(SYS_move_pages, 0, pages, addresses, NULL, status, 0))
		die("move_pages");
	for (size_t i = 0; i < pages; i++)
		if (status[i] >= 0 && status[i] < MAX_NODES)
			on_node[status[i]]++;
	printf("%s %lu", region->kind, wrong);
	for (int node = 0; node < MAX_NODES; node++)
		if (on_node[node])
			printf(" %d:%zu", node, on_node[node]);
	printf("\n");
	free(addresses);
	free(status);
}

static void advise(int advice)
{
	for (int i = 0; i < nr_regions; i++)
		if (madvise(regions[i].start, regions[i].size, advice))
			die("madvise");
}

/* The child looks at the memory when the pipe is closed. */
static void make_child(void)
{
	int ends[2];
	char byte;

	advise(MADV_DOFORK);
	if (pipe(ends))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		unsigned long wrong = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		if (read(ends[0], &byte, 1))
			_exit(2);
		for (int i = 0; i < nr_regions; i++)
			wrong += wrong_words(&regions[i]);
		_exit(wrong ? 1 : 0);
	}
	close(ends[0]);
	to_child = ends[1];
}

static int join_child(void)
{
	int status;

	close(to_child);
	if (waitpid(child, &status, 0) < 0)
		die("waitpid");
	return status;
}

static void obey(char *line)
{
	const char *answer = "done";

	line[strcspn(line, "\n")] = 0;
	if (!strcmp(line, "check")) {
		for (int i = 0; i < nr_regions; i++)
			check(&regions[i]);
	} else if (!strcmp(line, "fork")) {
		make_child();
	} else if (!strcmp(line, "join")) {
		if (join_child())
			answer = "wrong";
	} else if (!strcmp(line, "swap")) {
		advise(MADV_PAGEOUT);
	} else if (!strncmp(line, "exec ", 5)) {
		execl("/proc/self/exe", "victim", line + 5, NULL);
		die("exec");
	} else {
		answer = "unknown";
	}
	printf("%s\n", answer);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int shared = 0;
	char line[64];

	page_size = sysconf(_SC_PAGESIZE);
	allocate_on(1);
	for (int i = 1; i < argc && nr_regions < MAX_REGIONS; i++) {
		char *size = strchr(argv[i], '=');

		if (!size || atol(size + 1) <= 0) {
			fprintf(stderr, "usage: victim KIND=MB...\n");
			return 2;
		}
		*size = 0;
		map_region(argv[i], (size_t)atol(size + 1) << 20);
		shared |= !strcmp(argv[i], "shared");
	}
	allocate_on(0);
	if (shared) {
		pid_t sharer = fork();

		if (sharer < 0)
			die("fork");
		if (!sharer) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
