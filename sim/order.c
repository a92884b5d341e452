// SPDX-License-Identifier: GPL-2.0-only
/*
 * The order in which things happen, and the clock that follows from it.
 *
 * QEMU has a thread for each virtual CPU, and one, the main loop, for timers and
 * devices. Here one CPU at a time has the turn: the one whose own time is least, for
 * a slice. So all happens in the order of virtual time, up to a slice, and nothing
 * depends on which thread the host happens to run. The main loop has its turn when
 * its next timer is due, and nobody goes on before it has dealt with that.
 *
 * A thread that waits for its turn sits in translated code. QEMU sometimes needs all
 * of them out of there (an exclusive section, a pause): then all that wait are let
 * loose, leave at the next block, and are back when QEMU allows it.
 *
 * What QEMU must not be kept from is found out by standing in for four functions of
 * libc: a thread waits (pthread_cond_wait), wakes somebody (pthread_cond_broadcast),
 * tells the main loop of something (write to an eventfd), or is the main loop and has
 * nothing to do (ppoll).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vtime.h"

/* A thread that waited so long while nothing happened at all is let loose by force. */
#define STUCK_S		2

/* While all CPUs sleep, time goes at most so much faster than the host's: devices need theirs. */
#define WARP_SPEED	50
#define WARP_AT_ONCE_PS	(1000 * 1000 * PS_PER_NS)

/* A timer that is due so much later is due never. */
#define FAR_S		1000000

/*
 * A turn ends after so long although nobody else wants one: a device that is done by
 * the host's clock may wake a CPU, which then begins so far in the past at most.
 */
#define LONGEST_TURN_PS	(20 * 1000 * PS_PER_NS)

struct cpu cpus[MAX_CPUS];
unsigned int nr_cpus;
bool active;
struct totals totals;
int64_t origin_ns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct cpu *me;
static pthread_t main_thread;

static struct cpu *turn;		/* the CPU that is RUNNING */
static _Atomic int64_t global;		/* the time of the CPU that is last, since the start */
static unsigned int nr_loose;
static unsigned int nr_outside;		/* threads that wait until others have left */

/* The main loop: when its next timer is due, and whether it waits for that. */
static int64_t deadline;
static bool main_waits;
static bool main_told;			/* somebody has something for it */
static bool main_due;			/* its timer's turn has come */
static int main_event = -1;		/* ends its wait */

static int (*real_cond_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_cond_broadcast)(pthread_cond_t *);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

static void order_init(void);

struct cpu *current_cpu(void)
{
	return me;
}

/* Looked up each time: QEMU moves the counters when it makes room for one more. */
static struct count *count_of(const struct cpu *cpu)
{
	return qemu_plugin_scoreboard_find(board, cpu->index);
}

int64_t global_now(void)
{
	return atomic_load_explicit(&global, memory_order_relaxed);
}

/* The time of a CPU whose thread asks, or is known to wait. */
int64_t cpu_now(const struct cpu *cpu)
{
	if (cpu->state == RUNNING)
		return cpu->end + (int64_t)(count_of(cpu)->ps - LIMIT) / cpu->speed;
	return cpu->time;
}

/* Lets time pass for the CPU that has the turn. */
void cpu_spend(struct cpu *cpu, int64_t ps)
{
	count_of(cpu)->ps += ps * cpu->speed;
}

/*
 * Makes the turn end at @until, if it is ours: of another thread's counter we would
 * lose what its translated code adds at this moment.
 */
static void shorten_turn(int64_t until)
{
	if (turn && turn == me && until < turn->end) {
		count_of(turn)->ps += (turn->end - until) * turn->speed;
		turn->end = until;
	}
}

