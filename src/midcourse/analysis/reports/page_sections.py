"""The page's sections on how long runs took, whether stopped ones continued, and how many of them completed."""

from collections.abc import Mapping, Sequence
from html import escape

from midcourse.analysis.reports.intervals import Proportion
from midcourse.analysis.reports.markup import rate_cells, table, verdict
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
from midcourse.analysis.reports.report import ClassRow, Report
from midcourse.analysis.reports.svg_charts import bottom_of, range_bar, time_bar


def durations(rows: Sequence[ClassRow], meanings: Mapping[str, str]) -> str:
    """Return how long runs took against the range of their class, and how fast their models answered."""
    head = "<h2>How long runs took</h2>"
    if not any(row.duration.worked.count for row in rows):
        return f"{head}<p>No run has completed.</p>"
    ends = [end for row in rows for end in (*(row.duration.range or ()), row.duration.worked.most)]
    most = 1.2 * max(end for end in (300.0, *ends) if end is not None)

    def cells(row: ClassRow) -> Sequence[str]:
        took, rate = row.duration, row.token_rate
        aim = span_of_range(took.range) if took.range is not None else "no range"
        said = verdict(took.verdict) if took.range is not None and took.inside.of else '<span class="dim">–</span>'
        return (
            row.task_class.replace("_", " "),
            f"{took.worked.count:,}",
            seconds(took.worked.p50),
            seconds(took.worked.p99),
            f'{time_bar(took, most=most)}<span class="dim">{aim}</span>',
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
    return head + table("Run durations", caption, heads, map(cells, rows))


def continued(report: Report) -> str:
    """Return whether sessions continued that were to, whether journals agree, and how good the estimates were."""
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
            return name, "unknown", "0", "", '<span class="dim">–</span>', more
        shown, bar, said = rate_cells(rate, range_bar(rate, least=least))
        return name, shown, f"{rate.of:,}", bar, said, more

    heads = ("What", ">Share", ">Of", "against its target", "Verdict", "And")
    caption = f"Drawn from {percent(least)} to 100 %; the line is 95 % confidence. How each is counted is said below."
    flaws = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in report.consistency.flaws.items())
    return (
        "<h2>Did stopped runs continue?</h2>"
        + table("Recovery and consistency", caption, heads, map(cells, rows))
        + (f'<ul class="plain">{flaws}</ul>' if flaws else "")
    )


def outcomes(report: Report) -> str:
    """Return how many runs completed that were stopped, beside those that were not."""
    rows = [("all", report.outcomes), *((row.task_class.replace("_", " "), row.outcomes) for row in report.classes)]
    heads = ("Class", ">If stopped", ">target", "Verdict", ">If not", ">Difference", ">Cancelled")
    body = [
        (
            name,
            _of(one.stopped),
            span_of_target(one.stopped.target) if one.stopped.target is not None else "–",
            verdict(one.stopped.verdict, above_is_fine=True) if one.stopped.target and one.stopped.of else "–",
            _of(one.unstopped),
            signed(one.difference, "pp"),
            f"{one.cancelled:,}",
        )
        for name, one in rows
    ]
    if not any(one.stopped.of or one.unstopped.of for _, one in rows):
        return ""
    return "<h2>Did they complete?</h2>" + table("Completion after a stop", report.meanings["after_stop"], heads, body)


def returned(report: Report) -> tuple[str, str, str]:
    """Return the figure of what interventions brought above their cost."""
    found = report.returns
    of = f"known of {found.counted:,} of {found.of:,} automatic"
    if found.roi is None:
        return "return", "unknown", of
    return "return", signed(found.roi), f"{amount(found.worth)} worth for {amount(found.cost)} cost; {of}"


def _of(rate: Proportion) -> str:
    return f'{percent(rate.share)} <span class="dim">of {rate.of:,}</span>' if rate.of else "unknown"
