/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of workbench share. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "knobs.h"
#include "program.h"
#include "waits.h"

#define BASE_SIZE	4096UL
#define HUGE_SIZE	(2UL << 20)
#define KEY_CHARS	12
#define NS_OF_MS	1000000ULL
#define NS_OF_S		1000000000ULL

#define CGROUPS		"/sys/fs/cgroup"
#define SERVING		CGROUPS "/serving"	/* the server's, where it has one */

/* One line of a plan. */
struct cell {
	const char *label;
	const struct service *service;
	const struct scene *scene;
	const struct way *way;
	unsigned long mb;		/* of values in the server */
	unsigned long value_bytes;
	unsigned long connections;
	unsigned long rate;		/* requests a second; 0: a closed loop */
	unsigned long sets;		/* of 100 requests */
	unsigned long quiet_ms;		/* before the scene, and after it */
	unsigned long window_ms;	/* of all that is compared between ways, from its start on */
	unsigned long reps;
	unsigned long callers;
	unsigned long tries;		/* runs of the way, while too much stays where it is */
	unsigned long from;
	unsigned long to;
	unsigned long neighbour_mb;
	unsigned long amount_mb;	/* of ways that do not take all */
	unsigned long threads;		/* of a program; 0: one for each CPU of its node */
	unsigned long cold;		/* of 100 pages that it touches: those of the second half */
	unsigned long fast_mb;		/* that the first node has free; 0: what it has */
	unsigned long slow_mb;		/* the last ones of a program, on the other node before */
	unsigned long balancing;	/* mode of NUMA balancing */
	bool zipf;			/* keys are zipfian */
	bool huge;			/* its shared memory is of hugetlb pages */
	const char *knobs[MAX_KNOBS];
	int nr_knobs;
};

/* What is always the same of an answer. */
struct answer {
	const char *text;
	size_t length;
};

#define ANSWER(literal)	{ literal, sizeof(literal) - 1 }

/*
 * A server, and how it is spoken to: a request has a key and, to set it, a value of
 * the cell's length. Answers to good requests have a length that is known before. A
 * program that nobody speaks to has a name and a loader alone.
 */
struct service {
	const char *name;
	const struct loader *loader;
	const struct job *job;		/* of a program, see job.h */
	bool (*prepare)(const struct cell *cell);	/* before it is started; or NULL */
	const char *program;		/* a file of the guest */
	char *const *argv;
	const char *socket;
	bool as_nobody;			/* not as root */
	bool with_huge;			/* can have hugetlb pages */
	bool shared;			/* several processes have its memory */
	/* What a connection begins with, and which process it speaks to; or NULL. */
	bool (*greet)(int fd, pid_t *pid);
	/* That process is to have all memory of the server; or NULL. */
	bool (*use_all)(int fd);
	size_t (*set)(char *text, const char *key, const char *value, size_t length);
	size_t (*get)(char *text, const char *key);
	size_t (*head)(char *text, const char *key, size_t length);	/* before a value */
	struct answer tail;		/* behind it */
	struct answer stored;		/* to a set */
};

#define MAX_REPS	64
#define MAX_THREADS	64	/* of a program */

/* workoptions.c */
void parse_cell(int argc, char **argv, struct cell *cell, struct run *run);

/* service.c */
const struct service *find_service(const char *name);

/* postgres.c */
#define POSTGRES_DIR	"/tmp/postgres"

extern const struct service postgres;

/* server.c */
#define NOBODY	65534	/* a user, and a group */

extern pid_t server;
/* Whose memory it is: that of the server, or of one of its processes. */
pid_t find_holder(void);

void add_worker(pid_t pid);
uint64_t server_cpu_ns(void);
uint64_t waited_ns(void);

bool start_server(const struct cell *cell);
void end_server(void);
void stay_on(unsigned long node);

/* What keeps a server busy, and what that has seen */
struct request {
	uint64_t due_ns;	/* when it was to be sent */
	uint64_t done_ns;
};

struct load {
	struct request *requests;
	size_t nr, room;
	uint64_t wrong;		/* answers */
	uint64_t checked;	/* bytes of values */
};

struct loader {
	bool (*prepare)(const struct cell *cell);	/* before the server is started */
	/* Does not return; NULL for a server that is a program of its own. */
	void (*run)(const struct cell *cell);
	bool (*reachable)(const struct cell *cell);
	bool (*fill)(const struct cell *cell);
	bool (*start)(const struct cell *cell);
	const struct load *(*end)(void);
	/* Looks at all values, also those that nobody has asked for since; or NULL. */
	bool (*verify)(struct load *load);
	uint64_t (*cpu_ns)(void);			/* of a client, so far */
	void (*close)(void);
	void *(*memory)(void);	/* where it begins: the half that is used most; or NULL */
	bool (*shift)(void);	/* the other half is used most from now on */
};

