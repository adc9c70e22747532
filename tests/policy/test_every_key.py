"""No key of a policy is dead: each has a probe here, which sees another behaviour when the key is changed.

A key that is added to the document without one fails the first test.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import midcourse
from midcourse.analysis.reports.checklist import Grounds, checklist
from midcourse.analysis.reports.totals import report_of
from midcourse.core.ids import AskId, Position, SessionId, StepId
from midcourse.core.policy_decision import Decision, Reason
from midcourse.core.terms import TaskClass, Terms
from midcourse.errors import StoreUnavailable
from midcourse.handle import SessionHandle
from midcourse.people.inbox import _ask as inbox_ask  # pyright: ignore[reportPrivateUsage]
from midcourse.people.inbox_rules import InboxAsk
from midcourse.policy import versions
from midcourse.policy.document import CLASSES, Policy
from midcourse.policy.durations import Span
from midcourse.policy.evaluation import evaluate
from midcourse.policy.observation import Observed
from midcourse.policy.pace import pace_of
from midcourse.policy.profiles import STANDARD
from midcourse.policy.restraint import (
    InterventionLedger,
    JudgedIntervention,
    is_mistrusted,
    is_too_early,
    restrain,
    worth_of,
    wrong_lately,
)
from midcourse.policy.signals.calls_left import CallHistory, class_of
from midcourse.policy.signals.self_asks import near
from midcourse.policy.thresholds import behind as gone_back_behind
from midcourse.policy.thresholds import rests, rules_of
from midcourse.policy.validation import contradictions, parameters
from midcourse.policy.yaml_reader import policy_of
from midcourse.policy.yaml_writer import to_yaml
from midcourse.ports.store import AskHead, Head
from midcourse.runtime import supervisor
from midcourse.runtime.driver import Driver
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from midcourse.runtime.supervisor import _class_under as class_under  # pyright: ignore[reportPrivateUsage]
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from tests.policy.runs import GOAL, MINUTE, Run, called, observed
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.harness import Place
from tests.reports.journals import Journal

Probe = Callable[[Policy], object]
KEYS: Final = {one.path: one.value for one in parameters(STANDARD)}
TESTS: Final = Path(__file__).parents[1]
HERE: Final = "policy/test_every_key.py"
RISK: Final = {"signals.risk.enabled": True}
APPROVALS: Final = "promises/test_08_an_approval_covers_what_was_approved.py"


@dataclass(frozen=True)
class Flip:
    """A key's two values, and what sees the difference. ``beside``: what else must stand so, for the key to count."""

    first: Any
    second: Any
    probe: Probe
    beside: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Elsewhere:
    """The tests that see it, where it takes a store or a server: file and name, whose source says the key's name."""

    test: str
    word: str


# ---- probes


def decided(values: Mapping[str, float], **fields: Any) -> Probe:
    """What the policy decides about a run with these values."""

    def probe(policy: Policy) -> object:
        decision = evaluate(policy, observed(values, **fields), 0.0)
        return decision.level, decision.held, [(one.signal, one.stage) for one in decision.reasons], decision.worth

    return probe


def asked(*acts: Any, **given: Any) -> Probe:
    """What the agent asks after these calls."""

    def probe(policy: Policy) -> object:
        run = Run(policy, asks=True, **given)
        run.wait(5 * MINUTE)
        for act in acts:
            run.call(**act)
        return [(one.level, one.question) for one in run.decisions]

    return probe


def in_the_inbox(policy: Policy) -> InboxAsk:
    ask = AskHead(id=AskId("ask-1"), reason="need_input", prompt="Well?", opened_at=0.0, step=StepId("1/ask#1"))
    head = Head(
        id=SessionId("s"),
        agent="a",
        goal="",
        status="waiting",
        turn=1,
        position=Position(1),
        digest=b"",
        created_at=0.0,
        updated_at=0.0,
    )
    return inbox_ask(head, ask, policy, {}, {}, {}, 0.0)


def held_back(decision: Decision, ledger: InterventionLedger) -> Probe:
    """What limits over many sessions leave of a decision."""
    return lambda policy: restrain(policy, decision, ledger).level


