// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somebody wants huge pages on a node whose free memory is in pieces, and has it
 * compacted: the kernel moves what is between them, the server's pages among it. How many
 * pages that are depends on where the pieces are; a fault that compacts by itself may
 * give up before.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workbench.h"

#define HUGE_FAULTS	"vmstat.thp_fault_alloc"
#define THP		"/sys/kernel/mm/transparent_hugepage/"
#define PROACTIVE	"/proc/sys/vm/compaction_proactiveness"

static pid_t holder;		/* has what is between the pieces */
static struct move wanted;	/* of the last scene */

static void drop_pieces(void)
{
	if (holder > 0) {
		kill(holder, SIGKILL);
		waitpid(holder, NULL, 0);
	}
	holder = 0;
}

/*
 * Leaves the free memory of a node in pieces, with room for so much. Another process does
 * that: the client is not to be interrupted for each page of it that moves.
 */
static bool make_pieces(unsigned long node, unsigned long room_kb)
{
	int ready[2];
	char byte;

	drop_pieces();
	if (pipe(ready) < 0) {
		fail("cannot make a pipe: %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	holder = fork();
	if (!holder) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		if (fragment_node(node, room_kb, false) && write(ready[1], "", 1) == 1)
			for (;;)
				pause();
		fprintf(stderr, "workbench: %s\n", failure());
		_exit(EXIT_FAILURE);
	}
	close(ready[1]);
	if (holder < 0 || !read_all(ready[0], &byte, 1))
		fail("the free memory of node %lu cannot be had in pieces", node);
	close(ready[0]);
	return !failed();
}

static bool prepare_compaction(const struct cell *cell)
{
	/* Nobody else is to compact the node. */
	if (set_sysfs(PROACTIVE, "0") < 0 || set_sysfs(THP "enabled", "madvise") < 0 ||
	    set_sysfs(THP "defrag", "madvise") < 0)
		fail("cannot set how huge pages are made: %s", strerror(errno));
	/* The server gets the pieces, too. */
	return !failed() && make_pieces(cell->from, cell->mb << 10);
}

/* The server has filled pieces of the node: what is left is in pieces again. */
static bool begin_compaction(const struct move *move)
{
	wanted = *move;
	return make_pieces(move->from, move->bytes >> 10);
}

static bool run_compaction(const struct move *move)
{
	return compact_node(move->from);
}

/* Has the huge pages, and gives them back. */
static bool take_huge_pages(void)
{
	uint64_t before = count_now(HUGE_FAULTS), huge;
	size_t bytes = wanted.bytes, room = bytes + HUGE_SIZE;
	char *map, *start;

	map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED) {
		fail("cannot map memory: %s", strerror(errno));
		return false;
	}
	start = (char *)(((uintptr_t)map + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE);
	if (madvise(start, bytes, MADV_HUGEPAGE) < 0)
		fail("cannot ask for huge pages: %s", strerror(errno));
	if (!failed() && bind_memory(start, bytes, wanted.from))
		for (size_t at = 0; at < bytes; at += HUGE_SIZE)
			start[at] = 1;
	munmap(map, room);
	huge = (count_now(HUGE_FAULTS) - before) * HUGE_SIZE;
	if (!failed() && huge < bytes / 10 * 9)
		fail("only %lu of %zu bytes are of huge pages", (unsigned long)huge, bytes);
	return !failed();
}

const struct way by_compaction = {
	.name = "compaction", .begin = begin_compaction, .run = run_compaction,
	.undo = take_huge_pages, .counter = "vmstat.pgmigrate_success", .counts = BASE_SIZE,
	.prepare = prepare_compaction, .end = drop_pieces, .once = true,
};
