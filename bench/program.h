/* SPDX-License-Identifier: GPL-2.0-only */
/* What the benchmark programs have in common. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MAX_COUNTERS		64

#define MIGRATE_COPY_DIR	"/sys/kernel/mm/migrate_copy"

struct counter {
	char name[64];
	uint64_t value;
};

struct counters {
	struct counter entry[MAX_COUNTERS];
	int nr;
};

/* What a command line has besides a cell. */
struct run {
	const char *plan;
	const char *turns;
	bool own_machine;	/* nobody else uses it: kernel threads may be moved */
};

/* How a line of a plan is read and, when its turn has come, measured. */
struct plan {
	void (*parse)(int argc, char **argv);
	bool (*measure)(void);
};

/* Each program has its own name. */
extern const char program_name[];

/* program.c */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool failed(void);
const char *failure(void);
void forget_failure(void);
uint64_t clock_ns(clockid_t clock);
uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
uint64_t mix(uint64_t x);
bool read_all(int fd, void *data, size_t size);
bool write_all(int fd, const void *data, size_t size);
uint64_t next_random(uint64_t *seed);
void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
unsigned long parse_number(const char *text, unsigned long min, unsigned long max);
bool run_plan(const struct run *run, const struct plan *plan);
void print_string(const char *text);
void print_samples(const char *name, const void *samples, unsigned long nr, size_t size,
		   size_t offset);
void print_integrity(uint64_t bytes_verified, uint64_t mismatches,
		     const struct counters *counters);

/* kthread.c */
void each_kernel_thread(const char *prefix, void (*visit)(const char *pid, void *arg), void *arg);
void place_kernel_threads(void);

/* sysfs.c */
extern int nr_settings;
int read_text(const char *path, char *text, size_t size);
int write_text(const char *path, const char *text);
int set_sysfs(const char *path, const char *value);
void restore_sysfs(int keep);

/* node.c */
bool bind_memory(void *start, size_t bytes, unsigned long node);
size_t free_bytes(unsigned long node);
size_t wanted_free_bytes(unsigned long node);
bool node_cpus(unsigned long node, cpu_set_t *cpus);

/* asked.c */
#define BALANCING		"/proc/sys/kernel/numa_balancing"

bool enable_demotion(void);
bool set_balancing(const char *mode);
bool compact_node(unsigned long node);

/* hugetlb.c */
bool reserve_hugetlb(unsigned long folio_kb, unsigned long folios, unsigned long node);

/* fragment.c */
bool fragment_node(unsigned long node, unsigned long room_kb, bool mlocked);
bool leave_free(unsigned long node, unsigned long kb);
void drop_fragments(void);

/* counters.c */
void read_counters(struct counters *counters);
uint64_t count_now(const char *prefix);
void accumulate(struct counters *sum, const struct counters *before,
		const struct counters *after);

#endif
