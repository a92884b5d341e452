// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somebody wants huge pages on a node whose free memory is in pieces, and has it
 * compacted: the kernel moves what is between them, the server's pages among it. How many
 * pages that are depends on where the pieces are; a fault that compacts by itself may
 * give up before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "workbench.h"

#define HUGE_FAULTS	"vmstat.thp_fault_alloc"
#define THP		"/sys/kernel/mm/transparent_hugepage/"

static bool prepare_compaction(const struct cell *cell)
{
	if (set_sysfs(THP "enabled", "madvise") < 0 || set_sysfs(THP "defrag", "madvise") < 0)
		fail("cannot have huge pages: %s", strerror(errno));
	/* The server gets the pieces, too. */
	return !failed() && fragment_node(cell->from, cell->mb << 10, false);
}

/* The server has filled pieces of the node: what is left is in pieces again. */
static bool begin_compaction(const struct move *move)
{
	drop_fragments();
	return fragment_node(move->from, move->bytes >> 10, false);
}

static bool compact(unsigned long node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/compact", node);
	if (write_text(path, "1") < 0)
		fail("cannot compact node %lu: %s", node, strerror(errno));
	return !failed();
}

static bool run_compaction(const struct move *move)
{
	uint64_t before = count_now(HUGE_FAULTS), huge;
	size_t bytes = move->bytes, room = bytes + HUGE_SIZE;
	char *map, *start;

	map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED) {
		fail("cannot map memory: %s", strerror(errno));
		return false;
	}
	start = (char *)(((uintptr_t)map + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE);
	if (madvise(start, bytes, MADV_HUGEPAGE) < 0)
		fail("cannot ask for huge pages: %s", strerror(errno));
	if (!failed() && compact(move->from) && bind_memory(start, bytes, move->from))
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
	.counter = "vmstat.pgmigrate_success", .counts = BASE_SIZE,
	.prepare = prepare_compaction, .end = drop_fragments, .once = true,
};
