// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bad arguments give the errors that the manual pages state, with and without
 * migrate_copy; and its controls take nothing that is not valid.
 *
 * migrate_errors [calls [MODE]... | knobs]
 *
 * "calls" tests the system calls in some modes of the kernel, or in all that it
 * has, "knobs" the controls; without an argument, both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define NO_SUCH_PID	0x3fffffff
#define BAD_FLAG	0x80
#define BAD_NODE	63
#define BAD_POINTER	((void *)8)
/* The same number in every kernel, except in a container. */
#define KTHREADD	2

static int from, to;

/* A page that is on node "from", and a hole behind it. */
static char *page;
#define HOLE	(page + PAGE)

static char *new_page(int flags)
{
	char *p;

	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS,
		 -1, 0);
	if (p == MAP_FAILED || munmap(p + PAGE, PAGE) || node_bind(from))
		die("no memory");
	*p = 1;
	node_unbind();
	return p;
}

/*
 * The calls. Each returns what the system call returned, or -errno; the last
 * ones return the status of the page.
 */
static long result(long ret)
{
	return ret < 0 ? -errno : ret;
}

static long move_one(int pid, void *addr, int node, int flags, int *status)
{
	*status = NO_STATUS;
	return result(sys_move_pages(pid, 1, &addr, &node, status, flags));
}

static long move_status(void *addr, int node)
{
	int status;
	long err;

	err = move_one(0, addr, node, MPOL_MF_MOVE, &status);
	/* A count of what is left is no error, and no status either. */
	return err ? err : status;
}

static long move_bad_flag(void)
{
	int status;

	return move_one(0, page, to, BAD_FLAG, &status);
}

static long move_mt_alone(void)
{
	int status;

	return move_one(0, page, to, MPOL_MF_MOVE_MT, &status);
}

/* What a call returns that moves the page, unless it fails. */
static long arrived(long ret)
{
	require(ret || page_node(page) == to, "it has not moved");
	return ret;
}

static long move_mt(void)
{
	int status;

	return arrived(move_one(0, page, to, MPOL_MF_MOVE | MPOL_MF_MOVE_MT, &status));
}

static long move_all_mt(void)
{
	int status;

	return arrived(move_one(0, page, to, MPOL_MF_MOVE_ALL | MPOL_MF_MOVE_MT,
				&status));
}

static long move_no_pid(void)
{
	int status;

	return move_one(NO_SUCH_PID, page, to, MPOL_MF_MOVE, &status);
}

static long move_init_unprivileged(void)
{
	int status;

	return move_one(1, page, to, MPOL_MF_MOVE, &status);
}

static long move_all_unprivileged(void)
{
	int status;

	return move_one(0, page, to, MPOL_MF_MOVE_ALL, &status);
}

static long move_bad_node(void)
{
	int status;

	return move_one(0, page, BAD_NODE, MPOL_MF_MOVE, &status);
}

static long move_huge_node(void)
{
	int status;

	return move_one(0, page, 1 << 20, MPOL_MF_MOVE, &status);
}

static long move_negative_node(void)
{
	int status;

	return move_one(0, page, -1, MPOL_MF_MOVE, &status);
}

static long move_bad_pages(void)
{
	int status, node = to;

	return result(sys_move_pages(0, 1, BAD_POINTER, &node, &status,
				     MPOL_MF_MOVE));
}

static long move_bad_nodes(void)
{
	void *addr = page;
	int status;

	return result(sys_move_pages(0, 1, &addr, BAD_POINTER, &status,
				     MPOL_MF_MOVE));
}

static long move_bad_status(void)
{
	void *addr = page;
	int node = to;

	return result(sys_move_pages(0, 1, &addr, &node, BAD_POINTER,
				     MPOL_MF_MOVE));
}

static long query_bad_status(void)
{
	void *addr = page;

	return result(sys_move_pages(0, 1, &addr, NULL, BAD_POINTER, 0));
}

static long move_nothing(void)
{
	return result(sys_move_pages(0, 0, NULL, NULL, NULL, MPOL_MF_MOVE));
}

static long status_hole(void)
{
	return move_status(HOLE, to);
}

static long status_untouched(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return move_status(p, to);
}

static long status_zero_page(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	touch(p);
	return move_status(p, to);
}

static long status_there_already(void)
{
	return move_status(page, from) == from ? 0 : 1;
}

static long status_moved(void)
{
	return move_status(new_page(MAP_PRIVATE), to) == to ? 0 : 1;
}

