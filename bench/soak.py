"""``python -m bench.soak``: random commands to many sessions whose workers are killed at random; then all is counted.

One worker is never killed: its memory must stay flat, and in the end it must hold nothing. The others are killed with
SIGKILL and started again. Everything is decided by a seed, as far as chance is ours; time is not.
"""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import midcourse
from bench import children, soak_verdict, soak_worker
from bench.harness import fresh_folder, mean, store_in
from bench.soak_verdict import Sent, Verdict
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.session import ENDED
from midcourse.wiring import open_store

SURVIVOR: Final = "survivor"
MORTALS: Final = 2
PEOPLE: Final = 8
BETWEEN: Final = 0.15
"""Seconds, on average, between two commands of one person."""
LIVES: Final = (2.0, 8.0)
"""Seconds between two kills, from and to."""
VERBS: Final = {"pause": 25, "resume": 35, "redirect": 15, "answer": 20, "cancel": 5}
TWICE: Final = 0.1
"""The share of commands that are sent twice at the same time."""
MOST: Final = 100_000
"""Commands after which people stop, however much time is left."""
ENDING: Final = 90.0
"""Seconds in which every session must end once it is cancelled."""
GROWTH: Final = 0.10
"""The share of its mean by which a worker's memory may grow in the second half and still be called flat."""


@dataclass(slots=True)
class Soak:
    """One soak: who takes part, and what was seen."""

    path: Path
    chance: random.Random
    sessions: list[SessionId] = field(default_factory=list[SessionId])
    workers: dict[str, children.Child] = field(default_factory=dict[str, children.Child])
    sent: list[Sent] = field(default_factory=list[Sent])
    errors: list[str] = field(default_factory=list[str])
    pauses: dict[SessionId, str] = field(default_factory=dict[SessionId, str])
    replies: Counter[str] = field(default_factory=Counter[str])
    kills: int = 0
    numbers: int = 0

    async def start_worker(self, name: str) -> dict[str, Any]:
        """A worker process; what it counts before it has done anything."""
        errors = self.path / "errors"
        self.workers[name] = await children.start("soak_worker:drive", self.path, name, errors=errors)
        return await self.workers[name].hear()

    # ---- people

    async def steer(self, mc: midcourse.Midcourse, until: float) -> None:
        """One person: one command after the other."""
        while time.monotonic() < until and len(self.sent) < MOST:
            (verb,) = self.chance.choices(list(VERBS), list(VERBS.values()))
            session = await mc.get(await self._somebody(mc, verb))
            await self.send(session, verb)
            await asyncio.sleep(self.chance.expovariate(1 / BETWEEN))

    async def _somebody(self, mc: midcourse.Midcourse, verb: str) -> SessionId:
        """Anybody; but most answers go to one who has asked, and many redirects to one who has nothing to do."""
        likely: dict[str, tuple[Sequence[str], float]] = {"answer": (("waiting",), 0.8), "redirect": (list(ENDED), 0.6)}
        statuses, share = likely.get(verb, ((), 0.0))
        if self.chance.random() < share:
            heads = await mc.list(status=statuses, limit=100)
            if heads:
                return self.chance.choice(heads).id
        return self.chance.choice(self.sessions)

    async def send(self, session: midcourse.SessionHandle[Any], verb: str) -> None:
        """One command, sometimes as a double click; what it was answered."""
        self.numbers += 1
        command, mark = f"cmd_{self.numbers}", f"mark-{self.numbers}"
        clicks = 2 if self.chance.random() < TWICE else 1
        sending = [self._send(session, verb, command, mark) for _ in range(clicks)]
        for code in await asyncio.gather(*sending):
            if code is not None:
                self.sent.append(Sent(session.id, CommandId(command), verb, mark, code))

    async def _send(self, session: midcourse.SessionHandle[Any], verb: str, command: str, mark: str) -> str | None:
        try:
            reply = await self._say(session, verb, command, mark)
        except midcourse.Refused as refused:
            self.replies[f"{verb}: {refused.code}"] += 1
            return refused.code
        except midcourse.MidcourseError as error:
            self.errors.append(f"{session.id}: {verb} {command}: {type(error).__name__}: {error}")
            return None
        if reply.pause is not None:
            self.pauses[session.id] = reply.pause
        code = "accepted" if reply.level == "accepted" else "ok"
        self.replies[f"{verb}: {code}"] += 1
        return code

    async def _say(self, session: midcourse.SessionHandle[Any], verb: str, command: str, mark: str) -> midcourse.Reply:
        chance = random.Random(command)  # a double click is the same wish twice
        grace = chance.choice((None, 0.0, 0.5))
        match verb:
            case "pause":
                until = chance.choice(("stopping", "stopped"))
                return await session.pause(mark, grace=grace, until=until, wait=3.0, command_id=command)
            case "resume":
                named = self.pauses.get(session.id) if chance.random() < 0.5 else None
                return await session.resume(named, command_id=command)
            case "redirect":
                resume = chance.random() < 0.5
                return await session.redirect(mark, grace=grace, resume=resume, command_id=command)
            case "answer":
                return await session.answer(mark, command_id=command)
            case _:
                return await session.cancel(mark, grace=grace or 0.0, wait=3.0, command_id=command)

    # ---- the end of workers

    async def kill_and_restart(self, until: float) -> None:
        """Workers that may die do, at random."""
        while time.monotonic() < until:
            await asyncio.sleep(self.chance.uniform(*LIVES))
            name = self.chance.choice([name for name in self.workers if name != SURVIVOR])
            await self.workers[name].kill()
            self.kills += 1
            await asyncio.sleep(self.chance.uniform(0.0, 1.5))
            await self.start_worker(name)

    # ---- the end of sessions

    async def end_all(self, mc: midcourse.Midcourse) -> None:
        """Cancel whatever lives, and wait until all have ended."""
        # A child ends with its parent, but not if a person gave it a new turn of its own after it had ended.
        everybody = sorted({*self.sessions, *(one.session for one in self.sent)})
        for first in range(0, len(everybody), PEOPLE):
            handles = [await mc.get(one) for one in everybody[first : first + PEOPLE]]
            await asyncio.gather(*(self.send(handle, "cancel") for handle in handles))
        deadline = time.monotonic() + ENDING
        alive = [status for status in midcourse.Status if status not in ENDED]
        while time.monotonic() < deadline and await mc.list(status=alive, limit=1):
            await asyncio.sleep(0.5)


