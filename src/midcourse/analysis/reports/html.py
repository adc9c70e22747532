"""The report as one page of HTML that needs nothing else: no network, no script; light, dark and on paper.

Every text of a session comes from somewhere else: it passes through ``escape``, and nothing is put together otherwise.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from midcourse.analysis.reports.alerts import is_too_often_wrong
from midcourse.analysis.reports.checklist import ChecklistItem
from midcourse.analysis.reports.markup import SIGN, STYLE, rate_cells, table, verdict
from midcourse.analysis.reports.number_format import amount, percent, seconds, span_of_range, span_of_target
from midcourse.analysis.reports.page_sections import continued, durations, outcomes, returned
from midcourse.analysis.reports.report import Answers, ClassRow, KindRow, Report, SignalRow, Times
from midcourse.analysis.reports.svg_charts import bottom_of, histogram, range_bar, scale_of
from midcourse.core.rates import Stopper, by_whom

POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy under which the page shows as it is, and nothing in it can run."""


def page(report: Report, items: Sequence[ChecklistItem] = ()) -> str:
    when = f"{_day(report.since)} to {_day(report.until)}"
    body = [
        "<header><h1>Report</h1>",
        f'<p class="sub">{when} · {report.sessions:,} sessions · {_policies(report)}</p></header><main>',
        _figures(report),
        _alerts(report),
        _list(report.notes),
        _classes(report.classes, report.meanings),
        durations(report.classes, report.meanings),
        outcomes(report),
        continued(report),
        _times(report),
        _signals(report.signals, report.meanings),
        _kinds(report.kinds, report.meanings),
        _answers(report.answers),
        _outlived(report),
        _checklist(items),
        "<h2>How this was counted</h2>",
        _list(report.method),
        "</main>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Report, {when} · Midcourse</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(max(0.0, at), UTC):%-d %b %Y %H:%M} UTC"


def _policies(report: Report) -> str:
    names = [escape(name) for name in report.policies]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"policy {', '.join(names[:3])}{more}" if names else "no policy"


def _list(lines: Iterable[str]) -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="plain">{found}</ul>' if found else ""


def _figures(report: Report) -> str:
    said, warned, answers = report.labelled, report.warnings, report.answers
    told = (
        f"warnings without an intervention; {warned.of:,} labelled" if warned.of else "warnings without an intervention"
    )
    target = f"target {seconds(answers.target)}" if answers.target is not None else "nothing was asked"
    figures = [
        ("stepped in", f"{report.interventions:,}", _by(report.by) or "none"),
        ("notices only", f"{report.notices:,}", told),
        ("right", percent(said.share), f"of {said.of:,} labelled"),
        ("waste avoided", amount(report.dollars_avoided), f"expected; at a cost of {amount(report.dollars_cost)}"),
        returned(report),
        ("answered in", seconds(answers.seconds.p50), f"median; {target}"),
        ("could not be stopped", f"{report.outlived_count:,}", "sessions with a call that continued"),
    ]
    return (
        "<dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>" for name, value, more in figures)
        + "</dl>"
    )


def _by(counts: Mapping[Stopper, int]) -> str:
    return escape(by_whom(counts))


def _alerts(report: Report) -> str:
    if not report.alerts:
        return '<p class="sub">No target was missed, as far as can be said.</p>'
    lines = "".join(f"<li>{escape(one.sentence)}</li>" for one in report.alerts)
    return f'<h2>Missed targets</h2><ul class="alerts">{lines}</ul>'


