// SPDX-License-Identifier: GPL-2.0-only
/* Tests of what needs no QEMU: which instructions are found, and what they cost. TAP. */
#include <stdio.h>
#include <string.h>

#include "vtime.h"

#define DIRECT_MAP	0xffff888000000000ULL
#define MB		(1ULL << 20)
#define NS		PS_PER_NS

struct model model;
struct totals totals;
struct cpu cpus[MAX_CPUS];
unsigned int nr_cpus = 4;
bool in_section = true, kernel_runs;

static int64_t now[4], last_now;
static int nr, nr_failed;

static void check(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++nr, what);
	nr_failed += !good;
}

/* --- what machine.c expects of the rest --- */

int64_t cpu_now(const struct cpu *cpu)
{
	return now[cpu->index];
}

int64_t global_now(void)
{
	return last_now;
}

void cpu_spend(struct cpu *cpu, int64_t ps)
{
	now[cpu->index] += ps;
}

static uint64_t registers[4];
static char value[8];
static struct glib_array bytes = { value, 0 };

struct glib_array *g_byte_array_set_size(struct glib_array *array, unsigned int len)
{
	array->len = len;
	return array;
}

int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct glib_array *into)
{
	memcpy(into->data, handle, 8);
	into->len = 8;
	return 8;
}

static uint64_t missed;

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr)
{
	(void)info;
	missed = vaddr;
	return (void *)&missed;
}

/* The memory of a process is at its own addresses here. */
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *memory)
{
	return *(const uint64_t *)memory;
}

static void reset(void)
{
	unsigned int i;

	memset(&model, 0, sizeof(model));
	model.copy_load_ps[NEAR] = 10;
	model.copy_load_ps[FAR] = 30;
	model.copy_load_ps[SLOW] = 100;
	model.copy_store_ps[NEAR] = 20;
	model.copy_store_ps[FAR] = 60;
	model.copy_store_ps[SLOW] = 200;
	model.instruction_ps = 500;
	model.cpus_per_node = 2;
	model.cpu_nodes = 2;
	model.cache_cpus = 1;
	model.nr_nodes = 2;
	model.node_end[0] = 1024 * MB;
	model.node_end[1] = model.memory = 2048 * MB;
	for (i = 0; i < nr_cpus; i++) {
		cpus[i] = (struct cpu){ .index = i, .bytes = &bytes, .speed = 1 };
		cpus[i].rcx = (void *)&registers[0];
		cpus[i].rdx = (void *)&registers[3];
		cpus[i].rsi = (void *)&registers[1];
		cpus[i].rdi = (void *)&registers[2];
		/* Times only grow, lines and nodes remember them. */
		now[i] = last_now = last_now + 1000 * NS * 1000;
	}
	for (i = 0; i < nr_cpus; i++)
		now[i] = last_now;
}

static int64_t copy_ps(unsigned int cpu, const struct copy_site *site, uint64_t from, uint64_t to,
		       uint64_t steps)
{
	int64_t before = now[cpu];

	registers[site->call ? 3 : 0] = steps;
	registers[site->call ? 0 : 3] = 77;
	registers[1] = from;
	registers[2] = to;
	copy_begins(cpu, (void *)site);
	return now[cpu] - before;
}

static int64_t line_cost(unsigned int cpu, uint64_t vaddr, struct line_site *site)
{
	int64_t before = now[cpu];

	line_taken(cpu, 0, vaddr, site);
	return now[cpu] - before;
}

