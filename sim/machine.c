// SPDX-License-Identifier: GPL-2.0-only
/* What copies and cache lines cost on the machine that is simulated. */
#include <string.h>

#include "vtime.h"

/* Linux maps all memory here when neither KASLR nor five levels of page tables move it. */
#define DIRECT_MAP	0xffff888000000000ULL
#define DIRECT_MAP_END	(DIRECT_MAP + (64ULL << 40))

/* QEMU's q35 has memory below 4 GiB up to here, and the rest of it from 4 GiB on. */
#define FOUR_GIB	(4ULL << 30)
#define MOST_LOW	0xb0000000ULL
#define SPLIT_LOW	0x80000000ULL

#define NO_NODE		(-1)

#define MOST_BYTES	(1ULL << 40)

/* When each node has served what it was asked for so far. */
static int64_t node_free_at[MAX_NODES];

/* The same of what CPUs copy that share a cache, whose way to memory is narrower. */
static int64_t cache_free_at[MAX_CPUS];

/* Who took a line last. Lines that share an entry hide each other, which costs nothing. */
#define LINE_BITS	20
#define LINE_SHIFT	6
static struct {
	uint64_t line;
	int64_t free_at;
	unsigned int owner;
} lines[1 << LINE_BITS];

static int node_of_memory(uint64_t paddr)
{
	uint64_t low = model.memory >= MOST_LOW ? SPLIT_LOW : MOST_LOW;
	int node;

	if (paddr >= FOUR_GIB)
		paddr -= FOUR_GIB - low;
	for (node = 0; node < model.nr_nodes; node++)
		if (paddr < model.node_end[node])
			return node;
	return NO_NODE;
}

static int node_of_address(uint64_t vaddr)
{
	if (vaddr < DIRECT_MAP || vaddr >= DIRECT_MAP_END)
		return NO_NODE;
	return node_of_memory(vaddr - DIRECT_MAP);
}

static int node_of_cpu(const struct cpu *cpu)
{
	return cpu->index / model.cpus_per_node;
}

static enum place place_of(const struct cpu *cpu, int node)
{
	if (node == NO_NODE || node == node_of_cpu(cpu))
		return NEAR;
	return node < model.cpu_nodes ? FAR : SLOW;
}

/*
 * Puts @ps of work more into the queue of something that serves one at a time, and
 * returns when it is done. A CPU may be ahead of others by a slice: what it has
 * asked for must not hold up those who ask at an earlier time but later in ours.
 * So the queue is not empty at the time of the last request, but at that of the CPU
 * which is last: only what is asked for too often makes it long.
 */
static int64_t queue(int64_t *free_at, int64_t ps)
{
	if (*free_at < global_now())
		*free_at = global_now();
	*free_at += ps;
	return *free_at;
}

static int64_t longer(int64_t one, int64_t other)
{
	return one < other ? other : one;
}

/* Returns when a node has served @bytes more. */
static int64_t serve(int node, uint64_t bytes)
{
	int64_t mb_s = node < model.cpu_nodes ? model.node_mb_s : model.slow_mb_s;

	if (node == NO_NODE || !mb_s)
		return 0;
	/* A byte takes 1e6 ps at 1 MB/s. */
	return queue(&node_free_at[node], bytes * 1000000 / mb_s);
}

static uint64_t read_register(struct cpu *cpu, struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	g_byte_array_set_size(cpu->bytes, 0);
	if (handle && qemu_plugin_read_register(handle, cpu->bytes) == (int)sizeof(value))
		memcpy(&value, cpu->bytes->data, sizeof(value));
	return value;
}

/*
 * Whether a string instruction goes on after an interrupt, or a page fault: it ends
 * where one of the last did, and has less to do. That has been paid for already.
 */
static bool goes_on(struct cpu *cpu, const struct copy_site *site, uint64_t end, uint64_t steps)
{
	unsigned int i;

	for (i = 0; i < NR_COPIES; i++) {
		struct copy *copy = &cpu->copies[i];

		if (copy->pc == site->pc && copy->end == end) {
			bool less = steps < copy->left;

			copy->left = steps;
			/* It is not the next one to be forgotten. */
			cpu->next_copy += cpu->next_copy % NR_COPIES == i;
			return less;
		}
	}
	cpu->copies[cpu->next_copy++ % NR_COPIES] = (struct copy){ site->pc, end, steps };
	return false;
}

