// SPDX-License-Identifier: GPL-2.0-only
/*
 * The operations of a worker: what moves its memory, and what it does with it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "torture.h"

/* How often a page may be elsewhere when it has just been reported as moved. */
#define ELSEWHERE	20

/* What move_pages() reads and writes, besides the memory that is moved. */
static struct {
	void *pages[MAX_PAGES];
	int want[MAX_PAGES];
	int status[MAX_PAGES];
	int at[MAX_PAGES];
	uint64_t pfn[MAX_PAGES];
} list;

/*
 * A page fault in the middle of a call, with an allocation that is made to fail,
 * would give EFAULT, as for a wrong address. So there are none: what the calls
 * read and write, a node mask on the stack included, stays in memory.
 */
static bool lock_arguments(void)
{
	char stack[64 * KB];

	memset(stack, 0, sizeof(stack));
	return !mlock(&list, sizeof(list)) && !mlock(stack, sizeof(stack));
}

/*
 * A process moves its own memory, all of which is mapped, between nodes that have
 * memory and that it may use. It gets no other error than that a page, or what
 * the kernel needs for the call, could not be allocated. EFAULT: see above. EIO is
 * for MPOL_MF_STRICT, which is not used; ENODEV for a node without memory, and
 * each keeps what cannot go offline; EACCES, EINVAL and EPERM for nodes and
 * processes that are out of reach; and nothing waits in a way that a signal
 * could interrupt.
 */
static void call_ended(const char *call, long ret)
{
	int err = ret < 0 ? errno : 0;

	count_error(shared->call_errors, err);
	if (err && err != ENOMEM)
		unexpected("%s gave %s", call, strerror(err));
}

/*
 * The memory of another process moves, which may have come to its end: then it
 * is not found (ESRCH), or has no memory any more (EINVAL). Returns how many
 * pages could not be moved.
 */
int migrate_other(pid_t pid, int from, int to)
{
	int left = sys_migrate_pages(pid, from, to);

	if (left < 0 && errno != ENOMEM && errno != ESRCH && errno != EINVAL)
		unexpected("migrate_pages of another process gave %s",
			   strerror(errno));
	return left;
}

/* Only what moves memory has allocations that fail. */
static void make_it_fail(bool on)
{
	static int fd = -2;
	static pid_t owner;

	if (owner != getpid()) {
		owner = getpid();
		fd = open("/proc/self/make-it-fail", O_WRONLY | O_CLOEXEC);
	}
	if (fd >= 0 && pwrite(fd, on ? "1" : "0", 1, 0) != 1)
		unexpected("make-it-fail: %s", strerror(errno));
}

/*
 * The kernel stores the node that was asked for when the page is there, and
 * nothing else that is positive. Of the errors, ENOENT is for a page that is not
 * there, or is on its way, EBUSY for one that somebody has isolated, and EACCES
 * for one that others map, too, which MPOL_MF_MOVE_ALL moves nevertheless. EFAULT
 * would be for an address without memory, or for the page of zeroes: there is
 * neither in a slot. What goes wrong with the copy of a page is no status.
 */
static void check_statuses(size_t nr, long ret, int flags)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		int err = list.status[i] < 0 ? -list.status[i] : 0;

		/* After an error the rest of a call is left undone. */
		if (list.status[i] == NO_STATUS) {
			if (!ret)
				unexpected("a page has no status");
			continue;
		}
		count_error(shared->statuses, err);
		if (list.status[i] >= 0 && list.status[i] != list.want[i])
			unexpected("a page for node %d has status %d",
				   list.want[i], list.status[i]);
		else if (err && err != ENOENT && err != EBUSY &&
			 !(err == EACCES && !(flags & MPOL_MF_MOVE_ALL)))
			unexpected("a page has status %d", list.status[i]);
	}
}

/*
 * Pages are where their statuses say, unless somebody else has moved them since:
 * who kills movers, NUMA balancing, reclaim, memory that goes offline. So those
 * that are elsewhere are moved again, later and later. None of these comes that
 * often, and movers live for 20 ms: a page that is elsewhere each time was never
 * moved.
 */
