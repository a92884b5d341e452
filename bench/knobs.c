// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's knobs, as a cell wants them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "knobs.h"
#include "program.h"

/* An option of a cell; @knobs has room for MAX_KNOBS. */
void add_knob(const char **knobs, int *nr, const char *text)
{
	if (!strchr(text, '=') || strstr(text, ".."))
		usage_error("%s is not NAME=VALUE", text);
	if (*nr == MAX_KNOBS)
		usage_error("more than %d knobs", MAX_KNOBS);
	knobs[(*nr)++] = text;
}

/* A number of something may be set that the machine does not have: NAME_live says what it has. */
static bool have_all(const char *path, const char *wanted)
{
	char live[300], text[64];

	snprintf(live, sizeof(live), "%s_live", path);
	if (read_text(live, text, sizeof(text)) < 0 || !strcmp(text, wanted))
		return true;
	fail("%s is %s, not %s", live, text, wanted);
	return false;
}

static const struct {
	const char *prefix;
	const char *dir;
} places[] = {
	{ SYSCTL_PREFIX, SYSCTL_DIR },
	{ MODULE_PREFIX, MODULE_DIR },
	{ DEBUG_PREFIX, DEBUG_DIR },
};

/* Where a knob is; moves *name behind the prefix that says so. */
static const char *knob_dir(const char **name)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t len = strlen(places[i].prefix);

		if (!strncmp(*name, places[i].prefix, len)) {
			*name += len;
			return places[i].dir;
		}
	}
	return MIGRATE_COPY_DIR;
}

struct nice {
	int value;
	int nr_threads;
};

static void renice(const char *pid, void *arg)
{
	struct nice *nice = arg;

	if (setpriority(PRIO_PROCESS, atoi(pid), nice->value) == 0)
		nice->nr_threads++;
}

/* @knob is NICE_PREFIX "NAME=VALUE", of the kernel threads whose names begin so. */
static bool set_nice(const char *knob)
{
	const char *setting = knob + strlen(NICE_PREFIX), *equals = strchr(setting, '=');
	struct nice nice = { .value = atoi(equals + 1) };
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)(equals - setting), setting);
	each_kernel_thread(name, renice, &nice);
	if (!nice.nr_threads)
		fail("there is no kernel thread %s to renice", name);
	return nice.nr_threads;
}

static bool is_nice(const char *knob)
{
	return !strncmp(knob, NICE_PREFIX, strlen(NICE_PREFIX));
}

/* Sets @nr knobs, each "NAME=VALUE"; nice values last, as other knobs start the threads. */
bool set_knobs(const char *const *knobs, int nr)
{
	for (int i = 0; i < nr; i++) {
		const char *name = knobs[i], *dir = knob_dir(&name);
		const char *equals = strchr(name, '=');
		char path[256];

		if (is_nice(name))
			continue;
		if (!strcmp(dir, DEBUG_DIR) && access(DEBUG_DIR, F_OK) < 0)
			mount("debugfs", DEBUGFS, "debugfs", 0, NULL);
		snprintf(path, sizeof(path), "%s/%.*s", dir, (int)(equals - name), name);
		if (set_sysfs(path, equals + 1) < 0) {
			fail("cannot set %s to %s: %s%s", path, equals + 1, strerror(errno),
			     errno == ENOENT ? " (a kernel without Pagehaul?)" : "");
			return false;
		}
		if (!have_all(path, equals + 1))
			return false;
	}
	for (int i = 0; i < nr; i++)
		if (is_nice(knobs[i]) && !set_nice(knobs[i]))
			return false;
	return true;
}