static void wake_thread(struct cpu *cpu)
{
	__atomic_add_fetch(&cpu->go, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &cpu->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_main(void)
{
	static const uint64_t one = 1;

	if (main_waits && real_write(main_event, &one, sizeof(one)) < 0)
		perror("vtime: cannot wake QEMU's main loop");
}

static void advance(int64_t time)
{
	if (time > global)
		atomic_store_explicit(&global, time, memory_order_relaxed);
}

/* Gives the turn to who is next, if nobody has it. Called with the lock held. */
static void pass_turn(void)
{
	int64_t second = FOREVER, until, longest;
	struct cpu *best = NULL;
	unsigned int i;

	if (turn || nr_loose)
		return;
	for (i = 0; i < nr_cpus; i++) {
		struct cpu *cpu = &cpus[i];

		if (cpu->state == WAKING)
			return;
		if (cpu->state != READY)
			continue;
		if (!best || cpu->time < best->time) {
			second = best ? best->time : FOREVER;
			best = cpu;
		} else if (cpu->time < second) {
			second = cpu->time;
		}
	}
	/* Asleep, all of them: the main loop finds that out by itself. */
	if (!best) {
		wake_main();
		return;
	}
	if (main_told || !main_waits)
		return;
	if (deadline <= best->time) {
		advance(deadline);
		totals.due += !main_due;
		main_due = true;
		wake_main();
		return;
	}
	advance(best->time);
	until = deadline;
	if (second != FOREVER && second + model.slice_ns * PS_PER_NS < until)
		until = second + model.slice_ns * PS_PER_NS;
	/* A profile looks at the end of each turn. */
	longest = profiling ? model.slice_ns * PS_PER_NS : LONGEST_TURN_PS;
	if (until - best->time > longest)
		until = best->time + longest;
	best->end = until;
	count_of(best)->ps = LIMIT - (until - best->time) * best->speed;
	best->state = RUNNING;
	turn = best;
	totals.slices++;
	if (best != me)
		wake_thread(best);
}

static void give_up_turn(struct cpu *cpu, enum cpu_state state)
{
	if (cpu->state == RUNNING) {
		cpu->time = cpu_now(cpu);
		turn = NULL;
	} else if (state == READY && cpu->state != READY && count_of(cpu)->ps > LIMIT) {
		/* It has done work without a turn: the block that it comes from, at least. */
		cpu->time += (int64_t)(count_of(cpu)->ps - LIMIT) / cpu->speed;
	}
	if (cpu->state == LOOSE)
		nr_loose--;
	cpu->state = state;
}

/* Lets all threads out of translated code that wait in it. Called with the lock held. */
static void let_loose(void)
{
	unsigned int i;

	for (i = 0; i < nr_cpus; i++) {
		if (cpus[i].state != READY)
			continue;
		cpus[i].state = LOOSE;
		count_of(&cpus[i])->ps = LIMIT;
		cpus[i].end = cpus[i].time;
		nr_loose++;
		wake_thread(&cpus[i]);
	}
}

/* Waits until somebody changes a CPU's state. Called with the lock held. */
static void wait_for_turn(struct cpu *cpu)
{
	static const struct timespec patience = { .tv_sec = STUCK_S };
	uint64_t seen = totals.slices;

	while (cpu->state == READY) {
		uint32_t go = cpu->go;

		pthread_mutex_unlock(&lock);
		if (syscall(SYS_futex, &cpu->go, FUTEX_WAIT_PRIVATE, go, &patience, NULL, 0) < 0 &&
		    errno == ETIMEDOUT) {
			pthread_mutex_lock(&lock);
			if (cpu->state == READY && seen == totals.slices) {
				totals.forced++;
				let_loose();
			}
			seen = totals.slices;
		} else {
			pthread_mutex_lock(&lock);
		}
	}
}

/* A block of translated code begins, and the CPU's counter has reached its limit. */
void cpu_turn_ends(unsigned int index, void *pc)
{
	struct cpu *cpu = &cpus[index];

	me = cpu;
	pthread_mutex_lock(&lock);
	if (profiling && cpu->state == RUNNING)
		profile_sample(cpu, (uint64_t)pc);
	if (cpu->state == RUNNING && (nr_loose || nr_outside)) {
		/* Others are on their way out, maybe for us: to wait could be for ever. */
		cpu->end += model.slice_ns * PS_PER_NS;
		count_of(cpu)->ps -= model.slice_ns * PS_PER_NS * cpu->speed;
	} else if (nr_outside) {
		/* It is waited for. */
		give_up_turn(cpu, LOOSE);
		nr_loose++;
		count_of(cpu)->ps = LIMIT;
		cpu->end = cpu->time;
	} else {
		give_up_turn(cpu, READY);
		pass_turn();
		wait_for_turn(cpu);
	}
	pthread_mutex_unlock(&lock);
}

void cpu_starts(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	me = &cpus[index];
	pthread_mutex_lock(&lock);
	if (index >= nr_cpus)
		nr_cpus = index + 1;
	me->time = global;
	me->sampled = global;
	me->state = IDLE;
	count_of(me)->ps = LIMIT;
	me->end = global;
	pthread_mutex_unlock(&lock);
}

void cpu_exits(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	pthread_mutex_lock(&lock);
	give_up_turn(&cpus[index], OFF);
	pass_turn();
	pthread_mutex_unlock(&lock);
}

void cpu_idles(qemu_plugin_id_t id, unsigned int index)
{
	struct cpu *cpu = &cpus[index];

	(void)id;
	me = cpu;
	pthread_mutex_lock(&lock);
	if (profiling && cpu->state == RUNNING)
		profile_sample(cpu, 0);
	give_up_turn(cpu, IDLE);
	cpu->in_halt = true;
	pass_turn();
	pthread_mutex_unlock(&lock);
}

/* A CPU that sleeps is woken by whoever runs this. Called with the lock held. */
static void wake_cpu(struct cpu *cpu)
{
	int64_t now = me ? cpu_now(me) : global;

	now += model.wake_ns * PS_PER_NS;
	if (cpu->time < now)
		cpu->time = now;
	cpu->sampled = cpu->time;
	cpu->state = WAKING;
	cpu->woken_by_cpu = me;
	totals.wakes++;
	/* The waker goes on when it has come: it may be woken again, or for nothing. */
	if (me)
		shorten_turn(cpu_now(me));
}

void cpu_resumes(qemu_plugin_id_t id, unsigned int index)
{
	struct cpu *cpu = &cpus[index];

	(void)id;
	me = NULL;
	pthread_mutex_lock(&lock);
	if (cpu->state == IDLE)
		wake_cpu(cpu);
	cpu->in_halt = false;
	/* It has to ask for its turn in its first block. */
	count_of(cpu)->ps = LIMIT;
	cpu->end = cpu->time;
	pthread_mutex_unlock(&lock);
	me = cpu;
}

/* --- what stands in for libc --- */

static bool is_main(void)
{
	return pthread_equal(pthread_self(), main_thread);
}

VISIBLE int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	bool outside = false;
	int rc;

	if (!real_cond_wait)
		order_init();
	if (active && (me || is_main())) {
		pthread_mutex_lock(&lock);
		if (me && (me->in_halt || me->state == IDLE)) {
			/* Woken for nothing, or not woken yet. */
			me->halt = cond;
			if (me->state == WAKING) {
				me->state = IDLE;
				pass_turn();
			}
		} else {
			let_loose();
			nr_outside++;
			outside = true;
		}
		pthread_mutex_unlock(&lock);
	}
	rc = real_cond_wait(cond, mutex);
	if (outside) {
		pthread_mutex_lock(&lock);
		nr_outside--;
		pass_turn();
		pthread_mutex_unlock(&lock);
	}
	return rc;
}

VISIBLE int pthread_cond_broadcast(pthread_cond_t *cond)
{
	unsigned int i;

	if (!real_cond_broadcast)
		order_init();
	if (active) {
		pthread_mutex_lock(&lock);
		for (i = 0; i < nr_cpus; i++) {
			struct cpu *cpu = &cpus[i];

			if (cpu->halt != cond || cpu == me)
				continue;
			if (cpu->state == IDLE ||
			    (cpu->state == WAKING && me && !cpu->woken_by_cpu)) {
				wake_cpu(cpu);
			} else if (cpu->state == READY && me) {
				/* An interrupt, which that CPU has to stop for. */
				cpu->time += model.ipi_ns * PS_PER_NS;
				totals.ipis++;
			}
		}
		pthread_mutex_unlock(&lock);
	}
	return real_cond_broadcast(cond);
}

VISIBLE ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t done;

	if (!real_write)
		order_init();
	done = real_write(fd, data, len);
	if (active && len == sizeof(uint64_t) && done == (ssize_t)len && !is_main()) {
		int saved = errno;

		/* A timer, for instance, that is due before all others. */
		pthread_mutex_lock(&lock);
		main_told = true;
		totals.told++;
		if (me)
			shorten_turn(cpu_now(me));
		wake_main();
		pthread_mutex_unlock(&lock);
		errno = saved;
	}
	return done;
}

