"""The checklist before a policy goes live: computed from what is recorded, never ticked. Pure.

An item holds, does not, or nobody can know yet; each with the number behind it.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from midcourse.core.policy.document import Policy
from midcourse.core.policy.profiles import BUILT_IN
from midcourse.reports.alerts import is_too_often_wrong
from midcourse.reports.grounds import Grounds
from midcourse.reports.intervals import ENOUGH, Verdict, verdict
from midcourse.reports.report import Report
from midcourse.reports.words import estimated, percent, seconds, span_of_range

Answer = Literal["holds", "does not", "unknown"]
_ANSWERS: Final[Mapping[Verdict, Answer]] = {
    "kept": "holds",
    "above": "holds",
    "below": "does not",
    "too few to say": "unknown",
}
"""What a report's verdict of a share that is to be at least so large comes to here."""
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
    """Every item, in the order in which to see to them."""
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
    yield _pinned(report)
    yield backtested(grounds.policy.name, grounds.policy.version, grounds.backtested)
    yield _budgets(report)
    yield from _task_types(report)
    yield from _strategies(report)
    yield from _thresholds(report, grounds.policy)
    yield from _drift(grounds)


def _durability(grounds: Grounds) -> ChecklistItem:
    return ChecklistItem(
        id="durability",
        what="What was answered survives a power cut",
        answer="holds" if grounds.durability == "power" else "does not",
        number=f"the store survives: {grounds.durability}",
        todo="" if grounds.durability == "power" else "Open a file with durability='power'.",
    )


def _stops(report: Report, policy: Policy) -> Iterator[ChecklistItem]:
    rows = [row.stops for row in report.classes]
    count = sum(row.count for row in rows)
    for name, target in (("p50", policy.targets.response_p50), ("p99", policy.targets.response_p99)):
        verdicts = {row.verdict_p50 if name == "p50" else row.verdict_p99 for row in rows if row.count}
        value = report.stops.p50 if name == "p50" else report.stops.p99
        answer: Answer = "does not" if "above" in verdicts else "holds" if verdicts == {"kept"} else "unknown"
        yield ChecklistItem(
            id=f"stop-{name}",
            what=f"A stop is a stop within {seconds(target)} ({name})",
            answer=answer,
            number=f"{seconds(value)}, of {count:,} stops; {report.waited.count} more let a call finish",
            todo=_todo(
                answer,
                "See which calls hold it up: midcourse show.",
                f"Stop some runs: {ENOUGH} in each class say enough.",
            ),
        )