async def soak(minutes: float, sessions: int, seed: int) -> int:
    """The whole of it; the number of complaints. What it leaves on the disk is kept if there are any."""
    one = Soak(fresh_folder(), random.Random(seed))
    try:
        complaints = await _soak(one, minutes, sessions)
    finally:
        for worker in one.workers.values():
            await worker.kill()
    if complaints:
        print(f"The store, the ledgers and the log are kept in {one.path}")
    else:
        shutil.rmtree(one.path)
    return complaints


async def _soak(one: Soak, minutes: float, sessions: int) -> int:
    async with midcourse.open(store_in(one.path), drive=False) as mc:
        at_first = await one.start_worker(SURVIVOR)
        for number in range(MORTALS):
            await one.start_worker(f"mortal-{number}")
        for number in range(sessions):
            name = soak_worker.AGENTS[number % len(soak_worker.AGENTS)]
            one.sessions.append((await mc.start(name, f"goal {number}")).id)
        until = time.monotonic() + 60 * minutes
        people = (one.steer(mc, until) for _ in range(PEOPLE))
        await asyncio.gather(one.kill_and_restart(until), *people)
        await one.end_all(mc)
    await asyncio.sleep(1.0)
    survivor = one.workers[SURVIVOR]
    survivor.tell("count")
    at_last = await survivor.hear()
    ends = {name: await worker.end() for name, worker in one.workers.items()}
    store = await open_store(store_in(one.path))
    verdict = await soak_verdict.judge(store, one.sent, soak_verdict.read_ledger(one.path))
    await store.close()
    judge_processes(one, at_first, at_last, ends, verdict)
    tell(one, verdict)
    return len(verdict.wrong)


def judge_processes(
    one: Soak, at_first: dict[str, Any], at_last: dict[str, Any], ends: dict[str, int], verdict: Verdict
) -> None:
    """Nothing is left behind, memory is flat, every worker ends by itself, and nobody complained on the way."""
    for what in ("tasks", "descriptors", "drivers"):
        left = int(at_last[what]) - int(at_first[what])
        verdict.check("left behind", left <= 0, f"{left} {what} are left behind in the worker that was never killed")
    memory = [float(line.split()[1]) / 1e6 for line in (one.path / f"samples-{SURVIVOR}").read_text().splitlines()]
    growth, average = growth_of(memory[len(memory) // 2 :]), mean(memory)
    print(
        f"memory of the worker that was never killed: {average:.0f} MB on average, {memory[0]:.0f} MB at first, "
        f"{at_last['megabytes']:.0f} MB at last, {growth:+.1f} MB over the second half"
    )
    print(f"left in it: {at_last}; at first: {at_first}")
    verdict.check("memory", growth < GROWTH * average, f"its memory grew by {growth:.1f} MB in the second half")
    for name, code in ends.items():
        verdict.check("ends", code == 0, f"worker {name} ended with {code}")
    log = (one.path / "errors").read_text().splitlines() if (one.path / "errors").exists() else []
    bad = [line for line in log if line.startswith(("ERROR", "CRITICAL", "Traceback"))]
    verdict.check("logs", not bad, f"{len(bad)} errors were logged, such as: {bad[:3]}")
    if bad:
        print("\n".join(log[:60]))
    verdict.check("replies", not one.errors, f"{len(one.errors)} commands raised, such as: {one.errors[:3]}")


def growth_of(values: Sequence[float]) -> float:
    """How much the straight line through evenly spaced values rises from the first to the last."""
    number = len(values)
    if number < 2:
        return 0.0
    middle, average = (number - 1) / 2, mean(values)
    above = sum((place - middle) * (value - average) for place, value in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(number)) * (number - 1)


def tell(one: Soak, verdict: Verdict) -> None:
    """What was done, and what was found."""
    print(f"{len(one.sessions)} sessions, {len(one.sent):,} answered commands, {one.kills} kills")
    print("answers: " + ", ".join(f"{what} {times:,}" for what, times in sorted(one.replies.items())))
    print("looked at: " + ", ".join(f"{what} {times:,}" for what, times in verdict.looked_at.items()))
    for complaint in verdict.wrong[:40]:
        print(f"WRONG: {complaint}")
    print(f"{len(verdict.wrong)} complaints" if verdict.wrong else "All is as it must be.")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    sys.exit(1 if asyncio.run(soak(wanted.minutes, wanted.sessions, wanted.seed)) else 0)


if __name__ == "__main__":
    main()