def of_class(name: TaskClass, values: Mapping[str, float]) -> Probe:
    """What is done about a run of a class."""
    return decided(values, task_class=name, is_class_declared=True)


def class_targets(name: TaskClass) -> Probe:
    """The verdicts of a report on runs of a class of which some were stopped and some failed."""

    def probe(policy: Policy) -> object:
        sessions = [(Journal(terms=Terms(task_class=name)).started().facts(), policy) for _ in range(3)]
        return [(row.interrupted.target, row.completed.target) for row in report_of(sessions, 0.0, 1.0).classes]

    return probe


def targets(policy: Policy) -> object:
    """What the report and the checklist hold the measurements against."""
    sessions = [(Journal(terms=Terms(task_class="long")).started().facts(), policy)]
    report = report_of(sessions, 0.0, 1.0)
    grounds = Grounds(policy=policy, durability="power")
    rows = [(row.satisfied.target, row.stops.target_p50, row.stops.target_p99) for row in report.classes]
    return rows, [one.what for one in checklist(report, grounds)]


def worth(policy: Policy) -> object:
    """What an interruption costs and avoids."""
    found = worth_of(policy, observed({}, seconds_per_request=2.0, kilobytes=9.0), "pause")
    assert found is not None
    return found.avoided, found.cost


def mistrusted(policy: Policy) -> object:
    """Whether a signal that was wrong in four of twelve is mistrusted."""
    judged = [JudgedIntervention(0.0, "policy:standard@1", ("loops",), index < 4) for index in range(12)]
    wrong = wrong_lately(policy, judged, {"policy:standard@1": STANDARD}, 40 * 86_400.0)
    recent = InterventionLedger(wrong={"loops": (4, 12)})
    return is_mistrusted(policy, "loops", recent), wrong


def loops(policy: Policy) -> object:
    """How much calls that differ in one argument look like a loop."""
    run = Run(policy)
    for number in range(6):
        run.call(name="read", arguments=f'{{"path": "a", "line": {number}}}', digest=f"d{number}")
    return run.value("loops")


def failing(policy: Policy) -> object:
    """Whether three calls of which one failed have a rate of errors."""
    run = Run(policy)
    for error in ("", "ValueError", ""):
        run.see(called(error=error, at=run.at))
    return run.value("errors")


def missing_hypothesis(policy: Policy) -> object:
    """Whether a run that has stated none is measured by that."""
    run = Run(policy)
    run.wait(60).calls(1)
    return run.value("hypothesis")


def own_work(policy: Policy) -> object:
    """Whether people are told that it uses what it made."""
    return [rule.signal for rule in rules_of(policy) if rule.signal == "own_artifacts"]


PAUSE: Final = Decision(
    level="pause", wanted="pause", policy="standard@1", reasons=(Reason("loops", "intervene", 5.0, 5.0, "It loops."),)
)
HUNDRED: Final = {"resources": 100.0}


# ---- the table