def _classes(rows: Sequence[ClassRow], meanings: Mapping[str, str]) -> str:
    if not rows:
        return "<h2>Classes against their targets</h2><p>No session began in this time.</p>"
    most, least = scale_of([row.interrupted for row in rows]), bottom_of([row.completed for row in rows])

    def cells(row: ClassRow) -> Sequence[str]:
        took = row.duration.range
        limits = span_of_range(took) if took is not None else "open-ended" if row.task_class == "very_long" else ""
        dim = f' <span class="dim">{limits}</span>' if limits else ""
        several = f'<br><span class="dim">{escape(", ".join(row.policies))}</span>' if len(names) > 1 else ""
        return (
            f"{row.task_class.replace('_', ' ')}{dim}{several}",
            f"{row.sessions:,}",
            *rate_cells(row.interrupted, range_bar(row.interrupted, most=most)),
            _by(row.interrupted_by).replace(", ", "<br>") or "–",
            *rate_cells(
                row.completed,
                range_bar(row.completed, least=least, kind="ok" if row.completed.verdict == "above" else ""),
                above_is_fine=True,
            ),
            _satisfied(row),
        )

    names = {row.policies for row in rows}
    heads = (
        "Class", ">Sessions", ">Interrupted", "against its target", "Verdict", "By whom", ">Completed",
        "against its target", "Verdict", "Satisfied",
    )  # fmt: skip
    caption = (
        f"Interrupted: {meanings['interrupted']} Completed: {meanings['completed']} The band is the target, the line "
        f"95 % confidence. Drawn from 0 to {percent(most)} where interrupted, from {percent(least)} to 100 % where "
        "completed."
    )
    return "<h2>Classes against their targets</h2>" + table("Classes", caption, heads, map(cells, rows))


def _satisfied(row: ClassRow) -> str:
    rate = row.satisfied
    if not rate.of or row.score is None:
        return "–"
    words = f'<span class="dim">of {rate.of:,}, {row.score:.1f} of 5</span>'
    return f"{percent(rate.share)} {words}<br>{verdict(rate.verdict, above_is_fine=True)}"


def _times(report: Report) -> str:
    rows = [
        (f"{name}, {row.task_class.replace('_', ' ')}", taken)
        for row in report.classes
        for name, taken in (("stop", row.stops), ("response", row.response))
        if taken.count
    ]
    head = "<h2>How fast a stop is a stop</h2>"
    targets = [taken.target_p99 for _, taken in rows if taken.target_p99 is not None]
    drawn = histogram(report.histogram, report.stops.p50, report.stops.p99, min(targets) if targets else None)
    apart = report.waited
    waited = (
        f"{apart.count:,} more let a call finish first and are counted apart: median {seconds(apart.p50)}, longest "
        f"{seconds(apart.most)}."
        if apart.count
        else ""
    )
    if not rows:
        return f"{head}<p>Nothing was stopped. {waited}</p>"
    words = (
        f"From the request for a stop until nothing ran: {report.stops.count:,} stops, median "
        f"{seconds(report.stops.p50)}, p99 {seconds(report.stops.p99)}. {waited}"
    )
    figure = f"<figure>{drawn}<figcaption>{words}</figcaption></figure>" if drawn else f"<p>{words}</p>"

    def cells(one: tuple[str, Times]) -> Sequence[str]:
        name, taken = one
        return (
            name, f"{taken.count:,}", seconds(taken.p50), seconds(taken.target_p50), verdict(taken.verdict_p50),
            seconds(taken.p99), seconds(taken.target_p99), verdict(taken.verdict_p99), seconds(taken.most),
        )  # fmt: skip

    heads = ("What", ">Count", ">p50", ">target", "Verdict", ">p99", ">target", "Verdict", ">longest")
    caption = f"Against the targets of each class. Response: {report.meanings['response']}"
    return head + figure + table("Times", caption, heads, map(cells, rows))


def _signals(rows: Sequence[SignalRow], meanings: Mapping[str, str]) -> str:
    head = "<h2>Were we right to step in?</h2>"
    if not rows:
        return f"{head}<p>No policy stepped in.</p>"
    agents = {signal: sum(row.signal == signal for row in rows) - 1 for signal in {row.signal for row in rows}}
    rows = [row for row in rows if row.agent or agents[row.signal] > 1]
    most = scale_of([row.rate for row in rows])

    def cells(row: SignalRow) -> Sequence[str]:
        signal = escape(row.signal.replace("_", " "))
        name = f"{signal}, all agents" if not row.agent else f'{signal} <span class="dim">{escape(row.agent)}</span>'
        few = row.rate.of < row.needed
        kind = "few" if few else "no" if is_too_often_wrong(row) else "ok"
        words = f"{row.rate.of} labelled; needs {row.needed}" if few else "too often wrong" if kind == "no" else "kept"
        if row.only_warned:
            words = "only warned"
        aim = span_of_target(row.rate.target) if row.rate.target else "–"
        return (
            name, f"{row.interventions:,}", row.only_told, f"{row.right:,}", f"{row.wrong:,}",
            f"{row.unsure:,}", percent(row.rate.share),
            f'{range_bar(row.rate, most=most, kind=kind)}<span class="dim">{aim}</span>',
            f'<span class="verdict {kind}"><span aria-hidden="true">{SIGN[kind]} </span>{words}</span>',
        )  # fmt: skip

    heads = (
        "Signal", ">Stepped in", ">Notices only", ">Right", ">Wrong", ">Unsure", ">False positives", "against its "
        "limit",
        "Verdict",
    )  # fmt: skip
    caption = (
        f"False positives: {meanings['false_positives']} Drawn from 0 to {percent(most)}. "
        f"Notices only: {meanings['only_told']}"
    )
    return head + table("Signals", caption, heads, map(cells, rows))