static void test_decode(void)
{
	static const struct {
		const char *what;
		int kind;
		unsigned int width;
		size_t len;
		uint8_t code[8];
	} cases[] = {
		{ "rep movsb", COPY, 1, 2, { 0xf3, 0xa4 } },
		{ "rep movsq", COPY, 8, 3, { 0xf3, 0x48, 0xa5 } },
		{ "rep movsl", COPY, 4, 2, { 0xf3, 0xa5 } },
		{ "rep movsw", COPY, 2, 3, { 0x66, 0xf3, 0xa5 } },
		{ "rep stosq", FILL, 8, 3, { 0xf3, 0x48, 0xab } },
		{ "movsq without rep", PLAIN, 0, 2, { 0x48, 0xa5 } },
		{ "lock incl (%rdi)", LOCKED, 0, 3, { 0xf0, 0xff, 0x07 } },
		{ "lock xadd %eax,%gs:(%rdi)", LOCKED, 0, 5, { 0x65, 0xf0, 0x0f, 0xc1, 0x07 } },
		{ "xchg %eax,(%rdi)", LOCKED, 0, 2, { 0x87, 0x07 } },
		{ "xchg %bx,%bx", PLAIN, 0, 3, { 0x66, 0x87, 0xdb } },
		{ "mov with an immediate of 0xf0", PLAIN, 0, 5, { 0xb8, 0xf0, 0, 0, 0 } },
		{ "cmp %ds:(%rdi),%rax", MISS, 0, 4, { 0x3e, 0x48, 0x3b, 0x07 } },
		{ "cmp %ds:8(%r8),%r9", MISS, 0, 5, { 0x3e, 0x4d, 0x3b, 0x48, 8 } },
		{ "cmp (%rdi),%rax", PLAIN, 0, 3, { 0x48, 0x3b, 0x07 } },
		{ "cmp %rdi,%rax with a prefix", PLAIN, 0, 4, { 0x3e, 0x48, 0x3b, 0xc7 } },
		{ "pause", PAUSE, 0, 2, { 0xf3, 0x90 } },
		{ "nop", PLAIN, 0, 1, { 0x90 } },
		{ "rep ret", PLAIN, 0, 2, { 0xf3, 0xc3 } },
		{ "a nop that is no mark", PLAIN, 0, 7, { 0x0f, 0x1f, 0x80, 0, 0, 0, 0 } },
		{ "a mark", MARK, 0, 7, { 0x0f, 0x1f, 0x80, 2, 0x4d, 0x48, 0x50 } },
		{ "prefixes only", PLAIN, 0, 2, { 0xf3, 0x48 } },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct decoded found = decode(cases[i].code, cases[i].len);

		check((int)found.kind == cases[i].kind && found.width == cases[i].width &&
		      found.mark == (cases[i].kind == MARK ? 2 : 0), cases[i].what);
	}
	check(is_call((const uint8_t[]){ 0xe8, 0, 0, 0, 0 }, 5), "call");
	check(is_call((const uint8_t[]){ 0x41, 0xff, 0xd3 }, 3), "call *%r11");
	check(call_target((const uint8_t[]){ 0xe8, 0xfb, 0xff, 0xff, 0xff }, 5, 105) == 100 &&
	      !call_target((const uint8_t[]){ 0x41, 0xff, 0xd3 }, 3, 105), "where a call goes");
	check(!is_call((const uint8_t[]){ 0xff, 0xe0 }, 2), "jmp *%rax is no call");
}

static void test_copies(void)
{
	const struct copy_site movsb = { 1, 1, true, false }, movsq = { 2, 8, true, false };
	const struct copy_site stosq = { 3, 8, false, false }, call = { 6, 1, true, true };
	const uint64_t near = DIRECT_MAP, far = DIRECT_MAP + 1536 * MB;

	reset();
	check(copy_ps(0, &movsb, near, near + MB, 4096) == 4096 * 30, "a copy within the near node");
	check(copy_ps(0, &movsq, near, far, 512) == 4096 * 70, "a copy to the far node");
	check(copy_ps(2, &movsq, near, far, 512) == 4096 * 50, "far is near for the other node's CPU");
	check(copy_ps(0, &stosq, 0, far + MB, 512) == 4096 * 60, "a fill only stores");
	check(copy_ps(0, &movsq, 0x1000, 0x9000, 512) == 4096 * 30, "memory of a process is near");
	copy_ps(0, &movsb, near, near + MB, 4096);
	check(!copy_ps(0, &movsb, near + 96, near + MB + 96, 4000), "the rest is paid for already");
	copy_ps(0, &movsb, near, near + MB, 4096);
	check(copy_ps(0, &movsb, near, near + MB, 4096) > 0, "the same copy again is not");
	check(copy_ps(0, &call, near, near + MB, 4096) == 4096 * 30 + 5000, "a call of memcpy()");
	check(copy_ps(0, &call, near, near + MB, 0) == 5000, "which takes something by itself");
	copy_ps(0, &movsb, near, near + MB, 4096);
	copy_ps(0, &stosq, 0, far, 512);
	check(!copy_ps(0, &movsb, near + 96, near + MB + 96, 4000), "also after the copies of a fault");
	check(!copy_ps(0, &movsb, near, near + MB, -1ULL), "nobody copies all of the address space");
	check(!copy_ps(0, &movsb, near, near + MB, 0), "nothing costs nothing");

	/* Above 2.75 GiB of memory, what is beyond 2 GiB is from 4 GiB on. */
	model.node_end[0] = 2048 * MB;
	model.node_end[1] = model.memory = 4096 * MB;
	check(copy_ps(0, &stosq, 0, DIRECT_MAP + 4096 * MB, 512) == 4096 * 60, "memory above the hole");
}

static void test_node_cap(void)
{
	const struct copy_site stosq = { 4, 8, false, false };
	int64_t first, second;

	reset();
	model.node_mb_s = 20000;	/* 50 ps a byte, more than a CPU takes */
	first = copy_ps(0, &stosq, 0, DIRECT_MAP, 512);
	second = copy_ps(1, &stosq, 0, DIRECT_MAP + MB, 512);
	check(first == 4096 * 50, "a node serves no more than its cap");
	check(second == 2 * first, "who comes second waits for the first");
	last_now = now[0] = now[1] = now[1] + 1000 * NS;
	check(copy_ps(0, &stosq, 0, DIRECT_MAP, 512) == first, "and nobody waits once it is idle");
	check(copy_ps(0, &stosq, 0, DIRECT_MAP + 1536 * MB, 512) == 4096 * 60,
	      "the other node has its own");
}

