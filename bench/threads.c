// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of many threads, instead of a server and its client: as many as the node has
 * CPUs. A request is a step of the work of one of them, by the program's job.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "job.h"

/* Room for requests of a thread, in a scene in which the log may not grow. */
#define LOG_REQUESTS	(1UL << 18)

static void *memory;		/* Where that of the program begins: its hot half */

/* What the program is told. It tells after its last step what it has done, with its requests. */
struct order {
	enum { FILL, START, SHIFT, STOP } what;
	unsigned long rate;		/* of all threads; 0: one step after the other */
};

/* Of the program alone. */
struct crew crew;
static const struct job *job;

static int orders[2] = { -1, -1 }, answers[2] = { -1, -1 };

static void *run_worker(void *arg)
{
	struct worker *worker = arg;
	bool shifted;

	/* Else a sleep may last 50 us longer than it should. */
	prctl(PR_SET_TIMERSLACK, 1);
	while (!crew.enough) {
		uint64_t now = now_ns();

		if (!crew.period_ns) {
			worker->due_ns = now;
		} else if (now < worker->due_ns) {
			sleep_ns(worker->due_ns - now);
			continue;
		}
		shifted = crew.shifted;
		job->step(worker, shifted);
		worker->steps[shifted]++;
		if (!add_request(&worker->load, worker->due_ns, now_ns()))
			_exit(EXIT_FAILURE);
		worker->due_ns += crew.period_ns;
	}
	return NULL;
}

static void start_workers(const struct order *order)
{
	crew.enough = false;
	crew.shifted = false;
	crew.period_ns = order->rate ? NS_OF_S * crew.nr_workers / order->rate : 0;
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		struct worker *worker = &crew.workers[i];

		worker->load.nr = worker->load.checked = worker->load.wrong = 0;
		worker->steps[0] = worker->steps[1] = 0;
		if (job->begin)
			job->begin(worker);
		/* Not all at the same time. */
		worker->due_ns = now_ns() + crew.period_ns * i / crew.nr_workers;
		if (pthread_create(&worker->thread, NULL, run_worker, worker))
			_exit(EXIT_FAILURE);
	}
}

static bool end_workers(void)
{
	struct load told = { 0 };
	bool good;

	crew.enough = true;
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		const struct load *done = &crew.workers[i].load;

		pthread_join(crew.workers[i].thread, NULL);
		told.nr += done->nr;
		told.checked += done->checked;
		told.wrong += done->wrong;
	}
	job->check(&told);
	good = write_all(answers[1], &told, sizeof(told));
	for (unsigned int i = 0; i < crew.nr_workers && good; i++) {
		const struct load *done = &crew.workers[i].load;

		good = write_all(answers[1], done->requests, done->nr * sizeof(*done->requests));
	}
	return good;
}

static bool fill_memory(void)
{
	job->fill();
	return write_all(answers[1], "", 1);
}

static bool obey(const struct order *order)
{
	switch (order->what) {
	case FILL:
		return fill_memory();
	case START:
		start_workers(order);
		return true;
	case SHIFT:
		crew.shifted = true;
		return true;
	case STOP:
		return end_workers();
	}
	return false;
}

/* Before the program is in a cgroup whose memory is reclaimed. */
static bool keep_log(struct load *done)
{
	done->requests = malloc(LOG_REQUESTS * sizeof(*done->requests));
	if (!done->requests)
		return false;
	memset(done->requests, 1, LOG_REQUESTS * sizeof(*done->requests));
	done->room = LOG_REQUESTS;
	return true;
}

