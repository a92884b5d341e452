// SPDX-License-Identifier: GPL-2.0-only
/* Files of the kernel: every setting changed is put back when the program ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define MAX_SETTINGS		64

static struct {
	char path[256];
	char original[64];
} settings[MAX_SETTINGS];
int nr_settings;

int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length;

	if (fd < 0)
		return -1;
	length = read(fd, text, size - 1);
	close(fd);
	if (length < 0)
		return -1;
	while (length > 0 && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	return 0;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t length;
	int error;

	if (fd < 0)
		return -1;
	length = write(fd, text, strlen(text));
	error = errno;
	close(fd);
	errno = error;
	return length < 0 ? -1 : 0;
}

/* "always [madvise] never" is written back as "madvise". */
static void chosen_word(char *text)
{
	char *open_bracket = strchr(text, '[');
	char *end;

	if (!open_bracket)
		return;
	end = strchr(open_bracket, ']');
	if (!end)
		return;
	*end = '\0';
	memmove(text, open_bracket + 1, strlen(open_bracket + 1) + 1);
}

int set_sysfs(const char *path, const char *value)
{
	char current[64];
	int i;

	if (read_text(path, current, sizeof(current)) < 0)
		return -1;
	chosen_word(current);
	if (!strcmp(current, value))
		return 0;

	for (i = 0; i < nr_settings; i++)
		if (!strcmp(settings[i].path, path))
			break;
	if (i == nr_settings) {
		if (nr_settings == MAX_SETTINGS) {
			errno = ENOSPC;
			return -1;
		}
		snprintf(settings[i].path, sizeof(settings[i].path), "%s", path);
		snprintf(settings[i].original, sizeof(settings[i].original), "%s", current);
		nr_settings++;
	}
	return write_text(path, value);
}

/* Undoes all but the first @keep settings, the last one first. */
void restore_sysfs(int keep)
{
	while (nr_settings > keep) {
		nr_settings--;
		if (write_text(settings[nr_settings].path, settings[nr_settings].original) < 0)
			fprintf(stderr, "%s: cannot put %s back to %s: %s\n", program_name,
				settings[nr_settings].path, settings[nr_settings].original,
				strerror(errno));
	}
}
