"""What does a policy cost for each event of a session, and how much memory does a watched session take?"""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Final

from bench.harness import Result, median, p99
from midcourse.core.policy_decision import INTERRUPTS
from midcourse.core.terms import TaskClass
from midcourse.policy.document import Policy
from midcourse.policy.evaluation import evaluate
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import AnyAct, Begun, Called, Planned, Reported, Rested, SteppedIn, WentOn
from midcourse.policy.signals.calls_left import CallHistory
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.thresholds import rules_of

QUESTION: Final = "policy evaluation of an event, p99"
EVENTS: Final = 20_000
LONG: Final = 100_000
HISTORY: Final = CallHistory(tuple(range(80, 120)), tuple(float(seconds) for seconds in range(600, 640)))
MUST: Final = 100.0
AIM: Final = 10.0
KILOBYTES: Final = 4000.0
"""What a session may take at most: ten thousand resources are told apart."""


def quiet(count: int) -> Iterator[AnyAct]:
    """A run as most are: a model, a tool, now and then a report. Nothing is past a threshold for long."""
    yield Begun(at=0.0, goal="Fix the login bug")
    for number in range(count):
        at = number / 100
        if number % 50 == 0:
            yield Reported(at=at, progress=(number % 1000) / 1000, hypothesis=f"hypothesis {number // 1000}")
        elif number % 50 == 1:
            yield Planned(at=at, items=count, done=number)
        elif number % 2:
            yield Called(at=at, kind="model", name="think", seconds=0.5, tokens_out=200, cost=0.0001, text="Let me see")
        else:
            yield Called(
                at=at,
                kind="tool",
                name="read_file",
                arguments=f'{{"path": "src/a{number % 10}.py", "line": {number}}}',
                digest=f"{number}",
                resources=(f"src/a{number % 10}.py",),
                effect="read",
                seconds=0.01,
                text="LAZY = True",
            )


def alarming(count: int) -> Iterator[AnyAct]:
    """A run in which everything is past a threshold, and only watched: each act is evaluated, few lead to anything."""
    yield Begun(at=0.0, goal="Fix the login bug")
    for number in range(count):
        yield Called(
            at=float(number),
            kind="tool",
            name="bash",
            arguments='{"command": "make"}',
            digest="same",
            error="ValueError" if number % 3 else "",
            resources=(f"d{number % 90}/a.py",),
            effect="reversible",
            seconds=1.0,
            cost=0.002,
        )


def various(count: int) -> Iterator[AnyAct]:
    """A run that does something else every time, pauses, and is stepped into: whatever is kept of it grows."""
    yield Begun(at=0.0, goal="Fix the login bug")
    for number in range(count):
        at = float(number)
        yield Called(
            at=at,
            kind="tool",
            name=f"tool{number}",
            arguments=f'{{"path": "d{number}/a.py"}}',
            digest=f"{number}",
            error=f"Error{number}" if number % 2 else "",
            resources=(f"d{number}/a.py",),
            environment=f"env{number}",
            effect="reversible",
            text="a result of some words " * 20,
            cost=0.001,
        )
        if number % 40 == 0:
            yield Reported(at=at, artifact=f"made{number}", hypothesis=f"hypothesis {number}")
            yield Rested(at=at)
            yield WentOn(at=at)


def per_event(case: str, policy: Policy, acts: Iterator[AnyAct], task_class: TaskClass) -> Result:
    """All signals but drift, decision included; the floor is a call that does nothing with the act."""
    oversight = RunMonitor(policy, budget=1000.0, history=HISTORY, task_class=task_class)
    every = list(acts)
    taken: list[float] = []
    bare: list[float] = []
    gc.collect()
    gc.freeze()
    for act in every:
        start = time.perf_counter()
        decision = oversight.see(act)
        taken.append((time.perf_counter() - start) * 1e6)
        start = time.perf_counter()
        _nothing(act)
        bare.append((time.perf_counter() - start) * 1e6)
        if decision is not None and decision.level in INTERRUPTS:
            # As a journal tells it: what was decided has happened, and somebody lets it go on.
            for later in (SteppedIn(at=act.at, level=decision.level, reasons=decision.reasons), WentOn(at=act.at)):
                oversight.see(later)
    gc.unfreeze()
    return Result(
        *(QUESTION, case, p99(taken), "µs", len(taken)),
        median=median(taken),
        floor=p99(bare),
        floor_is="a call with the same act that does nothing",
        must=MUST,
        aim=AIM,
    )


def _nothing(act: AnyAct) -> AnyAct:
    return act


def one_evaluation() -> Result:
    """``evaluate`` alone, with every signal past its threshold."""
    oversight = RunMonitor(STANDARD, history=HISTORY, budget=1.0)
    for act in alarming(100):
        oversight.see(act)
    observed, rules = oversight.observed(), rules_of(STANDARD)
    taken: list[float] = []
    for _ in range(EVENTS):
        start = time.perf_counter()
        evaluate(STANDARD, observed, 1.0, rules=rules)
        taken.append((time.perf_counter() - start) * 1e6)
    return Result(
        QUESTION,
        "evaluate alone, every signal past a threshold",
        p99(taken),
        "µs",
        EVENTS,
        median=median(taken),
        must=MUST,
    )


def memory() -> list[Result]:
    """What is held for one session after so many acts, all different; and what another as many add to it."""
    gc.collect()
    tracemalloc.start()
    oversight = RunMonitor(STANDARD, budget=1000.0, history=HISTORY)
    before, _ = tracemalloc.get_traced_memory()
    held: list[float] = []
    for number, act in enumerate(various(LONG)):
        oversight.see(act)
        if number in (LONG // 2, LONG - 1):
            gc.collect()
            held.append((tracemalloc.get_traced_memory()[0] - before) / 1024)
    tracemalloc.stop()
    half, whole = held
    return [
        Result(QUESTION, f"memory of a session after {LONG:,} acts, all different", whole, "KB", 1, must=KILOBYTES),
        Result(QUESTION, "… of which the second half added", max(0.0, whole - half), "KB", 1, must=64.0),
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return [
        per_event("a quiet run", STANDARD, quiet(EVENTS), "long"),
        per_event("a run past every threshold, watched", STANDARD, alarming(EVENTS), "medium"),
        one_evaluation(),
        *memory(),
    ]
