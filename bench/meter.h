/* SPDX-License-Identifier: GPL-2.0-only */
/* What is measured of moves besides their speed: each in a file meter_NAME.c of its own. */
#ifndef METER_H
#define METER_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_METERS	8
#define MAX_FIGURES	4

/*
 * Something that is measured if a cell asks for it. It begins before the moves
 * from one look at the content to the next one, and ends after them. What it
 * adds to its figures is printed under their names, as means over the moves of
 * a repetition.
 */
struct meter {
	const char *option;	/* --option N or, without most, --option */
	char letter;		/* the same as a letter, 0 for none */
	unsigned long most;	/* of N; with 0 it is not measured */
	const char *help;	/* whole lines of the help text */
	bool each_move;		/* a repetition has the moves one by one */
	const char *names[MAX_FIGURES];		/* NULL after the last one */
	void (*begin)(unsigned long number, uint64_t *figures);
	void (*end)(uint64_t *figures);
};

extern const struct meter *meters[MAX_METERS];
extern int nr_meters;

void add_meter(const struct meter *meter);

/* Makes movebench know a meter, by its file being there. */
#define METER(meter)							\
	static void __attribute__((constructor)) add_##meter(void)	\
	{								\
		add_meter(&meter);					\
	}

#endif
