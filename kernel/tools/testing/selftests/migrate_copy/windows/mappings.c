// SPDX-License-Identifier: GPL-2.0-only
/*
 * Those who change what is mapped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "windows.h"

/* What a child does with the memory that it shares; 0 if all was right. */
static int child_compares(const struct scene *s)
{
	return !!pattern_bad(s->r.map, s->r.size, s->r.seed, 0, s->r.period);
}

static int child_writes(const struct scene *s)
{
	uint64_t seed = OTHER_SEED(s) + 1;

	if (child_compares(s))
		return 1;
	pattern_fill(s->r.map, s->r.size, seed, 0, 0);
	return !!pattern_bad(s->r.map, s->r.size, seed, 0, 0);
}

/* A child that maps the same, and does that when it is asked. */
static void child_fork(struct scene *s, int (*does)(const struct scene *s))
{
	int talk[2];
	char byte;

	require(!pipe(talk), "no pipe");
	s->child = fork();
	require(s->child >= 0, "no process");
	if (!s->child) {
		/* Or else nobody would be left to ask, and it would not end. */
		close(talk[1]);
		if (read(talk[0], &byte, 1) != 1)
			_exit(0);
		_exit(does(s));
	}
	close(talk[0]);
	s->other = talk[1];
	s->flags = MPOL_MF_MOVE_ALL;
}

static void child_ask(struct scene *s)
{
	int status;

	require(write(s->other, "v", 1) == 1 &&
		waitpid(s->child, &status, 0) == s->child && WIFEXITED(status),
		"the child is dead");
	right(!WEXITSTATUS(status), "the child has something else");
}

void act_fork(struct scene *s)
{
	int status;
	pid_t pid = fork();

	require(pid >= 0, "no process");
	if (!pid)
		_exit(child_writes(s));
	act_store(s);
	require(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
		"the child is dead");
	right(!WEXITSTATUS(status), "the child has something else");
}

void act_ksm(struct scene *s)
{
	require(!madvise(s->r.map, s->r.size, MADV_MERGEABLE) &&
		!file_write("/sys/kernel/mm/ksm/run", "1"), "no KSM");
	usleep(100000);
	act_store(s);
	file_write("/sys/kernel/mm/ksm/run", "2");
	file_write("/sys/kernel/mm/ksm/run", "0");
}

void before_uffd(struct scene *s)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_register reg = {
		.range = { (uintptr_t)s->r.map, s->r.size },
		.mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING,
	};

	s->fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || ioctl(s->fd, UFFDIO_API, &api) ||
	    ioctl(s->fd, UFFDIO_REGISTER, &reg))
		skip("no userfaultfd: %s", strerror(errno));
	/* The last page is missing, the others are not. */
	require(!madvise(s->r.map + s->r.size - PAGE, PAGE, MADV_DONTNEED),
		"cannot make a hole");
	s->absent = PAGE;
}

static void *store_first(void *arg)
{
	act_store(arg);
	return NULL;
}

void act_uffd(struct scene *s)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)s->r.map, s->r.size - PAGE },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	struct uffdio_copy copy = {
		.dst = (uintptr_t)s->r.map + s->r.size - PAGE, .len = PAGE,
	};
	struct pollfd event = { .fd = s->fd, .events = POLLIN };
	char *buf = aligned_alloc(PAGE, PAGE);
	struct uffd_msg msg;
	pthread_t thread;

	require(!ioctl(s->fd, UFFDIO_WRITEPROTECT, &wp),
		"cannot protect: %s", strerror(errno));
	pattern_fill(buf, PAGE, s->r.seed, s->r.size - PAGE, s->r.period);
	copy.src = (uintptr_t)buf;
	require(!ioctl(s->fd, UFFDIO_COPY, &copy), "cannot fill the hole: %s",
		strerror(errno));
	/* What is protected in a migration entry is protected after it. */
	require(!pthread_create(&thread, NULL, store_first, s), "no thread");
	right(poll(&event, 1, GATE_MS) == 1, "a store is not seen");
	require(read(s->fd, &msg, sizeof(msg)) == sizeof(msg) &&
		msg.event == UFFD_EVENT_PAGEFAULT, "no event");
	right(msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP,
	      "the protection is lost");
	wp.mode = 0;
	require(!ioctl(s->fd, UFFDIO_WRITEPROTECT, &wp),
		"cannot unprotect: %s", strerror(errno));
	join(thread, "the store");
}

void act_mremap(struct scene *s)
{
	remap(s);
	act_store(s);
}

void act_munmap(struct scene *s)
{
	s->gone = s->r.size / 2;
	require(!munmap(s->r.map, s->gone), "munmap: %s", strerror(errno));
	act_store(s);
}

/* Of what was given up, nothing is left; or what was there, where that may be. */
static void check_zeroes(struct scene *s, bool or_old)
{
	char *at = s->r.map;
	size_t i, j;

	for (i = 0; i < s->gone; i += PAGE) {
		for (j = 0; j < PAGE && !at[i + j]; j++)
			;
		if (j == PAGE)
			continue;
		right(or_old, "what was given up is still there");
		right(!pattern_bad(at + i, PAGE, s->r.seed, i, s->r.period),
		      "neither old nor zero");
	}
}

