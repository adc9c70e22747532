"""The checklist before a policy goes live: computed from what is recorded, never ticked. Pure.

An item holds, does not, or is unknown yet; each with the number behind it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from midcourse.analysis.reports.alerts import is_too_often_wrong
from midcourse.analysis.reports.checklist_inputs import Grounds
from midcourse.analysis.reports.intervals import ENOUGH, Verdict, verdict
from midcourse.analysis.reports.number_format import estimated, percent, seconds, span_of_range
from midcourse.analysis.reports.report import Report
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN

Answer = Literal["holds", "does not", "unknown"]
_ANSWERS: Final[Mapping[Verdict, Answer]] = {
    "kept": "holds",
    "above": "holds",
    "below": "does not",
    "too few to say": "unknown",
}
"""The answer for each verdict on a share that must be at least so large."""
_NAMED: Final = 5


class ChecklistItem(msgspec.Struct, frozen=True, kw_only=True):
    """One line of it: ``number`` is what it was decided by, ``todo`` what to do if it does not hold."""

    id: str
    what: str
    answer: Answer
    number: str
    todo: str = ""


class Items(msgspec.Struct, frozen=True):
    """All of it, as an answer has it."""

    items: tuple[ChecklistItem, ...]


def checklist(report: Report, grounds: Grounds) -> tuple[ChecklistItem, ...]:
    """Return every item, in the order in which to fix them."""
    return tuple(_items(report, grounds))


def _items(report: Report, grounds: Grounds) -> Iterator[ChecklistItem]:
    yield _durability(grounds)
    yield from _stops(report, grounds.policy)
    yield _outlived(report)
    yield from _tools(report)
    yield _completed(report, grounds.policy)
    yield _quality(report, grounds.policy)
    yield _answers(report, grounds.policy)
    yield _labels(report)
    yield _wrong(report)
    yield _every(
        "pinned",
        " has a policy, pinned to a version",
        (report.pinned, report.sessions),
        "Name a policy in the agent's terms, or a default one.",
    )
    yield backtested(grounds.policy.name, grounds.policy.version, grounds.backtested)
    counted = (report.budgeted, report.sessions)
    yield _every("budget", " has a budget", counted, "Give the agent's terms a budget.")
    yield from _task_types(report)
    yield from _strategies(report)
    yield from _thresholds(report, grounds.policy)
    yield from _drift(grounds)


def _item(id: str, what: str, answer: Answer, number: str, *, otherwise: str = "", unknown: str = "") -> ChecklistItem:
    """Return an item; ``otherwise`` is what to do if it does not hold, ``unknown`` if that is not known."""
    todo = {"holds": "", "does not": otherwise, "unknown": unknown}[answer]
    return ChecklistItem(id=id, what=what, answer=answer, number=number, todo=todo)


def _every(id: str, what: str, counted: tuple[int, int], otherwise: str) -> ChecklistItem:
    """Return an item that every session must fulfil."""
    part, of = counted
    answer: Answer = "unknown" if not of else "holds" if part == of else "does not"
    number, unknown = f"{part:,} of {of:,} sessions", "No session began in this time."
    return _item(id, f"Every session{what}", answer, number, otherwise=otherwise, unknown=unknown)


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''}"


def _durability(grounds: Grounds) -> ChecklistItem:
    return _item(
        "durability",
        "What was answered survives a power cut",
        "holds" if grounds.durability == "power" else "does not",
        f"the store survives: {grounds.durability}",
        otherwise="Open a file with durability='power'.",
    )


def _stops(report: Report, policy: Policy) -> Iterator[ChecklistItem]:
    rows = [row.stops for row in report.classes if row.stops.count]
    count = sum(row.count for row in rows)
    for name, target, value, verdicts in (
        ("p50", policy.targets.response_p50, report.stops.p50, {row.verdict_p50 for row in rows}),
        ("p99", policy.targets.response_p99, report.stops.p99, {row.verdict_p99 for row in rows}),
    ):
        yield _item(
            f"stop-{name}",
            f"A stop takes effect within {seconds(target)} ({name})",
            "does not" if "above" in verdicts else "holds" if verdicts == {"kept"} else "unknown",
            f"{seconds(value)}, of {count:,} stops; {report.waited.count} more let a call finish",
            otherwise="See which calls hold it up: midcourse show.",
            unknown=f"Stop some runs: {ENOUGH} in each class are enough.",
        )


def _outlived(report: Report) -> ChecklistItem:
    named = ", ".join(f"{name} ({', '.join(calls)})" for name, calls in list(report.outlived.items())[:_NAMED])
    return _item(
        "no-call-outlives",
        "No call continues after its session has stopped",
        "does not" if report.outlived_count else "holds" if report.interventions else "unknown",
        f"in {report.outlived_count} of {report.sessions:,} sessions{f': {named}' if named else ''}",
        otherwise="Run these tools in a process of their own: run_in='process'.",
        unknown="Nothing was stopped yet.",
    )


def _tools(report: Report) -> Iterator[ChecklistItem]:
    writes = report.tools
    silent = [one.name for one in writes if one.effect == "irreversible" and not one.can_probe]
    bare = [
        one.name for one in writes if not (one.can_undo or one.can_probe or one.effect in ("idempotent", "reversible"))
    ]
    for name, what, lacking, todo in (
        (
            "tools-declared",
            "Every tool that changes something declares how it can be undone, probed or repeated",
            bare,
            "Declare effect, undo or probe: midcourse.tool.",
        ),
        (
            "irreversible-probed",
            "Whether an irreversible call happened can be found out",
            silent,
            "Give it a probe; without one a person is asked after a crash.",
        ),
    ):
        yield _item(
            name,
            what,
            "unknown" if not writes else "does not" if lacking else "holds",
            f"{len(lacking)} of {len(writes)} that were called do not{f': {_some(lacking)}' if lacking else ''}",
            otherwise=todo,
            unknown="No tool that changes something was called yet.",
        )


def _completed(report: Report, policy: Policy) -> ChecklistItem:
    part, of = (sum(getattr(row.completed, name) for row in report.classes) for name in ("part", "of"))
    target, load = policy.targets.completion, policy.targets.load
    return _item(
        "completed",
        f"{percent(target)} of all runs are completed{f', at {load}' if load else ''}",
        _ANSWERS[verdict(part, of, (target, 1.0))],
        f"{part:,} of {of:,} that have ended",
        otherwise="See which class falls short: midcourse report show.",
        unknown=f"Let runs end: {ENOUGH} are enough.",
    )


def _quality(report: Report, policy: Policy) -> ChecklistItem:
    known = [(row.quality, row.quality_of) for row in report.kinds if row.quality is not None]
    count = sum(of for _, of in known)
    value = sum(quality * of for quality, of in known) / count if count else None
    target = policy.targets.quality
    return _item(
        "quality",
        f"Interrupted turns complete {percent(target)} of their plan",
        "unknown" if value is None or count < ENOUGH else "holds" if value >= target else "does not",
        f"{percent(value)}, of {count:,} interruptions",
        otherwise="Interrupt less, or at checkpoints.",
        unknown=f"It takes {ENOUGH} interrupted turns that have ended.",
    )


def _answers(report: Report, policy: Policy) -> ChecklistItem:
    found = report.answers
    return _item(
        "answered",
        f"A person answers within {seconds(policy.response_target)}, at least half of the time",
        _ANSWERS[found.within.verdict],
        f"{percent(found.within.share)} of {found.within.of:,} answers; median {seconds(found.seconds.p50)}; "
        f"{found.open} open",
        otherwise="Have a person on duty, or ask less.",
        unknown=f"Too few to say: it takes {ENOUGH} answers." if found.within.of else "No ask was answered yet.",
    )


def _labels(report: Report) -> ChecklistItem:
    by_agent = [row for row in report.signals if row.agent and (row.interventions or row.rate.of)]
    few = [f"{row.signal} of {row.agent} ({row.rate.of})" for row in by_agent if row.rate.of < row.needed]
    return _item(
        "labelled",
        "Enough interventions of each signal and agent are labelled",
        "unknown" if not by_agent else "does not" if few else "holds",
        f"{len(by_agent) - len(few)} of {len(by_agent)} are{f'; too few: {_some(few)}' if few else ''}",
        otherwise="Label them right or wrong: midcourse intervention label.",
        unknown="No policy has stepped in yet.",
    )


def _wrong(report: Report) -> ChecklistItem:
    enough = [row for row in report.signals if row.agent and row.rate.of >= max(1, row.needed)]
    wrong = [f"{row.signal} of {row.agent} ({percent(row.rate.share)})" for row in enough if is_too_often_wrong(row)]
    return _item(
        "false-positives",
        "No signal is wrong more often than the policy allows",
        "unknown" if not enough else "does not" if wrong else "holds",
        f"{len(wrong)} of {len(enough)} with enough labels are{f': {_some(wrong)}' if wrong else ''}",
        otherwise="See what the review proposes: midcourse policy review.",
        unknown="Too few labels.",
    )


def backtested(name: str, version: int, tried: Mapping[str, int] | None) -> ChecklistItem:
    """Check that a policy is among those that a backtest tried, by their names; None: there is no result."""
    policy = f"{name}@{version}"
    known: Mapping[str, int] = tried or {}
    runs = known.get(policy) or known.get(name)
    number = "no result was given" if tried is None else f"{runs or 0:,} runs under {policy}"
    if tried is not None and not runs:
        number += f"; the result is of {', '.join(known) or 'no policy'}"
    todo = (
        f"midcourse policy show {name} > {name}.yaml; "
        f"midcourse policy backtest --policy {name}.yaml --format json RUNS > FILE; then --backtest FILE."
    )
    answer: Answer = "unknown" if tried is None else "holds" if runs else "does not"
    what = f"Policy {policy} was tried on recorded runs"
    return _item("backtested", what, answer, number, otherwise=todo, unknown=todo)


def _task_types(report: Report) -> Iterator[ChecklistItem]:
    counted = (sum(row.declared for row in report.classes), report.sessions)
    yield _every("classes-declared", "'s task class is declared", counted, "Give the agent's terms a task_class.")
    held = [
        (row.task_class.replace("_", " "), row.duration, row.duration.range)
        for row in report.classes
        if row.duration.range is not None
    ]
    wrong = [name for name, took, _ in held if took.verdict in ("above", "below")]
    fits = bool(held) and all(took.verdict == "kept" for _, took, _ in held)
    shares = (
        f"{name} ({span_of_range(allowed)}): {percent(took.inside.share)} of {took.inside.of:,}"
        for name, took, allowed in held
    )
    yield _item(
        "classes-fit",
        "Runs take as long as their task class says",
        "does not" if wrong else "holds" if fits else "unknown",
        "; ".join(shares) or "no run of a class with a range",
        otherwise=f"Declare another class for what is called {', '.join(wrong)}, or change its up_to.",
        unknown=f"It takes {ENOUGH} completed runs of each declared class.",
    )


def _strategies(report: Report) -> Iterator[ChecklistItem]:
    never = [row for row in report.classes if row.task_class in ("short", "protected")]
    count, of = sum(report.against_strategy.values()), sum(row.declared for row in never)
    yield _item(
        "strategy-finish",
        "No run that its strategy lets finish was stopped automatically",
        "does not" if count else "holds" if of else "unknown",
        f"{count:,} of {of:,} sessions that declared a short or protected class",
        otherwise="See what stopped them: midcourse intervention list.",
        unknown="No such session began in this time.",
    )
    found, agree = report.recoveries, report.consistency
    yield _item(
        "strategy-continue",
        "Runs that were stopped, or lost their process, continue",
        _ANSWERS[found.all.verdict],
        f"{percent(found.all.share)} of {found.all.of:,}; {found.open:,} not known yet",
        otherwise="See why they failed: midcourse ps --status failed",
        unknown=f"It takes {ENOUGH} resumed runs.",
    )
    yield _item(
        "strategy-consistent",
        "Stopped or lost sessions reach the same state again",
        _ANSWERS[agree.sessions.verdict],
        f"{agree.sessions.part:,} of {agree.sessions.of:,} sessions"
        + (f"; not: {', '.join(list(agree.flaws)[:_NAMED])}" if agree.flaws else ""),
        otherwise="Run: midcourse doctor",
        unknown=f"It takes {ENOUGH} stopped sessions.",
    )


def _thresholds(report: Report, policy: Policy) -> Iterator[ChecklistItem]:
    own = policy.signals not in [one.signals for one in BUILT_IN.values()]
    yield _item(
        "thresholds-own",
        "The thresholds come from your own runs",
        "holds" if own else "does not",
        f"{policy.id} {'has thresholds of its own' if own else 'has the thresholds that were shipped'}",
        otherwise="Calibrate them: midcourse policy calibrate RUNS > mine.yaml",
    )
    unpriced = report.unseen.get("cost", 0)
    yield _item(
        "thresholds-cost",
        "What a run had cost was known whenever the policy decided",
        "unknown" if not report.decided else "does not" if unpriced else "holds",
        f"unknown in {unpriced:,} of {report.decided:,} sessions with a decision",
        otherwise="Say what these models cost: midcourse serve --prices FILE.",
        unknown="No policy has decided anything yet.",
    )
    rate = report.estimates
    if policy.signals.calls_left.intervene is not None or policy.signals.calls_left.finish is not None:
        yield _item(
            "thresholds-estimate",
            "The estimate of the remaining calls is good enough to decide by",
            _ANSWERS[rate.within.verdict],
            f"within 20 % in {percent(rate.within.share)} of {rate.within.of:,}; {estimated(rate.known)}",
            otherwise="Set signals.calls_left to null: the runs of these agents differ too much.",
            unknown=f"It takes {ENOUGH} runs with an estimate.",
        )


def _drift(grounds: Grounds) -> Iterator[ChecklistItem]:
    rule = grounds.policy.signals.scope_drift
    if not rule.is_measured:
        return
    yield _item(
        "drift-encoder",
        "Drift can be measured: an encoder is installed",
        "holds" if grounds.encoder is not None else "does not",
        grounds.encoder or grounds.no_encoder or "none",
        otherwise="pip install 'midcourse[drift]'",
    )
    is_known = rule.domain in grounds.domains
    todo = "" if is_known else "Choose a domain that is calibrated, or calibrate this one from your own runs."
    yield _item(
        "drift-calibrated",
        f"Drift is calibrated for the domain '{rule.domain}'",
        "unknown" if grounds.encoder is None else "holds" if is_known else "does not",
        f"there are scales for {', '.join(sorted(grounds.domains)) or 'nothing'}",
        otherwise=todo,
        unknown=todo,
    )