def _signals() -> dict[str, Flip | Elsewhere]:
    table: dict[str, Flip | Elsewhere] = {}
    for path, value in KEYS.items():
        parts = path.split(".")
        if parts[0] != "signals" or parts[-1] not in ("warn", "explain", "intervene", "stop"):
            continue
        mark = float(value) if isinstance(value, int | float) else 7.0
        if parts[1] == "risk":
            table[path] = Flip(0.5, 0.95, decided({"risk": 0.6}), RISK)
        elif parts[1] == "calls_left":
            table[path] = Flip(0.5, 0.9, decided({"calls_left": 0.6}))
        elif parts[1] == "token_rate":
            table[path] = Flip(0.3, 0.1, decided({"token_rate": 0.2}))
        else:
            # Only this threshold of its signal stands.
            others = {
                other: None if not other.endswith("milestones") else ()
                for other in KEYS
                if other.startswith(f"signals.{parts[1]}.")
                and other != path
                and other.rpartition(".")[2] in ("warn", "explain", "intervene", "stop", "milestones")
            }
            table[path] = Flip(mark, None, decided({parts[1]: mark}), others)
    return table | {
        "signals.cost.per_action": Flip(1.0, 3.0, decided({"cost.per_action": 2.0})),
        "signals.cost.milestones": Flip((3.0,), (), decided({"cost": 4.0})),
        "signals.cost.acceleration": Flip(2.0, 5.0, decided({"cost.acceleration": 3.0})),
        "signals.errors.streak": Flip(5, 9, decided({"errors.streak": 6.0})),
        "signals.errors.at_least": Flip(3, 5, failing),
        "signals.scope_drift.domain": Elsewhere(f"{HERE}::test_drift_is_measured_in_the_domain", "domain"),
        "signals.scope_drift.alignment": Flip(0.5, None, decided({"scope_drift.alignment": 0.6})),
        "signals.calls_left.finish": Flip(0.15, 0.05, decided({"loops": 5.0}, share_left=0.1)),
        "signals.hypothesis.required": Flip(True, False, missing_hypothesis),
        "signals.scope.expansion": Flip(2.0, 4.0, decided({"scope.expansion": 3.0})),
        "signals.scope.new_domain": Flip(5, 9, decided({"scope.new_domain": 6.0})),
        "signals.loops.alike": Flip(4.0, 1.0, loops),
        "signals.risk.enabled": Flip(True, False, decided({"risk": 0.9}, risk_threshold=0.8)),
        "signals.risk.first_after": Flip(
            Span(0),
            Span(600),
            decided({"risk": 0.9}, risk_threshold=0.8, elapsed=300.0),
            {"signals.risk.enabled": True},
        ),
        "signals.risk.alone": Flip(True, False, decided({"risk": 0.1, "loops": 5.0}, risk_threshold=0.8), RISK),
    }


def _classes() -> dict[str, Flip | Elsewhere]:
    table: dict[str, Flip | Elsewhere] = {}
    for name in CLASSES:
        under = f"classes.{name}"
        table |= {
            f"{under}.automatic": Flip("never", "yes", of_class(name, HUNDRED)),
            f"{under}.strategy": Flip("protect", "checkpoint", lambda policy, name=name: class_under(policy, name))
            if name != "protected"
            else Flip("protect", "finish", decided(HUNDRED, task_class=name)),
            f"{under}.checkpoint_calls": Flip(10, 20, lambda policy, name=name: pace_of(policy.classes.of(name))),
            f"{under}.checkpoint_tokens": Flip(10, 20, lambda policy, name=name: pace_of(policy.classes.of(name))),
            f"{under}.segment_tokens": Flip(10, 20, lambda policy, name=name: pace_of(policy.classes.of(name))),
            f"{under}.interruption_rate": Flip((0.0, 0.1), (0.0, 0.2), class_targets(name)),
            f"{under}.completion_rate": Flip((0.8, 1.0), (0.9, 1.0), class_targets(name)),
        }
    seconds = {"short": (10, 60), "medium": (100, 400), "long": (1000, 9000)}
    for name, (first, second) in seconds.items():
        middle = (first + second) / 2
        table[f"classes.{name}.up_to"] = Flip(
            Span(first),
            Span(second),
            lambda policy, at=middle: class_of(CallHistory((9,) * 9, (at,) * 9), policy.classes, 0),
        )
    for name in ("very_long", "protected"):  # refused: neither is ever predicted to end
        table[f"classes.{name}.up_to"] = Flip(
            None, Span(9999), lambda policy: [one.sentence for one in contradictions(policy)]
        )
    return table


