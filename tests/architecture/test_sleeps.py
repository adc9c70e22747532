"""Tests do not sleep where a clock can jump: how many real sleeps there are may only go down."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
KEPT: Final = {
    "adapters": 22,
    "chaos": 20,
    "checkpoints": 6,
    "cli": 7,
    "client": 8,
    "console": 7,
    "control": 8,
    "crash": 16,
    "effects": 9,
    "examples": 4,
    "models": 5,
    "monitors": 1,
    "promises": 14,
    "replay": 3,
    "server": 17,
    "telemetry": 1,
    "unit": 11,
    "upkeep": 2,
}
"""Sleeps in each folder: polls of other processes, threads and servers, and work that takes its time there."""
ON_FAKE_TIME: Final = re.compile(r"^pytestmark = .*fake_time|FakeClock", re.MULTILINE)
FOREVER: Final = 20.0
"""What would sleep so long is a call that hangs: the test ends it."""


def sleeps(code: str) -> Iterator[int]:
    """The lines that sleep for more than a turn of the loop, and for less than for ever."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {"asyncio.sleep", "time.sleep"}:
            continue
        match node.args:
            case [ast.Constant(value=int() | float() as seconds)] if not 0 < seconds < FOREVER:
                pass
            case [ast.Name(id="NEVER" | "A_MINUTE")]:
                pass
            case _:
                yield node.lineno


def found() -> Counter[str]:
    """How many there are in each folder."""
    count = Counter[str]()
    for path in TESTS.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        folder = path.relative_to(TESTS).parts[0]
        # A simulated machine has a clock of its own.
        if folder != "simulate" and "sleep(" in code and not ON_FAKE_TIME.search(code):
            count[folder] += sum(1 for _ in sleeps(code))
    return +count


def test_a_sleep_is_found_and_a_turn_of_the_loop_and_a_call_that_hangs_are_none() -> None:
    code = "asyncio.sleep(0)\nawait_ = asyncio.sleep(0.01)\ntime.sleep(pace)\nasyncio.sleep(60)\nasyncio.sleep(NEVER)"
    assert list(sleeps(code)) == [2, 3]


def test_there_are_no_more_real_sleeps_than_there_were() -> None:
    """Wait for an event, or mark the test ``fake_time`` (tests/fake_time.py). Fewer? Lower the number here."""
    more = {folder: (number, KEPT.get(folder, 0)) for folder, number in found().items() if number > KEPT.get(folder, 0)}
    assert more == {}, "more sleeps than are kept (found, kept)"
