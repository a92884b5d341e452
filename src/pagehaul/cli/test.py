# SPDX-License-Identifier: GPL-2.0-only
"""The `test` verb: runs everything that the project checks."""

import argparse
from functools import partial
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import bases
from pagehaul.kernel.bases import Base
from pagehaul.kernel.build import DEBUG_VARIANTS
from pagehaul.suites.apart import Piece, Stage, run_pieces
from pagehaul.suites.registry import OF_VARIANTS, ON_REQUEST, SUITES
from pagehaul.suites.running import run_suites
from pagehaul.suites.suite import Subject, Suite

# What single suites need besides.
_PACKAGES = ("busybox-static", "e2fsprogs", "stress-ng", "trinity", "xfsprogs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--suite",
        action="append",
        choices=SUITES,
        metavar="NAME",
        help=f"only this one, in full; may be repeated: {', '.join(SUITES)}. Without it all run, "
        f"except {', '.join(ON_REQUEST)}. The user's guide says what each does",
    )
    parser.add_argument(
        "--variant",
        choices=("pagehaul", *DEBUG_VARIANTS),
        default="pagehaul",
        help="of our kernel (default: pagehaul). The others are debug kernels: without the "
        f"unmodified kernel beside them, {', '.join(OF_VARIANTS)} run on them",
    )
    parser.add_argument(
        "--base",
        choices=(*bases.names(), "all"),
        help="the kernel that the series is laid over (default: all, or "
        f"{bases.DEFAULT} with --suite or --variant)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--all",
        action="store_true",
        help="every suite in full on every base, or on the one that --base names; takes hours",
    )
    form.add_argument(
        "--short",
        action="store_true",
        help="with --suite: the short form, as without --suite",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="a suite that has not begun N minutes after the start counts as failed",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="with one --suite: write its tests, and where the time went, to FILE, as JSON",
    )
    parser.epilog = (
        f"Without options every suite runs in its short form on {bases.DEFAULT}, and "
        f"{', '.join(_elsewhere())} on the other bases, without the unmodified kernel. "
        f"The short forms leave out: {_left_out()}. Suites run at once where there is room; a "
        "table at the end says where the time went."
    )


def _elsewhere() -> list[str]:
    return [name for name, suite in SUITES.items() if suite.elsewhere]


def _left_out() -> str:
    return "; ".join(
        f"{name}: {suite.left_out}" for name, suite in SUITES.items() if suite.left_out
    )


def run(args: argparse.Namespace) -> int:
    """Run the suites; 1 when a test failed."""
    subjects = _subjects(args)
    if args.record is not None and len(subjects) != 1:
        raise PagehaulError("--record is for one suite: name it with --suite")
    if len(subjects) == 1:
        name, subject = next(iter(subjects.items()))
        suite = SUITES[subject.suite]
        work = partial(suite, subject.ours, subject.base, short=subject.short)
        return run_suites({subject.suite if args.record else name: work}, args.record)
    # The suites have no terminal of their own, on which sudo could ask for a password.
    for group in ("build", "check", "programs", "unit"):
        tools.need_for(group)
    tools.require(*_PACKAGES)
    return run_pieces(_pieces(subjects), args.minutes)


def _subjects(args: argparse.Namespace) -> dict[str, Subject]:
    """Return what is to be tested, by names: of the suite, with the base if that is another one."""
    variant = args.variant != "pagehaul"
    named = args.base or (bases.DEFAULT if variant or args.suite else "all")
    found: dict[str, Subject] = {}
    short = args.short or not (args.all or args.suite or variant)
    for base in map(bases.get, bases.names() if named == "all" else [named]):
        names = args.suite or (list(OF_VARIANTS) if variant else _names(base, short))
        if wrong := [name for name in names if variant and name not in OF_VARIANTS]:
            raise PagehaulError(
                f"--variant {args.variant} is not for {', '.join(wrong)}: "
                f"use one of {', '.join(OF_VARIANTS)}"
            )
        prefix = "" if base.name == bases.DEFAULT else f"{base.name}/"
        for name in names:
            found[f"{prefix}{name}"] = Subject(name, args.variant, base, short)
    return found


def _names(base: Base, short: bool) -> list[str]:
    """Return the suites of a base; what needs no kernel of it runs on the default one only."""

    def of_base(suite: Suite) -> bool:
        if base.name == bases.DEFAULT:
            return not suite.on_request
        return suite.elsewhere or bool(not short and suite.kernels and not suite.on_request)

    return [name for name, suite in SUITES.items() if of_base(suite)]


def _pieces(subjects: dict[str, Subject]) -> list[Piece]:
    """Return the builds of all kernels that are needed, and the suites."""
    kernels: dict[tuple[str, str], None] = {}
    suites = []
    named = {(subject.base or bases.get()).name for subject in subjects.values()}
    first = bases.DEFAULT if bases.DEFAULT in named else min(named)
    for name, subject in subjects.items():
        suite, base = SUITES[subject.suite], subject.base or bases.get()
        needed = suite.needs(subject)
        kernels |= {(variant, base.name): None for variant in needed}
        stage = Stage.BESIDE
        if suite.boots:
            stage = Stage.ALONE if suite.alone else Stage.GUESTS
        words = ["test", "--suite", subject.suite, "--base", base.name, "--variant", subject.ours]
        words += ["--short"] if subject.short else []
        suites.append(Piece(name, tuple(words), stage, subject.suite, base.name != first))
    builds = []
    for variant, of_base in kernels:
        build = ("build", "--variant", variant, "--base", of_base)
        later = of_base != first
        builds.append(Piece(f"kernel {variant} {of_base}", build, Stage.BUILD, later=later))
    return [*builds, *suites]
