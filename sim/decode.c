// SPDX-License-Identifier: GPL-2.0-only
/* Finds the x86-64 instructions whose cost is not that of any other. */
#include <string.h>

#include "vtime.h"

/* nopl MARK+n(%rax), which no compiler writes: bench/mark.h. */
static const uint8_t mark_opcode[] = { 0x0f, 0x1f, 0x80 };
#define MARK_HIGH	0x50484dU

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e:	/* segments, and hints of branches */
	case 0x64: case 0x65:
	case 0x66: case 0x67:
	case 0xf0: case 0xf2: case 0xf3:
		return true;
	}
	return (byte & 0xf0) == 0x40;			/* REX */
}

/* cmp with a prefix that changes nothing, which no compiler writes: bench/mark.h. */
static bool is_miss(const uint8_t *bytes, size_t len)
{
	return len > 3 && bytes[0] == 0x3e && (bytes[1] & 0xf8) == 0x48 && bytes[2] == 0x3b &&
	       bytes[3] >> 6 != 3;
}

struct decoded decode(const uint8_t *bytes, size_t len)
{
	struct decoded found = { .kind = PLAIN };
	bool repeated = false, locked = false, wide = false, narrow = false;
	uint32_t number;
	size_t i;

	if (len == 7 && !memcmp(bytes, mark_opcode, sizeof(mark_opcode))) {
		memcpy(&number, bytes + 3, sizeof(number));
		if (number >> 8 == MARK_HIGH) {
			found.kind = MARK;
			found.mark = number & 0xff;
		}
		return found;
	}
	if (is_miss(bytes, len)) {
		found.kind = MISS;
		return found;
	}
	for (i = 0; i < len && is_prefix(bytes[i]); i++) {
		repeated |= bytes[i] == 0xf2 || bytes[i] == 0xf3;
		locked |= bytes[i] == 0xf0;
		narrow |= bytes[i] == 0x66;
		wide |= (bytes[i] & 0xf8) == 0x48;
	}
	if (i == len)
		return found;
	if (repeated && (bytes[i] & 0xfe) == 0xa4)
		found.kind = COPY;
	else if (repeated && (bytes[i] & 0xfe) == 0xaa)
		found.kind = FILL;
	else if (len == 2 && bytes[0] == 0xf3 && bytes[1] == 0x90)
		found.kind = PAUSE;
	/* xchg with memory locks without being told to. */
	else if (locked || ((bytes[i] & 0xfe) == 0x86 && i + 1 < len && bytes[i + 1] >> 6 != 3))
		found.kind = LOCKED;
	if (found.kind == COPY || found.kind == FILL)
		found.width = !(bytes[i] & 1) ? 1 : wide ? 8 : narrow ? 2 : 4;
	return found;
}

bool is_call(const uint8_t *bytes, size_t len)
{
	size_t i = 0;

	while (i < len && is_prefix(bytes[i]))
		i++;
	if (i == len)
		return false;
	/* call rel32, and call r/m64 */
	return bytes[i] == 0xe8 ||
	       (bytes[i] == 0xff && i + 1 < len && (bytes[i + 1] >> 3 & 7) == 2);
}

/* Where a call goes that says so itself, 0 for others. */
uint64_t call_target(const uint8_t *bytes, size_t len, uint64_t next_pc)
{
	int32_t offset;

	if (len != 5 || bytes[0] != 0xe8)
		return 0;
	memcpy(&offset, bytes + 1, sizeof(offset));
	return next_pc + offset;
}
