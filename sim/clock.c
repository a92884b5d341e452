// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clocks that QEMU, and through it the guest, sees.
 *
 * QEMU's timers follow clock_gettime(CLOCK_MONOTONIC). The guest's TSC is the
 * host's: QEMU reads it by the instruction, which no library can stand in for. So
 * the instruction is forbidden to QEMU's process, and the fault that it gives then
 * is answered with the virtual time, at 1 GHz.
 */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "clock.h"
#include "vtime.h"

/* QEMU's own code: only there the TSC is the guest's. */
static uintptr_t text_start, text_end;

static _Atomic int64_t last_tsc;

static int64_t now_ps(void)
{
	const struct cpu *cpu = current_cpu();

	return cpu ? cpu_now(cpu) : global_now();
}

VISIBLE int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int64_t ns;

	/* Not through the vDSO, which reads the TSC. */
	if (!active || clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, ts);
	ns = origin_ns + now_ps() / PS_PER_NS;
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

VISIBLE int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	return syscall(SYS_gettimeofday, tv, zone);
}

/*
 * No CPU may see a TSC that is behind what another has seen: QEMU would take that for
 * a host that was suspended, and shift the TSC for good.
 */
static uint64_t virtual_tsc(void)
{
	int64_t tsc = origin_ns + now_ps() / PS_PER_NS, last = last_tsc;

	while (tsc > last && !atomic_compare_exchange_weak(&last_tsc, &last, tsc))
		;
	return tsc > last ? tsc : last;
}

/*
 * A loop that does nothing but read the TSC waits for time to pass. A read costs the
 * host a microsecond, and a boot has millions: so after a few reads in a row each
 * takes as long as such a loop can be late without harm.
 */
#define TIGHT_PS	(100 * PS_PER_NS)
#define TIGHT_READS	8
#define TIGHT_STEP_PS	(500 * PS_PER_NS)

static void pass_time(struct cpu *cpu)
{
	int64_t now;

	if (!cpu || cpu->state != RUNNING)
		return;
	now = cpu_now(cpu);
	if (now - cpu->tsc_read > TIGHT_PS)
		cpu->tight_reads = 0;
	else if (++cpu->tight_reads > TIGHT_READS)
		cpu_spend(cpu, TIGHT_STEP_PS);
	cpu->tsc_read = cpu_now(cpu);
}

static uint64_t host_tsc(void)
{
	uint32_t low, high;

	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	return (uint64_t)high << 32 | low;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)regs[REG_RIP];
	size_t len = 0;
	uint64_t tsc;

	/* A fault of another kind may be about the code itself. */
	if (info->si_code == SI_KERNEL && code[0] == 0x0f) {
		if (code[1] == 0x31)
			len = 2;
		else if (code[1] == 0x01 && code[2] == 0xf9)
			len = 3;
	}
	if (!len) {
		/* The fault is not ours: let it happen again, without us. */
		struct sigaction standard = { .sa_handler = SIG_DFL };

		sigaction(signal, &standard, NULL);
		return;
	}
	totals.tsc_reads++;
	if ((uintptr_t)code >= text_start && (uintptr_t)code < text_end) {
		pass_time(current_cpu());
		tsc = virtual_tsc();
	} else {
		tsc = host_tsc();
	}
	regs[REG_RAX] = (uint32_t)tsc;
	regs[REG_RDX] = tsc >> 32;
	if (len == 3)
		regs[REG_RCX] = 0;
	regs[REG_RIP] += len;
}

/* A process of QEMU's, for a network say, is no guest. */
static void give_tsc_back(void)
{
	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
}

/* The first object is the program itself. */
static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
	int i;

	(void)size;
	(void)data;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
			text_start = info->dlpi_addr + header->p_vaddr;
			text_end = text_start + header->p_memsz;
		}
	}
	return 1;
}

bool clock_init(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	dl_iterate_phdr(find_text, NULL);
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGSEGV, &action, NULL) < 0 || pthread_atfork(NULL, NULL, give_tsc_back))
		return false;
	return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0;
}
