/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the simulator share. README.md describes the model. */
#ifndef VTIME_H
#define VTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugin_api.h"

#define MAX_CPUS	256
#define MAX_NODES	16

/* A copy is interrupted by a page fault, which copies or fills as well. */
#define NR_COPIES	4

/* All times are in picoseconds, so that an instruction is a whole number of them. */
#define PS_PER_NS	INT64_C(1000)
#define FOREVER		INT64_MAX

/* A CPU's counter fires here; it is set to so much less as the CPU may run. */
#define LIMIT		(1ULL << 46)

/*
 * What a virtual CPU does, as far as the order of execution goes.
 *
 * Of all CPUs one at most is RUNNING, it has the turn. READY ones wait for theirs in QEMU's
 * translated code. WAKING ones have been woken, their threads are on their way. LOOSE ones were
 * let out of the translated code, without a turn, because QEMU needs all threads out of it.
 */
enum cpu_state { OFF, IDLE, WAKING, READY, RUNNING, LOOSE };

/* Where translated code counts, an entry for each CPU. */
struct count {
	uint64_t ps;
};

struct cpu {
	unsigned int index;
	_Atomic enum cpu_state state;
	bool device;		/* it is part of one */
	int64_t speed;		/* of its instructions, 1 but for a device that works */
	int64_t end;		/* the CPU's time when its counter reaches LIMIT */
	int64_t time;		/* its time while it has not the turn */
	int64_t sampled;	/* its time when the profile looked last */
	uint32_t go;		/* futex: changes when a wait is over */
	bool woken_by_cpu;	/* and not by the host's clock */
	bool in_halt;		/* its thread is where QEMU lets an idle CPU wait */
	pthread_cond_t *halt;	/* what its thread waits for while it idles */
	int64_t tsc_read;	/* when it read the TSC last */
	unsigned int tight_reads;
	/* The last copies by string instructions, to know one that goes on. */
	struct copy {
		uint64_t pc;
		uint64_t end;
		uint64_t left;
	} copies[NR_COPIES];
	unsigned int next_copy;
	struct qemu_plugin_register *rcx, *rdx, *rsi, *rdi, *rsp;
	struct glib_array *bytes;
};

/*
 * A CPU that is part of a device is so much faster, while something is timed: what the
 * device takes, it waits for. Else it would only spin so much more, as when the guest boots.
 */
#define DEVICE_SPEED	16

/* Where memory is for a CPU: on its own node, on that of others, on one without CPUs. */
enum place { NEAR, FAR, SLOW, NR_PLACES };

/* The machine that is simulated; see machines/ for the meaning. */
struct model {
	int64_t instruction_ps;
	int64_t pause_ns;
	int64_t copy_load_ps[NR_PLACES];
	int64_t copy_store_ps[NR_PLACES];
	int64_t load_ns[NR_PLACES];
	int64_t node_mb_s;
	int64_t slow_mb_s;
	int64_t cache_mb_s;
	int64_t line_cache_ns;
	int64_t line_socket_ns;
	int64_t line_far_ns;
	int64_t cache_cpus;
	int64_t ipi_ns;
	int64_t wake_ns;
	int64_t slice_ns;
	int64_t cpus_per_node;
	int64_t cpu_nodes;	/* those with CPUs, which come first */
	uint64_t memcpy_start;	/* the kernel's own loop, whose instructions are not counted */
	uint64_t memcpy_end;
	int nr_nodes;
	uint64_t node_end[MAX_NODES];	/* bytes of memory up to the end of each node */
	uint64_t memory;		/* bytes of all nodes */
};

/* What a call of memcpy() takes besides the copy, in instructions. */
#define MEMCPY_INSTRUCTIONS	10

struct totals {
	uint64_t slices;
	uint64_t forced;
	uint64_t transfers;
	uint64_t ipis;
	uint64_t wakes;
	uint64_t warps;
	uint64_t copies;
	uint64_t tsc_reads;
	uint64_t polls;
	uint64_t told;
	uint64_t due;
};

extern struct model model;
extern struct totals totals;
extern struct cpu cpus[MAX_CPUS];
extern unsigned int nr_cpus;
extern bool active;
extern int64_t origin_ns;	/* the host's time at the start, from which the guest's goes on */
extern struct qemu_plugin_scoreboard *board;

/* order.c: who runs when */
struct cpu *current_cpu(void);
int64_t cpu_now(const struct cpu *cpu);
int64_t global_now(void);
bool order_is_preloaded(void);
void order_start(void);
void cpu_spend(struct cpu *cpu, int64_t ps);
void cpu_turn_ends(unsigned int index, void *pc);
void cpu_starts(qemu_plugin_id_t id, unsigned int index);
void cpu_exits(qemu_plugin_id_t id, unsigned int index);
void cpu_idles(qemu_plugin_id_t id, unsigned int index);
void cpu_resumes(qemu_plugin_id_t id, unsigned int index);

/* machine.c: what things cost */
void copy_begins(unsigned int index, void *insn);
void line_taken(unsigned int index, uint32_t info, uint64_t vaddr, void *site);
void line_missed(unsigned int index, uint32_t info, uint64_t vaddr, void *data);

/* decode.c: which instructions matter */
struct decoded {
	enum { PLAIN, COPY, FILL, LOCKED, MISS, PAUSE, MARK } kind;
	unsigned int width;	/* bytes of one step of COPY and FILL */
	unsigned int mark;	/* number of MARK */
};
struct decoded decode(const uint8_t *bytes, size_t len);
bool is_call(const uint8_t *bytes, size_t len);
uint64_t call_target(const uint8_t *bytes, size_t len, uint64_t next_pc);

/* profile.c: where the time goes */
struct copy_site {
	uint64_t pc;
	unsigned int width;
	bool loads;
	bool call;		/* the first instruction of the kernel's memcpy() */
};
struct line_site {
	uint64_t pc;
	uint64_t transfers;
	int64_t ps;
};
struct line_site *line_site(uint64_t pc);
void profile_call_site(uint64_t back, uint64_t target);
void profile_sample(struct cpu *cpu, uint64_t pc);
void mark_reached(unsigned int index, void *number);
void write_report(const char *path);
void write_profile(const char *path);
extern bool profiling;
extern bool in_section;	/* the guest's program times something */
extern bool kernel_runs;	/* the firmware is through */

#endif
