"""The parts that the report's page is made of: its style, tables and verdicts.

Every text of a session comes from somewhere else: it passes through ``escape``, and nothing is put together otherwise.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from midcourse.analysis.reports.intervals import Proportion, Verdict
from midcourse.analysis.reports.number_format import percent, span_of_target

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
SIGN: Final = {"ok": "●", "no": "▲", "few": "○"}


def verdict(found: Verdict, *, above_is_fine: bool = False) -> str:
    is_miss = found == "below" or (found == "above" and not above_is_fine)
    kind = "no" if is_miss else "few" if found == "too few to say" else "ok"
    return f'<span class="verdict {kind}"><span aria-hidden="true">{SIGN[kind]} </span>{found}</span>'


def table(
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


def rate_cells(rate: Proportion, bar: str, *, above_is_fine: bool = False) -> Sequence[str]:
    aim = span_of_target(rate.target) if rate.target is not None else "–"
    said = verdict(rate.verdict, above_is_fine=above_is_fine) if rate.of else '<span class="dim">none ended</span>'
    return percent(rate.share), f'{bar}<span class="dim">target {aim}</span>', said
