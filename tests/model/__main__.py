"""Run the model: ``python -m tests.model`` checks all but the large cases; ``--help`` lists the rest."""

import argparse
import sys
from collections.abc import Sequence

from tests.model import scope
from tests.model.cases import AS_WRITTEN, SIZES, SWITCHED_OFF, describe
from tests.model.explore import Result, explore
from tests.model.rules import ADDED, ALL_RULES, ASSUMPTIONS, FIXES, IN_CODE, Rules, toggled


def say(line: str) -> None:
    """Print at once, so that a long run can be followed."""
    print(line, flush=True)


def show(res: Result) -> None:
    """What broke, and how."""
    for name, trace in sorted(res.found.items(), key=lambda found: len(found[1])):
        say(f"    BROKEN {name} ({len(trace)} moves)")
        for n, line in enumerate(trace, 1):
            say(f"      {n:2}. {line}")


def limited(res: Result) -> str:
    """How many states, and whether that was all."""
    return f"{res.states} states{'' if res.complete else ' (limit)'}"


def switched_off(names: Sequence[str], limit: int) -> bool:
    """Each rule off alone: what breaks, and that it is gone with the rule on."""
    as_recorded = True
    for case in SWITCHED_OFF:
        if names and case.rule not in names:
            continue
        kind = "already in the text"
        for group, word in ((ASSUMPTIONS, "assumption"), (FIXES, "proposed"), (ADDED, "added with the code")):
            kind = word if case.rule in group else kind
        res = explore(toggled(case.rule, *case.also), case.bounds, limit=limit)
        say(f"\n{case.rule} OFF{' with ' + ', '.join(case.also) if case.also else ''} ({kind}: {ALL_RULES[case.rule]})")
        say(f"  {describe(case.bounds)}: {limited(res)}")
        if not res.found:
            say("    nothing breaks")
        show(res)
        again = explore(toggled(*case.also), case.bounds, limit=limit)
        say(f"  the same with the rule ON: {limited(again)}, {'; '.join(sorted(again.found)) or 'nothing breaks'}")
        if (set(res.found), set(again.found)) != (set(case.breaks), set(case.left)):
            say("  NOT AS RECORDED in cases.py")
            as_recorded = False
    return as_recorded


def as_written(limit: int) -> bool:
    """Every proposed rule off, every assumption granted: the first design's text by its letter."""
    rules, worst = Rules()._replace(**dict.fromkeys(FIXES, False)), dict[str, tuple[str, int]]()
    for bounds in AS_WRITTEN:
        res = explore(rules, bounds, limit=limit, progress=False)
        say(f"{describe(bounds)}: {limited(res)}, {len(res.found)} violations")
        for name, trace in res.found.items():
            if name not in worst or len(trace) < worst[name][1]:
                worst[name] = (describe(bounds), len(trace))
    for name, (where, count) in sorted(worst.items()):
        say(f"{name}: {count} moves, {where}")
    return bool(worst)


def all_on(size: str, limit: int, off: Sequence[str]) -> bool:
    """All rules on (but those toggled): everything must hold."""
    total, bad = 0, 0
    for bounds in SIZES[size]:
        res = explore(toggled(*off), bounds, limit=limit)
        total, bad = total + res.states, bad + bool(res.found)
        outcome = "holds" if res.complete else "NOT COMPLETE (limit): nothing found so far"
        say(f"{describe(bounds)}: {res.states} states, {res.moves} moves, {'BROKEN' if res.found else outcome}")
        show(res)
    say(f"{size}: {len(SIZES[size])} cases, {total} states, {bad} with violations")
    return not bad


def scopes() -> bool:
    """Promise 4 against checkpoints: only the design's reading holds."""
    outcomes: list[bool] = []
    for reading in scope.READINGS:
        states, trace = scope.search(reading)
        say(
            f"a snapshot opens a scope: {reading.snapshot_opens_scope}; a checkpoint is named by its place (not by a "
            f"fresh id): {reading.named_by_position}; {states} states"
        )
        say("  holds" if trace is None else "  I4 BROKEN, a journaled step is executed again:")
        for n, line in enumerate(trace or (), 1):
            say(f"    {n}. {line}")
        outcomes.append(trace is None)
    return outcomes == [False, False, True]


def rules() -> bool:
    """What is switched on and off, and where the code has it."""
    for name, text in ALL_RULES.items():
        place = IN_CODE[name]
        say(f"{name:24} {text}\n{'':24} [{place if isinstance(place, str) else ', '.join(place)}]")
    return True


def main() -> bool:
    """Whether everything was as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        choices=["switched-off", "all-on", "as-written", "rules", "scope"],
        help="default: scope, switched-off, all-on small and all-on medium, which takes minutes",
    )
    parser.add_argument("names", nargs="*", help="rules to switch off, or the size: small, medium, large")
    parser.add_argument("--limit", type=int, default=3_000_000, help="states per case")
    parser.add_argument("--toggle", nargs="*", default=[], help="all-on: rules to switch off (alternatives: on)")
    args = parser.parse_args()
    match args.what:
        case "switched-off":
            return switched_off(args.names, args.limit)
        case "all-on":
            return all_on((args.names or ["small"])[0], args.limit, args.toggle)
        case "as-written":
            return as_written(args.limit)
        case "rules":
            return rules()
        case "scope":
            return scopes()
        case _:
            done = [scopes(), switched_off([], args.limit)]
            return all([*done, *(all_on(size, args.limit, []) for size in ("small", "medium"))])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
