// SPDX-License-Identifier: GPL-2.0-only
/* What happens while the server serves. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workbench.h"

#define NEIGHBOUR	CGROUPS "/neighbour"
#define PROCS		"/cgroup.procs"

static pid_t neighbour;

/* --- drain: the server's own memory goes to another node --- */

static bool prepare_drain(const struct cell *cell)
{
	(void)cell;
	return start_mover(NULL);
}

/* --- neighbour: that of a process of another cgroup does --- */

static void hold_memory(const struct cell *cell, int ready)
{
	size_t bytes = cell->neighbour_mb << 20;
	char *memory;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	stay_on(cell->from);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		_exit(EXIT_FAILURE);
	for (size_t at = 0; at < bytes; at += BASE_SIZE)
		memory[at] = 1;
	if (write(ready, "", 1) == 1)
		for (;;)
			pause();
	_exit(EXIT_FAILURE);
}

static bool make_cgroups(void)
{
	char text[16];

	if (write_text(CGROUPS "/cgroup.subtree_control", "+cpu") < 0 ||
	    (mkdir(SERVING, 0755) < 0 && errno != EEXIST) ||
	    (mkdir(NEIGHBOUR, 0755) < 0 && errno != EEXIST)) {
		fail("cannot make cgroups: %s", strerror(errno));
		return false;
	}
	snprintf(text, sizeof(text), "%d", server);
	if (write_text(SERVING PROCS, text) < 0 || write_text(SERVING PROCS, "0") < 0)
		fail("cannot enter " SERVING ": %s", strerror(errno));
	return !failed();
}

static bool prepare_neighbour(const struct cell *cell)
{
	char text[16];
	int ready[2];

	if (!make_cgroups())
		return false;
	if (pipe(ready) < 0) {
		fail("cannot make a pipe: %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	neighbour = fork();
	if (!neighbour)
		hold_memory(cell, ready[1]);
	close(ready[1]);
	if (neighbour < 0 || read(ready[0], text, 1) != 1)
		fail("the neighbour has no memory");
	close(ready[0]);
	snprintf(text, sizeof(text), "%d", neighbour);
	if (!failed() && write_text(NEIGHBOUR PROCS, text) < 0)
		fail("cannot enter " NEIGHBOUR ": %s", strerror(errno));
	return !failed() && start_mover(NEIGHBOUR PROCS);
}

static pid_t find_neighbour(void)
{
	return neighbour;
}

static void end_neighbour(void)
{
	if (neighbour > 0) {
		kill(neighbour, SIGKILL);
		waitpid(neighbour, NULL, 0);
	}
	neighbour = 0;
	write_text(CGROUPS PROCS, "0");
}

static void end_nothing(void)
{
}

static const struct scene scenes[] = {
	{ "drain", prepare_drain, find_holder, end_nothing },
	{ "neighbour", prepare_neighbour, find_neighbour, end_neighbour },
};

const struct scene *find_scene(const char *name)
{
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(scenes[i].name, name))
			return &scenes[i];
	return NULL;
}
