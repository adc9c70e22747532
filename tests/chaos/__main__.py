"""``python -m tests.chaos``: rounds of chaos with real processes; ``--help`` lists the rest.

Each round has a store, workers, people and a remote of its own. What is done to them: SIGKILL, SIGSTOP and SIGCONT,
SIGTERM, a store that is full (no file may grow, by RLIMIT_FSIZE, which needs no mount and works on a living process), a
lock that another program holds. Damaged files have a tester of their own: ``python -m tests.chaos.damage``.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import SystemRandom
from typing import Final

from tests.chaos.plants import PLANTS
from tests.chaos.round import Outcome, look_again, play
from tests.chaos.ways import LEFT_OUT, Ways
from tests.faults.checker import Violation, excerpt

SHOWN: Final = 5
"""Violations of a round that are shown with their journal; the others are counted."""


def main(arguments: Sequence[str]) -> int:
    """Play rounds until the time is over, and say in numbers what came of them. 1: a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", allow_abbrev=False, description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="for about so long (default: 2)")
    parser.add_argument("--seed", default="", help="what the rounds' choices come from (default: a new one)")
    parser.add_argument("--round", type=float, default=30.0, metavar="SECONDS", help="faults in a round (default: 30)")
    parser.add_argument("--workers", type=int, default=3, help="processes that drive sessions (default: 3)")
    parser.add_argument("--people", type=int, default=2, help="processes that send commands (default: 2)")
    parser.add_argument("--without", choices=LEFT_OUT, action="append", default=[], help="leave this out (again: more)")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="put a fault of the past back")
    parser.add_argument("--first", action="store_true", help="end with the first round that breaks a promise")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="play nothing: check what a round has left there")
    options = parser.parse_args(arguments)
    if options.again is not None:
        outcome = asyncio.run(look_again(options.again))
        show(outcome, 0.0)
        return 0 if outcome.is_good else 1
    seed = options.seed or f"{SystemRandom().randrange(16**8):08x}"
    ways = Ways(seed=seed, plant=options.plant, workers=options.workers, people=options.people, seconds=options.round)
    ways = replace(ways, **dict.fromkeys(options.without, False))
    print(f"chaos: seed {seed}, about {options.minutes:g} minutes" + (f", planted: {ways.plant}" if ways.plant else ""))
    return _rounds(ways, 60 * options.minutes, first=options.first)


def _rounds(ways: Ways, seconds: float, *, first: bool) -> int:
    began = time.monotonic()
    total: list[Outcome] = []
    while not total or time.monotonic() - began + ways.seconds / 2 < seconds:
        folder = Path(tempfile.mkdtemp(prefix="midcourse-chaos-"))
        outcome = asyncio.run(play(replace(ways, seed=f"{ways.seed}.{len(total) + 1}"), folder))
        total.append(outcome)
        took = ", ".join(f"{name} {spent:.0f} s" for name, spent in outcome.phases.items())
        print(f"round {len(total)} ({took}): {numbers([outcome])}", flush=True)
        if outcome.is_good:
            shutil.rmtree(folder)
        else:
            show(outcome, time.monotonic() - began)
        if first and _is_found(outcome):
            break
    print(f"chaos: {len(total)} rounds, {time.monotonic() - began:.0f} s: {numbers(total)}")
    return 0 if all(one.is_good for one in total) else 1


def _is_found(outcome: Outcome) -> bool:
    """Whether a promise was broken; if a fault was put back, one of those that it breaks."""
    broken = {one.promise for one in [*outcome.violations, *outcome.stuck]}
    name = outcome.ways.plant
    return bool(broken & PLANTS[name].breaks if name else broken)


def numbers(outcomes: Sequence[Outcome]) -> str:
    """What happened, counted."""
    faults, sent, ended, deeds = (sum((getattr(one, name) for one in outcomes), Counter[str]()) for name in _COUNTED)
    sessions, children = sum(one.sessions for one in outcomes), sum(one.children for one in outcomes)
    done = sum(count for what, count in deeds.items() if what.endswith(" done"))
    undone = sum(count for what, count in deeds.items() if what.endswith(" undone"))
    return (
        f"{sessions} sessions ({children} children; {_listed(ended)}), {sum(one.events for one in outcomes)} events, "
        f"{done} effects, {undone} undone; {sent['sent']} commands ({sent['refused']} refused, "
        f"{sent['unanswered']} unanswered, {sent['halt']} halts); {faults['kill']} kills, {faults['stop']} stops, "
        f"{faults['end']} ends, "
        f"{faults['full']} times full, {faults['held']} times held, {faults['kill a person']} people killed; "
        f"{sum(len(one.violations) for one in outcomes)} violations, {sum(len(one.stuck) for one in outcomes)} stuck"
    )


_COUNTED: Final = ("faults", "commands", "ended", "deeds")
assert {*_COUNTED} <= {one.name for one in fields(Outcome)}


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def show(outcome: Outcome, elapsed: float) -> None:
    """What was broken, where to look, and how to have it again."""
    found = [*outcome.violations, *outcome.stuck]
    kinds = Counter(one.promise for one in found)
    what = _listed(kinds) or "nothing"
    print(f"BROKEN in the round of seed {outcome.ways.seed}, {elapsed:.0f} s after the beginning: {what}")
    print(f"  its store, its commands and what the processes said: {outcome.folder}")
    for kind in kinds:
        some = [one for one in found if one.promise == kind]
        for one in some[:SHOWN]:
            _show(one, outcome)
        if len(some) > SHOWN:
            print(f"  and {len(some) - SHOWN} more of '{kind}'")


def _show(one: Violation, outcome: Outcome) -> None:
    print(f"- {one} [{one.at - outcome.began:.1f} s into the round]")
    if one.session in outcome.journals:
        print(excerpt(outcome.journals[one.session], one.position))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
