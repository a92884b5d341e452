// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of many threads, instead of a server and its client: as many as the node has
 * CPUs. A request is a step of the work of one of them, which touches pages, most of
 * them in the first half of the memory, the hot one.
 *
 * A page belongs to one thread, which counts in it and knows how far it has come, and
 * has a content that tells its number: a page that is old, lost or another one's is
 * noticed when it is touched next, and at the end of a scene.
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

#include "mark.h"
#include "workbench.h"

/* Pages of a step. */
#define TOUCHES		128
/* Room for requests of a thread, in a scene in which the log may not grow. */
#define LOG_REQUESTS	(1UL << 18)

/* Of a page that is touched: its count, and a word. */
#define CHECKED_BYTES	(2 * sizeof(uint64_t))

#define WORDS		(BASE_SIZE / sizeof(uint64_t))

/* The first word is the count, all others depend on the page and their place. */
struct page {
	uint64_t words[WORDS];
};

struct worker {
	pthread_t thread;
	uint64_t seed;
	uint64_t due_ns;
	struct load load;		/* What it has done */
};

static void *memory;		/* Where that of the program begins: its hot half */

/* What the program is told, and what it tells after its last step, with its requests. */
struct order {
	enum { FILL, START, SHIFT, STOP } what;
	unsigned long rate;		/* of all threads; 0: one step after the other */
};

struct told {
	size_t nr;
	uint64_t checked, wrong;
};

/* Of the program alone. */
static struct {
	struct page *pages;
	uint32_t *counts;
	size_t nr_pages;
	struct worker workers[MAX_THREADS];
	unsigned int nr_workers;
	uint64_t period_ns;		/* of a thread */
	unsigned long cold;		/* of 100 pages */
	volatile bool shifted;		/* The second half is the hot one */
	volatile bool enough;
} work;

static int orders[2] = { -1, -1 }, answers[2] = { -1, -1 };

static uint64_t word_of(size_t page, size_t word)
{
	return mix(page + 1) + word * 0x9e3779b97f4a7c15ULL;
}

/* Of so many pages no cache has the one that is next, nor both of its lines. */
static void touch(struct worker *worker, size_t index)
{
	struct page *page = &work.pages[index];
	size_t word = 1 + (worker->seed >> 48) % (WORDS - 1);

	if (!missed_is(&page->words[0], work.counts[index]) ||
	    !missed_is(&page->words[word], word_of(index, word)))
		worker->load.wrong++;
	page->words[0] = ++work.counts[index];
	worker->load.checked += CHECKED_BYTES;
}

static void step(struct worker *worker)
{
	size_t half = work.nr_pages / 2 / work.nr_workers;
	unsigned int number = worker - work.workers;

	for (int i = 0; i < TOUCHES; i++) {
		size_t at = next_random(&worker->seed) % half;

		if (((worker->seed >> 40) % 100 < work.cold) != work.shifted)
			at += half;
		touch(worker, at * work.nr_workers + number);
	}
}

static void *run_worker(void *arg)
{
	struct worker *worker = arg;

	/* Else a sleep may last 50 us longer than it should. */
	prctl(PR_SET_TIMERSLACK, 1);
	while (!work.enough) {
		uint64_t now = now_ns();

		if (!work.period_ns) {
			worker->due_ns = now;
		} else if (now < worker->due_ns) {
			sleep_ns(worker->due_ns - now);
			continue;
		}
		step(worker);
		if (!add_request(&worker->load, worker->due_ns, now_ns()))
			_exit(EXIT_FAILURE);
		worker->due_ns += work.period_ns;
	}
	return NULL;
}

static void start_workers(const struct order *order)
{
	work.enough = false;
	work.shifted = false;
	work.period_ns = order->rate ? NS_OF_S * work.nr_workers / order->rate : 0;
	for (unsigned int i = 0; i < work.nr_workers; i++) {
		struct worker *worker = &work.workers[i];

		worker->load.nr = worker->load.checked = worker->load.wrong = 0;
		/* Not all at the same time. */
		worker->due_ns = now_ns() + work.period_ns * i / work.nr_workers;
		if (pthread_create(&worker->thread, NULL, run_worker, worker))
			_exit(EXIT_FAILURE);
	}
}

/* Also those that nobody has touched since they moved. */
static void check_pages(struct told *told)
{
	for (size_t i = 0; i < work.nr_pages; i++) {
		const uint64_t *words = work.pages[i].words;
		bool good = words[0] == work.counts[i];

		for (size_t word = 1; word < WORDS; word++)
			good &= words[word] == word_of(i, word);
		told->wrong += !good;
	}
	told->checked += work.nr_pages * BASE_SIZE;
}

static bool end_workers(void)
{
	struct told told = { 0 };
	bool good;

	work.enough = true;
	for (unsigned int i = 0; i < work.nr_workers; i++) {
		const struct load *done = &work.workers[i].load;

		pthread_join(work.workers[i].thread, NULL);
		told.nr += done->nr;
		told.checked += done->checked;
		told.wrong += done->wrong;
	}
	check_pages(&told);
	good = write_all(answers[1], &told, sizeof(told));
	for (unsigned int i = 0; i < work.nr_workers && good; i++) {
		const struct load *done = &work.workers[i].load;

		good = write_all(answers[1], done->requests, done->nr * sizeof(*done->requests));
	}
	return good;
}

static bool fill_pages(void)
{
	for (size_t i = 0; i < work.nr_pages; i++)
		for (size_t word = 1; word < WORDS; word++)
			work.pages[i].words[word] = word_of(i, word);
	return write_all(answers[1], "", 1);
}

static bool obey(const struct order *order)
{
	switch (order->what) {
	case FILL:
		return fill_pages();
	case START:
		start_workers(order);
		return true;
	case SHIFT:
		work.shifted = true;
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
	work.nr_workers = cell->threads ? cell->threads : (unsigned int)CPU_COUNT(&cpus);
	work.nr_workers = work.nr_workers < MAX_THREADS ? work.nr_workers : MAX_THREADS;
	work.nr_pages = (cell->mb << 20) / BASE_SIZE;
	work.pages = mmap(NULL, work.nr_pages * BASE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	work.counts = calloc(work.nr_pages, sizeof(*work.counts));
	if (work.pages == MAP_FAILED || !work.counts)
		_exit(EXIT_FAILURE);
	work.cold = cell->cold;
	for (unsigned int i = 0; i < work.nr_workers; i++) {
		work.workers[i].seed = i + 1;
		/* What the kernel takes is to be pages that the threads work on. */
		if (cell->way->counter && !keep_log(&work.workers[i].load))
			_exit(EXIT_FAILURE);
	}
	if (!write_all(answers[1], &work.pages, sizeof(work.pages)))
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
	struct told told;

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
		fail("%lu pages were wrong", (unsigned long)told.wrong);
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