TABLE: Final[Mapping[str, Flip | Elsewhere]] = {
    "policy": Flip("ours", "theirs", lambda policy: evaluate(policy, observed({"loops": 9.0}), 0.0).policy),
    "version": Flip(1, 2, lambda policy: evaluate(policy, observed({"loops": 9.0}), 0.0).policy),
    "extends": Flip("standard", "permissive", to_yaml),
    "about": Flip("for us", "for them", to_yaml),
    "ask_plan": Flip(True, False, decided({"loops": 5.0})),
    "response_target": Flip(Span(60), Span(300), lambda policy: in_the_inbox(policy).respond_by),
    "correction": Elsewhere(f"{HERE}::test_a_correction_is_as_long_as_the_policy_says", "correction"),
    **_signals(),
    "restraint.first_after_actions": Flip(3, 90, decided({"loops": 5.0})),
    "restraint.first_after": Flip(
        Span(10), Span(600), lambda policy: is_too_early(policy, Observed(actions=50, elapsed=100.0))
    ),
    "restraint.interventions_per_hour": Flip(5, 9, held_back(PAUSE, InterventionLedger(last_hour=6))),
    "restraint.requests_per_intervention": Flip(1000, 10, decided({"loops": 5.0}, requests=50, occasions=1)),
    "restraint.batch": Elsewhere(
        "policy/test_people_settings.py::test_alarms_are_gathered_for_as_long_as_the_policy_of_their_run_says", "batch"
    ),
    "restraint.approvals_in_a_row": Flip(3, 20, lambda policy: in_the_inbox(policy).tired_after),
    "restraint.false_positives": Flip(0.2, 0.5, mistrusted),
    "restraint.labels": Flip(10, 20, mistrusted),
    "restraint.labels_for": Flip(Span(30 * 86_400), Span(60 * 86_400), mistrusted),
    "restraint.quality": Elsewhere("reports/test_proposals.py", "quality"),
    "restraint.again": Flip(0.2, 0.5, lambda policy: gone_back_behind(policy.restraint, rules_of(policy)[0], 10.0)),
    "restraint.again_after": Flip(12, 3, lambda policy: rests(policy.restraint, "errors")),
    "restraint.retries": Elsewhere(f"{HERE}::test_an_interruption_that_fails_is_tried_again_so_often", "retries"),
    "restraint.patience": Flip(3, 9, decided({"loops": 5.0}, plan_asked_at=45, is_explaining=True)),
    "restraint.worth.per_request": Flip(0.005, 0.5, worth),
    "restraint.worth.per_kilobyte": Flip(0.0005, 0.5, worth),
    "restraint.worth.recovery": Flip(0.005, 0.5, worth),
    "restraint.worth.quality": Flip(0.1, 0.9, worth),
    "restraint.worth.quality_for": Flip(Span(30), Span(300), worth),
    "restraint.worth.minute": Flip(0.05, 5.0, worth),
    "restraint.worth.attention": Flip(Span(30), Span(300), worth),
    "restraint.worth.chance": Flip(0.5, 0.9, worth),
    **_classes(),
    "targets.response_p50": Flip(Span(0.1), Span(9), targets),
    "targets.response_p99": Flip(Span(0.5), Span(9), targets),
    "targets.completion": Flip(0.95, 0.5, targets),
    "targets.satisfaction": Flip(0.8, 0.5, targets),
    "targets.quality": Flip(0.9, 0.5, targets),
    "targets.load": Flip("10,000 a day", "3 a week", targets),
    "environments.require_tag": Elsewhere("policy/test_prod_touches.py", "require_tag"),
    "environments.approve": Elsewhere(APPROVALS, "approve="),
    "environments.approve_paid": Elsewhere(APPROVALS, "approve_paid"),
    "environments.audit": Elsewhere("policy/test_prod_touches.py::test_a_policy_says_how_long_they_stay", "audit"),
    "artifacts.documented": Elsewhere("policy/test_artifacts.py", "documented"),
    "artifacts.review": Elsewhere("policy/test_artifacts.py", "review"),
    "artifacts.flag_use": Flip(True, False, own_work),
    "agent_asks.ambiguous": Flip(True, False, lambda policy: Run(policy, asks=True).begin("fix it") is None),
    "agent_asks.credentials": Flip(True, False, asked({"error": "PermissionError"})),
    "agent_asks.drift": Flip(True, False, lambda policy: near(policy, {"scope_drift": 0.65})),
    "agent_asks.limits": Flip(True, False, lambda policy: near(policy, {"cost": 48.0})),
    "agent_asks.unknown_errors": Flip(True, False, asked({"error": "Wobble"})),
    "agent_asks.near": Flip(0.9, 0.5, lambda policy: near(policy, {"cost": 30.0})),
    "agent_asks.known_errors": Flip((), ("Wobble",), asked({"error": "Wobble"})),
}


def test_every_key_of_a_policy_has_a_probe() -> None:
    assert sorted(TABLE) == sorted(KEYS)


