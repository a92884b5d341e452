// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves windows of a process: the least that a caller of move_pages(2) has to do.
 *
 *   movewindows [-t THREADS] [-m] PID NODE < WINDOWS
 *
 * A line of WINDOWS is a window: its parts as START:END:STEP, hexadecimal but for STEP, separated
 * by spaces. Each window is one call, with an address every STEP bytes. Of several threads each
 * takes the next window when it is done with one. -m sets MPOL_MF_MOVE_MT, with which Pagehaul's
 * kernel lets several CPUs move the pages of a call.
 *
 * Prints a line of JSON: the seconds from the first call to the end of the last one, windows, pages
 * named, and those among them that a call left unmoved.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MPOL_MF_MOVE	(1 << 1)
#define MPOL_MF_MOVE_MT	(1 << 15)

#define MAX_THREADS	64

struct window {
	void **addresses;
	int *nodes;
	int *status;
	size_t pages;
};

static struct window *windows;
static size_t nr_windows;
static atomic_size_t next_window, not_moved;
static long pid;
static int node;
static int flags = MPOL_MF_MOVE;

static void die(const char *what)
{
	fprintf(stderr, "movewindows: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *resize(void *old, size_t count, size_t size)
{
	void *new = reallocarray(old, count, size);

	if (!new)
		die("reallocarray");
	return new;
}

static void add_part(struct window *window, unsigned long start, unsigned long end,
		     unsigned long step)
{
	size_t pages = window->pages + (end - start) / step;

	window->addresses = resize(window->addresses, pages, sizeof(*window->addresses));
	for (; start < end; start += step)
		window->addresses[window->pages++] = (void *)start;
}

static void read_windows(void)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		struct window *window;

		windows = resize(windows, ++nr_windows, sizeof(*windows));
		window = &windows[nr_windows - 1];
		memset(window, 0, sizeof(*window));
		for (char *part = strtok(line, " \n"); part; part = strtok(NULL, " \n")) {
			unsigned long start, end, step;

			if (sscanf(part, "%lx:%lx:%lu", &start, &end, &step) != 3 || !step) {
				errno = EINVAL;
				die(part);
			}
			add_part(window, start, end, step);
		}
		window->nodes = resize(NULL, window->pages, sizeof(*window->nodes));
		window->status = resize(NULL, window->pages, sizeof(*window->status));
		for (size_t i = 0; i < window->pages; i++)
			window->nodes[i] = node;
		memset(window->status, 0, window->pages * sizeof(*window->status));
	}
	free(line);
}

static void *move(void *unused)
{
	size_t number;

	while ((number = atomic_fetch_add(&next_window, 1)) < nr_windows) {
		struct window *window = &windows[number];
		long left = syscall(SYS_move_pages, pid, window->pages, window->addresses,
				    window->nodes, window->status, flags);

		if (left < 0)
			die("move_pages");
		atomic_fetch_add(&not_moved, left);
	}
	return unused;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	size_t pages = 0;
	int option, count = 1;
	double started, seconds;

	while ((option = getopt(argc, argv, "t:m")) != -1) {
		if (option == 't')
			count = atoi(optarg);
		else if (option == 'm')
			flags |= MPOL_MF_MOVE_MT;
		else
			return 2;
	}
	if (argc - optind != 2 || count < 1 || count > MAX_THREADS) {
		fprintf(stderr, "usage: movewindows [-t THREADS] [-m] PID NODE < WINDOWS\n");
		return 2;
	}
	pid = atol(argv[optind]);
	node = atoi(argv[optind + 1]);
	read_windows();
	started = now();
	for (int i = 1; i < count; i++) {
		errno = pthread_create(&threads[i], NULL, move, NULL);
		if (errno)
			die("pthread_create");
	}
	move(NULL);
	for (int i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
	seconds = now() - started;
	for (size_t i = 0; i < nr_windows; i++)
		pages += windows[i].pages;
	printf("{\"seconds\": %.6f, \"windows\": %zu, \"pages\": %zu, \"not_moved\": %zu}\n",
	       seconds, nr_windows, pages, (size_t)not_moved);
	return 0;
}
