# SPDX-License-Identifier: GPL-2.0-only
"""The `series` verb: the patches as mails, as a branch of git and back, or built and booted."""

import argparse
import re
import tempfile
from pathlib import Path

from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.kernel import absorb, bases, branch, compose, git, mails, series, source
from pagehaul.kernel.bases import Base
from pagehaul.kernel.series import COMBINED
from pagehaul.paths import REPO, cache_dir
from pagehaul.suites import patches
from pagehaul.ui import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    options.add_base(parser)
    options.add_source(parser)
    parser.add_argument(
        "--part",
        action="append",
        choices=series.load().parts,
        metavar="NAME",
        help=f"only this part; may be repeated: {', '.join(series.load().parts)}; without it all, "
        f"but for {', '.join(series.APART)}",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR", help="write them there, as mails")
    what.add_argument(
        "--branch",
        type=Path,
        metavar="DIR",
        help="make a branch of all patches there: in a new repository of the files that they "
        "touch, or in a clone of the kernel with that kernel checked out",
    )
    what.add_argument(
        "--absorb",
        type=Path,
        metavar="DIR",
        help="take the branch that is checked out there into kernel/, bases/ and series/",
    )
    what.add_argument(
        "--check",
        action="store_true",
        help="build and boot the kernel after each patch, and build it without what it may lack",
    )
    sent = parser.add_argument_group("mails")
    sent.add_argument("--rfc", action="store_true", help="ask for comments: [RFC PATCH]")
    sent.add_argument(
        "-v",
        "--reroll-count",
        type=int,
        default=1,
        metavar="N",
        help="the version of the series (default: 1); one above 1 needs --since",
    )
    sent.add_argument(
        "--since",
        type=Path,
        metavar="DIR",
        help="the mails of the version before, for a range-diff in the cover letter",
    )
    sent.add_argument(
        "--base-commit", metavar="HASH", help="the commit of the kernel that the patches are on"
    )


def run(args: argparse.Namespace) -> int:
    """Write the series, take it back, or check it; 1 when a patch does not build or boot."""
    base = bases.get(args.base)
    version = _version(args)
    _refuse(args, base)
    if args.branch or args.absorb:
        pristine = source.ensure(base, args.source)
        if args.branch:
            print(f"{args.branch}: {branch.make(base, pristine, args.branch)}")
        else:
            changed = absorb.absorb(base, pristine, args.absorb)
            print("\n".join(changed or ["nothing has changed"]))
        return 0
    who = git.identity(REPO) if args.out else compose.SIGNER
    parts = args.part or [part for part in series.load().parts if part not in series.APART]
    pristine = source.ensure(base, args.source)
    with tempfile.TemporaryDirectory(prefix="series-", dir=cache_dir()) as directory:
        where = Path(directory) / "repository"
        where.mkdir()
        # They follow each other: those that are not asked for are beneath those that are.
        beneath = [part for part in series.load().parts if part not in series.APART[1:]]
        also = version.touched()
        composed = compose.compose(base, pristine, {*beneath, *parts}, where, who, also)
        names = [patch.name for patch in series.load().chosen(base, parts)]
        if not names:
            raise PagehaulError(f"there is nothing of {', '.join(parts)} for {base.name}")
        if args.check:
            return patches.check(base, pristine, composed, names)
        for path in mails.write(pristine, composed, names, args.out, version):
            print(path)
            if path.stat().st_size > mails.MOST_BYTES:
                console.print(f"{path.name} is {path.stat().st_size >> 10} KB: lists may refuse it")
    return 0


def _version(args: argparse.Namespace) -> mails.Version:
    """Return what the options say of the mails; PagehaulError where that cannot be."""
    version = mails.Version(args.reroll_count, args.rfc, args.since, args.base_commit)
    if version != mails.Version() and not args.out:
        raise PagehaulError("--rfc, -v, --since and --base-commit are about mails: give --out")
    if version.number < 1:
        raise PagehaulError("-v takes a number from 1 on")
    if version.number > 1 and version.before is None:
        raise PagehaulError(f"-v {version.number} needs the mails of the version before: --since")
    if version.base_commit and not re.fullmatch(r"[0-9a-f]{40}", version.base_commit):
        raise PagehaulError("--base-commit takes the 40 digits that git rev-parse prints")
    return version


def _refuse(args: argparse.Namespace, base: Base) -> None:
    """Raise PagehaulError where a part, or mails, cannot be had."""
    if args.part and (args.branch or args.absorb):
        raise PagehaulError("a branch has all parts: leave out --part")
    if not base.diff(COMBINED).exists():
        return
    if args.out:
        raise PagehaulError(
            f"the series for {base.name} is one patch of all files, too large for a mail: "
            "give --branch DIR to have it as a commit"
        )
    if args.part and not set(args.part) & set(series.ON_TOP):
        raise PagehaulError(
            f"the series for {base.name} is not in parts: leave out --part, or give one of "
            f"{', '.join(series.ON_TOP)}"
        )