/* The result of a call for a page that another process maps too. */
static long with_sharer(long (*call)(char *p))
{
	char *p = new_page(MAP_SHARED);
	int pipes[2];
	char ready;
	long ret;
	pid_t pid;

	require(!pipe(pipes), "no pipe");
	pid = fork();
	if (!pid) {
		/* Maps the page, until it is killed. */
		touch(p);
		if (write(pipes[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	require(read(pipes[0], &ready, 1) == 1, "nobody shares");
	close(pipes[0]);
	close(pipes[1]);
	ret = call(p);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return ret;
}

static long move_there(char *p)
{
	return move_status(p, to);
}

static long status_shared(void)
{
	return with_sharer(move_there);
}

/* The result of a call for a page that a pipe refers to; it does not move. */
static long with_pin(long (*call)(char *p))
{
	char *p = new_page(MAP_PRIVATE);
	struct iovec part = { .iov_base = p, .iov_len = PAGE };
	int pipes[2];
	long ret;

	require(!pipe(pipes) && vmsplice(pipes[1], &part, 1, 0) ==
		(ssize_t)PAGE, "cannot pin: %s", strerror(errno));
	ret = call(p);
	require(page_node(p) == from, "it has moved");
	return ret;
}

static long move_count(char *p)
{
	int status;
	long ret;

	ret = move_one(0, p, to, MPOL_MF_MOVE, &status);
	require(status == NO_STATUS, "status %d", status);
	return ret;
}

static long move_pinned(void)
{
	return with_pin(move_count);
}

/* A page of a file system that can migrate clean pages only. */
static char *make_ramfs_page(bool dirty)
{
	int fd = file_in(BACK_RAMFS, 0);
	char *p;

	require(!ftruncate(fd, PAGE), "no file: %s", strerror(errno));
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(p != MAP_FAILED && !node_bind(from), "no memory");
	/* A hole that is read is a clean page of zeroes. */
	touch(p);
	if (dirty)
		*p = 1;
	node_unbind();
	close(fd);
	return p;
}

/*
 * Makes it on the node that pages move from, and calls the other one that if it
 * has to: ramfs takes no movable memory, and binding it to a node that has no
 * other is without effect.
 */
static char *ramfs_page(bool dirty)
{
	char *p = make_ramfs_page(dirty);
	int other = to;

	if (page_node(p) == from)
		return p;
	to = from;
	from = other;
	p = make_ramfs_page(dirty);
	require(page_node(p) == from, "it is on neither of the nodes");
	return p;
}

/* Fails by EINVAL inside the kernel, since it cannot be written back either. */
static long with_dirty(long (*call)(char *p))
{
	char *p = ramfs_page(true);
	long ret = call(p);

	require(page_node(p) == from && *p == 1, "it has moved, or changed");
	return ret;
}

static long move_dirty(void)
{
	return with_dirty(move_count);
}

static long move_clean(void)
{
	/* Which says what the nodes are. */
	char *p = ramfs_page(false);

	return move_status(p, to) == to ? 0 : 1;
}

/* E2BIG is what Linux gave before 2.6.29; now it reads as far as it can. */
static long move_too_many(void)
{
	char *list = new_page(MAP_PRIVATE);
	void **pages = (void **)(list + PAGE) - 1;
	int nodes[2] = { to, to }, status[2] = { NO_STATUS, NO_STATUS };

	*pages = page;
	return result(sys_move_pages(0, ULONG_MAX, pages, nodes, status,
				     MPOL_MF_MOVE));
}

static void need_kthreadd(void)
{
	char comm[32];

	if (file_read("/proc/2/comm", comm, sizeof(comm)) ||
	    strcmp(comm, "kthreadd\n"))
		skip("no kernel thread to be seen");
}

static long move_kernel_thread(void)
{
	int status;

	need_kthreadd();
	return move_one(KTHREADD, page, to, MPOL_MF_MOVE, &status);
}

/* What comes before the node that the cpuset lacks has its status. */
static long move_cpuset_second(void)
{
	void *pages[] = { new_page(MAP_PRIVATE), page };
	int nodes[] = { from, to }, status[] = { NO_STATUS, NO_STATUS };
	long ret;

	ret = result(sys_move_pages(0, 2, pages, nodes, status, MPOL_MF_MOVE));
	require(status[0] == from && status[1] == NO_STATUS,
		"statuses %d, %d", status[0], status[1]);
	return ret;
}

static long move_to(void)
{
	int status;
	long ret;

	ret = move_one(0, page, to, MPOL_MF_MOVE, &status);
	require(status == (ret ? NO_STATUS : to), "status %d", status);
	return ret;
}

static long query_hole(void)
{
	void *addr = HOLE;
	int status = NO_STATUS;
	long err;

	err = result(sys_move_pages(0, 1, &addr, NULL, &status, 0));
	return err ? err : status;
}

static long bind_to(void *addr, unsigned long size, int mode, int node,
		    unsigned int flags)
{
	return result(sys_mbind(addr, size, mode, node, flags));
}

static long mbind_unaligned(void)
{
	return bind_to(page + 1, PAGE, MPOL_BIND, to, MPOL_MF_MOVE);
}

static long mbind_bad_flag(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to, BAD_FLAG);
}

static long mbind_mt_alone(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to, MPOL_MF_MOVE_MT);
}

static long mbind_mt_strict(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to,
		       MPOL_MF_MOVE_MT | MPOL_MF_STRICT);
}

static long mbind_mt_bad_flag(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to,
		       MPOL_MF_MOVE | MPOL_MF_MOVE_MT | BAD_FLAG);
}

