// SPDX-License-Identifier: GPL-2.0-only
/*
 * vtime: QEMU's guests in virtual time. One object, loaded twice: as a TCG plugin, which
 * counts what the guest executes, and by LD_PRELOAD, which gives QEMU the clock that
 * follows from it. README.md describes the model, order.c how it is kept.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "vtime.h"

VISIBLE int qemu_plugin_version = PLUGIN_API_VERSION;
VISIBLE int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				char **argv);

#define MAX_INSN	16

/* Linux is linked to run from here on. */
#define KERNEL_TEXT	0xffffffff80000000ULL

struct model model = {
	.instruction_ps = 500,
	.cache_cpus = 1,
	.slice_ns = 1000,
	.cpus_per_node = 1,
	.cpu_nodes = MAX_NODES,
};
struct qemu_plugin_scoreboard *board;

static char *report_path, *profile_path;

static const struct {
	const char *name;
	int64_t *value;
	int64_t least;
} options[] = {
	{ "instruction_ps", &model.instruction_ps, 1 },
	{ "pause_ns", &model.pause_ns, 0 },
	{ "copy_load_near_ps", &model.copy_load_ps[NEAR], 0 },
	{ "copy_load_far_ps", &model.copy_load_ps[FAR], 0 },
	{ "copy_load_slow_ps", &model.copy_load_ps[SLOW], 0 },
	{ "copy_store_near_ps", &model.copy_store_ps[NEAR], 0 },
	{ "copy_store_far_ps", &model.copy_store_ps[FAR], 0 },
	{ "copy_store_slow_ps", &model.copy_store_ps[SLOW], 0 },
	{ "load_near_ns", &model.load_ns[NEAR], 0 },
	{ "load_far_ns", &model.load_ns[FAR], 0 },
	{ "load_slow_ns", &model.load_ns[SLOW], 0 },
	{ "node_mb_s", &model.node_mb_s, 0 },
	{ "slow_mb_s", &model.slow_mb_s, 0 },
	{ "cache_mb_s", &model.cache_mb_s, 0 },
	{ "line_cache_ns", &model.line_cache_ns, 0 },
	{ "line_socket_ns", &model.line_socket_ns, 0 },
	{ "line_far_ns", &model.line_far_ns, 0 },
	{ "cache_cpus", &model.cache_cpus, 1 },
	{ "ipi_ns", &model.ipi_ns, 0 },
	{ "wake_ns", &model.wake_ns, 0 },
	{ "slice_ns", &model.slice_ns, 1 },
	{ "cpus_per_node", &model.cpus_per_node, 1 },
	{ "cpu_nodes", &model.cpu_nodes, 1 },
};

static bool parse_nodes(const char *text)
{
	char *end;

	for (;;) {
		unsigned long mb = strtoul(text, &end, 10);

		if (end == text || !mb || model.nr_nodes == MAX_NODES)
			return false;
		model.memory += (uint64_t)mb << 20;
		model.node_end[model.nr_nodes++] = model.memory;
		if (!*end)
			return true;
		if (*end != ':')
			return false;
		text = end + 1;
	}
}

/* A list such as 4-7:12-15. */
static bool parse_device_cpus(const char *text)
{
	char *end;

	for (;;) {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return false;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text)
				return false;
		}
		if (first > last || last >= MAX_CPUS)
			return false;
		for (; first <= last; first++)
			cpus[first].device = true;
		if (!*end)
			return true;
		if (*end != ':')
			return false;
		text = end + 1;
	}
}

/* First and last address of a function, START-END, the end not included. */
static bool parse_memcpy(const char *text)
{
	char *end;

	model.memcpy_start = strtoull(text, &end, 16);
	if (end == text || *end != '-')
		return false;
	text = end + 1;
	model.memcpy_end = strtoull(text, &end, 16);
	return end != text && !*end && model.memcpy_start < model.memcpy_end;
}

static bool parse_option(char *option)
{
	char *value = strchr(option, '='), *end;
	size_t i;

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(option, "report"))
		return (report_path = strdup(value));
	if (!strcmp(option, "profile"))
		return (profile_path = strdup(value));
	if (!strcmp(option, "device_cpus"))
		return parse_device_cpus(value);
	if (!strcmp(option, "memcpy"))
		return parse_memcpy(value);
	if (!strcmp(option, "node_mb"))
		return parse_nodes(value);
	for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
		if (strcmp(option, options[i].name))
			continue;
		errno = 0;
		*options[i].value = strtoll(value, &end, 10);
		return !errno && end != value && !*end && *options[i].value >= options[i].least;
	}
	return false;
}

static void watch_copy(struct qemu_plugin_insn *insn, struct copy_site what)
{
	/* Kept as long as QEMU runs: a block may be translated again. */
	struct copy_site *site = malloc(sizeof(*site));

	if (!site)
		abort();
	*site = what;
	qemu_plugin_register_vcpu_insn_exec_cb(insn, copy_begins, QEMU_PLUGIN_CB_R_REGS, site);
}

