// SPDX-License-Identifier: GPL-2.0-only
/* When a benchmark program may load the machine, and when it must stop. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"

#define FIRST_LOOK_NS		(10 * 1000 * 1000)
#define LAST_LOOK_NS		(250 * 1000 * 1000)

volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

void stop_on_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/*
 * Waits for the file of turn @number in @dir: somebody else says when this
 * program may load the machine. Returns false when the turn will not come.
 */
bool wait_for_turn(const char *dir, unsigned long number)
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