static long mbind_all_mt(void)
{
	return arrived(bind_to(page, PAGE, MPOL_BIND, to,
			       MPOL_MF_MOVE_ALL | MPOL_MF_MOVE_MT));
}

static long mbind_mt(void)
{
	return arrived(bind_to(page, PAGE, MPOL_BIND, to,
			       MPOL_MF_MOVE | MPOL_MF_MOVE_MT));
}

static long mbind_bad_mode(void)
{
	return bind_to(page, PAGE, 99, to, MPOL_MF_MOVE);
}

static long mbind_both_relations(void)
{
	return bind_to(page, PAGE, MPOL_BIND | MPOL_F_STATIC_NODES |
		       MPOL_F_RELATIVE_NODES, to, MPOL_MF_MOVE);
}

static long mbind_no_node(void)
{
	return result(syscall(SYS_mbind, page, PAGE, MPOL_BIND, NULL, 0,
			      MPOL_MF_MOVE));
}

static long mbind_default_with_node(void)
{
	return bind_to(page, PAGE, MPOL_DEFAULT, to, MPOL_MF_MOVE);
}

static long mbind_bad_node(void)
{
	return bind_to(page, PAGE, MPOL_BIND, BAD_NODE - 1, MPOL_MF_MOVE);
}

static long mbind_bad_mask(void)
{
	return result(syscall(SYS_mbind, page, PAGE, MPOL_BIND, BAD_POINTER, 64,
			      MPOL_MF_MOVE));
}

static long mbind_too_many_nodes(void)
{
	return result(syscall(SYS_mbind, page, PAGE, MPOL_BIND, &to, 1 << 20,
			      MPOL_MF_MOVE));
}

static long mbind_hole(void)
{
	return bind_to(HOLE, PAGE, MPOL_BIND, to, MPOL_MF_MOVE);
}

static long mbind_overflow(void)
{
	return bind_to(page, -2 * PAGE, MPOL_BIND, to, MPOL_MF_MOVE);
}

static long mbind_empty(void)
{
	return bind_to(page, 0, MPOL_BIND, to, MPOL_MF_MOVE);
}

static long mbind_strict(void)
{
	return bind_to(new_page(MAP_PRIVATE), PAGE, MPOL_BIND, to,
		       MPOL_MF_STRICT);
}

static long mbind_strict_move(void)
{
	return arrived(bind_to(page, PAGE, MPOL_BIND, to,
			       MPOL_MF_STRICT | MPOL_MF_MOVE));
}

static long strict_there(char *p)
{
	return bind_to(p, PAGE, MPOL_BIND, to, MPOL_MF_STRICT | MPOL_MF_MOVE);
}

static long mbind_strict_pinned(void)
{
	return with_pin(strict_there);
}

static long mbind_strict_dirty(void)
{
	return with_dirty(strict_there);
}

static long mbind_strict_clean(void)
{
	char *p = ramfs_page(false);
	long ret = strict_there(p);

	require(page_node(p) == to, "it has not moved");
	return ret;
}

/* Shared pages are left out, and that is no failure. */
static long strict_but_shared(char *p)
{
	long ret = strict_there(p);

	require(page_node(p) == from, "it has moved");
	return ret;
}

static long mbind_strict_shared(void)
{
	return with_sharer(strict_but_shared);
}

static long mbind_interleave_no_node(void)
{
	return result(syscall(SYS_mbind, page, PAGE, MPOL_INTERLEAVE, NULL, 0,
			      MPOL_MF_MOVE));
}

static long mbind_to(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to, MPOL_MF_MOVE);
}

/*
 * The page in the middle needs a mapping of its own, and the process has as
 * many as it may have: a shortage that spares the rest of the machine.
 */
