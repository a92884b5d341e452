# SPDX-License-Identifier: GPL-2.0-only
"""The `bench` verb: measures Pagehaul beside the unmodified kernel.

Without options it does the main job: what the project is worth, in minutes.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from rich.markup import escape

from pagehaul import ui
from pagehaul.bench import main_job, profiled
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines import setup
from pagehaul.bench.machines.guests import Guests
from pagehaul.bench.machines.places import Machine
from pagehaul.bench.measuring import measure
from pagehaul.bench.row import Results
from pagehaul.bench.store import dump, keep, last
from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.guest import models
from pagehaul.kernel import bases
from pagehaul.report import comparison, page, profiles, terminal, verdict

_INTERRUPTED = 130
_MOST_BOOTS = 1000
_MOST_CPUS = 64

# Hours that all experiments at full size take on two CPUs.
_FULL_HOURS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    options.add_base(parser)
    parser.add_argument(
        "--full",
        action="store_true",
        help=f"everything at full size, which takes about {_FULL_HOURS} hours on two CPUs; with "
        "--experiment that one at full size",
    )
    parser.add_argument(
        "--cpus",
        type=_cpus,
        nargs="+",
        metavar="N",
        help="measure on guests of so many CPUs instead of 1 to 32, as each experiment does",
    )
    parser.add_argument(
        "--model",
        action="append",
        choices=models.names(),
        metavar="NAME",
        help="measure in virtual time, as on this machine; may be repeated: "
        f"{', '.join(models.names())}; without it on KVM where it works, else as on "
        f"{main_job.MODEL}, and experiments as on {models.DEFAULT}",
    )
    parser.add_argument(
        "--boots",
        type=_boots,
        metavar="N",
        help="measure everything in N boots of the kernels instead of 1 to 4: more samples, where "
        "the machine is restless",
    )
    parser.add_argument(
        "--experiment",
        action="append",
        choices=EXPERIMENTS,
        metavar="NAME",
        help=f"this one instead of the main job; may be repeated: {', '.join(EXPERIMENTS)}; "
        f"--full alone measures all but {', '.join(_on_request())}",
    )
    parser.add_argument("--profile", metavar="CELL", help=profiled.HELP)
    parser.add_argument("--tables", action="store_true", help="print all tables, too")
    parser.add_argument("--json", type=Path, metavar="F", help="write the results to F, too")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with plots to F")
    parser.add_argument(
        "--host",
        action="store_true",
        help="measure the running kernel of this machine, which needs two nodes with memory",
    )


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {most}")
    return int(text)


def _boots(text: str) -> int:
    return _number(text, _MOST_BOOTS)


def _cpus(text: str) -> int:
    return _number(text, _MOST_CPUS)


def _on_request() -> tuple[str, ...]:
    return tuple(name for name, experiment in EXPERIMENTS.items() if experiment.on_request)


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 1 when a page's content or node was wrong, 130 after Ctrl-C."""
    for path in (args.json, args.html):
        if path is not None and not path.absolute().parent.is_dir():
            raise PagehaulError(f"cannot write {path}: its directory does not exist")
    if args.host and (args.cpus or args.model):
        raise PagehaulError("--cpus and --model are for guests, not for --host")
    if args.profile is not None:
        return _profile(args)
    wanted = _wanted(args)
    on_part = terminal.print_tables if args.tables else terminal.tell_part
    machine = _machine(args, wanted)
    results = measure(wanted, machine, quick=not args.full, boots=args.boots, on_part=on_part)
    results = replace(results, verdict=verdict.statements(results))
    before = last(results)
    stored = _write(args, results)
    terminal.print_verdict(results)
    if before is not None:
        terminal.say(comparison.sentence(before, results))
    return _end(results, stored)


def _wanted(args: argparse.Namespace) -> list[Experiment]:
    """Return the experiments that the command line asks for."""
    if not (args.experiment or args.full):
        return list(main_job.experiments())
    if not args.experiment:
        ui.console.print(f"This takes about {_FULL_HOURS} hours on two CPUs without KVM.")
    names = args.experiment or [name for name in EXPERIMENTS if name not in _on_request()]
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names]


def _profile(args: argparse.Namespace) -> int:
    """Measure one cell, and tell where its time went."""
    if args.host or args.experiment:
        raise PagehaulError("--profile is for a cell in a guest: no --host, no --experiment")
    wanted = profiled.experiment(args.profile)
    results, found = profiled.measured(wanted, _guests(args, [wanted]), terminal.tell_part)
    for table in profiles.all_tables(found):
        terminal.print_table(table)
    results = profiles.with_profiles(results, found)
    return _end(results, _write(args, results))


def _write(args: argparse.Namespace, results: Results) -> Path:
    """Keep results, and write what the command line asks for; return where they are kept."""
    stored = keep(results)
    if args.json is not None:
        dump(results, args.json)
    if args.html is not None:
        page.write([results], args.html)
    return stored


def _end(results: Results, stored: Path) -> int:
    """Say where results are kept, and return the exit status."""
    ui.console.print(f"Results: {escape(str(stored))}", soft_wrap=True)
    if results.interrupted:
        ui.console.print(f"Interrupted: only {len(results.rows)} measurements were made.")
        return _INTERRUPTED
    return 0 if verdict.content_right(results) else 1


def _machine(args: argparse.Namespace, wanted: list[Experiment]) -> Machine:
    if args.host:
        return setup.here(wanted)
    return _guests(args, wanted)


def _guests(args: argparse.Namespace, wanted: list[Experiment]) -> Guests:
    guests = setup.guests(wanted, bases.get(args.base), quick=not args.full)
    main = not (args.experiment or args.full or args.profile)
    return replace(
        guests,
        cpus=tuple(args.cpus or ()),
        models=tuple(args.model or ()),
        model=main_job.MODEL if main else models.DEFAULT,
    )
