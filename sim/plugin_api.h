/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of QEMU's plugin API that is used here, declared by hand: no package of Debian's has
 * the header. It is version 4 of the API, that of QEMU 10.0; later ones still take it.
 */
#ifndef PLUGIN_API_H
#define PLUGIN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VISIBLE __attribute__((visibility("default")))

/* The API that this is written for. */
#define PLUGIN_API_VERSION	4

typedef uint64_t qemu_plugin_id_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register;
struct qemu_plugin_hwaddr;

typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

enum { QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_INLINE_STORE_U64 };
enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum { QEMU_PLUGIN_COND_GE = 7 };
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

/* What GLib calls GArray and GByteArray: its headers need not be there. */
struct glib_array {
	char *data;
	unsigned int len;
};

typedef struct {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;

typedef void (*qemu_plugin_vcpu_cb)(qemu_plugin_id_t id, unsigned int vcpu);
typedef void (*qemu_plugin_udata_cb)(unsigned int vcpu, void *data);
typedef void (*qemu_plugin_mem_cb)(unsigned int vcpu, uint32_t info, uint64_t vaddr, void *data);
typedef void (*qemu_plugin_tb_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_exit_cb)(qemu_plugin_id_t id, void *data);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board, unsigned int vcpu);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *into, size_t len);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
struct glib_array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct glib_array *into);
bool qemu_plugin_read_memory_vaddr(uint64_t addr, struct glib_array *into, size_t len);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *memory);
struct glib_array *g_byte_array_new(void);
struct glib_array *g_byte_array_set_size(struct glib_array *array, unsigned int len);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_cb cb);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op,
						       qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb, qemu_plugin_udata_cb cb,
					       int flags, int cond, qemu_plugin_u64 entry,
					       uint64_t imm, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_udata_cb cb,
					    int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
							 qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_cb cb,
				      int flags, int rw, void *data);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_cb cb);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_cb cb);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_cb cb);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_cb cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_exit_cb cb, void *data);

#endif