/* Counts what a block costs, and asks for its turn before it. */
static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const bool lines = model.line_cache_ns || model.line_socket_ns || model.line_far_ns;
	const bool misses = model.load_ns[NEAR] || model.load_ns[FAR] || model.load_ns[SLOW];
	const qemu_plugin_u64 ps = { board, 0 };
	size_t n = qemu_plugin_tb_n_insns(tb), counted = n, i;
	int64_t more = 0;

	(void)id;
	if (qemu_plugin_tb_vaddr(tb) >= KERNEL_TEXT)
		kernel_runs = true;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint8_t bytes[MAX_INSN];
		size_t len = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
		struct decoded decoded = decode(bytes, len);

		if (pc >= model.memcpy_start && pc < model.memcpy_end) {
			counted--;
			if (pc == model.memcpy_start)
				watch_copy(insn, (struct copy_site){ pc, 1, true, true });
		}
		switch (decoded.kind) {
		case COPY:
		case FILL:
			watch_copy(insn, (struct copy_site){ pc, decoded.width,
							     decoded.kind == COPY, false });
			break;
		case LOCKED:
			if (lines || profiling)
				qemu_plugin_register_vcpu_mem_cb(insn, line_taken,
								 QEMU_PLUGIN_CB_NO_REGS,
								 QEMU_PLUGIN_MEM_W, line_site(pc));
			break;
		case MISS:
			if (misses)
				qemu_plugin_register_vcpu_mem_cb(insn, line_missed,
								 QEMU_PLUGIN_CB_NO_REGS,
								 QEMU_PLUGIN_MEM_R, NULL);
			break;
		case MARK:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark_reached,
							       QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)decoded.mark);
			break;
		case PAUSE:
			/*
			 * The firmware lets its CPUs in one by one: it opens a lock, pauses,
			 * and locks it again. If the pause counts before its block, that is
			 * where turns end, with the lock held, for good where they stay in step.
			 */
			if (kernel_runs)
				more += model.pause_ns * PS_PER_NS;
			else
				qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
					insn, QEMU_PLUGIN_INLINE_ADD_U64, ps,
					model.pause_ns * PS_PER_NS);
			break;
		case PLAIN:
			break;
		}
		if (profiling && is_call(bytes, len))
			profile_call_site(pc + len, call_target(bytes, len, pc + len));
	}
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, ps,
							  counted * model.instruction_ps + more);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, cpu_turn_ends, profiling ?
						  QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS,
						  QEMU_PLUGIN_COND_GE, ps, LIMIT,
						  (void *)(uintptr_t)qemu_plugin_tb_vaddr(tb));
}

static void find_registers(struct cpu *cpu)
{
	struct glib_array *found = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *each = (const void *)found->data;
	unsigned int i;

	cpu->bytes = g_byte_array_new();
	for (i = 0; i < found->len; i++) {
		if (!strcmp(each[i].name, "rcx"))
			cpu->rcx = each[i].handle;
		else if (!strcmp(each[i].name, "rdx"))
			cpu->rdx = each[i].handle;
		else if (!strcmp(each[i].name, "rsi"))
			cpu->rsi = each[i].handle;
		else if (!strcmp(each[i].name, "rdi"))
			cpu->rdi = each[i].handle;
		else if (!strcmp(each[i].name, "rsp"))
			cpu->rsp = each[i].handle;
	}
}

static void vcpu_starts(qemu_plugin_id_t id, unsigned int index)
{
	find_registers(&cpus[index]);
	cpu_starts(id, index);
}

static void qemu_ends(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	if (report_path)
		write_report(report_path);
	if (profile_path)
		write_profile(profile_path);
}

VISIBLE int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				char **argv)
{
	unsigned int i;
	int arg;

	for (i = 0; i < MAX_CPUS; i++) {
		cpus[i].index = i;
		cpus[i].speed = 1;
	}
	for (arg = 0; arg < argc; arg++) {
		char *copy = strdup(argv[arg]);

		if (!copy || !parse_option(copy)) {
			fprintf(stderr, "vtime: error: %s is not an option with a value that fits\n",
				argv[arg]);
			return -1;
		}
		free(copy);
	}
	if (!info->system_emulation || info->system.max_vcpus > MAX_CPUS) {
		fprintf(stderr, "vtime: error: only for machines of up to %d CPUs\n", MAX_CPUS);
		return -1;
	}
	if (strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "vtime: error: for x86_64, not %s\n", info->target_name);
		return -1;
	}
	if (!order_is_preloaded()) {
		fprintf(stderr, "vtime: error: the plugin has to be in LD_PRELOAD as well\n");
		return -1;
	}
	profiling = profile_path;
	board = qemu_plugin_scoreboard_new(sizeof(struct count));
	if (!clock_init()) {
		fprintf(stderr, "vtime: error: the host does not let its TSC be hidden\n");
		return -1;
	}
	order_start();
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_vcpu_init_cb(id, vcpu_starts);
	qemu_plugin_register_vcpu_exit_cb(id, cpu_exits);
	qemu_plugin_register_vcpu_idle_cb(id, cpu_idles);
	qemu_plugin_register_vcpu_resume_cb(id, cpu_resumes);
	qemu_plugin_register_atexit_cb(id, qemu_ends, NULL);
	return 0;
}
