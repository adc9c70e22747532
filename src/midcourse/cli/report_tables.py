"""A report as tables that a terminal of 80 columns has room for: one question, one table."""

from collections.abc import Collection, Iterable, Sequence

from midcourse.analysis.reports.intervals import Proportion
from midcourse.analysis.reports.number_format import (
    amount,
    estimated,
    percent,
    seconds,
    signed,
    span_of_range,
    span_of_target,
    tokens,
)
from midcourse.analysis.reports.report import ClassRow, Report, SignalRow
from midcourse.cli.printer import print_lines, print_wrapped, show_table
from midcourse.core.rates import by_whom


def show(found: Report) -> None:
    """Print a report."""
    who = by_whom(found.by)
    print_wrapped(
        f"Sessions: {found.sessions:,}, {found.ended:,} ended. Stepped in: {found.interventions:,}"
        + (f", {who}" if who else "")
        + f". Notices only: {found.notices:,}"
        + (f", {found.warnings.of:,} of them labelled" if found.warnings.of else "")
        + f". Labelled: {found.labelled.of:,}"
        + (f", {percent(found.labelled.share)} right." if found.labelled.of else ".")
    )
    print_wrapped(*(f"Missed: {one.sentence}" for one in found.alerts), *found.notes)
    if found.classes:
        _show_classes(found)
        _show_figures(found)
    if found.signals:
        _show_signals(found)
    if found.kinds:
        _show_kinds(found)
    if found.answers.asked:
        print_lines("")
        print_wrapped(
            f"Questions: {found.answers.asked:,}, answered in {seconds(found.answers.seconds.p50)} (median); "
            f"{percent(found.answers.within.share)} within {seconds(found.answers.target)}; {found.answers.open} open."
        )
    if found.outlived_count:
        named = "; ".join(f"{name} ({', '.join(calls)})" for name, calls in found.outlived.items())
        print_lines("")
        print_wrapped(f"Could not be stopped: {named}")


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, wraps: Sequence[str] = ()) -> None:
    """Print a table whose columns stay on one line, but for those that may wrap."""
    print_lines("")
    show_table(heads, rows, whole=[head for head in heads if head not in wraps], title=title)


def _name(row: ClassRow, several: bool) -> str:
    name = row.task_class.replace("_", " ")
    return f"{name} ({', '.join(row.policies)})" if several else name


def _show_classes(found: Report) -> None:
    several = len({row.policies for row in found.classes}) > 1
    rows = [(_name(row, several), row) for row in found.classes]
    _table(
        "How often runs were interrupted",
        ("class", "sessions", "interrupted", "target", "verdict", "by whom"),
        [
            (
                name,
                f"{row.sessions:,}",
                percent(row.interrupted.share),
                _target(row.interrupted),
                row.interrupted.verdict,
                by_whom(row.interrupted_by) or "–",
            )
            for name, row in rows
        ],
        wraps=("class", "by whom"),
    )
    print_wrapped(f"Interrupted: {found.meanings['interrupted']}")
    _table(
        "How many completed, and of those that were stopped and were not",
        ("class", "completed", "target", "verdict", "if stopped", "if not"),
        [
            (
                name,
                _of(row.completed),
                _target(row.completed),
                row.completed.verdict if row.completed.of else "none ended",
                _of(row.outcomes.stopped),
                _of(row.outcomes.unstopped),
            )
            for name, row in rows
        ],
        wraps=("class", "target"),
    )
    rated = [
        f"{name} {_of(row.satisfied)}, {row.score:.1f} of 5 ({row.satisfied.verdict})"
        for name, row in rows
        if row.score is not None
    ]
    print_wrapped(f"Satisfied: {'; '.join(rated)}." if rated else "")
    _show_times(found, rows)
    _table(
        "How long runs took, and how fast models answered",
        ("class", "runs", "p50", "p99", "range", "verdict", "tok/s p50", "p99 "),
        [
            (
                name,
                f"{row.duration.worked.count:,}",
                seconds(row.duration.worked.p50),
                seconds(row.duration.worked.p99),
                span_of_range(row.duration.range) if row.duration.range is not None else "–",
                row.duration.verdict if row.duration.range is not None else "no range",
                tokens(row.token_rate.p50).removesuffix(" tok/s"),
                tokens(row.token_rate.p99).removesuffix(" tok/s"),
            )
            for name, row in rows
        ],
        wraps=("class", "tok/s p50"),
    )


