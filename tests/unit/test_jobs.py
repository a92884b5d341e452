# SPDX-License-Identifier: GPL-2.0-only
"""What programs of workbench do: it is right, and memory that is not as it was left is noticed."""

import subprocess
from collections import deque
from collections.abc import Callable

import pytest

from pagehaul.paths import REPO

BENCH = REPO / "bench"

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"

struct crew crew = { .nr_workers = 3, .cold = 10 };
const char program_name[] = "jobs";

int main(int argc, char **argv)
{
	const struct job *jobs[] = { &touch_pages, &update_words, &search_graph };
	const struct job *job = jobs[atoi(argv[1])];
	size_t steps = atoi(argv[2]);
	struct load sum = { .nr = 0 };

	crew.bytes = 1 << 20;
	crew.memory = aligned_alloc(BASE_SIZE, crew.bytes);
	memset(crew.memory, 0, crew.bytes);
	for (unsigned int i = 0; i < crew.nr_workers; i++)
		crew.workers[i] = (struct worker) { .number = i, .seed = i + 1 };
	if (!job->prepare())
		return 2;
	job->fill();
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		struct worker *worker = &crew.workers[i];

		if (job->begin)
			job->begin(worker);
		for (size_t step = 0; step < steps * (i + 1); step++) {
			job->step(worker, step >= steps);
			worker->steps[step >= steps]++;
		}
		sum.wrong += worker->load.wrong;
	}
	if (argc == 4)
		((char *)crew.memory)[atoi(argv[3])] ^= 4;
	else
		fwrite(crew.memory, 1, crew.bytes, stdout);
	job->check(&sum);
	return sum.wrong > 0;
}
"""

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("jobs")
    (directory / "main.c").write_text(MAIN)
    sources = [directory / "main.c", *sorted(BENCH.glob("job_*.c"))]
    sources += [BENCH / "program.c", BENCH / "turns.c"]
    command = ["gcc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Werror", f"-I{BENCH}", "-pthread"]
    subprocess.run([*command, "-o", directory / "jobs", *map(str, sources)], check=True)

    def run(*numbers: int) -> subprocess.CompletedProcess[bytes]:
        words = [str(directory / "jobs"), *map(str, numbers)]
        return subprocess.run(words, capture_output=True, check=False)

    return run


PAGES, GUPS, BFS = range(3)


@pytest.mark.parametrize("job", [PAGES, GUPS, BFS])
def test_what_a_job_leaves_is_right_and_a_flipped_bit_is_noticed(jobs: Run, job: int) -> None:
    assert jobs(job, 100).returncode == 0
    for at in (0, 4096, 300_000, 500_000):
        assert jobs(job, 100, at).returncode == 1, at


def test_a_search_finds_what_another_one_finds(jobs: Run) -> None:
    memory = memoryview(jobs(BFS, 300).stdout).cast("I")
    vertices = len(memory) // (16 + 2 * 3) & ~1
    edges = memory[: 16 * vertices]
    # The first search is over after as many steps: one of 16 vertices each.
    assert vertices < 300 * 16 * 3
    via, queue = (memory[at * vertices :][:vertices] for at in (16, 17))
    root = queue[0]
    depths, waiting = {root: 0}, deque([root])
    while waiting:
        vertex = waiting.popleft()
        for target in edges[16 * vertex : 16 * vertex + 16]:
            if target not in depths:
                depths[target] = depths[vertex] + 1
                waiting.append(target)
    found = [vertex for vertex in range(vertices) if via[vertex] < 16 * vertices]
    assert len(found) > vertices // 4
    assert all(depths[each] == depths[via[each] // 16] + 1 for each in found)
    assert all(edges[via[each]] == each for each in found)


def test_the_hot_half_is_another_one_after_the_shift(jobs: Run) -> None:
    words = memoryview(jobs(GUPS, 10).stdout).cast("Q")
    changed = [at for at, word in enumerate(words) if word != at]
    first = sum(at < len(words) // 2 for at in changed) / len(changed)
    # Of three threads one has no steps after the shift, one as many, and one twice as many.
    assert first == pytest.approx((3 * 0.9 + 3 * 0.1) / 6, abs=0.03)
