// SPDX-License-Identifier: GPL-2.0-only
/* A file of commands, one a line, of which so many run at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faultbench.h"

static uint64_t time_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000ULL + time->tv_usec * 1000ULL;
}

static bool start(const char *command)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		fail("cannot fork: %s", strerror(errno));
	return pid > 0;
}

static bool reap(struct sample *sample)
{
	struct rusage usage;
	int status;

	if (wait4(-1, &status, 0, &usage) < 0) {
		fail("a command is gone: %s", strerror(errno));
		return false;
	}
	sample->user_ns += time_ns(&usage.ru_utime);
	sample->cpu_ns += time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	fail("a command failed: %s %d", WIFEXITED(status) ? "exit status" : "signal",
	     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return false;
}

bool compile(const struct load *load, struct sample *sample)
{
	FILE *file = fopen(load->commands, "r");
	unsigned long running = 0;
	bool good = true;
	uint64_t begin;
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		fail("cannot read %s: %s", load->commands, strerror(errno));
		return false;
	}
	begin = clock_ns(CLOCK_MONOTONIC);
	while (good && getline(&line, &size, file) > 0) {
		if (running == load->threads) {
			good = reap(sample);
			running--;
		}
		good = good && start(line);
		if (good) {
			running++;
			sample->bytes += PAGE_BYTES;
		}
	}
	while (running--)
		good &= reap(sample);
	sample->ns = clock_ns(CLOCK_MONOTONIC) - begin;
	free(line);
	fclose(file);
	return good;
}
