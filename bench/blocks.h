/* SPDX-License-Identifier: GPL-2.0-only */
/* blocks.c: memory that goes offline as a whole. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdbool.h>

/* The path of the state of a block. */
#define BLOCK_PATH	72

bool take_block(unsigned long node, char *state);
void return_block(const char *state);
unsigned long block_bytes(void);

#endif