void check_dontneed(struct scene *s)
{
	check_zeroes(s, false);
	check_content(s);
}

void check_free(struct scene *s)
{
	check_zeroes(s, true);
	check_content(s);
}

static void act_madvise(struct scene *s, int advice)
{
	require(!madvise(s->r.map, s->r.size / 2, advice), "madvise: %s",
		strerror(errno));
}

static void act_give_up(struct scene *s, int advice)
{
	s->gone = s->r.size / 2;
	act_madvise(s, advice);
}

void act_dontneed(struct scene *s)
{
	act_give_up(s, MADV_DONTNEED);
}

void act_remove(struct scene *s)
{
	act_give_up(s, MADV_REMOVE);
}

void act_free(struct scene *s)
{
	act_give_up(s, MADV_FREE);
}

/*
 * The folios are in the swap cache, and a child has entries of the page table that
 * lead there: it swaps them in, to read and to write.
 */
void before_swapin(struct scene *s)
{
	require(region_swap_out(&s->r, s->from), "cannot swap out");
	child_fork(s, child_writes);
	/* Into ours: what moves is mapped here, and in the swap cache for the child. */
	node_bind(s->from);
	require(region_swap_in(&s->r), "not in the swap cache");
	node_unbind();
}

void act_swapin(struct scene *s)
{
	child_ask(s);
	act_store(s);
}

/* It waits for what is in the swap cache. */
void act_swapoff(struct scene *s)
{
	int err = swap_off();

	require(!err, "swapoff: %s", strerror(-err));
	swap_on();
	act_store(s);
}

void before_pageout(struct scene *s)
{
	swap_on();
}

void act_pageout(struct scene *s)
{
	act_madvise(s, MADV_PAGEOUT);
	act_madvise(s, MADV_COLD);
}

/* khugepaged's work, at once; what is isolated stands in its way. */
void act_collapse(struct scene *s)
{
	madvise(s->r.map, s->r.size, MADV_COLLAPSE);
	act_store(s);
}

static void split_mapping(struct scene *s)
{
	require(!mprotect(s->r.map + PAGE, PAGE, PROT_READ) &&
		!mprotect(s->r.map + PAGE, PAGE, PROT_READ | PROT_WRITE),
		"mprotect: %s", strerror(errno));
}

void act_split(struct scene *s)
{
	char text[64];

	snprintf(text, sizeof(text), "%d,%#lx,%#lx", getpid(),
		 (unsigned long)s->r.map,
		 (unsigned long)s->r.map + s->r.size);
	file_write("/sys/kernel/debug/split_huge_pages", text);
	/* And in the page table. */
	split_mapping(s);
	act_store(s);
}

void before_child(struct scene *s)
{
	child_fork(s, child_compares);
}

/* In the page table of one process: what was not writable is not in parts, either. */
void act_split_mapping(struct scene *s)
{
	split_mapping(s);
	act_store(s);
}

void check_child(struct scene *s)
{
	child_ask(s);
	check_content(s);
}

void act_mlock(struct scene *s)
{
	require(!mlock(s->r.map, s->r.size), "mlock: %s", strerror(errno));
	act_store(s);
	require(!munlock(s->r.map, s->r.size), "munlock: %s", strerror(errno));
}

void act_mprotect(struct scene *s)
{
	require(!mprotect(s->r.map, s->r.size, PROT_READ) &&
		!mprotect(s->r.map, s->r.size, PROT_READ | PROT_WRITE),
		"mprotect: %s", strerror(errno));
	act_store(s);
}

void act_truncate(struct scene *s)
{
	s->gone = s->r.size;
	require(!ftruncate(s->r.fd, 0) && !ftruncate(s->r.fd, s->r.size),
		"truncate: %s", strerror(errno));
}

void act_punch(struct scene *s)
{
	s->gone = s->r.size / 2;
	require(!fallocate(s->r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   0, s->gone), "hole: %s", strerror(errno));
}

/*
 * Less than a page is given up: its bytes are set to zero where they are, under
 * the folio's lock.
 */
#define PART	512

static void check_part(struct scene *s, size_t begin, size_t size)
{
	size_t end = begin + size, i;

	for (i = begin; i < end && !s->r.map[i]; i++)
		;
	right(i == end, "what was given up is there again");
	right(!pattern_bad(s->r.map, begin, s->r.seed, 0, s->r.period) &&
	      !pattern_bad(s->r.map + end, s->r.size - end, s->r.seed, end,
			   s->r.period), "what was there is wrong");
}

void act_punch_part(struct scene *s)
{
	require(!fallocate(s->r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   PAGE + PART, PART), "hole: %s", strerror(errno));
}

void check_punch_part(struct scene *s)
{
	check_part(s, PAGE + PART, PART);
}

void act_truncate_part(struct scene *s)
{
	require(!ftruncate(s->r.fd, s->r.size - PAGE / 2) &&
		!ftruncate(s->r.fd, s->r.size), "truncate: %s",
		strerror(errno));
}

void check_truncate_part(struct scene *s)
{
	check_part(s, s->r.size - PAGE / 2, PAGE / 2);
}

void act_drop_caches(struct scene *s)
{
	file_write("/proc/sys/vm/drop_caches", "3");
	file_write("/proc/sys/vm/compact_memory", "1");
}
