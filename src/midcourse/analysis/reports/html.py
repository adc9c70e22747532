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
from midcourse.analysis.reports.intervals import Proportion, Verdict
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
from midcourse.analysis.reports.report import Answers, ClassRow, KindRow, Report, SignalRow, Times
from midcourse.analysis.reports.svg_charts import bottom_of, histogram, range_bar, scale_of, time_bar
from midcourse.core.rates import Stopper, by_whom

STYLE: Final = """
:root{color-scheme:light dark;--bg:#f5f4f0;--line:#dcd9d0;--edge:#858176;--ink:#191c1e;--ink2:#474c4f;--ink3:#62676a;
--band:#cfe3e5;--bar:#474c4f;--ok:#2a6a3b;--no:#8a4f00;--bad:#b0241c;--tint:#fcf0d8;--focus:#0a6571}
@media (prefers-color-scheme:dark){:root{--bg:#0d1113;--line:#272f34;--edge:#707c82;--ink:#e8ecec;--ink2:#b4bdc0;
--ink3:#8f9a9e;--band:#1f454b;--bar:#b4bdc0;--ok:#7fcc8f;--no:#ffb938;--bad:#ff7d71;--tint:#2c2413;--focus:#5fc9d4}}
*{box-sizing:border-box}
body{margin:0 auto;padding:32px;max-width:1376px;background:var(--bg);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:22px;font-weight:600;margin:0}h2{font-size:16px;font-weight:600;margin:36px 0 8px}
p{margin:4px 0;max-width:90ch}.sub{color:var(--ink3)}
dl{display:flex;flex-wrap:wrap;gap:12px 48px;margin:24px 0 0}dt{color:var(--ink3)}
dd{margin:0;font-size:22px;font-weight:600}dd small{display:block;font-size:13px;font-weight:400;color:var(--ink3)}
.wide{overflow-x:auto}.wide:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
table{border-collapse:collapse;width:100%;min-width:max-content}
caption{text-align:left;color:var(--ink3);padding:0 0 6px;white-space:normal;max-width:90ch}
th,td{padding:7px 20px 7px 0;text-align:left;vertical-align:middle;border-bottom:1px solid var(--line)}
thead th{font-weight:500;color:var(--ink3);border-bottom:1px solid var(--edge);vertical-align:bottom}
tbody th{font-weight:600}.r{text-align:right}.dim{color:var(--ink3);font-weight:400}
tbody td:last-child,thead th:last-child{padding-right:0}
table.text{min-width:640px}table.text td,table.text th{vertical-align:top}table.text tbody th{width:34%}
.verdict{white-space:nowrap}.verdict.ok{color:var(--ok)}.verdict.no{color:var(--no);font-weight:600}
.verdict.few{color:var(--ink3)}
ul.alerts{list-style:none;margin:16px 0 0;padding:10px 16px;background:var(--tint);border-left:3px solid var(--no)}
ul.alerts li{padding:2px 0}ul.plain{margin:4px 0;padding:0 0 0 18px;color:var(--ink2);max-width:100ch}
svg{display:block;max-width:100%}figure{margin:0 0 20px;max-width:860px}figcaption{color:var(--ink3)}
svg text{fill:var(--ink2);font-size:12px}svg text.small{fill:var(--ink3);font-size:11px}
.bar{fill:var(--bar)}.edge{stroke:var(--edge);stroke-width:1}.band{fill:var(--band)}
.whisker{stroke:var(--ink2);stroke-width:2}.limit{stroke:var(--no);stroke-width:2;stroke-dasharray:6 4}
circle.ok{fill:var(--ok)}circle.no{fill:var(--no)}circle.few{fill:var(--bg);stroke:var(--ink2);stroke-width:2}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@media (max-width:720px){body{padding:16px 12px}dl{gap:12px 28px}caption{max-width:calc(100vw - 24px)}}
@media print{body{padding:0;max-width:none;font-size:10pt;background:#fff;color:#000}.wide{overflow:visible}
table{min-width:0}h2{break-after:avoid}tr,figure{break-inside:avoid}th,td{padding:4px 10px 4px 0}}
"""
POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy under which the page shows as it is, and nothing in it can run."""

_SIGNS: Final = {"ok": "●", "no": "▲", "few": "○"}


def page(report: Report, items: Sequence[ChecklistItem] = ()) -> str:
    when = f"{_day(report.since)} to {_day(report.until)}"
    body = [
        "<header><h1>Report</h1>",
        f'<p class="sub">{when} · {report.sessions:,} sessions · {_policies(report)}</p></header><main>',
        _figures(report),
        _alerts(report),
        _list(report.notes),
        _classes(report.classes, report.meanings),
        _durations(report.classes, report.meanings),
        _outcomes(report),
        _continued(report),
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


def _list(lines: Iterable[str], kind: str = "plain") -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="{kind}">{found}</ul>' if found else ""


def _figures(report: Report) -> str:
    said, warned, answers = report.labelled, report.warnings, report.answers
    told = "warnings without an intervention" + (f"; {warned.of:,} labelled" if warned.of else "")
    target = f"target {seconds(answers.target)}" if answers.target is not None else "nothing was asked"
    figures = [
        ("stepped in", f"{report.interventions:,}", _by(report.by) or "none"),
        ("notices only", f"{report.notices:,}", told),
        ("right", percent(said.share), f"of {said.of:,} labelled"),
        ("waste avoided", amount(report.dollars_avoided), f"expected; at a cost of {amount(report.dollars_cost)}"),
        _returned(report),
        ("answered in", seconds(answers.seconds.p50), f"median; {target}"),
        ("could not be stopped", f"{report.outlived_count:,}", "sessions with a call that continued"),
    ]
    cells = (f"<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>" for name, value, more in figures)
    return f"<dl>{''.join(cells)}</dl>"


def _by(counts: Mapping[Stopper, int]) -> str:
    return escape(by_whom(counts))


def _alerts(report: Report) -> str:
    if not report.alerts:
        return '<p class="sub">No target was missed, as far as can be said.</p>'
    return "<h2>Missed targets</h2>" + _list((one.sentence for one in report.alerts), "alerts")


def _classes(rows: Sequence[ClassRow], meanings: Mapping[str, str]) -> str:
    if not rows:
        return "<h2>Classes against their targets</h2><p>No session began in this time.</p>"
    most, least = scale_of([row.interrupted for row in rows]), bottom_of([row.completed for row in rows])

    def cells(row: ClassRow) -> Sequence[str]:
        took = row.duration.range
        limits = span_of_range(took) if took is not None else "open-ended" if row.task_class == "very_long" else ""
        several = f"<br>{_dim(escape(', '.join(row.policies)))}" if len(names) > 1 else ""
        return (
            f"{row.task_class.replace('_', ' ')}{limits and f' {_dim(limits)}'}{several}",
            f"{row.sessions:,}",
            *_rate_cells(row.interrupted, range_bar(row.interrupted, most=most)),
            _by(row.interrupted_by).replace(", ", "<br>") or "–",
            *_rate_cells(
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
    return "<h2>Classes against their targets</h2>" + _table("Classes", caption, heads, map(cells, rows))


def _satisfied(row: ClassRow) -> str:
    rate = row.satisfied
    if not rate.of or row.score is None:
        return "–"
    words = _dim(f"of {rate.of:,}, {row.score:.1f} of 5")
    return f"{percent(rate.share)} {words}<br>{_verdict(rate.verdict, above_is_fine=True)}"


def _durations(rows: Sequence[ClassRow], meanings: Mapping[str, str]) -> str:
    head = "<h2>How long runs took</h2>"
    if not any(row.duration.worked.count for row in rows):
        return f"{head}<p>No run has completed.</p>"
    ends = [end for row in rows for end in (*(row.duration.range or ()), row.duration.worked.most)]
    most = 1.2 * max(end for end in (300.0, *ends) if end is not None)

    def cells(row: ClassRow) -> Sequence[str]:
        took, rate = row.duration, row.token_rate
        aim = span_of_range(took.range) if took.range is not None else "no range"
        said = _verdict(took.verdict) if took.range is not None and took.inside.of else _dim("–")
        return (
            row.task_class.replace("_", " "),
            f"{took.worked.count:,}",
            seconds(took.worked.p50),
            seconds(took.worked.p99),
            time_bar(took, most=most) + _dim(aim),
            _of(took.inside),
            said,
            tokens(rate.p50),
            tokens(rate.p99),
            f"{rate.count:,}",
        )

    heads = (
        "Class", ">Completed", ">p50", ">p99", "against its range", ">Inside it", "Verdict", ">Token rate p50", ">p99",
        ">Model calls",
    )  # fmt: skip
    caption = (
        f"{meanings['duration']} Drawn from 1 s to {seconds(most)}, logarithmic: the band is the range, the mark p50, "
        "the line reaches to p99. How token rates are counted is said below."
    )
    return head + _table("Run durations", caption, heads, map(cells, rows))


def _continued(report: Report) -> str:
    found, estimates = report.recoveries, report.estimates
    rows = (
        ("Recovered", found.all, f"{found.open:,} not known yet"),
        ("after a stop", found.after_stop, ""),
        ("after its process was lost", found.after_loss, ""),
        ("Journal and store agree", report.consistency.sessions, "sessions that were stopped or lost"),
        (
            "Calls left estimated within 20 %",
            estimates.within,
            f"{estimated(estimates.known)}; middle error {percent(estimates.error)}",
        ),
    )
    least = bottom_of([rate for _, rate, _ in rows])

    def cells(row: tuple[str, Proportion, str]) -> Sequence[str]:
        name, rate, more = row
        if not rate.of:
            return name, "unknown", "0", "", _dim("–"), more
        shown, bar, said = _rate_cells(rate, range_bar(rate, least=least))
        return name, shown, f"{rate.of:,}", bar, said, more

    heads = ("What", ">Share", ">Of", "against its target", "Verdict", "And")
    caption = f"Drawn from {percent(least)} to 100 %; the line is 95 % confidence. How each is counted is said below."
    flaws = _list(f"{name}: {why}" for name, why in report.consistency.flaws.items())
    table = _table("Recovery and consistency", caption, heads, map(cells, rows))
    return "<h2>Did stopped runs continue?</h2>" + table + flaws


def _outcomes(report: Report) -> str:
    rows = [("all", report.outcomes), *((row.task_class.replace("_", " "), row.outcomes) for row in report.classes)]
    heads = ("Class", ">If stopped", ">target", "Verdict", ">If not", ">Difference", ">Cancelled")
    body = [
        (
            name,
            _of(one.stopped),
            span_of_target(one.stopped.target) if one.stopped.target is not None else "–",
            _verdict(one.stopped.verdict, above_is_fine=True) if one.stopped.target and one.stopped.of else "–",
            _of(one.unstopped),
            signed(one.difference, "pp"),
            f"{one.cancelled:,}",
        )
        for name, one in rows
    ]
    if not any(one.stopped.of or one.unstopped.of for _, one in rows):
        return ""
    return "<h2>Did they complete?</h2>" + _table("Completion after a stop", report.meanings["after_stop"], heads, body)


def _returned(report: Report) -> tuple[str, str, str]:
    found = report.returns
    of = f"known of {found.counted:,} of {found.of:,} automatic"
    if found.roi is None:
        return "return", "unknown", of
    return "return", signed(found.roi), f"{amount(found.worth)} worth for {amount(found.cost)} cost; {of}"


def _of(rate: Proportion) -> str:
    return f"{percent(rate.share)} {_dim(f'of {rate.of:,}')}" if rate.of else "unknown"


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
            name, f"{taken.count:,}", seconds(taken.p50), seconds(taken.target_p50), _verdict(taken.verdict_p50),
            seconds(taken.p99), seconds(taken.target_p99), _verdict(taken.verdict_p99), seconds(taken.most),
        )  # fmt: skip

    heads = ("What", ">Count", ">p50", ">target", "Verdict", ">p99", ">target", "Verdict", ">longest")
    caption = f"Against the targets of each class. Response: {report.meanings['response']}"
    return head + figure + _table("Times", caption, heads, map(cells, rows))


def _signals(rows: Sequence[SignalRow], meanings: Mapping[str, str]) -> str:
    head = "<h2>Were we right to step in?</h2>"
    if not rows:
        return f"{head}<p>No policy stepped in.</p>"
    agents = {signal: sum(row.signal == signal for row in rows) - 1 for signal in {row.signal for row in rows}}
    rows = [row for row in rows if row.agent or agents[row.signal] > 1]
    most = scale_of([row.rate for row in rows])

    def cells(row: SignalRow) -> Sequence[str]:
        signal = escape(row.signal.replace("_", " "))
        name = f"{signal}, all agents" if not row.agent else f"{signal} {_dim(escape(row.agent))}"
        few = row.rate.of < row.needed
        kind = "few" if few else "no" if is_too_often_wrong(row) else "ok"
        words = f"{row.rate.of} labelled; needs {row.needed}" if few else "too often wrong" if kind == "no" else "kept"
        if row.only_warned:
            words = "only warned"
        aim = span_of_target(row.rate.target) if row.rate.target else "–"
        return (
            name, f"{row.interventions:,}", row.only_told, f"{row.right:,}", f"{row.wrong:,}",
            f"{row.unsure:,}", percent(row.rate.share),
            range_bar(row.rate, most=most, kind=kind) + _dim(aim),
            _mark(kind, words),
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
    return head + _table("Signals", caption, heads, map(cells, rows))


def _kinds(rows: Sequence[KindRow], meanings: Mapping[str, str]) -> str:
    head = "<h2>What stepping in took and cost</h2>"
    if not rows:
        return f"{head}<p>There was no intervention.</p>"

    def cells(row: KindRow) -> Sequence[str]:
        expected = (
            "–" if row.expected_avoided is None else f"{amount(row.expected_avoided)} / {amount(row.expected_cost)}"
        )
        real = "–" if row.cost is None else f"{amount(row.cost)} {_dim(f'of {row.compared}')}"
        quality = "–" if row.quality is None else f"{percent(row.quality)} {_dim(f'of {row.quality_of}')}"
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
    return head + _table("Interruptions by kind", caption, heads, map(cells, rows))


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
    rows = [
        (escape(one.what), _mark(kinds[one.answer], one.answer), escape(one.number), escape(one.todo)) for one in items
    ]
    heads = ("What", "Answer", "By", "To do")
    return "<h2>Before it goes live</h2>" + _table("Checklist", "Computed, not ticked.", heads, rows, is_text=True)


# ---- tables


def _verdict(found: Verdict, *, above_is_fine: bool = False) -> str:
    is_miss = found == "below" or (found == "above" and not above_is_fine)
    return _mark("no" if is_miss else "few" if found == "too few to say" else "ok", found)


def _mark(kind: str, words: str) -> str:
    return f'<span class="verdict {kind}"><span aria-hidden="true">{_SIGNS[kind]} </span>{words}</span>'


def _table(
    name: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, is_text: bool = False
) -> str:
    """Return a table. A head that begins with ``>`` is of numbers; the first cell of a row names the row."""
    right = [head.startswith(">") for head in heads]
    shown = "".join(
        f'<th scope="col"{" class=r" if is_right else ""}>{head.removeprefix(">")}</th>'
        for head, is_right in zip(heads, right, strict=True)
    )
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f"<td{' class=r' if is_right else ''}>{cell}</td>" for cell, is_right in zip(rest, right[1:], strict=True)
        )
        body += f'<tr><th scope="row">{first}</th>{cells}</tr>'
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}, scrolls sideways">'
        f"<table{' class=text' if is_text else ''}>"
        f"<caption>{escape(caption)}</caption><thead><tr>{shown}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _rate_cells(rate: Proportion, bar: str, *, above_is_fine: bool = False) -> Sequence[str]:
    aim = span_of_target(rate.target) if rate.target is not None else "–"
    said = _verdict(rate.verdict, above_is_fine=above_is_fine) if rate.of else _dim("none ended")
    return percent(rate.share), bar + _dim(f"target {aim}"), said


def _dim(words: str) -> str:
    return f'<span class="dim">{words}</span>'
