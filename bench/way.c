// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the pages of a process are moved: by migratepages(8), by plain callers of
 * move_pages(2), or as `pagehaul move` does it. Other files have ways that name no process.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workbench.h"

extern char **environ;

/* Of Debian's numactl; it calls migrate_pages(2) once. */
static bool run_migratepages(const struct move *move)
{
	char pid[16], from[16], to[16];
	char *argv[] = { "migratepages", pid, from, to, NULL };
	int status, error;
	pid_t child;

	snprintf(pid, sizeof(pid), "%d", move->pid);
	snprintf(from, sizeof(from), "%lu", move->from);
	snprintf(to, sizeof(to), "%lu", move->to);
	error = posix_spawnp(&child, "migratepages", NULL, NULL, argv, environ);
	if (error) {
		fail("cannot run migratepages: %s", strerror(error));
		return false;
	}
	/* Its status is 0, or -1 where it failed: pages that stay are not told. */
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fail("migratepages failed");
		return false;
	}
	return true;
}

/* A call for some of the pages; pages that are busy stay. Returns what the kernel does. */
long call_move_pages(const struct move *move, struct pages *pages, long flags)
{
	long result = 0;
	int *nodes;

	if (!pages->nr)
		return 0;
	nodes = malloc(pages->nr * sizeof(*nodes));
	if (!nodes) {
		fail("out of memory");
		return -1;
	}
	for (size_t i = 0; i < pages->nr; i++) {
		nodes[i] = move->to;
		pages->status[i] = STATUS_UNSET;
	}
	flags |= move->all ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE;
	result = syscall(SYS_move_pages, (long)move->pid, pages->nr, pages->addresses, nodes,
			 pages->status, flags);
	if (result < 0)
		fail("move_pages: %s", strerror(errno));
	free(nodes);
	return result;
}

/* --- plain callers --- */

/* A call for a huge page names one address of it. */
struct part {
	const struct move *move;
	struct pages pages, huge;
};

static void *move_part(void *argument)
{
	struct part *part = argument;

	call_move_pages(part->move, &part->huge, 0);
	call_move_pages(part->move, &part->pages, 0);
	return NULL;
}

bool run_threads(void *(*run)(void *), void *parts, size_t size, unsigned long nr)
{
	pthread_t threads[MAX_CALLERS];

	for (unsigned long i = 0; i < nr; i++) {
		if (pthread_create(&threads[i], NULL, run, (char *)parts + i * size)) {
			fprintf(stderr, "workbench: cannot start a thread\n");
			exit(EXIT_FAILURE);
		}
	}
	for (unsigned long i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	return !failed();
}

static struct pages share_of(const struct pages *pages, unsigned long number, unsigned long of)
{
	size_t first = pages->nr * number / of, end = pages->nr * (number + 1) / of;

	return (struct pages) { pages->addresses + first, pages->status + first, end - first, 0 };
}

static bool run_callers(const struct move *move)
{
	struct pages pages = { .nr = 0 }, huge = { .nr = 0 };
	struct part parts[MAX_CALLERS];

	if (!find_pages(move->pid, &pages, &huge) || !keep_on(move->pid, &pages, move->from) ||
	    !keep_on(move->pid, &huge, move->from))
		return false;
	for (unsigned long i = 0; i < move->callers; i++)
		parts[i] = (struct part) {
			move, share_of(&pages, i, move->callers), share_of(&huge, i, move->callers),
		};
	run_threads(move_part, parts, sizeof(parts[0]), move->callers);
	free_pages(&pages);
	free_pages(&huge);
	return !failed();
}

static const struct way by_migratepages = { .name = "migratepages", .run = run_migratepages };
static const struct way by_callers = { .name = "callers", .run = run_callers };
static const struct way by_move = { .name = "move", .run = move_as_pagehaul };

static const struct way *const ways[] = {
	&by_migratepages, &by_callers, &by_move, &by_cpuset, &by_offlining,
	&by_demotion, &by_promotion, &by_balancing, &by_compaction,
};

const struct way *find_way(const char *name)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i]->name, name))
			return ways[i];
	return NULL;
}