/* A string instruction begins, or a call of memcpy(). */
void copy_begins(unsigned int index, void *insn)
{
	const struct copy_site *site = insn;
	struct cpu *cpu = &cpus[index];
	uint64_t steps = read_register(cpu, site->call ? cpu->rdx : cpu->rcx);
	uint64_t to = read_register(cpu, cpu->rdi), bytes = steps * site->width;
	int64_t now, cost, done;
	int node;

	if (site->call)
		cpu_spend(cpu, MEMCPY_INSTRUCTIONS * model.instruction_ps);
	else if (goes_on(cpu, site, to + bytes, steps))
		return;
	/* An impossible copy ends at the first page that is not there. */
	if (!bytes || steps > MOST_BYTES || bytes > MOST_BYTES || cpu->device)
		return;
	now = cpu_now(cpu);
	node = node_of_address(to);
	cost = bytes * model.copy_store_ps[place_of(cpu, node)];
	done = serve(node, bytes);
	if (site->loads) {
		node = node_of_address(read_register(cpu, cpu->rsi));
		cost += bytes * model.copy_load_ps[place_of(cpu, node)];
		done = longer(done, serve(node, bytes));
	}
	if (model.cache_mb_s)
		done = longer(done, queue(&cache_free_at[cpu->index / model.cache_cpus],
					  bytes * 1000000 / model.cache_mb_s));
	totals.copies += bytes;
	cpu_spend(cpu, longer(cost, done - now));
}

/*
 * A program loads what it knows to be in no cache. It waits for the memory, the longer
 * the more all CPUs want of that.
 */
void line_missed(unsigned int index, uint32_t info, uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *memory = qemu_plugin_get_hwaddr(info, vaddr);
	struct cpu *cpu = &cpus[index];
	int64_t cost;
	int node;

	(void)data;
	node = memory ? node_of_memory(qemu_plugin_hwaddr_phys_addr(memory)) : NO_NODE;
	cost = model.load_ns[place_of(cpu, node)] * PS_PER_NS;
	cpu_spend(cpu, longer(cost, serve(node, 1 << LINE_SHIFT) - cpu_now(cpu)));
}

static int64_t line_ps(const struct cpu *cpu, unsigned int owner)
{
	if (owner / model.cache_cpus == cpu->index / model.cache_cpus)
		return model.line_cache_ns * PS_PER_NS;
	if (owner / model.cpus_per_node == cpu->index / model.cpus_per_node)
		return model.line_socket_ns * PS_PER_NS;
	return model.line_far_ns * PS_PER_NS;
}

/*
 * A locked instruction takes a line. From another CPU it has to travel, and it
 * travels to one CPU at a time: who comes in between waits.
 */
void line_taken(unsigned int index, uint32_t info, uint64_t vaddr, void *data)
{
	uint64_t line = vaddr >> LINE_SHIFT;
	unsigned int at = line * 0x9e3779b97f4a7c15ULL >> (64 - LINE_BITS);
	struct line_site *site = data;
	struct cpu *cpu = &cpus[index];
	int64_t cost;

	(void)info;
	/*
	 * The firmware's CPUs wait for each other without end on a lock that is given back
	 * for a moment only: who has it would always be the first to take it.
	 */
	if (!kernel_runs)
		return;
	if (lines[at].line == line && lines[at].owner != index) {
		cost = line_ps(cpu, lines[at].owner);
		cost = longer(cost, queue(&lines[at].free_at, cost) - cpu_now(cpu));
		totals.transfers++;
		if (in_section) {
			site->transfers++;
			site->ps += cost;
		}
		cpu_spend(cpu, cost);
	} else if (lines[at].line != line) {
		lines[at].free_at = 0;
	}
	lines[at].line = line;
	lines[at].owner = index;
}
