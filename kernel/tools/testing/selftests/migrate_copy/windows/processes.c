// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes and CPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>

#include "windows.h"

void act_kill_mover(struct scene *s)
{
	require(!kill(s->mover, SIGKILL), "cannot kill");
}

static void cgroup_set(const char *name, const char *value)
{
	int err = cgroup_make("test", "+memory") ?: cgroup_write("test", name, value);

	require(!err, "cgroup, %s: %s", name, strerror(-err));
}

static void cgroup_take(pid_t pid)
{
	char text[24];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_set("cgroup.procs", text);
}

/* The mover is frozen: no other task may have to wait for it. */
void before_freeze(struct scene *s)
{
	mover_fork(s);
	cgroup_take(s->mover);
}

static void *thaw_main(void *arg)
{
	struct scene *s = arg;

	/* It has been let go, and cannot leave: all of it must be usable. */
	usleep((GRACE_MS + 300) * 1000);
	check_content(s);
	cgroup_set("cgroup.freeze", "0");
	return NULL;
}

void act_freeze(struct scene *s)
{
	static pthread_t thread;

	cgroup_set("cgroup.freeze", "1");
	require(!pthread_create(&thread, NULL, thaw_main, s), "no thread");
}

void before_suspend(struct scene *s)
{
	if (!file_exists("/sys/power/pm_test"))
		skip("this kernel cannot suspend");
}

/* It waits for the migration, whose helpers go on working for it. */
void act_suspend(struct scene *s)
{
	int err = suspend_tasks(GATE_MS);

	require(!err, "suspend: %s", strerror(-err));
}

/* It gives up, as nobody is frozen who migrates. */
void act_suspend_fails(struct scene *s)
{
	int err = suspend_tasks(GRACE_MS);

	require(err == -EBUSY, "suspend: %s", strerror(-err));
}

/* Of a process whose memory is to move: it has what it needs. */
static void child_ready(const int *ready)
{
	if (write(ready[1], "r", 1) != 1)
		_exit(1);
}

static void victim_await(struct scene *s, const int *ready)
{
	char byte;

	/* The child's end of the pipe is the last one: it may have died. */
	close(ready[1]);
	require(read(ready[0], &byte, 1) == 1, "no process to be moved");
	close(ready[0]);
	s->victim = s->child;
}

/* A child whose memory moves, while others have it, too. */
static void child_make(struct scene *s, void (*last)(int signal))
{
	int ready[2];

	require(!pipe(ready), "no pipe");
	s->child = fork();
	if (!s->child) {
		signal(SIGUSR1, last);
		for (size_t i = 0; i < s->r.size; i += PAGE)
			touch(s->r.map + i);
		child_ready(ready);
		for (;;)
			pause();
	}
	victim_await(s, ready);
	mover_fork(s);
}

void before_exit(struct scene *s)
{
	child_make(s, SIG_DFL);
}

/* It dies. */
void act_exit(struct scene *s)
{
	kill(s->child, SIGKILL);
	waitpid(s->child, NULL, 0);
}

static void exec_other(int signal)
{
	(void)signal;
	execl("/bin/true", "true", NULL);
	_exit(1);
}

void before_exec(struct scene *s)
{
	child_make(s, exec_other);
}

/* It goes on in another program, and other memory. */
void act_exec(struct scene *s)
{
	int status;

	kill(s->child, SIGUSR1);
	require(waitpid(s->child, &status, 0) == s->child && !status,
		"it cannot execute anything");
}

/* A process whose memory moves may have next to nothing any more. */
void before_limit(struct scene *s)
{
	int ready[2];

	require(!pipe(ready), "no pipe");
	cgroup_set("memory.max", "max");
	s->child = fork();
	if (!s->child) {
		cgroup_set("cgroup.procs", "0");
		/* Its own copy of it, at its cgroup's expense, to be moved. */
		node_bind(s->from);
		pattern_fill(s->r.map, s->r.size, OTHER_SEED(s), 0, 0);
		child_ready(ready);
		while (!pattern_bad(s->r.map, s->r.size, OTHER_SEED(s), 0, 0))
			;
		_exit(1);
	}
	victim_await(s, ready);
	mover_fork(s);
}

void act_limit(struct scene *s)
{
	uint64_t kills = file_count(cgroup_file("test", "memory.events"), "oom_kill");
	int status;

	cgroup_write("test", "memory.swap.max", "0");
	cgroup_set("memory.max", "65536");
	/* What moves cannot be reclaimed: it has been killed for that. */
	require(file_count(cgroup_file("test", "memory.events"), "oom_kill") > kills,
		"nobody is killed");
	require(waitpid(s->child, &status, 0) == s->child, "no child");
	right(WIFSIGNALED(status), "its memory was wrong");
	cgroup_set("memory.max", "max");
}

/*
 * The first CPU cannot go. Whose CPU is to go gets another one: a helper does if
 * the mover is on the first. Nobody else stays there: while the mover waits for the
 * helper it may keep that CPU, and who looks for the helper would find the gate open.
 */
void before_cpu_offline(struct scene *s)
{
	cpu_set_t cpus;
	int cpu;

	if (BIT(s->window) & W_HELPING) {
		s->on_first = true;
		return;
	}
	CPU_ZERO(&cpus);
	for (cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
		CPU_SET(cpu, &cpus);
	require(!sched_setaffinity(0, sizeof(cpus), &cpus), "cannot move: %s",
		strerror(errno));
}

/* The CPU of a helper that is amid a chunk, or else that of the migration. */
void act_cpu_offline(struct scene *s)
{
	int task, cpu, err;

	require(sscanf(s->where, "%*s %d %d", &task, &cpu) == 2,
		"who stands there? %s", s->where);
	/* A helper that has a batch may be on the first one nevertheless. */
	if (!cpu) {
		s->unlucky = true;
		return;
	}
	err = cpu_set_online(cpu, false);
	require(!err, "CPU %d does not go: %s", cpu, strerror(-err));
	require(!cpu_set_online(cpu, true), "CPU %d does not come back", cpu);
}

/* The knobs are turned while it is on its way. */
void act_knobs(struct scene *s)
{
	static const char * const words[][2] = {
		{ KNOB_DIR "/enabled", "0" }, { KNOB_DIR "/enabled", "1" },
		{ KNOB_DIR "/max_helpers", "0" }, { KNOB_DIR "/max_helpers", "3" },
		{ TEST_DIR "/chunk_kb", "2048" },
		{ TEST_DIR "/parallel_batches", "0" },
		{ KNOB_DIR "/enabled", "0" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		require(!file_write(words[i][0], words[i][1]), "no knob %s", words[i][0]);
	act_store(s);
}
