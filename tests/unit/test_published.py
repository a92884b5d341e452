# SPDX-License-Identifier: GPL-2.0-only
"""The published figures, against the discussions they come from."""

import pytest

from pagehaul.bench import published


def test_every_figure_is_there_and_has_a_known_source() -> None:
    figures = published.figures()
    assert len(figures) == 689
    assert {figure.source for figure in figures} == set(published.SOURCES)


def test_folio_count_ratios() -> None:
    huge = published.by_folio_count(2048)
    # "256 8.43 7.16 14.59 28.14 48.78 76.88 92.28"
    assert huge[256, 1] == pytest.approx(7.16 / 8.43)
    assert huge[256, 32] == pytest.approx(92.28 / 8.43)
    assert sorted({threads for _, threads in huge}) == [1, 2, 4, 8, 16, 32]
    # "32 5.43 4.90 5.65 ...": the idle machine's row, not one of the busy ones'.
    assert published.by_folio_count(64)[32, 2] == pytest.approx(5.65 / 5.43)
    assert published.by_folio_count(128) == {}


def test_folio_size_throughputs() -> None:
    cpu = published.by_folio_size()
    assert len(cpu) == 45
    assert cpu[4, 1] == 1.72
    assert cpu[1024, 16] == 12.07
    assert published.by_folio_size("DMA offload")[2048, 16] == 55.45


def test_placement_throughputs() -> None:
    placed = published.by_placement()
    assert len(placed) == 10
    assert (placed["spread", 8], placed["fill", 8]) == (37.07, 11.08)


def test_ratios_to_one_thread_are_those_of_the_models_machine() -> None:
    grace = published.to_one("grace", published.THREADS, 2048, 256)
    # "256 8.43 7.16 14.59 28.14 48.78 76.88 92.28"
    assert grace[32] == pytest.approx(92.28 / 7.16)
    assert published.to_one("grace", published.THREADS, 2048, 3) == {}
    assert published.to_one("grace", published.CHANNELS, 2048, 256) == {}
    zen = published.to_one("epyc-zen3", published.THREADS, 4, 1)
    assert zen == pytest.approx(
        {1: 1.0, 2: 1.93 / 1.72, 4: 2.0 / 1.72, 8: 2.07 / 1.72, 16: 2.04 / 1.72}
    )
    assert published.to_one("epyc-zen3", "fill", 2048, 1)[16] == pytest.approx(17.91 / 10.44)
    assert published.to_one("epyc-zen3", "fill", 4, 1) == {}
    assert published.to_one("plain", published.THREADS, 2048, 256) == {}


def test_classic_is_the_median_of_two_runs() -> None:
    classic = published.classic()
    vanilla, one = classic["195 huge pages", "Vanilla"]
    assert vanilla == pytest.approx((1.513769 + 1.484318) / 2)
    assert one == 1.0
    shared = "THP migration improvements + Multi threaded page copy"
    gbps, ratio = classic["195 huge pages", shared]
    assert gbps == pytest.approx((7.064254 + 4.435694) / 2)
    assert ratio == pytest.approx(gbps / vanilla)


def test_uncertainties_are_kept() -> None:
    (figure,) = (
        f
        for f in published.select("garg-2025", "CPU threads")
        if (f.row, f.column) == ("8 threads", "4K folio")
    )
    assert (figure.value, figure.plus_minus, figure.unit) == (2.07, 0.08, "GB/s")


def test_throughput_tables_leave_out_other_units() -> None:
    tables = published.throughput_tables()
    assert len(tables) == 15
    assert {source for source, _, _ in tables} == {"yan-2025", "garg-2025", "khandual-2017"}