/* The program: has memory, and does what it is told. */
static void __attribute__((noreturn)) work_on(const struct cell *cell)
{
	struct order order;
	cpu_set_t cpus;

	close(orders[1]);
	close(answers[0]);
	if (!node_cpus(cell->from, &cpus))
		_exit(EXIT_FAILURE);
	crew.nr_workers = cell->threads ? cell->threads : (unsigned int)CPU_COUNT(&cpus);
	crew.nr_workers = crew.nr_workers < MAX_THREADS ? crew.nr_workers : MAX_THREADS;
	crew.bytes = cell->mb << 20;
	crew.memory = mmap(NULL, crew.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	crew.cold = cell->cold;
	job = cell->service->job;
	if (crew.memory == MAP_FAILED || !job->prepare())
		_exit(EXIT_FAILURE);
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		crew.workers[i].number = i;
		crew.workers[i].seed = i + 1;
		/* What the kernel takes is to be pages that the threads work on. */
		if (cell->way->counter && !keep_log(&crew.workers[i].load))
			_exit(EXIT_FAILURE);
	}
	if (!write_all(answers[1], &crew.memory, sizeof(crew.memory)))
		_exit(EXIT_FAILURE);
	while (read_all(orders[0], &order, sizeof(order)) && obey(&order))
		;
	_exit(EXIT_FAILURE);
}

/* --- of the program that starts it --- */

static struct load load;

static void close_pipes(void)
{
	/* The next mover is not to have it. */
	free_load(&load);
	for (int i = 0; i < 2; i++) {
		if (orders[i] >= 0)
			close(orders[i]);
		if (answers[i] >= 0)
			close(answers[i]);
		orders[i] = answers[i] = -1;
	}
}

static bool open_pipes(const struct cell *cell)
{
	(void)cell;
	close_pipes();
	if (pipe(orders) < 0 || pipe(answers) < 0)
		fail("cannot make a pipe: %s", strerror(errno));
	return !failed();
}

static bool is_ready(const struct cell *cell)
{
	struct pollfd fd = { answers[0], POLLIN, 0 };

	(void)cell;
	return poll(&fd, 1, 0) == 1 && fd.revents & POLLIN &&
	       read_all(answers[0], &memory, sizeof(memory));
}

static bool give_order(const struct order *order)
{
	if (!write_all(orders[1], order, sizeof(*order)))
		fail("the program has ended");
	return !failed();
}

static bool fill(const struct cell *cell)
{
	const struct order order = { .what = FILL };
	char done;

	(void)cell;
	if (!give_order(&order))
		return false;
	if (!read_all(answers[0], &done, 1))
		fail("the program has ended");
	return !failed();
}

static bool start_work(const struct cell *cell)
{
	const struct order order = { .what = START, .rate = cell->rate };

	return give_order(&order);
}

static const struct load *end_work(void)
{
	const struct order order = { .what = STOP };
	struct load told;

	load.nr = load.wrong = load.checked = 0;
	if (!give_order(&order) || !read_all(answers[0], &told, sizeof(told))) {
		fail("the program has ended");
		return &load;
	}
	if (told.nr > load.room) {
		free(load.requests);
		load.requests = malloc(told.nr * sizeof(*load.requests));
		load.room = load.requests ? told.nr : 0;
	}
	if (told.nr > load.room ||
	    !read_all(answers[0], load.requests, told.nr * sizeof(*load.requests))) {
		fail("the program does not tell what it has done");
		return &load;
	}
	load.nr = told.nr;
	load.wrong = told.wrong;
	load.checked = told.checked;
	if (told.wrong)
		fail("%lu items were wrong", (unsigned long)told.wrong);
	return &load;
}

static void *find_memory(void)
{
	return memory;
}

static bool shift_work(void)
{
	const struct order order = { .what = SHIFT };

	return give_order(&order);
}

static uint64_t no_client(void)
{
	return 0;
}

const struct loader by_threads = {
	.prepare = open_pipes,
	.run = work_on,
	.reachable = is_ready,
	.fill = fill,
	.start = start_work,
	.end = end_work,
	.cpu_ns = no_client,
	.close = close_pipes,
	.memory = find_memory,
	.shift = shift_work,
};