static bool all_asleep(void)
{
	unsigned int i;

	for (i = 0; i < nr_cpus; i++)
		if (cpus[i].state != IDLE && cpus[i].state != OFF)
			return false;
	return true;
}

/* Waits for devices, or for the turn of the next timer; returns as ppoll() does. */
static int wait_in_main_loop(struct pollfd *fds, nfds_t n, const struct timespec *timeout)
{
	static const struct timespec none;
	static struct pollfd *all;
	static nfds_t max_all;
	uint64_t count;
	int rc;

	/* A virtio device has an eventfd for each of its queues: hundreds. */
	if (n >= max_all) {
		max_all = 2 * n + 1;
		all = realloc(all, max_all * sizeof(*all));
		if (!all)
			abort();
	}
	pthread_mutex_lock(&lock);
	main_due = false;
	deadline = FOREVER;
	if (timeout && timeout->tv_sec < FAR_S)
		deadline = global + (timeout->tv_sec * 1000000000LL + timeout->tv_nsec) * PS_PER_NS;
	for (;;) {
		const struct timespec *wait = NULL;
		struct timespec pace;
		bool asleep;

		main_told = false;
		pthread_mutex_unlock(&lock);
		rc = real_ppoll(fds, n, &none, NULL);
		totals.polls++;
		pthread_mutex_lock(&lock);
		if (rc)
			break;
		if (main_due || (deadline <= global && !main_told))
			break;
		if (main_told)
			continue;
		asleep = all_asleep();
		if (asleep && deadline != FOREVER) {
			int64_t ahead = deadline - global;

			if (ahead < WARP_AT_ONCE_PS) {
				advance(deadline);
				totals.warps++;
				break;
			}
			ahead /= WARP_SPEED * PS_PER_NS;
			pace = (struct timespec){ ahead / 1000000000, ahead % 1000000000 };
			wait = &pace;
		}
		memcpy(all, fds, n * sizeof(*fds));
		all[n] = (struct pollfd){ .fd = main_event, .events = POLLIN };
		main_waits = true;
		if (!asleep)
			pass_turn();
		pthread_mutex_unlock(&lock);
		rc = real_ppoll(all, n + 1, wait, NULL);
		pthread_mutex_lock(&lock);
		main_waits = false;
		if (rc > 0 && all[n].revents && read(main_event, &count, sizeof(count)) < 0 &&
		    errno != EAGAIN)
			perror("vtime: cannot read an eventfd");
		if (!rc && wait && all_asleep()) {
			advance(deadline);
			totals.warps++;
			break;
		}
	}
	main_told = false;
	pthread_mutex_unlock(&lock);
	return rc;
}

