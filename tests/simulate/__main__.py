"""``python -m tests.simulate``: simulated runs, one for each seed, until stopped; ``--help`` lists the rest.

A seed that breaks a promise is printed with the shortest plan found that still breaks it. The same seed does the same
again, whatever machine it runs on.
"""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count, islice
from typing import Final

from tests.faults.checker import excerpt
from tests.simulate.plan import COMMANDS, FAULTS, plan_of
from tests.simulate.plants import PLANTS, planted
from tests.simulate.shrink import shortened
from tests.simulate.world import Outcome, play

SHOWN: Final = 4
"""Violations of a run that are shown."""
EVERY: Final = 30.0
"""Seconds between two lines of numbers."""


def main(arguments: Sequence[str]) -> int:
    """Play seeds, and say in numbers what came of them. 1: a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", allow_abbrev=False, description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="so many seeds (default: until stopped)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--minutes", type=float, default=0.0, help="no longer than this (default: until stopped)")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="put a fault of the past back")
    kinds = sorted({*COMMANDS, *FAULTS, "odd"} - {"start"})
    parser.add_argument("--without", choices=kinds, action="append", default=[], help="leave this out (again: more)")
    parser.add_argument("--first", action="store_true", help="end with the first seed that breaks a promise")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    options = parser.parse_args(arguments)
    seeds = islice(count(options.start), options.seeds or None)
    without = frozenset[str](options.without)
    gc.freeze()  # what is there already is not looked through after each seed
    began = told = time.monotonic()
    broken: list[int] = []
    total: Counter[str] = Counter()
    with planted(options.plant):
        for seed in seeds:
            outcome = play(plan_of(seed, without=without))
            total += outcome.counts
            total["seconds"] += round(outcome.seconds)
            total["seeds"] += 1
            if options.trace:
                print("\n".join(outcome.trace))
            if outcome.violations:
                broken.append(seed)
                _show(outcome, time.monotonic() - began)
            now = time.monotonic()
            if now - told > EVERY:
                told = now
                print(f"… seed {seed}: {_numbers(total, now - began)}, {len(broken)} broken", flush=True)
            if (broken and options.first) or (options.minutes and now - began > 60 * options.minutes):
                break
    print(
        f"simulate: {_numbers(total, time.monotonic() - began)}, {len(broken)} broken{f': {broken}' if broken else ''}"
    )
    return 1 if broken else 0


def _numbers(total: Counter[str], took: float) -> str:
    ended = ", ".join(f"{number} {what}" for what, number in sorted(total.items()) if what not in ("seeds", "seconds"))
    hours = total["seconds"] / 3600
    return f"{total['seeds']} seeds ({ended} sessions), {hours:.1f} simulated hours in {took:.0f} s"


def _show(outcome: Outcome, elapsed: float) -> None:
    seed = outcome.plan.seed
    print(f"BROKEN by seed {seed}, {elapsed:.0f} s after the beginning: {', '.join(sorted(outcome.kinds))}")
    short = shortened(outcome, play)
    print(
        f"  {len(short.plan.deeds)} of {len(outcome.plan.deeds)} deeds are enough, with {short.plan.workers} workers:"
    )
    for deed in short.plan.deeds:
        print(f"    {deed}")
    for one in short.violations[:SHOWN]:
        print(f"- {one}")
        if one.session in short.journals:
            print(excerpt(short.journals[one.session], one.position))
    print(f"  again: python -m tests.simulate --start {seed} --seeds 1 --trace", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