static int64_t miss_ps(unsigned int cpu, uint64_t paddr)
{
	int64_t before = now[cpu];

	line_missed(cpu, 0, paddr, NULL);
	return now[cpu] - before;
}

/* Of three nodes the last one has no CPUs. */
static void reset_slow(void)
{
	reset();
	model.nr_nodes = 3;
	model.node_end[2] = model.memory = 2560 * MB;
	model.node_mb_s = 1000000;
	model.load_ns[NEAR] = 100;
	model.load_ns[FAR] = 150;
	model.load_ns[SLOW] = 300;
}

static void test_slow_node(void)
{
	const struct copy_site movsq = { 7, 8, true, false }, stosq = { 8, 8, false, false };
	const uint64_t near = DIRECT_MAP, slow = DIRECT_MAP + 2048 * MB;
	int64_t first;

	reset_slow();
	check(copy_ps(0, &movsq, near, slow, 512) == 4096 * 210, "a copy to a node without CPUs");
	check(copy_ps(2, &movsq, slow, near, 512) == 4096 * 160, "and one from there, to a far one");
	reset_slow();
	model.slow_mb_s = 2000;		/* 500 ps a byte */
	first = copy_ps(0, &stosq, 0, slow, 512);
	check(first == 4096 * 500, "it has a cap of its own");
	check(copy_ps(1, &stosq, 0, slow + MB, 512) == 2 * first, "for all CPUs together");

	reset_slow();
	check(miss_ps(0, MB) == 100 * NS, "a load that no cache answers, near");
	check(miss_ps(0, 1536 * MB) == 150 * NS, "far");
	check(miss_ps(3, 1536 * MB) == 100 * NS, "which is near for the other node's CPU");
	check(miss_ps(3, 2048 * MB) == 300 * NS, "and from the node without CPUs");
	reset_slow();
	model.slow_mb_s = 100;		/* 640 ns a line */
	check(miss_ps(0, 2048 * MB) == 640 * NS, "which serves no more than its cap");
}

static void test_cache_cap(void)
{
	const struct copy_site movsq = { 5, 8, true, false };
	int64_t first;

	reset();
	model.cache_cpus = 2;
	model.cache_mb_s = 10000;	/* 100 ps a byte, where one CPU takes 30 */
	first = copy_ps(0, &movsq, DIRECT_MAP, DIRECT_MAP + MB, 512);
	check(first == 4096 * 100, "a cache's CPUs copy no more than its cap");
	check(copy_ps(1, &movsq, DIRECT_MAP, DIRECT_MAP + MB, 512) == 2 * first,
	      "together, not each");
	check(copy_ps(2, &movsq, DIRECT_MAP, DIRECT_MAP + MB, 512) < 2 * first,
	      "those of another cache have their own");
	cpus[3].device = true;
	check(!copy_ps(3, &movsq, DIRECT_MAP, DIRECT_MAP + MB, 512),
	      "a device's copies cost what its driver says");
}

static void test_lines(void)
{
	struct line_site site = { 0 };
	const uint64_t line = 0xffff888012345640ULL;

	reset();
	model.cache_cpus = 2;
	model.cpus_per_node = 2;
	model.line_cache_ns = 20;
	model.line_socket_ns = 60;
	model.line_far_ns = 150;
	line_cost(0, 0x1000, &site);
	check(!line_cost(1, 0x1000, &site), "the firmware's lines cost nothing");
	kernel_runs = true;
	check(!line_cost(0, line, &site), "a line that nobody had costs nothing");
	check(!line_cost(0, line + 8, &site), "nor does one's own");
	check(line_cost(1, line, &site) == 20 * NS, "from a CPU of the same cache");
	check(line_cost(2, line, &site) >= 150 * NS, "from another node");
	check(site.transfers == 2, "the instruction is told of both");
	model.cache_cpus = 1;
	last_now = now[3] = now[2] = now[2] + 1000 * NS;
	check(line_cost(3, line, &site) == 60 * NS, "from the same node, another cache");

	/* All want it at the same moment. */
	reset();
	model.line_cache_ns = model.line_socket_ns = model.line_far_ns = 100;
	line_cost(0, line + 64, &site);
	check(line_cost(1, line + 64, &site) == 100 * NS && line_cost(2, line + 64, &site) == 200 * NS &&
	      line_cost(3, line + 64, &site) == 300 * NS, "a line travels to one at a time");
}

int main(void)
{
	test_decode();
	test_copies();
	test_node_cap();
	test_slow_node();
	test_cache_cap();
	test_lines();
	printf("1..%d\n", nr);
	return nr_failed != 0;
}