VISIBLE int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	if (!real_ppoll)
		order_init();
	if (!active || !is_main())
		return real_ppoll(fds, n, timeout, mask);
	return wait_in_main_loop(fds, n, timeout);
}

VISIBLE int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask, size_t size)
{
	(void)size;
	return ppoll(fds, n, timeout, mask);
}

static void *real(const char *name, const char *version)
{
	void *found = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);

	if (!found) {
		fprintf(stderr, "vtime: error: this C library has no %s\n", name);
		_exit(1);
	}
	return found;
}

/* Whether libc's callers get here: else QEMU's threads would not wait for their turns. */
bool order_is_preloaded(void)
{
	return dlsym(RTLD_DEFAULT, "pthread_cond_broadcast") == (void *)pthread_cond_broadcast;
}

/* Takes control: from now on time is virtual, and begins at the host's. */
void order_start(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	order_init();
	origin_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	main_thread = pthread_self();
	main_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	active = true;
}

static void order_init(void)
{
	/* By their versions: without one, an older condition variable is found. */
	real_cond_wait = real("pthread_cond_wait", "GLIBC_2.3.2");
	real_cond_broadcast = real("pthread_cond_broadcast", "GLIBC_2.3.2");
	real_write = real("write", NULL);
	real_ppoll = real("ppoll", NULL);
}