def _outlived(report: Report) -> ChecklistItem:
    named = ", ".join(f"{name} ({', '.join(calls)})" for name, calls in list(report.outlived.items())[:_NAMED])
    none = not report.interventions
    answer: Answer = "does not" if report.outlived_count else "unknown" if none else "holds"
    return ChecklistItem(
        id="no-call-outlives",
        what="No call goes on after its session has stopped",
        answer=answer,
        number=f"in {report.outlived_count} of {report.sessions:,} sessions{f': {named}' if named else ''}",
        todo=_todo(answer, "Run these tools in a process of their own: run_in='process'.", "Nothing was stopped yet."),
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
        answer: Answer = "unknown" if not writes else "does not" if lacking else "holds"
        more = f": {', '.join(lacking[:_NAMED])}{', …' if len(lacking) > _NAMED else ''}" if lacking else ""
        yield ChecklistItem(
            id=name,
            what=what,
            answer=answer,
            number=f"{len(lacking)} of {len(writes)} that were called do not{more}",
            todo=_todo(answer, todo, "No tool that changes something was called yet."),
        )


def _completed(report: Report, policy: Policy) -> ChecklistItem:
    part, of = (sum(getattr(row.completed, name) for row in report.classes) for name in ("part", "of"))
    target, load = policy.targets.completion, policy.targets.load
    answer = _ANSWERS[verdict(part, of, (target, 1.0))]
    return ChecklistItem(
        id="completed",
        what=f"{percent(target)} of all runs are completed{f', at {load}' if load else ''}",
        answer=answer,
        number=f"{part:,} of {of:,} that have ended",
        todo=_todo(
            answer, "See which class falls short: midcourse report show.", f"Let runs end: {ENOUGH} say enough."
        ),
    )


def _quality(report: Report, policy: Policy) -> ChecklistItem:
    known = [(row.quality, row.quality_of) for row in report.kinds if row.quality is not None]
    count = sum(of for _, of in known)
    value = sum(quality * of for quality, of in known) / count if count else None
    target = policy.targets.quality
    answer: Answer = "unknown" if value is None or count < ENOUGH else "holds" if value >= target else "does not"
    return ChecklistItem(
        id="quality",
        what=f"Turns that were interrupted come to {percent(target)} of their plan",
        answer=answer,
        number=f"{percent(value)}, of {count:,} interruptions",
        todo=_todo(
            answer, "Interrupt less, or at checkpoints.", f"{ENOUGH} interrupted turns that have ended say enough."
        ),
    )


def _answers(report: Report, policy: Policy) -> ChecklistItem:
    found = report.answers
    target = seconds(policy.response_target)
    answer = _ANSWERS[found.within.verdict]
    return ChecklistItem(
        id="answered",
        what=f"Somebody answers within {target}, at least half of the time",
        answer=answer,
        number=f"{percent(found.within.share)} of {found.within.of:,} answers; median {seconds(found.seconds.p50)}; "
        f"{found.open} open",
        todo=_todo(
            answer,
            "Have somebody on duty, or ask less.",
            f"Too few to say: {ENOUGH} answers say enough." if found.within.of else "Nothing was answered yet.",
        ),
    )


def _labels(report: Report) -> ChecklistItem:
    by_agent = [row for row in report.signals if row.agent and (row.interventions or row.rate.of)]
    few = [f"{row.signal} of {row.agent} ({row.rate.of})" for row in by_agent if row.rate.of < row.needed]
    answer: Answer = "unknown" if not by_agent else "does not" if few else "holds"
    return ChecklistItem(
        id="labelled",
        what="Enough interventions of each signal and agent are labelled",
        answer=answer,
        number=f"{len(by_agent) - len(few)} of {len(by_agent)} are"
        + (f"; too few: {', '.join(few[:_NAMED])}{', …' if len(few) > _NAMED else ''}" if few else ""),
        todo=_todo(answer, "Label them right or wrong: midcourse intervention label.", "No policy has stepped in yet."),
    )


def _wrong(report: Report) -> ChecklistItem:
    enough = [row for row in report.signals if row.agent and row.rate.of >= max(1, row.needed)]
    wrong = [f"{row.signal} of {row.agent} ({percent(row.rate.share)})" for row in enough if is_too_often_wrong(row)]
    answer: Answer = "unknown" if not enough else "does not" if wrong else "holds"
    return ChecklistItem(
        id="false-positives",
        what="No signal is wrong more often than the policy bears",
        answer=answer,
        number=f"{len(wrong)} of {len(enough)} with enough labels are"
        + (f": {', '.join(wrong[:_NAMED])}" if wrong else ""),
        todo=_todo(answer, "See what the review proposes: midcourse policy review.", "Too few labels."),
    )


def _pinned(report: Report) -> ChecklistItem:
    answer: Answer = "unknown" if not report.sessions else "holds" if report.pinned == report.sessions else "does not"
    return ChecklistItem(
        id="pinned",
        what="Every session has a policy, pinned to a version",
        answer=answer,
        number=f"{report.pinned:,} of {report.sessions:,} sessions",
        todo=_todo(answer, "Name a policy in the agent's terms, or a default one.", "No session began in this time."),
    )


def backtested(name: str, version: int, tried: Mapping[str, int] | None) -> ChecklistItem:
    """Whether a policy is among those that a backtest tried, by their names; None: there is no result."""
    policy = f"{name}@{version}"
    known: Mapping[str, int] = tried or {}
    runs = known.get(policy) or known.get(name)
    answer: Answer = "unknown" if tried is None else "holds" if runs else "does not"
    number = "no result was given" if tried is None else f"{runs or 0:,} runs under {policy}"
    if tried is not None and not runs:
        number += f"; the result is of {', '.join(known) or 'no policy'}"
    return ChecklistItem(
        id="backtested",
        what=f"Policy {policy} was tried on recorded runs",
        answer=answer,
        number=number,
        todo=""
        if runs
        else f"midcourse policy show {name} > {name}.yaml; "
        f"midcourse policy backtest --policy {name}.yaml --format json RUNS > FILE; then --backtest FILE.",
    )


def _budgets(report: Report) -> ChecklistItem:
    answer: Answer = "unknown" if not report.sessions else "holds" if report.budgeted == report.sessions else "does not"
    return ChecklistItem(
        id="budget",
        what="Every session has a budget",
        answer=answer,
        number=f"{report.budgeted:,} of {report.sessions:,} sessions",
        todo=_todo(answer, "Give the agent's terms a budget.", "No session began in this time."),
    )


def _task_types(report: Report) -> Iterator[ChecklistItem]:
    declared = sum(row.declared for row in report.classes)
    answer: Answer = "unknown" if not report.sessions else "holds" if declared == report.sessions else "does not"
    yield ChecklistItem(
        id="classes-declared",
        what="Every session's task class is declared",
        answer=answer,
        number=f"{declared:,} of {report.sessions:,} sessions",
        todo=_todo(answer, "Give the agent's terms a task_class.", "No session began in this time."),
    )
    held = [
        (row.task_class.replace("_", " "), row.duration) for row in report.classes if row.duration.range is not None
    ]
    wrong = [name for name, took in held if took.verdict in ("above", "below")]
    answer = "does not" if wrong else "holds" if held and all(took.verdict == "kept" for _, took in held) else "unknown"
    yield ChecklistItem(
        id="classes-fit",
        what="Runs take as long as their task class says",
        answer=answer,
        number="; ".join(
            f"{name} ({span_of_range(took.range)}): {percent(took.inside.share)} of {took.inside.of:,}"
            for name, took in held
            if took.range is not None
        )
        or "no run of a class with a range",
        todo=_todo(
            answer,
            f"Declare another class for what is called {', '.join(wrong)}, or change its up_to.",
            f"{ENOUGH} completed runs that declared each class say enough.",
        ),
    )


def _strategies(report: Report) -> Iterator[ChecklistItem]:
    never = [row for row in report.classes if row.task_class in ("short", "protected")]
    count, of = sum(report.against_strategy.values()), sum(row.sessions for row in never)
    answer: Answer = "does not" if count else "unknown" if not of else "holds"
    yield ChecklistItem(
        id="strategy-finish",
        what="No run was stopped automatically that its strategy lets finish",
        answer=answer,
        number=f"{count:,} of {of:,} sessions of short and protected classes",
        todo=_todo(
            answer, "See what stopped them: midcourse intervention alarms.", "No such session began in this time."
        ),
    )
    found = report.recoveries
    answer = _ANSWERS[found.all.verdict]
    yield ChecklistItem(
        id="strategy-continue",
        what="Runs that were stopped, or lost their process, continue",
        answer=answer,
        number=f"{percent(found.all.share)} of {found.all.of:,}; {found.open:,} not known yet",
        todo=_todo(
            answer, "See why they failed: midcourse ps --status failed", f"{ENOUGH} that are resumed say enough."
        ),
    )
    agree = report.consistency
    answer = _ANSWERS[agree.sessions.verdict]
    yield ChecklistItem(
        id="strategy-consistent",
        what="What was stopped or lost comes to the same state again",
        answer=answer,
        number=f"{agree.sessions.part:,} of {agree.sessions.of:,} sessions"
        + (f"; not: {', '.join(list(agree.flaws)[:_NAMED])}" if agree.flaws else ""),
        todo=_todo(answer, "Run: midcourse doctor", f"{ENOUGH} sessions that were stopped say enough."),
    )


def _thresholds(report: Report, policy: Policy) -> Iterator[ChecklistItem]:
    own = policy.signals not in [one.signals for one in BUILT_IN.values()]
    yield ChecklistItem(
        id="thresholds-own",
        what="The thresholds come from your own runs",
        answer="holds" if own else "does not",
        number=f"{policy.id} {'has thresholds of its own' if own else 'has the thresholds that were shipped'}",
        todo="" if own else "Calibrate them: midcourse policy calibrate RUNS > mine.yaml",
    )
    unpriced = report.unseen.get("cost", 0)
    answer: Answer = "unknown" if not report.decided else "does not" if unpriced else "holds"
    yield ChecklistItem(
        id="thresholds-cost",
        what="What a run had cost was known whenever the policy decided",
        answer=answer,
        number=f"unknown in {unpriced:,} of {report.decided:,} sessions with a decision",
        todo=_todo(
            answer, "Say what these models cost: midcourse serve --prices FILE.", "No policy has decided anything yet."
        ),
    )
    rate = report.estimates
    if policy.signals.calls_left.intervene is not None or policy.signals.calls_left.finish is not None:
        answer = _ANSWERS[rate.within.verdict]
        yield ChecklistItem(
            id="thresholds-estimate",
            what="The estimate of the remaining calls is good enough to decide by",
            answer=answer,
            number=f"within 20 % in {percent(rate.within.share)} of {rate.within.of:,}; {estimated(rate.known)}",
            todo=_todo(
                answer,
                "Set signals.calls_left to null: the runs of these agents differ too much.",
                f"{ENOUGH} runs with an estimate say enough.",
            ),
        )


def _drift(grounds: Grounds) -> Iterator[ChecklistItem]:
    rule = grounds.policy.signals.scope_drift
    if rule.warn is None and rule.intervene is None:
        return
    yield ChecklistItem(
        id="drift-encoder",
        what="Drift can be measured: an encoder is installed",
        answer="holds" if grounds.encoder is not None else "does not",
        number=grounds.encoder or grounds.no_encoder or "none",
        todo="" if grounds.encoder is not None else "pip install 'midcourse[drift]'",
    )
    is_known = rule.domain in grounds.domains
    yield ChecklistItem(
        id="drift-calibrated",
        what=f"Drift is calibrated for the domain '{rule.domain}'",
        answer="unknown" if grounds.encoder is None else "holds" if is_known else "does not",
        number=f"there are scales for {', '.join(sorted(grounds.domains)) or 'nothing'}",
        todo="" if is_known else "Choose a domain that is calibrated, or calibrate this one from your own runs.",
    )


def _todo(answer: Answer, otherwise: str, unknown: str) -> str:
    return {"holds": "", "does not": otherwise, "unknown": unknown}[answer]
