"""The targets that a report missed, each as a sentence. Pure."""

from collections.abc import Iterable, Iterator

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
) -> Iterator[Alert]:
    """Yield every target that was missed, in the order of a report."""
    for row in classes:
        yield from _class_alerts(row)
    for row in signals:
        if row.agent and is_too_often_wrong(row):
            yield _share_alert("False positives", f"{row.signal} of {row.agent}", row.rate)
    if answers.within.verdict == "below" and answers.target is not None:
        measured, aim = f"{percent(answers.within.share)} in time", f"half of them within {seconds(answers.target)}"
        yield _alert("Answered", "all questions", measured, aim, answers.within.of)
    for what, where, one in (
        ("Estimated within 20 %", "calls that are left", estimates.within),
        ("Recovered", "all classes", recoveries.all),
        ("Consistent", "all classes", consistency.sessions),
    ):
        if one.verdict == "below":
            yield _share_alert(what, where, one)


def _class_alerts(row: ClassRow) -> Iterator[Alert]:
    where = row.task_class.replace("_", " ")
    for what, one, misses in (
        ("Interrupted", row.interrupted, ("above", "below")),
        ("Completed", row.completed, ("below",)),  # to complete more than the target is no miss
        ("Satisfied", row.satisfied, ("below",)),
    ):
        if one.target is not None and one.verdict in misses:
            yield _share_alert(what, where, one)
    for what, taken in (("Response", row.response), ("Stop", row.stops)):
        for name, value, target, verdict in (
            ("p50", taken.p50, taken.target_p50, taken.verdict_p50),
            ("p99", taken.p99, taken.target_p99, taken.verdict_p99),
        ):
            if verdict == "above":
                yield _alert(f"{what} {name}", where, seconds(value), f"at most {seconds(target)}", taken.count)
    took = row.duration
    if took.range is not None and took.verdict in ("above", "below"):
        aim = span_of_range(took.range)
        yield _alert("Run duration p50", where, seconds(took.worked.p50), aim, took.inside.of)


def is_too_often_wrong(row: SignalRow) -> bool:
    """Return True if more labels are wrong than the policy's limit, of enough. It then only notifies people."""
    limit = row.rate.target[1] if row.rate.target else 1.0
    return row.rate.of >= max(1, row.needed) and row.rate.share is not None and row.rate.share > limit


def _share_alert(what: str, where: str, found: Proportion) -> Alert:
    return _alert(what, where, percent(found.share), span_of_target(found.target or (0.0, 1.0)), found.of)


def _alert(what: str, where: str, measured: str, target: str, count: int) -> Alert:
    sentence = f"{what}, {where}: {measured} of {count:,}; the target is {target}."
    return Alert(what=what, where=where, measured=measured, target=target, count=count, sentence=sentence)
