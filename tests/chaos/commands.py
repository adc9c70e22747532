"""Commands to sessions, each written down before it is sent and again once it is answered."""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from midcourse import Midcourse, MidcourseError, Refused, Reply, Scope
from tests.faults.checker import Answer, answered


class Commands:
    """The commands of one process. What it wrote down is there after any death of it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"commands-{os.getpid()}", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        self._count = 0

    def write(self, answer: Answer, number: int | None = None, error: str = "") -> int:
        """Write it down; with its ``number``, what came of it."""
        if number is None:
            self._count += 1
            number = self._count
        os.write(self._file, json.dumps([os.getpid(), number, asdict(answer), error]).encode() + b"\n")
        return number

    async def send(self, asked: Answer, act: "partial[Any]") -> Reply | None:
        """Send one; None if it was refused, or if nobody can say what came of it."""
        asked, began = replace(asked, sent_at=time.time(), wait=act.keywords["wait"]), time.monotonic()
        number = self.write(asked)
        try:
            reply: Reply = await act()
        except MidcourseError as error:
            asked = replace(asked, took=time.monotonic() - began)
            if isinstance(error, Refused):
                self.write(replace(asked, answered_at=time.time(), refused=error.code), number)
            else:  # the store is full, say: it may have got there all the same
                self.write(replace(asked, failed=error.code), number, error.code)
            return None
        self.write(answered(replace(asked, took=time.monotonic() - began), reply, time.time()), number)
        return reply

    async def throw(self, midcourse: Midcourse, scope: Scope, by: str) -> str | None:
        """Throw the kill switch, and write down what is said of each session."""
        sent = time.time()
        try:
            report = await midcourse.kill_switch.throw(scope, "chaos", by=by, wait=3.0)
        except MidcourseError:
            return None
        now = time.time()
        for one in report.sessions:
            level = "stopped" if one.state == "stopped" else "accepted"
            self.write(
                Answer(
                    session=one.session,
                    verb="halt",
                    sent_at=sent,
                    answered_at=now,
                    by=by,
                    level=level,
                    status="halted",
                    durable=report.durable,
                )
            )
        return str(report.switch.id)

    async def lift(self, midcourse: Midcourse, switch: str, by: str) -> None:
        """Lift a kill switch and let its sessions go back."""
        try:
            await midcourse.kill_switch.lift(switch, "enough", by=by)
            report = await midcourse.kill_switch.report(switch)
            names = [one.session for one in report.sessions]
            for name in names:
                self.write(Answer(session=name, verb="lift", sent_at=time.time(), by=by))
            if names:
                await midcourse.kill_switch.release(switch, names, by=by, wait=3.0)
        except MidcourseError:
            return  # it is lifted at the end, if nobody does it before


def read(folder: Path) -> tuple[Sequence[Answer], Counter[str]]:
    """Every command with its answer, and how many came to what."""
    found: dict[tuple[int, int], Answer] = {}
    counts: Counter[str] = Counter()
    for file in sorted(folder.glob("commands-*")):
        for line in file.read_text().splitlines():
            try:
                pid, number, fields, error = json.loads(line)
            except ValueError:  # killed while it wrote
                continue
            found[pid, number] = _answer(fields)
            if error:
                counts["failed"] += 1
    for answer in found.values():
        counts["sent"] += 1
        counts[answer.verb] += 1
        if answer.refused:
            counts["refused"] += 1
        elif answer.answered_at == inf and answer.verb != "lift":
            counts["unanswered"] += 1
    return list(found.values()), counts


def _answer(fields: dict[str, Any]) -> Answer:
    fields |= {name: tuple(fields[name]) for name in ("running", "unknown")}
    return Answer(**fields)
