"""``python -m bench.peers``: the floor, Midcourse and its peers, measured in one run."""

import argparse
import platform
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.harness import median, versions
from bench.peers import chart, report, trial
from bench.peers.case import CASES, Case
from bench.peers.catalogue import CATALOGUE, Entry

DRAFT: Final = trial.PLACE / "results.json"
"""Where the figures of a run that was not complete are kept."""

HELP: Final = f"""\
Measure the floor, Midcourse and its peers with the same work, in one run.

In each round every case is asked of every peer, each in a process of its own, in an order that the seed decides: so
noise meets all alike, and ratios are taken within a round. `make peers` installs the peers and runs this.

A complete run (all peers, all cases, not quick) writes bench/peers/results.json, the tables in bench/README.md and the
plot in docs/benchmarks.md. Any other run prints its tables and keeps its figures in build/peers/results.json.

peers: {", ".join(one.name for one in CATALOGUE)}
cases:
{"".join(f"  {one.name:<16} {one.says}{chr(10)}" for one in CASES)}
examples:
  make peers                                       everything
  make peers PEERS="--quick"                       does everything still run?
  make peers PEERS="--only floor,midcourse,dbos --cases step,resume --rounds 5"
"""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "bench.peers", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="PEERS", help="these peers, with commas between them (default: all)")
    parser.add_argument("--cases", metavar="CASES", help="these cases, with commas between them (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is asked (default: 3)")
    parser.add_argument(
        "--quick", action="store_true", help="one round of small cases: to see that it runs, not how fast"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides the order of the peers (default: 1)")
    parser.add_argument(
        "--write", action="store_true", help="measure nothing: write tables and plots from results.json again"
    )
    return parser.parse_args(arguments)


def chosen(asked: str | None, known: Sequence[str], kind: str) -> list[str]:
    """Return the names that were asked for, or all.

    Raises:
        SystemExit: there is no such name.
    """
    names = asked.split(",") if asked else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"There is no {kind} {', '.join(unknown)}. There are: {', '.join(known)}.")
    return [name for name in known if name in names]


def installed(entries: Sequence[Entry]) -> list[Entry]:
    """Return the peers that are here, and say which are not."""
    for one in entries:
        if missing := one.missing():
            lacking = ", ".join(missing)
            print(f"{one.title} is not measured. Missing here: {lacking}. `make peers` installs what is missing.")
    return [one for one in entries if not one.missing()]


def plan(entries: Sequence[Entry], cases: Sequence[Case], rounds: int, seed: int) -> list[tuple[int, Case, Entry]]:
    """Return every trial in its order: a case is asked of all peers, shuffled, before the next; then the next round."""
    chance = random.Random(seed)
    trials: list[tuple[int, Case, Entry]] = []
    for number in range(rounds):
        for case in cases:
            able = [one for one in entries if case.name not in one.cannot]
            chance.shuffle(able)
            if number < case.rounds:
                trials += [(number, case, one) for one in able]
    return trials


def measure(entries: Sequence[Entry], cases: Sequence[Case], asked: argparse.Namespace) -> report.Run:
    """Ask every case of every peer, and say each answer."""
    rounds = 1 if asked.quick else asked.rounds
    trials = plan(entries, cases, rounds, asked.seed)
    common = {**versions(), "machine": platform.machine()}
    run = report.Run(time.strftime("%Y-%m-%d"), rounds, asked.seed, report.versions(entries, common), {})
    began = time.perf_counter()
    for done, (number, case, one) in enumerate(trials, 1):
        said = trial.run(one.name, case.name, case.quick if asked.quick else case.size)
        run.values.setdefault(case.name, {}).setdefault(one.name, []).append(said)
        if isinstance(said, str):
            text = said if said == trial.LATE else f"FAILED: {said}"
        else:
            text = ", ".join(
                f"{figure.name} {median(said[figure.name]):.3g} {figure.unit}"
                for figure in case.figures
                if figure.name in said
            )
        head = f"{time.perf_counter() - began:6.0f} s  {done}/{len(trials)}  round {number + 1}"
        print(f"{head}  {case.name:<14} {one.name:<16} {text}", flush=True)
    return run


def write() -> None:
    """Write the tables and the plots from the last complete run."""
    run = report.Run.read()
    report.put(report.markdown(run), report.README)
    report.put(chart.picture(run), report.PAGE)
    chart.write(run)


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked."""
    asked = options(arguments)
    if asked.write:
        write()
        return 0
    names = chosen(asked.only, [one.name for one in CATALOGUE], "peer")
    wanted = [one for one in CATALOGUE if one.name in names]
    cases = [one for one in CASES if one.name in chosen(asked.cases, [one.name for one in CASES], "case")]
    here = installed(wanted)
    run = measure(here, cases, asked)
    if asked.quick:
        print("\nA quick run: the cases are smaller than their titles say, and no figure is to be trusted.")
    for case in cases:
        print(f"\n{report.text_table(run, case)}")
    answers = [each for peers in run.values.values() for rounds in peers.values() for each in rounds]
    failed = any(isinstance(each, str) and each != trial.LATE for each in answers)
    complete = not asked.quick and len(here) == len(CATALOGUE) and len(cases) == len(CASES)
    path: Path = report.RESULTS if complete else DRAFT
    run.write(path)
    if complete:
        write()
    print(f"\nThe figures are in {path}.")
    return 1 if failed or len(here) < len(wanted) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