def _show_times(found: Report, classes: Sequence[tuple[str, ClassRow]]) -> None:
    rows = [
        (f"{what}, {name}", taken)
        for name, row in classes
        for what, taken in (("stop", row.stops), ("response", row.response))
        if taken.count
    ]
    if not rows:
        return
    aims = {(one.target_p50, one.target_p99) for _, one in rows}
    _table(
        "How soon a stop was decided (response), and nothing ran (stop)",
        ("what", "count", "p50", "verdict", "p99", "verdict "),
        [
            (
                name,
                f"{one.count:,}",
                _timed(one.p50, one.target_p50, aims),
                one.verdict_p50,
                _timed(one.p99, one.target_p99, aims),
                one.verdict_p99,
            )
            for name, one in rows
        ],
        wraps=("what",),
    )
    if len(aims) == 1:
        [(p50, p99)] = aims
        print_wrapped(f"Targets: at most {seconds(p50)} (p50) and {seconds(p99)} (p99).")
    print_wrapped(f"Response: {found.meanings['response']}")


def _timed(value: float | None, target: float | None, aims: Collection[object]) -> str:
    """Return a time, with its target beside it where rows have different ones."""
    return seconds(value) if len(aims) == 1 else f"{seconds(value)} (≤ {seconds(target)})"


def _show_figures(found: Report) -> None:
    estimates, recoveries, worth = found.estimates, found.recoveries, found.returns
    lines = (
        (
            "calls left",
            f"estimated within 20 % in {_judged(estimates.within)}; {estimated(estimates.known)}"
            if estimates.within.of
            else f"unknown: {estimated(estimates.known)}",
        ),
        (
            "recovered",
            f"{_judged(recoveries.all)}; after a stop {_of(recoveries.after_stop)}, after a "
            f"lost process {_of(recoveries.after_loss)}; {recoveries.open:,} not known yet",
        ),
        ("consistent", _judged(found.consistency.sessions)),
        (
            "stopped runs",
            f"{_of(found.outcomes.stopped)} completed, {_of(found.outcomes.unstopped)} of the others: "
            f"{signed(found.outcomes.difference, 'pp')}; {found.outcomes.cancelled:,} cancelled",
        ),
        (
            "return",
            f"{signed(worth.roi)}: {amount(worth.worth)} worth for {amount(worth.cost)} cost, in {worth.counted:,} of "
            f"{worth.of:,} automatic interventions"
            if worth.counted
            else f"unknown: worth and cost are known of 0 of {worth.of:,} automatic interventions",
        ),
        (
            "token rate",
            f"p50 {tokens(found.token_rate.p50)}, p99 {tokens(found.token_rate.p99)}, of {found.token_rate.count:,} "
            "model calls"
            if found.token_rate.count
            else "unknown (of 0 model calls)",
        ),
    )
    print_lines("")
    print_lines(*(f"{name:<14}{words}" for name, words in lines), hang=14)
    print_lines(*(f"Not consistent: {name}: {why}" for name, why in found.consistency.flaws.items()), hang=2)


def _show_signals(found: Report) -> None:
    agents = {row.signal: sum(one.signal == row.signal for one in found.signals) - 1 for row in found.signals}
    _table(
        "Whether it was right to step in",
        ("signal", "agent", "stepped in", "notices only", "right", "wrong", "unsure", "false positives", "limit"),
        [
            (
                row.signal,
                row.agent or "(all)",
                f"{row.interventions:,}",
                row.only_told,
                str(row.right),
                str(row.wrong),
                str(row.unsure),
                _false_positives(row),
                percent((row.rate.target or (0.0, 1.0))[1]),
            )
            for row in found.signals
            if row.agent or agents[row.signal] > 1
        ],
        wraps=("signal", "agent", "stepped in", "notices only", "false positives"),
    )
    print_wrapped(
        f"False positives: {found.meanings['false_positives']}", f"Notices only: {found.meanings['only_told']}"
    )


def _show_kinds(found: Report) -> None:
    _table(
        "What stepping in took and cost",
        ("kind", "count", "by whom", "until stopped", "stopped for", "recovery", "money", "quality"),
        [
            (
                row.kind.replace("_", " "),
                f"{row.count:,}",
                by_whom(row.by),
                seconds(row.save.p50),
                seconds(row.wait.p50),
                seconds(row.recovery.p50),
                amount(row.dollars, is_estimate=row.estimated > 0),
                percent(row.quality),
            )
            for row in found.kinds
        ],
        wraps=("kind", "by whom", "until stopped", "stopped for"),
    )


def _false_positives(row: SignalRow) -> str:
    if row.only_warned:
        return "only warned"
    return percent(row.rate.share) if row.rate.of >= row.needed else f"{row.rate.of} labelled of {row.needed}"


def _target(rate: Proportion) -> str:
    return span_of_target(rate.target or (0.0, 1.0))


def _of(rate: Proportion) -> str:
    """Return a share and how many it is of: ``75 % of 4``; of nothing it is not known."""
    return f"{percent(rate.share)} of {rate.of:,}" if rate.of else "unknown (of 0)"


def _judged(rate: Proportion) -> str:
    return f"{_of(rate)} (target {_target(rate)}: {rate.verdict})" if rate.of else _of(rate)
