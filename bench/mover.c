// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process that moves another one's pages. It is there before the client works: a fork
 * would have the client copy its pages when it writes to them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"
#include "workbench.h"

struct order {
	const struct way *way;
	struct move move;
};

static pid_t mover;
static int orders = -1, answers = -1;

static uint64_t time_of(const struct timeval *time)
{
	return time->tv_sec * NS_OF_S + time->tv_usec * 1000ULL;
}

/* CPU time of this process, and of those that it has waited for. */
static uint64_t used_ns(void)
{
	uint64_t sum = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
		struct rusage usage;

		if (getrusage(who, &usage) == 0)
			sum += time_of(&usage.ru_utime) + time_of(&usage.ru_stime);
	}
	return sum;
}

/* CPUs add what they have counted to what the kernel tells once a second only. */
static uint64_t count_settled(const struct way *way)
{
	if (!way->counter)
		return 0;
	write_text("/proc/sys/vm/stat_refresh", "1");
	return count_now(way->counter);
}

static void __attribute__((noreturn)) take_orders(int in, int out, const char *cgroup)
{
	struct order order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cgroup && write_text(cgroup, "0") < 0)
		fail("cannot enter %s: %s", cgroup, strerror(errno));
	while (read(in, &order, sizeof(order)) == sizeof(order)) {
		uint64_t before = count_settled(order.way);
		struct moved moved = { .cpu_ns = used_ns(), .begin_ns = now_ns() };

		mark_begin();
		moved.good = !failed() && order.way->run(&order.move);
		mark_end();
		moved.end_ns = now_ns();
		moved.cpu_ns = used_ns() - moved.cpu_ns;
		moved.bytes = (count_settled(order.way) - before) * order.way->counts;
		snprintf(moved.error, sizeof(moved.error), "%s", failure());
		forget_failure();
		if (write(out, &moved, sizeof(moved)) != sizeof(moved))
			break;
	}
	_exit(EXIT_SUCCESS);
}

/* @cgroup is the cgroup.procs that it is to be in, NULL for that of this program. */
bool start_mover(const char *cgroup)
{
	int to[2], from[2];

	if (pipe(to) < 0 || pipe(from) < 0) {
		fail("cannot make a pipe: %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	mover = fork();
	if (!mover)
		take_orders(to[0], from[1], cgroup);
	close(to[0]);
	close(from[1]);
	orders = to[1];
	answers = from[0];
	if (mover < 0) {
		mover = 0;
		fail("cannot start a process: %s", strerror(errno));
		return false;
	}
	return true;
}

/* Moves pages; waits for the end of it. */
bool run_mover(const struct way *way, const struct move *move, struct moved *moved)
{
	struct order order = { way, *move };

	if (write(orders, &order, sizeof(order)) != sizeof(order) ||
	    read(answers, moved, sizeof(*moved)) != sizeof(*moved)) {
		fail("who moves the pages has ended");
		return false;
	}
	if (!moved->good)
		fail("%s", moved->error);
	return moved->good;
}

void end_mover(void)
{
	if (!mover)
		return;
	close(orders);
	close(answers);
	kill(mover, SIGKILL);
	waitpid(mover, NULL, 0);
	mover = 0;
}