static void check_nodes(size_t nr, int flags)
{
	size_t i, left;
	int try;

	for (try = 0; try < ELSEWHERE; try++) {
		if (sys_move_pages(0, nr, list.pages, NULL, list.at, 0)) {
			unexpected("move_pages without nodes gave %s",
				   strerror(errno));
			return;
		}
		for (i = 0, left = 0; i < nr; i++) {
			if (list.status[i] < 0 || list.status[i] == NO_STATUS ||
			    list.at[i] < 0 || list.at[i] == list.want[i])
				continue;
			list.pages[left] = list.pages[i];
			list.want[left] = list.want[i];
			left++;
		}
		if (!left)
			return;
		if (!try)
			shared->elsewhere += left;
		nr = left;
		for (i = 0; i < nr; i++)
			list.status[i] = NO_STATUS;
		usleep(2000 * try);
		call_ended("move_pages",
			   sys_move_pages(0, nr, list.pages, list.want,
					  list.status, flags));
	}
	for (i = 0; i < nr; i++) {
		if (list.status[i] >= 0 && list.status[i] != NO_STATUS)
			unexpected("a page is never on node %d",
				   list.status[i]);
	}
}

/*
 * Those that KSM has merged, and that are where the call has moved them: another
 * page has the same address. The flag of /proc/kpageflags is no help: in 6.12 all
 * anonymous pages have it.
 */
static void count_merged(size_t nr)
{
	size_t i, j;

	for (i = 0; i < nr; i++)
		list.pfn[i] = page_pfn(list.pages[i]);
	for (i = 0; i < nr; i++) {
		if (!list.pfn[i] || list.at[i] < 0 ||
		    list.at[i] == list.want[i] || list.status[i] != list.want[i])
			continue;
		for (j = 0; j < nr && (j == i || list.pfn[j] != list.pfn[i]); j++)
			;
		shared->merged_moved += j < nr;
	}
}

static void do_move_pages(struct slot *s)
{
	size_t first = rnd(s->pages), nr, i, step;
	int to = nodes[rnd(nr_nodes)];
	int flags = rnd(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL;
	/* What is merged cannot be in two places. */
	bool scattered = !rnd(4) && s->kind != SLOT_KSM;
	int ret;

	if (rnd(2))
		first = 0;
	if (!rnd(3))
		flags |= MPOL_MF_MOVE_MT;
	step = s->kind == SLOT_HUGETLB ? 2 * MB / PAGE : 1 + rnd(3) * rnd(3);
	first -= first % step;
	for (i = first, nr = 0; i < s->pages; i += step, nr++) {
		list.pages[nr] = s->map + i * PAGE;
		list.want[nr] = scattered ? nodes[rnd(nr_nodes)] : to;
		list.status[nr] = NO_STATUS;
		list.at[nr] = NO_STATUS;
	}
	if (s->kind == SLOT_KSM)
		sys_move_pages(0, nr, list.pages, NULL, list.at, 0);
	make_it_fail(true);
	ret = sys_move_pages(0, nr, list.pages, list.want, list.status, flags);
	make_it_fail(false);
	call_ended("move_pages", ret);
	check_statuses(nr, ret, flags);
	if (s->kind == SLOT_KSM)
		count_merged(nr);
	check_nodes(nr, flags);
}

static void do_mbind(struct slot *s)
{
	int mode = rnd(2) ? MPOL_BIND : MPOL_PREFERRED;
	unsigned int flags = rnd(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL;
	int ret;

	if (!rnd(3))
		flags |= MPOL_MF_MOVE_MT;
	make_it_fail(true);
	ret = sys_mbind(s->map, s->pages * PAGE, mode, nodes[rnd(nr_nodes)],
			flags);
	make_it_fail(false);
	call_ended("mbind", ret);
	/* That one takes no nodes. */
	call_ended("mbind", syscall(SYS_mbind, s->map, s->pages * PAGE,
				    MPOL_DEFAULT, NULL, 0, 0));
}

static void do_migrate_pages(void)
{
	int ret;

	make_it_fail(true);
	ret = sys_migrate_pages(0, nodes[rnd(nr_nodes)], nodes[rnd(nr_nodes)]);
	make_it_fail(false);
	call_ended("migrate_pages", ret);
}

static void do_fork(struct slot *s)
{
	size_t first = rnd(s->pages / 2), nr = s->pages / 4;
	uint64_t later = rnd(20000);
	pid_t pid = fork();
	int how;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(later);
		/* Huge pages of a pool may be missing for a copy. */
		if (is_private(s))
			write_pages(s, first, nr);
		verify(s, first, nr);
		_exit(0);
	}
	if (pid < 0)
		return;
	if (is_private(s))
		write_pages(s, s->pages / 2, s->pages / 4);
	do_move_pages(s);
	if (waitpid(pid, &how, 0) != pid || how) {
		ksft_print_msg("a child ended with %x\n", how);
		shared->died++;
	}
}

static void do_discard(struct slot *s)
{
	size_t first = rnd(s->pages / 2), nr = 1 + rnd(s->pages / 2);

	if (s->kind == SLOT_HUGETLB)
		return;
	if (is_private(s))
		madvise(s->map + first * PAGE, nr * PAGE,
			rnd(2) ? MADV_DONTNEED : MADV_FREE);
	else if (s->fd >= 0)
		fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  first * PAGE, nr * PAGE);
	else
		madvise(s->map + first * PAGE, nr * PAGE, MADV_REMOVE);
	write_pages(s, first, nr);
}

