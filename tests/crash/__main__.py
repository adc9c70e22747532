"""``python -m tests.crash``: every kill point of every scenario; ``--help`` lists the rest."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.crash.points import plan
from tests.crash.scenarios import SCENARIOS
from tests.crash.trial import Point, attempt

AT_A_TIME = 2
REACHED = 0.95
"""The least share of the points that must have been reached for the result to count."""


def say(line: str) -> None:
    """Print at once, so that a long run can be followed."""
    print(line, flush=True)


def progress(done: int, total: int, bad: int) -> None:
    """One line that is written over on a terminal, and now and then elsewhere."""
    line = f"{done} of {total} trials, {bad} bad"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if done == total else "", flush=True)
    elif done % 100 == 0 or done == total:
        say(line)


def main(arguments: Sequence[str]) -> int:
    """Run them, and say how many commands were lost, how many steps repeated, and how often a receipt was false."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="this scenario (may be given again)")
    parser.add_argument("--sample", type=int, metavar="K", help="a fixed choice of K points, spread over all")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    everything = plan(options.only or tuple(SCENARIOS), tell=say)
    chosen = everything if options.sample is None else everything.sample(options.sample)
    bad = list(chosen.failed)
    missed: list[Point] = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        trials = [pool.submit(attempt, point, chosen.end_of(point)) for point in chosen.points]
        for done, trial in enumerate(as_completed(trials), 1):
            verdict = trial.result()
            if not verdict.is_good:
                bad.append(verdict)
            if not verdict.was_reached:
                missed.append(verdict.point)
            progress(done, len(trials), len(bad))
    for verdict in bad:
        say(str(verdict))
    lost, repeated = sum(len(one.lost) for one in bad), sum(len(one.repeated) for one in bad)
    claimed = sum(len(one.claimed) for one in bad)
    say(f"{time.monotonic() - began:.0f} s, {len(bad)} trials where something was not as promised")
    kills = sum(bool(point.kills) for point in chosen.points) - len(missed)
    for point in missed:
        say(f"not reached, so not counted: {point}")
    say(f"crash: {kills} kill points, {lost} lost, {repeated} repeated, {claimed} false claims")
    return 1 if bad or kills < REACHED * (kills + len(missed)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