/* client.c: requests by connections; threads.c: steps of a program's own threads */
extern const struct loader by_requests, by_threads;

/* seen.c: what the client has seen before, during and after the scene */
/* WINDOW is as long for all ways: from the start of the scene on, whenever that ends. */
enum phase { BEFORE, DURING, AFTER, WINDOW, PHASES };

struct span {
	uint64_t begin_ns;
	uint64_t scene_ns;	/* when the scene began */
	uint64_t scene_end_ns;
	uint64_t window_end_ns;
	uint64_t end_ns;
};

struct seen {
	struct waits waits[PHASES];
	uint64_t longest_ns[PHASES];
};

bool add_request(struct load *load, uint64_t due_ns, uint64_t done_ns);
void free_load(struct load *load);
void look_at(const struct load *load, const struct span *span, struct seen *seen,
	     uint64_t *done);
void print_seen(const struct seen *seen);
void print_timeline(const struct load *load, const struct span *span);

/* pages.c: where the pages of a process are */
struct pages {
	void **addresses;
	int *status;
	size_t nr, room;
};

bool add_pages(struct pages *pages, void *address, size_t more);
struct search;
struct search *begin_search(pid_t pid);
bool search_pages(struct search *search, size_t most, struct pages *pages, struct pages *huge);
void end_search(struct search *search);

size_t resident_bytes(pid_t pid);
bool find_pages(pid_t pid, struct pages *pages, struct pages *huge);
bool count_on(pid_t pid, struct pages *pages, unsigned long node, size_t *nr);
bool keep_on(pid_t pid, struct pages *pages, unsigned long node);
void free_pages(struct pages *pages);

/* frames.c: on which node a page is, by the number of its frame */
struct frames;

struct frames *open_frames(pid_t pid, unsigned long node);
bool keep_near(struct frames *frames, struct pages *pages);
void close_frames(struct frames *frames);

/* way.c: how the pages of a process are moved */
struct move {
	pid_t pid;
	unsigned long from, to;
	unsigned long callers;
	bool all;		/* pages that others have, too */
	bool of_file;		/* huge pages are hugetlb pages of a file */
	size_t bytes;		/* of ways that do not take all */
};

struct way {
	const char *name;
	bool (*run)(const struct move *move);
	/* NULL for a way that leaves nothing behind, and needs nothing of the server: */
	bool (*prepare)(const struct cell *cell);	/* before the server is filled */
	bool (*undo)(void);				/* before the memory is brought back */
	void (*end)(void);				/* when the server has ended */
	/* Before each scene, when nobody works; or NULL. */
	bool (*begin)(const struct move *move);
	/* Of the kernel, which tells what was moved by steps of @counts bytes; NULL: it all was. */
	const char *counter;
	size_t counts;
	/* What counts is the work that is done in it, whether something moves or not. */
	bool works;
	/* A scene leaves something behind: pieces, how old pages seem. Each has its own server. */
	bool once;
};

/* Of a page that a call has not come to: neither a node nor an errno. */
#define STATUS_UNSET	INT_MIN
#define MAX_CALLERS	64

const struct way *find_way(const char *name);
long call_move_pages(const struct move *move, struct pages *pages, long flags);
bool run_threads(void *(*run)(void *), void *parts, size_t size, unsigned long nr);

/* admin.c */
extern const struct way by_cpuset, by_offlining;

bool place_server(const char *controller);

/* tier.c, huge.c: what the kernel moves as it sees fit */
extern const struct way by_demotion, by_promotion, by_balancing, by_compaction;

bool balance_program(const struct cell *cell);

/* windows.c */
bool move_as_pagehaul(const struct move *move);

/* mover.c: a process that moves another one's pages */
struct moved {
	bool good;
	uint64_t begin_ns, end_ns;
	uint64_t cpu_ns;
	uint64_t bytes;		/* as the kernel tells it, of a way with a counter */
	char error[128];
};

bool start_mover(const char *cgroup);
bool run_mover(const struct way *way, const struct move *move, struct moved *moved);
void end_mover(void);

/* scene.c: what happens while the server serves */
struct scene {
	const char *name;
	bool (*prepare)(const struct cell *cell);	/* before the server is filled */
	pid_t (*target)(void);				/* whose pages move */
	/* Whether the memory of others than the server is as it was; or NULL. */
	bool (*verify)(struct load *load);
	void (*end)(void);
};

const struct scene *find_scene(const char *name);

#endif
