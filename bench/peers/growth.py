"""``python -m bench.peers.growth``: how does each figure grow when there is ten times as much to do?

Ours and the floor at the size of the tables, at three times and at ten times as much; the peers at a tenth of that,
since some grow with the square. An exponent of 1 is linear, 0 does not grow.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import http_watchers, plot, web
from bench.harness import folder, median, store_in
from bench.peers import report, trial
from bench.peers.catalogue import OURS, Entry, entry

RESULTS: Final = Path(__file__).with_name("growth.json")
DRAFT: Final = trial.PLACE / "growth.json"
IMAGE: Final = Path(__file__).parent.parent.parent / "docs" / "images" / "growth.svg"
BEGIN: Final = "<!-- written by `make growth` -->"
END: Final = "<!-- end of the growth -->"
SAYS: Final = "How each figure grows with the work, with its exponent; bench/README.md has the table"

Points = list[tuple[float, float]]


HERE: Final = ("floor", OURS, "midcourse:state")
ALL: Final = (*HERE, "langgraph", "dbos", "agent_framework", "restate")
SMALLER: Final = 10
"""The peers have so much less to do: some grow with the square."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What grows, over what."""

    says: str
    unit: str
    over: str
    case: str
    figure: str = "wall"
    size: str = ""
    """The part of the case's size that grows."""
    sizes: tuple[int, ...]
    fixed: dict[str, int] = field(default_factory=dict[str, int])
    """The other parts."""
    peers: tuple[str, ...]


LONG: Final = (1000, 3000, 10_000)

QUESTIONS: Final = (
    Question(
        says="Stop beside others: confirmed",
        unit="ms",
        over="sessions that run",
        case="stop",
        figure="confirmed",
        size="running",
        sizes=(100, 300, 1000),
        fixed={"stops": 20},
        peers=("floor", OURS),
    ),
    Question(
        says="Many sessions: until the last has ended",
        unit="s",
        over="sessions",
        case="sessions",
        size="sessions",
        sizes=LONG,
        peers=HERE,
    ),
    Question(
        says="A durable step",
        unit="ms",
        over="steps of the session",
        case="store",
        figure="step",
        size="steps",
        sizes=LONG,
        peers=ALL,
    ),
    Question(
        says="The store",
        unit="MB",
        over="steps of the session",
        case="store",
        figure="size",
        size="steps",
        sizes=LONG,
        peers=ALL,
    ),
    Question(
        says="Cold resume",
        unit="ms",
        over="steps before it",
        case="resume",
        figure="first",
        size="history",
        sizes=LONG,
        fixed={"resumes": 5},
        peers=ALL,
    ),
    Question(
        says="Events: until all watchers have all",
        unit="s",
        over="watchers over HTTP",
        case="watchers",
        sizes=(10, 30, 100),
        peers=(OURS,),
    ),
)


def points(question: Question, one: Entry, sizes: Sequence[int], measured: dict[str, Any]) -> Points:
    """Return a peer's points; a trial that answers two questions runs once."""
    found: Points = []
    for size in sizes:
        key = f"{question.case} {one.name} {size}"
        if key not in measured:
            measured[key] = trial.run(one.name, question.case, {**question.fixed, question.size: size})
            print(f"{question.says}, {one.title}, {size:,}: {measured[key]}"[:160], flush=True)
        if not isinstance(measured[key], str):
            found.append((size, median(measured[key][question.figure])))
    return found


async def watched(numbers: Sequence[int]) -> Points:
    """Return how long so many watchers take to read the journal of one session."""
    found: Points = []
    with folder() as path:
        async with web.child("http_watchers:serve", store_in(path)) as port:
            async with web.connected(port) as connection:
                session = await connection.ask("GET", f"/api/v1/sessions/{http_watchers.WATCHED}")
            for number in numbers:
                place = f"/api/v1/sessions/{http_watchers.WATCHED}/events?follow=false"
                rate = await http_watchers.rate(port, place, number, session["position"])
                found.append((number, session["position"] * number / rate))
    return found


def measure(peers: Sequence[str], divisor: int) -> dict[str, dict[str, Points]]:
    """Return the points of each peer for each question."""
    found: dict[str, dict[str, Points]] = {}
    measured: dict[str, Any] = {}
    for question in QUESTIONS:
        lines = found.setdefault(question.says, {})
        for name in (name for name in question.peers if name in peers):
            by = divisor if name in HERE else divisor * SMALLER
            sizes = [max(1, size // by) for size in question.sizes]
            if question.case == "watchers":
                lines[name] = asyncio.run(watched(sizes))
            else:
                lines[name] = points(question, entry(name), sizes, measured)
    return found


def markdown(found: dict[str, dict[str, Points]], day: str) -> str:
    """Return the table for the README."""
    lines = [f"{day}.", "", "| | | at | figures | exponent |", "| --- | --- | --- | --- | --- |"]
    for question in QUESTIONS:
        for name, each in found.get(question.says, {}).items():
            if len(each) > 1:
                sizes = ", ".join(f"{size:,.0f}" for size, _ in each)
                figures = ", ".join(plot.short(value) for _, value in each)
                head = f"| {question.says}, by {question.over} | {entry(name).title} |"
                lines.append(f"{head} {sizes} | {figures} {question.unit} | {plot.exponent(each):.2f} |")
    return "\n".join(lines)


def draw(found: dict[str, dict[str, Points]], image: Path) -> None:
    """Draw the plot."""
    panels: list[plot.Lines] = []
    for question in QUESTIONS:
        lines = [
            plot.Line(entry(name).title.replace("Midcourse, ", "").replace("`", ""), _kind(name), each)
            for name, each in found.get(question.says, {}).items()
            if len(each) > 1
        ]
        if lines:
            panels.append(plot.Lines(question.says, question.unit, question.over, lines))
    plot.write(image, SAYS, panels)


def _kind(name: str) -> str:
    return "floor" if name == "floor" else "ours" if name.startswith(OURS) else "theirs"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write what a complete run found."""
    parser = argparse.ArgumentParser("bench.peers.growth", description=__doc__)
    parser.add_argument(
        "--only", metavar="PEERS", help="these peers, with commas between them (default: all that grow here)"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs")
    asked = parser.parse_args(arguments)
    peers = asked.only.split(",") if asked.only else list(ALL)
    for name in [name for name in peers if entry(name).missing()]:
        print(f"{entry(name).title} is not measured. `make growth` installs what is missing here.")
        peers.remove(name)
    found = measure(peers, 10 if asked.quick else 1)
    day = time.strftime("%Y-%m-%d")
    complete = not asked.quick and set(peers) == set(ALL)
    (RESULTS if complete else DRAFT).write_text(json.dumps({"date": day, "points": found}, indent=1) + "\n")
    print(markdown(found, day))
    draw(found, IMAGE if complete else trial.PLACE / "growth.svg")
    if complete:
        report.put(markdown(found, day), report.README, BEGIN, END)
        report.put(f"![{SAYS}](images/{IMAGE.name})\n\nMeasured on {day}.", report.PAGE, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
