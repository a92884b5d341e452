// SPDX-License-Identifier: GPL-2.0-only
/* On which node a page is, by the number of its frame: see src/pagehaul/move/frames.py. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blocks.h"
#include "workbench.h"

#define NODES		"/sys/devices/system/node"
#define MAX_BLOCKS	(1UL << 16)
#define ENTRIES		4096
#define PRESENT		(1ULL << 63)
#define FRAME		((1ULL << 55) - 1)

struct frames {
	int pagemap;
	uint64_t per_block;
	bool near[MAX_BLOCKS];	/* of memory: on the node */
};

static bool read_blocks(struct frames *frames, unsigned long node)
{
	char path[sizeof(NODES) + 40];
	struct dirent *entry;
	unsigned long block;
	DIR *dir;

	snprintf(path, sizeof(path), NODES "/node%lu", node);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "memory%lu", &block) == 1 && block < MAX_BLOCKS)
			frames->near[block] = true;
	if (dir)
		closedir(dir);
	frames->per_block = block_bytes() / BASE_SIZE;
	return dir && frames->per_block;
}

/* Returns what tells whether pages of a process are on @node; NULL after an error. */
struct frames *open_frames(pid_t pid, unsigned long node)
{
	struct frames *frames = calloc(1, sizeof(*frames));
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	if (!frames)
		fail("out of memory");
	else if ((frames->pagemap = open(path, O_RDONLY)) < 0)
		fail("cannot read %s: %s", path, strerror(errno));
	else if (!read_blocks(frames, node))
		fail("the kernel does not tell which memory is on node %lu", node);
	if (failed()) {
		close_frames(frames);
		return NULL;
	}
	return frames;
}

void close_frames(struct frames *frames)
{
	if (frames && frames->pagemap >= 0)
		close(frames->pagemap);
	free(frames);
}

static bool is_near(const struct frames *frames, uint64_t entry)
{
	uint64_t block = (entry & FRAME) / frames->per_block;

	return entry & PRESENT && block < MAX_BLOCKS && frames->near[block];
}

/* Keeps only those pages that are on the node; they ascend. */
bool keep_near(struct frames *frames, struct pages *pages)
{
	uint64_t entries[ENTRIES];
	size_t nr = 0, at = 0;

	while (at < pages->nr) {
		uintptr_t start = (uintptr_t)pages->addresses[at] / BASE_SIZE;
		ssize_t length = pread(frames->pagemap, entries, sizeof(entries), start * 8);

		if (length <= 0) {
			fail("cannot read pagemap: %s", strerror(errno));
			return false;
		}
		for (; at < pages->nr; at++) {
			size_t place = (uintptr_t)pages->addresses[at] / BASE_SIZE - start;

			if (place >= (size_t)length / 8)
				break;
			if (is_near(frames, entries[place]))
				pages->addresses[nr++] = pages->addresses[at];
		}
	}
	pages->nr = nr;
	return true;
}