static long mbind_no_memory(void)
{
	size_t size = 3 * PAGE;
	unsigned int i = 0;
	long ret;
	char *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(p != MAP_FAILED && !node_bind(from), "no memory");
	memset(p, 1, size);
	node_unbind();
	/* By turns, or neighbours would become one mapping. */
	while (mmap(NULL, PAGE, i++ % 2 ? PROT_READ : PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		;
	ret = bind_to(p + PAGE, PAGE, MPOL_BIND, to, MPOL_MF_MOVE);
	require(page_node(p + PAGE) == from, "the page has moved");
	return ret;
}

static long mbind_all_unprivileged(void)
{
	return bind_to(page, PAGE, MPOL_BIND, to, MPOL_MF_MOVE_ALL);
}

static long migrate_no_pid(void)
{
	return result(sys_migrate_pages(NO_SUCH_PID, from, to));
}

static long migrate_init_unprivileged(void)
{
	return result(sys_migrate_pages(1, from, to));
}

static long migrate_bad_node(void)
{
	return result(sys_migrate_pages(0, from, BAD_NODE - 1));
}

static long migrate_to(void)
{
	return arrived(result(sys_migrate_pages(0, from, to)));
}

static long migrate_kernel_thread(void)
{
	need_kthreadd();
	return result(sys_migrate_pages(KTHREADD, from, to));
}

static long migrate_masks(const void *old, const void *new, unsigned long bits)
{
	return result(syscall(SYS_migrate_pages, 0, bits, old, new));
}

static long migrate_no_node(void)
{
	unsigned long old = 1UL << from, new = 0;

	return migrate_masks(&old, &new, 64);
}

static long migrate_bad_old(void)
{
	unsigned long new = 1UL << to;

	return migrate_masks(BAD_POINTER, &new, 64);
}

static long migrate_bad_new(void)
{
	unsigned long old = 1UL << from;

	return migrate_masks(&old, BAD_POINTER, 64);
}

static long migrate_too_many_nodes(void)
{
	unsigned long old = 1UL << from, new = 1UL << to;

	return migrate_masks(&old, &new, 1UL << 20);
}

/* More than NODES_SHIFT allows, on any architecture. */
#define HUGE_NODE	2000

static const unsigned long huge_mask[HUGE_NODE / 64 + 1] = {
	[HUGE_NODE / 64] = 1UL << HUGE_NODE % 64,
};

static long mbind_huge_node(void)
{
	return result(syscall(SYS_mbind, page, PAGE, MPOL_BIND, huge_mask,
			      8 * sizeof(huge_mask), MPOL_MF_MOVE));
}

static long migrate_huge_node(void)
{
	unsigned long old[ARRAY_SIZE(huge_mask)] = { 1UL << from };

	return migrate_masks(old, huge_mask, 8 * sizeof(huge_mask));
}

/**
 * struct call - A call and its result
 * @name: for messages
 * @call: the call
 * @unprivileged: not as root
 * @expected: the result
 * @cpuset: in a cpuset with no memory but that of node "from"
 */
struct call {
	const char *name;
	long (*call)(void);
	bool unprivileged;
	long expected;
	bool cpuset;
};

/*
 * No status here is EIO, EINVAL or ENOMEM, which the manual page has: Linux
 * 6.12 stores none for pages that fail to move, but returns their number, or
 * -ENOMEM for a full node (migrate_boundary). A dirty page of ramfs is one that
 * fails by EINVAL; by EIO fails one whose file system cannot migrate dirty
 * pages, and fails to write it, which none of ours does.
 */
static const struct call calls[] = {
	{ "move_pages: unknown flag", move_bad_flag, false, -EINVAL },
	{ "move_pages: MOVE_MT alone", move_mt_alone, false, -EINVAL },
	{ "move_pages: no such process", move_no_pid, false, -ESRCH },
	{ "move_pages: process of root, unprivileged", move_init_unprivileged,
	  true, -EPERM },
	{ "move_pages: MOVE_ALL, unprivileged", move_all_unprivileged, true,
	  -EPERM },
	{ "move_pages: node without memory", move_bad_node, false, -ENODEV },
	{ "move_pages: node that cannot be", move_huge_node, false, -ENODEV },
	{ "move_pages: negative node", move_negative_node, false, -ENODEV },
	{ "move_pages: kernel thread", move_kernel_thread, false, -EINVAL },
	{ "move_pages: node outside the cpuset", move_to, false, -EACCES,
	  true },
	{ "move_pages: second node outside the cpuset", move_cpuset_second,
	  false, -EACCES, true },
	{ "move_pages: page that is pinned", move_pinned, false, 1 },
	{ "move_pages: dirty page that cannot be migrated", move_dirty, false,
	  1 },
	{ "move_pages: clean page of the same file system", move_clean, false,
	  0 },
	{ "move_pages: more pages than there can be", move_too_many, false,
	  -EFAULT },
	{ "move_pages: bad pages pointer", move_bad_pages, false, -EFAULT },
	{ "move_pages: bad nodes pointer", move_bad_nodes, false, -EFAULT },
	{ "move_pages: bad status pointer", move_bad_status, false, -EFAULT },
	{ "move_pages: bad status pointer of a query", query_bad_status, false,
	  -EFAULT },
	{ "move_pages: nothing to move", move_nothing, false, 0 },
	{ "move_pages status: hole", status_hole, false, -EFAULT },
	{ "move_pages status: untouched page", status_untouched, false,
	  -ENOENT },
	{ "move_pages status: zero page", status_zero_page, false, -EFAULT },
	{ "move_pages status: page is there already", status_there_already,
	  false, 0 },
	{ "move_pages status: page moved", status_moved, false, 0 },
	{ "move_pages status: page of two processes", status_shared, false,
	  -EACCES },
	{ "move_pages query: hole", query_hole, false, -EFAULT },
	{ "mbind: unaligned address", mbind_unaligned, false, -EINVAL },
	{ "mbind: unknown flag", mbind_bad_flag, false, -EINVAL },
	{ "mbind: MOVE_MT alone", mbind_mt_alone, false, -EINVAL },
	{ "mbind: MOVE_MT and STRICT", mbind_mt_strict, false, -EINVAL },
	{ "mbind: MOVE, MOVE_MT and an unknown flag", mbind_mt_bad_flag, false,
	  -EINVAL },
	{ "mbind: unknown mode", mbind_bad_mode, false, -EINVAL },
	{ "mbind: static and relative nodes", mbind_both_relations, false,
	  -EINVAL },
	{ "mbind: no node", mbind_no_node, false, -EINVAL },
	{ "mbind: interleaved over no node", mbind_interleave_no_node, false,
	  -EINVAL },
	{ "mbind: default policy with a node", mbind_default_with_node, false,
	  -EINVAL },
	{ "mbind: node without memory", mbind_bad_node, false, -EINVAL },
	{ "mbind: node that cannot be", mbind_huge_node, false, -EINVAL },
	{ "mbind: node outside the cpuset", mbind_to, false, -EINVAL, true },
	{ "mbind: no memory for a mapping", mbind_no_memory, false, -ENOMEM },
	{ "mbind: bad pointer", mbind_bad_mask, false, -EFAULT },
	{ "mbind: too many nodes", mbind_too_many_nodes, false, -EINVAL },
	{ "mbind: hole", mbind_hole, false, -EFAULT },
	{ "mbind: overflow", mbind_overflow, false, -EINVAL },
	{ "mbind: nothing", mbind_empty, false, 0 },
	{ "mbind: STRICT, page elsewhere", mbind_strict, false, -EIO },
	{ "mbind: STRICT and MOVE", mbind_strict_move, false, 0 },
	{ "mbind: STRICT and MOVE, page of two processes",
	  mbind_strict_shared, false, 0 },
	{ "mbind: STRICT and MOVE, page that is pinned", mbind_strict_pinned,
	  false, -EIO },
	{ "mbind: STRICT and MOVE, dirty page that cannot be migrated",
	  mbind_strict_dirty, false, -EIO },
	{ "mbind: STRICT and MOVE, clean page of the same file system",
	  mbind_strict_clean, false, 0 },
	{ "mbind: MOVE_ALL, unprivileged", mbind_all_unprivileged, true,
	  -EPERM },
	{ "migrate_pages: no such process", migrate_no_pid, false, -ESRCH },
	{ "migrate_pages: process of root, unprivileged",
	  migrate_init_unprivileged, true, -EPERM },
	{ "migrate_pages: node without memory", migrate_bad_node, false,
	  -EINVAL },
	{ "migrate_pages: node that cannot be", migrate_huge_node, false,
	  -EINVAL },
	{ "migrate_pages: kernel thread", migrate_kernel_thread, false,
	  -EINVAL },
	{ "migrate_pages: own process, unprivileged", migrate_to, true, 0 },
	{ "migrate_pages: node outside the cpuset, unprivileged", migrate_to,
	  true, -EPERM, true },
	{ "migrate_pages: node outside the cpuset", migrate_to, false,
	  -EINVAL, true },
	{ "migrate_pages: no node", migrate_no_node, false, -EINVAL },
	{ "migrate_pages: bad old nodes", migrate_bad_old, false, -EFAULT },
	{ "migrate_pages: bad new nodes", migrate_bad_new, false, -EFAULT },
	{ "migrate_pages: too many nodes", migrate_too_many_nodes, false,
	  -EINVAL },
};

/* What only a kernel with migrate_copy takes. */
static const struct call own_calls[] = {
	{ "move_pages: MOVE and MOVE_MT", move_mt, true, 0 },
	{ "move_pages: MOVE_ALL and MOVE_MT", move_all_mt, false, 0 },
	{ "move_pages: MOVE_ALL and MOVE_MT, unprivileged", move_all_mt, true,
	  -EPERM },
	{ "mbind: MOVE and MOVE_MT", mbind_mt, true, 0 },
	{ "mbind: MOVE_ALL and MOVE_MT", mbind_all_mt, false, 0 },
	{ "mbind: MOVE_ALL and MOVE_MT, unprivileged", mbind_all_mt, true,
	  -EPERM },
};

/* One of the calls takes seconds where guests are emulated. */
#define TIMEOUT	120

struct variant {
	const struct call *call;
	enum copy_mode mode;
};

static void test_call(const void *arg)
{
	const struct variant *variant = arg;
	const struct call *call = variant->call;
	int mode = -1;
	long seen;

	mode_enter(variant->mode);
	nodes_find(&from, &to);
	page = new_page(MAP_PRIVATE);
	if (call->cpuset)
		require(!cpuset_enter(from), "cannot enter a cpuset");
	require(!call->unprivileged || !setuid(NOBODY), "cannot become nobody");
	seen = call->call();
	require(seen == call->expected, "%ld, not %ld", seen, call->expected);
	/* What is refused changes nothing. */
	if (seen != -EINVAL && seen != -EPERM)
		return;
	require(page_node(page) == from, "refused, and moved");
	require(!syscall(SYS_get_mempolicy, &mode, NULL, 0, page,
			 MPOL_F_ADDR) && mode == MPOL_DEFAULT,
		"refused, and the policy is %d", mode);
}

static void test_calls(const struct call *list, size_t nr, unsigned int modes)
{
	struct variant variant;
	char name[128];
	size_t i;

	for (variant.mode = 0; variant.mode < NR_MODES; variant.mode++) {
		if (!(modes & 1U << variant.mode))
			continue;
		for (i = 0; i < nr; i++) {
			variant.call = &list[i];
			snprintf(name, sizeof(name), "%s, %s",
				 mode_names[variant.mode], list[i].name);
			test_run(name, TIMEOUT, test_call, &variant);
		}
	}
}

/* A limit that depends on the machine is filled in at run time. */
#define CPUS	(-1L)

static struct {
	const char *name;
	long min;
	long max;
} knobs[] = {
	{ "enabled", 0, 1 },
	{ "max_helpers", 0, CPUS },
	{ "vm.mt_page_copy", 0, 2 },
};

static const char * const garbage[] = {
	"\n", " ", "-1", "abc", "0x", "5 5", "1e3", "12345678901234567890",
};

static void knob_path(char *path, size_t size, size_t i)
{
	if (!strncmp(knobs[i].name, "vm.", 3))
		snprintf(path, size, "/proc/sys/vm/%s", knobs[i].name + 3);
	else
		snprintf(path, size, KNOB_DIR "/%s", knobs[i].name);
}

static bool refuses(const char *path, const char *text, int error)
{
	char before[512], after[512];
	int err;

	if (file_read(path, before, sizeof(before)))
		return false;
	err = file_write(path, text);
	if (file_read(path, after, sizeof(after)))
		return false;
	if (err != -error || strcmp(before, after)) {
		ksft_print_msg("%s: \"%s\" gave %d, %s became %s\n", path,
			       text, err, before, after);
		return false;
	}
	return true;
}

static bool takes(const char *path, long value)
{
	uint64_t seen;
	int err;

	err = file_write_number(path, value);
	if (err || file_read_number(path, &seen) || seen != value) {
		ksft_print_msg("%s: %ld refused (%d) or changed\n", path, value,
			       err);
		return false;
	}
	return true;
}

static bool refuses_number(const char *path, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	return refuses(path, text, EINVAL);
}

static void test_limits(const void *arg)
{
	size_t i = *(const size_t *)arg;
	char path[128];

	knob_path(path, sizeof(path), i);
	require(takes(path, knobs[i].max) && takes(path, knobs[i].min),
		"a limit is refused");
}

static void test_out_of_range(const void *arg)
{
	size_t i = *(const size_t *)arg;
	char path[128];

	knob_path(path, sizeof(path), i);
	require(refuses_number(path, knobs[i].max + 1), "too much is taken");
	require(refuses_number(path, knobs[i].min - 1), "too little is taken");
}

static void test_garbage(const void *arg)
{
	size_t i = *(const size_t *)arg;
	char path[128];
	size_t j;

	knob_path(path, sizeof(path), i);
	for (j = 0; j < ARRAY_SIZE(garbage); j++) {
		/* A switch goes by the first character. */
		if (!i && strchr("01", garbage[j][0]))
			continue;
		require(refuses(path, garbage[j], EINVAL), "garbage is taken");
	}
}

static void test_other_users(const void *arg)
{
	size_t i = *(const size_t *)arg;
	char path[128];
	char text[512];

	knob_path(path, sizeof(path), i);
	require(!setuid(NOBODY), "cannot become nobody");
	require(!file_read(path, text, sizeof(text)), "cannot be read");
	require(refuses(path, "1", EACCES), "can be written");
}

static void test_non_temporal(const void *unused)
{
	static const char path[] = KNOB_DIR "/non_temporal";
	static const char * const names[] = {
		"demotion", "far", "always", "never",
	};
	char text[32];
	size_t i;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		int err = file_write(path, names[i]);

		if (err == -EINVAL && !HAS_NON_TEMPORAL && strcmp(names[i], "never"))
			continue;
		require(!err && !file_read(path, text, sizeof(text)),
			"%s is refused", names[i]);
		text[strcspn(text, "\n")] = '\0';
		require(!strcmp(text, names[i]), "%s became %s", names[i], text);
	}
	require(refuses(path, "alwayss", EINVAL) && refuses(path, "1", EINVAL) &&
		refuses(path, "never far", EINVAL), "garbage is taken");
	require(!setuid(NOBODY), "cannot become nobody");
	require(refuses(path, "far", EACCES), "can be written");
}

#define REASONS	KNOB_DIR "/reasons"

/* All but compaction. */
#define DEFAULT_REASONS							\
	"memory_failure memory_hotplug syscall_or_cpuset mempolicy_mbind " \
	"numa_misplaced contig_range longterm_pin demotion damon"

static bool reasons_are(const char *expected)
{
	char text[512];

	if (file_read(REASONS, text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (!strcmp(text, expected))
		return true;
	ksft_print_msg("reasons are \"%s\", not \"%s\"\n", text, expected);
	return false;
}

static void test_reasons(const void *arg)
{
	static const char all[] = "compaction " DEFAULT_REASONS;
	static const char * const bad[] = {
		"\n", " ", "dem", "demotion2", "damon,nothing", "all none", "1",
	};
	size_t i;

	require(reasons_are(DEFAULT_REASONS), "default");
	require(!file_write(REASONS, "none") && reasons_are("none"), "none");
	require(!file_write(REASONS, "all\n") && reasons_are(all), "all");
	require(!file_write(REASONS, " damon, demotion\n") &&
		reasons_are("demotion damon"), "two of them");
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		require(file_write(REASONS, bad[i]) == -EINVAL &&
			reasons_are("demotion damon"), "\"%s\"", bad[i]);
	require(!file_write(REASONS, all) && reasons_are(all), "all by name");
	require(!file_write(REASONS, DEFAULT_REASONS), "cannot write the default");
	require(!setuid(NOBODY), "cannot become nobody");
	require(file_write(REASONS, "none") == -EACCES &&
		reasons_are(DEFAULT_REASONS),
		"another user can write");
}

/* What a move back and forth adds to the batches. */
static uint64_t batches_of_move(char *p, size_t size)
{
	uint64_t before = stat_read("folios_copied");
	long err = move_range(p, size, to, MPOL_MF_MOVE) ?:
		   move_range(p, size, from, MPOL_MF_MOVE);

	require(!err, "cannot move: %s", strerror(-err));
	return stat_read("folios_copied") - before;
}

/* Without helpers nothing is won by copying folios together. */
static void test_left_out(const void *unused)
{
	/* So many that more than one CPU might copy them. */
	size_t size = 256 * PAGE;
	char *p;

	(void)unused;
	nodes_find(&from, &to);
	mode_enter(MODE_BATCH);
	require(!file_write_number(MT_PAGE_COPY, 2), "cannot set the default");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	require(p != MAP_FAILED, "no memory");
	require(batches_of_move(p, size), "nothing is copied together at first");
	require(!file_write(REASONS, "demotion"), "cannot set reasons");
	require(!batches_of_move(p, size), "what is left out is copied together");
	require(!file_write(REASONS, "syscall_or_cpuset"), "cannot set reasons");
	require(batches_of_move(p, size), "nothing is copied together");
}

/* Knobs whose values have names. */
static const struct {
	const char *name;
	const char *values[3];
} choices[] = {
	{ "placement", { "fill", "spread" } },
	{ "priority", { "high", "normal" } },
};

static bool choice_is(const char *path, const char *expected)
{
	char text[64];

	if (file_read(path, text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (!strcmp(text, expected))
		return true;
	ksft_print_msg("%s is \"%s\", not \"%s\"\n", path, text, expected);
	return false;
}

static void test_choice(const void *arg)
{
	static const char * const bad[] = {
		"\n", " ", "0", "1", "-1", "none", "%s %s", "%s,", " %s", "%s\n\n",
		"%s%s", "12345678901234567890",
	};
	size_t choice = *(const size_t *)arg;
	const char * const *values = choices[choice].values;
	const char *value = NULL;
	char path[128], text[64];
	size_t i;

	snprintf(path, sizeof(path), KNOB_DIR "/%s", choices[choice].name);
	for (i = 0; values[i]; i++) {
		value = values[i];
		snprintf(text, sizeof(text), "%s\n", value);
		require(!file_write(path, value) && choice_is(path, value),
			"%s is refused", value);
		require(!file_write(path, text) && choice_is(path, value),
			"%s is refused with a newline", value);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		/* The first value, where it would be seen: the last one is set. */
		snprintf(text, sizeof(text), bad[i], values[0], values[0]);
		require(file_write(path, text) == -EINVAL &&
			choice_is(path, value), "\"%s\"", text);
	}
	require(!setuid(NOBODY), "cannot become nobody");
	require(file_write(path, values[0]) == -EACCES && choice_is(path, value),
		"another user can write");
}

static void test_statistics(const void *arg)
{
	static const char * const names[] = {
		"requests", "alone", "pages_caller", "pages_helpers", "rests",
		"helper_ns", "folios_copied", "bytes_caller", "bytes_helpers",
		"fallback", "bytes_engines", "engine_failed", "engine_late",
		"engine_lost", "engine_stopped",
	};

	/* Each of them alone, or it ends the test. */
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		stat_read(names[i]);
}

static const struct {
	const char *name;
	test_fn fn;
} knob_tests[] = {
	{ "takes its limits", test_limits },
	{ "refuses what is out of range", test_out_of_range },
	{ "refuses garbage", test_garbage },
	{ "refuses other users", test_other_users },
};

static void test_knobs(unsigned int modes)
{
	char name[128];
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		if (knobs[i].max == CPUS)
			knobs[i].max = sysconf(_SC_NPROCESSORS_CONF);
		for (j = 0; j < ARRAY_SIZE(knob_tests); j++) {
			snprintf(name, sizeof(name), "%s: %s", knobs[i].name,
				 knob_tests[j].name);
			test_run(name, TIMEOUT, knob_tests[j].fn, &i);
		}
	}
	test_calls(own_calls, ARRAY_SIZE(own_calls), modes);
	test_run("reasons: names, and nothing else", TIMEOUT, test_reasons,
		 NULL);
	test_run("reasons: what they leave out is not batched", TIMEOUT,
		 test_left_out, NULL);
	file_write(REASONS, DEFAULT_REASONS);
	test_run("non_temporal: names, and nothing else", TIMEOUT,
		 test_non_temporal, NULL);
	for (i = 0; i < ARRAY_SIZE(choices); i++) {
		snprintf(name, sizeof(name), "%s: its names, and nothing else",
			 choices[i].name);
		test_run(name, TIMEOUT, test_choice, &i);
	}
	test_run("vmstat: has the counters", TIMEOUT, test_statistics, NULL);
}

#define KNOB_TESTS	(ARRAY_SIZE(knob_tests) * ARRAY_SIZE(knobs) + \
			 ARRAY_SIZE(choices) + 4)

int main(int argc, char **argv)
{
	bool do_calls = argc < 2 || !strcmp(argv[1], "calls");
	bool do_knobs = argc < 2 ? file_exists(KNOB_DIR) :
				   !strcmp(argv[1], "knobs");
	unsigned int modes, nr_modes;

	modes = modes_wanted(argc > 2 ? argc - 2 : 0, argv + 2);
	nr_modes = __builtin_popcount(modes);
	tests_start((do_calls ? ARRAY_SIZE(calls) * nr_modes : 0) +
		    (do_knobs ? KNOB_TESTS + ARRAY_SIZE(own_calls) * nr_modes :
				0));
	if (do_calls)
		test_calls(calls, ARRAY_SIZE(calls), modes);
	if (do_knobs)
		test_knobs(modes);
	tests_end();
}