@pytest.mark.parametrize("path", [path for path, one in TABLE.items() if isinstance(one, Flip)])
def test_a_key_that_is_changed_changes_what_happens(path: str) -> None:
    flip = TABLE[path]
    assert isinstance(flip, Flip)
    first, second = (policy_of({**KEYS, **flip.beside, path: value}) for value in (flip.first, flip.second))
    assert first != second
    assert flip.probe(first) != flip.probe(second)
    assert flip.probe(first) == flip.probe(first)  # and nothing else does


@pytest.mark.parametrize("path", [path for path, one in TABLE.items() if isinstance(one, Elsewhere)])
def test_a_key_that_takes_a_store_has_a_test_that_changes_it(path: str) -> None:
    seen = TABLE[path]
    assert isinstance(seen, Elsewhere)
    file, _, name = seen.test.partition("::")
    source = (TESTS / file).read_text()
    _, found, body = source.partition(f"def {name}(") if name else ("", "whole", source)
    assert found
    assert seen.word in body.partition("\ndef ")[0] if name else seen.word in source


def test_drift_is_measured_in_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def measured(_encoder: object, *, domain: str) -> None:
        seen.append(domain)

    monkeypatch.setattr(supervisor, "find_encoder", object)
    monkeypatch.setattr(supervisor, "Drift", measured)

    async def look() -> None:
        supervisor = Supervisor(MemoryStore(SharedMemory()), FakeClock(), asyncio.get_running_loop(), Settings())
        for domain in ("general", "code"):
            await supervisor.drift(policy_of({**KEYS, "signals.scope_drift.domain": domain}))

    asyncio.run(look())
    assert seen == ["general", "code"]


def live(policy: Policy, work: Callable[[SessionHandle[Any], FakeClock], Awaitable[None]]) -> None:
    """Do ``work`` with a session in which five calls in a row fail under a policy, and then nothing happens."""
    clock = FakeClock()

    async def stumble(run: midcourse.Run) -> None:
        for number in range(5):
            with contextlib.suppress(midcourse.StepError):
                await run.step(f"fail {number}", fail)
        await clock.sleep(3600)

    async def main() -> None:
        store = MemoryStore(SharedMemory())
        await versions.save(store, policy, by="ada", why="a test", now=clock.now())
        agent = under(stumble, policy.name, name="worker")
        async with opened(Place("memory", Path()), agent, clock=clock, store=store) as mc:
            session = await mc.start(agent, GOAL, by="ada")
            await work(session, clock)

    clock.run(main())


async def fail() -> None:
    """A call that does not work."""
    raise ValueError("no")


@pytest.mark.parametrize("retries", [0, 2, 5])
def test_an_interruption_that_fails_is_tried_again_so_often(monkeypatch: pytest.MonkeyPatch, retries: int) -> None:
    tried: list[float] = []

    async def step_in(driver: Driver, _command: object) -> None:
        tried.append(driver.now)
        raise StoreUnavailable("The store is away.")

    async def work(session: SessionHandle[Any], clock: FakeClock) -> None:
        await clock.sleep(30)
        assert await session.status() == "running"

    monkeypatch.setattr(Supervisor, "drift", no_drift)
    monkeypatch.setattr(Driver, "step_in", step_in)
    silent = {path: None for path in KEYS if path.startswith("signals.") and path.endswith((".warn", ".intervene"))}
    policy = policy_of({**KEYS, **silent, "policy": "ours", "extends": "standard", "restraint.retries": retries})
    live(policy, work)
    assert len(tried) == retries + 1


@pytest.mark.parametrize(("correction", "fits"), [(10, False), (200, True)])
def test_a_correction_is_as_long_as_the_policy_says(
    monkeypatch: pytest.MonkeyPatch, correction: int, fits: bool
) -> None:
    async def work(session: SessionHandle[Any], clock: FakeClock) -> None:
        await clock.sleep(1)
        try:
            await session.redirect("Use the archive instead")
        except midcourse.InvalidInput:
            assert not fits
        else:
            assert fits
        await session.cancel(grace=0)

    monkeypatch.setattr(Supervisor, "drift", no_drift)
    live(policy_of({**KEYS, "policy": "ours", "extends": "standard", "correction": correction}), work)
