// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an administrator does so that memory leaves a node: takes the node from a
 * cpuset, or takes the memory itself offline.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "blocks.h"
#include "workbench.h"

#define MEMS		SERVING "/cpuset.mems"
#define MAX_BLOCKS	64

/* Puts the server into a cgroup with a controller. */
bool place_server(const char *controller)
{
	char text[32];

	snprintf(text, sizeof(text), "+%s", controller);
	if (write_text(CGROUPS "/cgroup.subtree_control", text) == 0 &&
	    (mkdir(SERVING, 0755) == 0 || errno == EEXIST)) {
		snprintf(text, sizeof(text), "%d", server);
		if (write_text(SERVING "/cgroup.procs", text) == 0)
			return true;
	}
	fail("cannot put the server into a cgroup with %s: %s", controller, strerror(errno));
	return false;
}

/* --- cpuset.mems of the server's cgroup --- */

static bool prepare_cpuset(const struct cell *cell)
{
	(void)cell;
	return place_server("cpuset");
}

static bool set_mems(const char *text)
{
	/* It returns when all pages have been tried. */
	if (write_text(MEMS, text) == 0)
		return true;
	fail("cannot write to " MEMS ": %s", strerror(errno));
	return false;
}

static bool run_cpuset(const struct move *move)
{
	char text[16];

	snprintf(text, sizeof(text), "%lu", move->to);
	return set_mems(text);
}

/* All nodes are allowed again; nothing moves by that. */
static bool undo_cpuset(void)
{
	return set_mems("\n");
}

/* Also after a run that failed: the next server is to have all nodes. */
static void end_cpuset(void)
{
	write_text(MEMS, "\n");
}

const struct way by_cpuset = {
	.name = "cpuset", .run = run_cpuset, .prepare = prepare_cpuset, .undo = undo_cpuset,
	.end = end_cpuset,
};

/* --- memory offlining --- */

static char blocks[MAX_BLOCKS][BLOCK_PATH];
static unsigned long nr_blocks;

static bool set_blocks(const char *state)
{
	for (unsigned long i = 0; i < nr_blocks; i++) {
		if (write_text(blocks[i], state) == 0)
			continue;
		fail("cannot write %s to %s: %s", state, blocks[i], strerror(errno));
		return false;
	}
	return true;
}

/*
 * Blocks for all that the server will have, as a zone for movable pages alone: user
 * memory is taken from that zone first, and it can always go offline.
 */
static bool prepare_offlining(const struct cell *cell)
{
	unsigned long bytes = block_bytes(), wanted;

	if (!bytes) {
		fail("memory has no blocks that could go offline");
		return false;
	}
	wanted = ((cell->mb + cell->mb / 4) << 20) / bytes + 1;
	for (nr_blocks = 0; nr_blocks < wanted && nr_blocks < MAX_BLOCKS; nr_blocks++)
		if (!take_block(cell->from, blocks[nr_blocks]))
			break;
	if (nr_blocks < wanted)
		fail("%lu of %lu blocks of node %lu can go offline", nr_blocks, wanted, cell->from);
	return !failed() && set_blocks("online_movable");
}

static bool run_offlining(const struct move *move)
{
	(void)move;
	return set_blocks("offline");
}

static bool undo_offlining(void)
{
	return set_blocks("online_movable");
}

static void end_offlining(void)
{
	while (nr_blocks)
		return_block(blocks[--nr_blocks]);
}

const struct way by_offlining = {
	.name = "offlining", .run = run_offlining, .prepare = prepare_offlining,
	.undo = undo_offlining, .end = end_offlining,
};