def _kinds(rows: Sequence[KindRow], meanings: Mapping[str, str]) -> str:
    head = "<h2>What stepping in took and cost</h2>"
    if not rows:
        return f"{head}<p>There was no intervention.</p>"

    def cells(row: KindRow) -> Sequence[str]:
        expected = (
            "–" if row.expected_avoided is None else f"{amount(row.expected_avoided)} / {amount(row.expected_cost)}"
        )
        real = "–" if row.cost is None else f'{amount(row.cost)} <span class="dim">of {row.compared}</span>'
        quality = "–" if row.quality is None else f'{percent(row.quality)} <span class="dim">of {row.quality_of}</span>'
        return (
            row.kind.replace("_", " "), f"{row.count:,}", _by(row.by).replace(", ", "<br>"), seconds(row.save.p50),
            seconds(row.wait.p50), seconds(row.recovery.p50),
            amount(row.dollars, is_estimate=bool(row.estimated)),
            "–" if row.kilobytes is None else f"{row.kilobytes:.1f}", quality,
            "–" if row.progress is None else f"{100 * row.progress:+.0f} pp", expected, real,
        )  # fmt: skip

    heads = (
        "Kind", ">Count", "By whom", ">until stopped", ">stopped for", ">recovery", ">money", ">KB saved",
        ">quality", ">plan since", ">expected: avoided / cost", ">really cost",
    )  # fmt: skip
    caption = (
        f"{meanings['stepped_in']} Times are medians. ~ marks estimates. Real cost: money and stopped minutes, "
        "as far as known."
    )
    return head + table("Interruptions by kind", caption, heads, map(cells, rows))


def _answers(found: Answers) -> str:
    head = "<h2>How soon people answered</h2>"
    if not found.asked:
        return f"{head}<p>Nothing was asked.</p>"
    taken, resolved = found.seconds, found.resolution
    return head + (
        f"<p>{found.asked:,} questions, {taken.count:,} answered, {found.open:,} open. Time to response: median "
        f"{seconds(taken.p50)}, p99 {seconds(taken.p99)}; {percent(found.within.share)} within the target of "
        f"{seconds(found.target)}. Time to resolution, from the interruption until it continued or ended: median "
        f"{seconds(resolved.p50)}, p99 {seconds(resolved.p99)}, of {resolved.count:,}.</p>"
    )


def _outlived(report: Report) -> str:
    if not report.outlived_count:
        return ""
    named = [f"{name}: {', '.join(calls)}" for name, calls in report.outlived.items()]
    more = report.outlived_count - len(named)
    return "<h2>Could not be stopped</h2>" + _list([*named, *([f"and {more:,} more sessions"] if more else [])])


def _checklist(items: Sequence[ChecklistItem]) -> str:
    if not items:
        return ""
    kinds = {"holds": "ok", "does not": "no", "unknown": "few"}

    def cells(one: ChecklistItem) -> Sequence[str]:
        kind = kinds[one.answer]
        return (
            escape(one.what),
            f'<span class="verdict {kind}"><span aria-hidden="true">{SIGN[kind]} </span>{one.answer}</span>',
            escape(one.number),
            escape(one.todo),
        )

    heads = ("What", "Answer", "By", "To do")
    return "<h2>Before it goes live</h2>" + table(
        "Checklist", "Computed, not ticked.", heads, map(cells, items), is_text=True
    )
