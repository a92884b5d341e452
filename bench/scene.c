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
static int question = -1, answer = -1;
static uint64_t held_bytes;

/* --- drain: the server's own memory goes to another node --- */

static bool prepare_drain(const struct cell *cell)
{
	(void)cell;
	return start_mover(NULL);
}

/* --- neighbour: that of a process of another cgroup does --- */

/* Fills a page with words that no other one has, or tells how many are wrong. */
static uint64_t hold_page(uint64_t *words, size_t number, bool fill)
{
	uint64_t word = mix(number + 1), wrong = 0;

	for (size_t i = 0; i < BASE_SIZE / sizeof(word); i++, word += 0x9e3779b97f4a7c15ULL) {
		if (fill)
			words[i] = word;
		else
			wrong += words[i] != word;
	}
	return wrong;
}

/* Until it is killed; whoever asks is told whether the memory is as it was. */
static void __attribute__((noreturn)) hold_memory(const struct cell *cell, int asker, int told)
{
	size_t nr = (cell->neighbour_mb << 20) / BASE_SIZE;
	bool fill = true;
	char *memory, asked;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	stay_on(cell->from);
	memory = mmap(NULL, nr * BASE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		_exit(EXIT_FAILURE);
	do {
		uint64_t wrong = 0;

		for (size_t i = 0; i < nr; i++)
			wrong += hold_page((uint64_t *)(memory + i * BASE_SIZE), i, fill);
		fill = false;
		if (!write_all(told, &wrong, sizeof(wrong)))
			break;
	} while (read_all(asker, &asked, 1));
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
	int questions[2], answers[2];
	uint64_t wrong;
	char text[16];

	if (!make_cgroups())
		return false;
	if (pipe(questions) < 0 || pipe(answers) < 0) {
		fail("cannot make a pipe: %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	neighbour = fork();
	if (!neighbour)
		hold_memory(cell, questions[0], answers[1]);
	close(questions[0]);
	close(answers[1]);
	question = questions[1];
	answer = answers[0];
	held_bytes = cell->neighbour_mb << 20;
	if (neighbour < 0 || !read_all(answer, &wrong, sizeof(wrong)))
		fail("the neighbour has no memory");
	snprintf(text, sizeof(text), "%d", neighbour);
	if (!failed() && write_text(NEIGHBOUR PROCS, text) < 0)
		fail("cannot enter " NEIGHBOUR ": %s", strerror(errno));
	return !failed() && start_mover(NEIGHBOUR PROCS);
}

static pid_t find_neighbour(void)
{
	return neighbour;
}

static bool verify_neighbour(struct load *load)
{
	*load = (struct load) { .checked = held_bytes };
	if (!write_all(question, "?", 1) || !read_all(answer, &load->wrong, sizeof(load->wrong)))
		fail("the neighbour has ended");
	else if (load->wrong)
		fail("%lu words of the neighbour are wrong", (unsigned long)load->wrong);
	return !failed();
}

static void end_neighbour(void)
{
	if (question >= 0) {
		close(question);
		close(answer);
	}
	question = answer = -1;
	if (neighbour > 0) {
		kill(neighbour, SIGKILL);
		waitpid(neighbour, NULL, 0);
	}
	neighbour = 0;
	write_text(CGROUPS PROCS, "0");
}

/* --- promoter: a program in another cgroup comes to use what it has in slow memory --- */

static struct cell promoter;

static bool is_there(void)
{
	for (int i = 0; i < 1000; i++) {
		if (promoter.service->loader->reachable(&promoter))
			return true;
		sleep_ns(NS_OF_MS);
	}
	fail("the other program does not begin");
	return false;
}

static bool prepare_promoter(const struct cell *cell)
{
	struct move move = { .from = cell->from, .to = cell->to };
	const struct loader *loader;
	char text[16];

	promoter = *cell;
	promoter.service = find_service("threads");
	promoter.mb = cell->neighbour_mb;
	loader = promoter.service->loader;
	if (!make_cgroups() || !loader->prepare(&promoter))
		return false;
	fflush(stdout);
	neighbour = fork();
	if (!neighbour) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
		stay_on(cell->from);
		loader->run(&promoter);
	}
	snprintf(text, sizeof(text), "%d", neighbour);
	if (neighbour < 0 || write_text(NEIGHBOUR PROCS, text) < 0)
		fail("cannot enter " NEIGHBOUR ": %s", strerror(errno));
	move.pid = neighbour;
	/* The server is to have fast memory, before it is filled. */
	return !failed() && is_there() && loader->fill(&promoter) &&
	       balance_program(&promoter) && (!cell->way->begin || cell->way->begin(&move)) &&
	       loader->start(&promoter) && start_mover(NULL);
}

static bool verify_promoter(struct load *load)
{
	*load = *promoter.service->loader->end();
	return !failed();
}

static void end_promoter(void)
{
	promoter.service->loader->close();
	end_neighbour();
}

static void end_nothing(void)
{
}

static const struct scene scenes[] = {
	{ "drain", prepare_drain, find_holder, NULL, end_nothing },
	{ "neighbour", prepare_neighbour, find_neighbour, verify_neighbour, end_neighbour },
	{ "promoter", prepare_promoter, find_neighbour, verify_promoter, end_promoter },
};

const struct scene *find_scene(const char *name)
{
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(scenes[i].name, name))
			return &scenes[i];
	return NULL;
}