static void do_process_vm(struct slot *s)
{
	size_t page = rnd(s->pages - 16);
	static char buf[16 * 65536];
	struct iovec from = { buf, 16 * PAGE };
	struct iovec to = { s->map + page * PAGE, 16 * PAGE };
	ssize_t done;
	size_t i;

	for (i = 0; i < 16; i++) {
		s->version[page + i]++;
		page_fill(s, page + i, buf + i * PAGE);
	}
	done = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	if (done != (ssize_t)(16 * PAGE))
		write_pages(s, page, 16);
}

static void do_mremap(struct slot *s)
{
	size_t size = s->pages * PAGE;
	char *to;

	if (s->kind == SLOT_HUGETLB)
		return;
	to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return;
	to = mremap(s->map, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (to != MAP_FAILED)
		s->map = to;
}

static void operate(struct slot *s, enum operation op)
{
	size_t size = s->pages * PAGE;
	size_t page;

	switch (op) {
	case OP_MOVE_PAGES:
		do_move_pages(s);
		break;
	case OP_MBIND:
		do_mbind(s);
		break;
	case OP_MIGRATE_PAGES:
		do_migrate_pages();
		break;
	case OP_PAGEOUT:
		madvise(s->map, size, MADV_PAGEOUT);
		break;
	case OP_COLD:
		madvise(s->map, size, MADV_COLD);
		break;
	case OP_COLLAPSE:
		madvise(s->map, size, MADV_COLLAPSE);
		break;
	case OP_MLOCK:
		if (!mlock(s->map, size)) {
			do_move_pages(s);
			munlock(s->map, size);
		}
		break;
	case OP_FORK:
		do_fork(s);
		break;
	case OP_DISCARD:
		do_discard(s);
		break;
	case OP_REWRITE:
		page = rnd(s->pages);
		write_pages(s, page, 1 + rnd(s->pages - page));
		break;
	case OP_PROCESS_VM:
		do_process_vm(s);
		break;
	case OP_KSM:
		madvise(s->map, size, rnd(2) ? MADV_MERGEABLE :
					       MADV_UNMERGEABLE);
		break;
	case OP_REMAP:
		do_mremap(s);
		break;
	default:
		verify(s, 0, s->pages);
		break;
	}
	shared->done[op]++;
}

/* Moves are most of it. */
static enum operation choose(void)
{
	return rnd(2) ? rnd(OP_MIGRATE_PAGES + 1) :
			rnd(NR_WORKER_OPERATIONS);
}

void __noreturn worker_main(unsigned int id)
{
	static struct slot slots[3];
	uint64_t turn;
	size_t i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	turn_start(id, 0);
	if (!lock_arguments())
		unexpected("mlock: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		slots[i].kind = (id * ARRAY_SIZE(slots) + i) % NR_SLOT_KINDS;
		slots[i].seed = (uint64_t)(id * 16 + i + 1) << 40;
		/* A pool may be empty: have another kind. */
		if (!slot_map(&slots[i], id)) {
			slots[i].kind = SLOT_BASE;
			if (!slot_map(&slots[i], id))
				_exit(1);
		}
	}
	for (turn = 1; !shared->stop; turn++) {
		turn_start(id, turn);
		operate(&slots[rnd(ARRAY_SIZE(slots))], choose());
		/* Others have moved them all by now. */
		for (i = 0; i < ARRAY_SIZE(slots); i++)
			verify(&slots[i], 0, slots[i].pages);
		shared->at[id]++;
	}
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		verify(&slots[i], 0, slots[i].pages);
	_exit(0);
}
