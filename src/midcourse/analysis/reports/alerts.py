"""The targets that a report missed, each as a sentence. Pure."""

from collections.abc import Iterable

from midcourse.analysis.reports.intervals import Proportion
from midcourse.analysis.reports.number_format import percent, seconds, span_of_range, span_of_target
from midcourse.analysis.reports.report import Alert, Answers, ClassRow, Consistency, Estimates, Recoveries, SignalRow


def alerts_of(
    classes: Iterable[ClassRow],
    signals: Iterable[SignalRow],
    answers: Answers,
    estimates: Estimates,
    recoveries: Recoveries,
    consistency: Consistency,
) -> tuple[Alert, ...]:
    """Return every target that was missed, in the order of a report."""
    shares = (
        ("Estimated within 20 %", "calls that are left", estimates.within),
        ("Recovered", "all classes", recoveries.all),
        ("Consistent", "all classes", consistency.sessions),
    )
    return (
        *_class_alerts(classes),
        *_signal_alerts(signals),
        *_answer_alerts(answers),
        *(
            _alert(what, where, percent(one.share), span_of_target(one.target or (0.0, 1.0)), one.of)
            for what, where, one in shares
            if missed(one, above=False)
        ),
    )


def missed(found: Proportion, *, above: bool = True, below: bool = True) -> bool:
    """Return True if a target was missed on a side that counts. To complete more than the target is no miss."""
    return (found.verdict == "above" and above) or (found.verdict == "below" and below)


def _alert(what: str, where: str, measured: str, target: str, count: int) -> Alert:
    sentence = f"{what}, {where}: {measured} of {count:,}; the target is {target}."
    return Alert(what=what, where=where, measured=measured, target=target, count=count, sentence=sentence)


def _class_alerts(rows: Iterable[ClassRow]) -> list[Alert]:
    found: list[Alert] = []
    for row in rows:
        where = row.task_class.replace("_", " ")
        for what, one, above in (
            ("Interrupted", row.interrupted, True),
            ("Completed", row.completed, False),
            ("Satisfied", row.satisfied, False),
        ):
            if one.target is not None and missed(one, above=above):
                found.append(_alert(what, where, percent(one.share), span_of_target(one.target), one.of))
        for what, taken in (("Response", row.response), ("Stop", row.stops)):
            for name, value, target, verdict in (
                ("p50", taken.p50, taken.target_p50, taken.verdict_p50),
                ("p99", taken.p99, taken.target_p99, taken.verdict_p99),
            ):
                if verdict == "above":
                    aim = f"at most {seconds(target)}"
                    found.append(_alert(f"{what} {name}", where, seconds(value), aim, taken.count))
        took = row.duration
        if took.range is not None and took.verdict in ("above", "below"):
            aim = span_of_range(took.range)
            found.append(_alert("Run duration p50", where, seconds(took.worked.p50), aim, took.inside.of))
    return found


def is_too_often_wrong(row: SignalRow) -> bool:
    """Return True if more labels are wrong than the policy's limit, of enough. It then only notifies people."""
    limit = row.rate.target[1] if row.rate.target else 1.0
    return row.rate.of >= max(1, row.needed) and row.rate.share is not None and row.rate.share > limit


def _signal_alerts(rows: Iterable[SignalRow]) -> list[Alert]:
    return [
        _alert(
            "False positives",
            f"{row.signal} of {row.agent}",
            percent(row.rate.share),
            span_of_target(row.rate.target or (0.0, 1.0)),
            row.rate.of,
        )
        for row in rows
        if row.agent and is_too_often_wrong(row)
    ]


def _answer_alerts(row: Answers) -> list[Alert]:
    if row.within.verdict != "below" or row.target is None:
        return []
    measured = f"{percent(row.within.share)} in time"
    aim = f"half of them within {seconds(row.target)}"
    return [_alert("Answered", "all questions", measured, aim, row.within.of)]
