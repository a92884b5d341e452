# SPDX-License-Identifier: GPL-2.0-only
"""What movebench writes into memory, and how it looks at it again."""

import subprocess
from pathlib import Path

import pytest

from pagehaul.paths import REPO

PAGES = 5
PAGE_WORDS = 512

PROGRAM = r"""
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "region.c"

const char program_name[] = "test";
long workers = 3;

uint64_t mix(uint64_t x) { return x * 0x9e3779b97f4a7c15ULL; }
void fail(const char *format, ...) { (void)format; abort(); }
bool failed(void) { return false; }
bool prepare_reason(const struct cell *cell) { return cell; }
void clean_up_reason(void) { }
bool bind_memory(void *start, size_t bytes, unsigned long node)
{ return start && bytes && !node; }
int nr_settings;
int read_text(const char *path, char *text, size_t size) { return path && text && size ? -1 : 0; }
int set_sysfs(const char *path, const char *value) { return path && value ? -1 : 0; }
void restore_sysfs(int keep) { (void)keep; }

/* Prints how many words are wrong at each look; words of the arguments are changed before it. */
int main(int argc, char **argv)
{
    region.bytes = PAGES * BASE_SIZE;
    region.start = aligned_alloc(BASE_SIZE, region.bytes);
    region.base = 12345;
    for (size_t page = 0; page < PAGES; page++)
        fill_page(region.start + page * WORDS,
                  region.base + page * WORDS * PATTERN_STEP);
    for (size_t i = 0; i < PAGES * WORDS; i++)
        if (region.start[i] != 12345 + i * PATTERN_STEP)
            return 1;
    for (int i = 1; i < argc; i++)
        region.start[atoi(argv[i])] ^= 1ULL << (i * 7 % 64);
    printf("%" PRIu64 " ", verify_region(mix(1)));
    printf("%" PRIu64 "\n", verify_region(mix(2)));
    return 0;
}
"""


@pytest.fixture(scope="module")
def looker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("content")
    (directory / "main.c").write_text(PROGRAM)
    program = directory / "look"
    words = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-static", f"-DPAGES={PAGES}"]
    sources = [directory / "main.c", REPO / "bench/hugetlb.c"]
    command = ["gcc", *words, f"-I{REPO / 'bench'}", "-o", program, *sources]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [0],
        [PAGES * PAGE_WORDS - 1],
        # Each word of a vector, and pages of each thread.
        [4, 5, 6, 7],
        [PAGE_WORDS - 1, PAGE_WORDS, 2 * PAGE_WORDS + 17, 4 * PAGE_WORDS],
    ],
)
def test_every_word_is_looked_at_and_written_again(looker: Path, wrong: list[int]) -> None:
    found = subprocess.run([looker, *map(str, wrong)], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(len(wrong)), "0"]
    assert found.stderr.count("wrong content") == (len(wrong) > 0) * len(
        {3 * (index // PAGE_WORDS) // PAGES for index in wrong}
    )
