// SPDX-License-Identifier: GPL-2.0-only
/* Blocks of memory, which go offline as a whole. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "program.h"

#define MEMORY	"/sys/devices/system/memory"
#define NODES	"/sys/devices/system/node"

/* Tries the blocks of @node until one goes offline; writes the path of its state. */
bool take_block(unsigned long node, char *state)
{
	char path[sizeof(NODES) + 40];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), NODES "/node%lu", node);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "memory", 6) || !isdigit(entry->d_name[6]))
			continue;
		snprintf(state, BLOCK_PATH, MEMORY "/%.20s/state", entry->d_name);
		found = write_text(state, "offline") == 0;
	}
	if (dir)
		closedir(dir);
	if (!found)
		state[0] = '\0';
	return found;
}

/* Brings a block online as it was at boot. */
void return_block(const char *state)
{
	char now[32];

	/* It is not offline, if something went wrong. */
	if (read_text(state, now, sizeof(now)) == 0 && strcmp(now, "offline"))
		write_text(state, "offline");
	if (write_text(state, "online") < 0)
		fprintf(stderr, "%s: cannot bring %s online\n", program_name, state);
}

/* Returns the bytes of a block, 0 where memory has none. */
unsigned long block_bytes(void)
{
	unsigned long bytes;
	char text[32];

	if (read_text(MEMORY "/block_size_bytes", text, sizeof(text)) < 0 ||
	    sscanf(text, "%lx", &bytes) != 1)
		return 0;
	return bytes;
}
