"""``churn-memo``: who is likely to leave, why, and what it would cost. Reads two tables and writes a memo.

The data are generated once, from a seed, and are real from then on: change a row, and the next memo says so.

The risk of an account is a number from 0 to 1:
0.45 × days since its last login, 60 or more counting as 1; 0.25 × open tickets, 5 or more counting as 1;
0.30 × the share of its MRR that it has lost since three months ago. From 0.5 it is high, from 0.25 medium.
"""

import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece
from midcourse.samples.folders import folder_of, made_once
from midcourse.samples.models import model_for, pace, words
from midcourse.samples.plan import PlanFromTools
from midcourse.samples.redirects import amount_over, course_of, done_since, quoted, result_of
from midcourse.tools import Files, files_in

NAME: Final = "churn-memo"
DESCRIPTION: Final = "Scores 412 generated accounts for churn risk and writes a one-page memo with the numbers."
GOALS: Final = (
    "Write a one-page churn memo for the quarterly review: who is likely to leave, why, and what it would cost",
    "Write a churn memo, only customers over $10k",
)
MEMO: Final = "churn-memo.md"
PLAN: Final = {
    "fetch_customers": "fetch customer list",
    "join_mrr": "join against MRR table",
    "score_risk": "score churn risk",
    "write_memo": "write summary memo",
}

HIGH, MEDIUM = 0.5, 0.25
AS_OF: Final = date(2026, 9, 30)
MONTHS: Final = ("2026-04", "2026-05", "2026-06", "2026-07", "2026-08", "2026-09")
_ACCOUNTS: Final = 412
_WITHOUT_MRR: Final = 3
_FIRST: Final = (
    "Alder",
    "Birch",
    "Cedar",
    "Delta",
    "Ember",
    "Fjord",
    "Garnet",
    "Harbor",
    "Indigo",
    "Juniper",
    "Kestrel",
)
_LAST: Final = ("Analytics", "Bakery", "Clinics", "Freight", "Games", "Hotels", "Labs", "Media", "Robotics", "Tools")
_SCHEMA: Final = """
create table facts (as_of text not null);
create table customers (
    id integer primary key, name text not null, segment text not null, signed_up text not null,
    last_login text not null, open_tickets integer not null
);
create table mrr (
    customer_id integer not null, month text not null, amount real not null, primary key (customer_id, month)
);
"""


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """Prepare the work folder, with its two tables and a place for the memo."""
    folder = folder or folder_of(NAME)
    made_once(folder / "customers.db", _generate)
    (folder / "memos").mkdir(exist_ok=True)
    return folder


def _generate(path: Path) -> None:
    chance = random.Random(412)
    customers: list[tuple[Any, ...]] = []
    amounts: list[tuple[Any, ...]] = []
    for number in range(1, _ACCOUNTS + 1):
        segment = chance.choices(("small", "middle", "large"), (60, 30, 10))[0]
        idle = min(int(chance.expovariate(1 / 24)), 180)
        tickets = min(int(chance.expovariate(0.9)), 9)
        name = f"{chance.choice(_FIRST)} {chance.choice(_LAST)} {number:04}"
        signed_up = AS_OF - timedelta(days=chance.randint(200, 2400))
        customers.append((number, name, segment, f"{signed_up}", f"{AS_OF - timedelta(days=idle)}", tickets))
        if number > _ACCOUNTS - _WITHOUT_MRR:
            continue
        amount = {"small": 180.0, "middle": 1900.0, "large": 11000.0}[segment] * chance.lognormvariate(0, 0.5)
        for month in MONTHS:
            amounts.append((number, month, round(amount, 2)))
            amount *= chance.choices((1.0, 1.04, 0.8 if idle > 20 else 0.97), (70, 15, 15))[0]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_SCHEMA)
        database.execute("insert into facts values (?)", (f"{AS_OF}",))
        database.executemany("insert into customers values (?, ?, ?, ?, ?, ?)", customers)
        database.executemany("insert into mrr values (?, ?, ?)", amounts)


def _rows(query: str, *parameters: object) -> list[sqlite3.Row]:
    path = prepare() / "customers.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return database.execute(query, parameters).fetchall()


# ---- the tools


def _files() -> Files:
    folder = prepare()
    return files_in(folder / "memos", backups=folder / "backups")


def _put_back(arguments: Mapping[str, Any], result: object, key: str) -> None:
    _files().undo(arguments, result, key)


@midcourse.tool(effect="read")
def fetch_customers() -> dict[str, Any]:
    """Fetch the list of accounts: how many there are, by segment, how many have been idle for 30 days or more."""
    (about,) = _rows("select count(*) as accounts, (select as_of from facts) as as_of from customers")
    segments = _rows("select segment, count(*) as accounts from customers group by segment order by segment")
    (idle,) = _rows(
        "select count(*) as accounts from customers, facts where julianday(as_of) - julianday(last_login) >= 30"
    )
    return {
        "accounts": about["accounts"],
        "as_of": about["as_of"],
        "by_segment": {row["segment"]: row["accounts"] for row in segments},
        "idle_30_days": idle["accounts"],
    }


_JOINED: Final = """
select c.id, c.name, c.segment, c.open_tickets, julianday(f.as_of) - julianday(c.last_login) as idle,
       now.amount as mrr, before.amount as mrr_before
from customers c join facts f
left join mrr now on now.customer_id = c.id and now.month = (select max(month) from mrr)
left join mrr before on before.customer_id = c.id
     and before.month = (select max(month) from mrr where month <= strftime('%Y-%m', f.as_of, '-3 months'))
"""


@midcourse.tool(effect="read")
def join_mrr(min_mrr: float = 0.0) -> dict[str, Any]:
    """Join the accounts against the MRR table: who has an MRR this month, and how many have at least ``min_mrr``."""
    joined = _rows(_JOINED)
    matched = [row for row in joined if row["mrr"] is not None]
    kept = [row for row in matched if row["mrr"] >= min_mrr]
    below = [row for row in matched if row["mrr"] < min_mrr]
    return {
        "matched": len(matched),
        "without_mrr": [row["name"] for row in joined if row["mrr"] is None],
        "kept": len(kept),
        "monthly_total": round(sum(row["mrr"] for row in kept), 2),
        "left_out": len(below),
        "left_out_total": round(sum(row["mrr"] for row in below), 2),
    }


@midcourse.tool(effect="read")
def score_risk(min_mrr: float = 0.0, top: int = 10) -> dict[str, Any]:
    """Score the churn risk of every account with at least ``min_mrr``, and name the ``top`` by MRR at risk."""
    scored = [(_risk(row), row) for row in _rows(_JOINED) if row["mrr"] is not None and row["mrr"] >= min_mrr]
    high = [(risk, row) for risk, row in scored if risk >= HIGH]
    medium = [risk for risk, _ in scored if MEDIUM <= risk < HIGH]
    highest = sorted(high or scored, key=lambda one: (-one[0] * one[1]["mrr"], one[1]["id"]))[:top]
    return {
        "scored": len(scored),
        "high": len(high),
        "medium": len(medium),
        "low": len(scored) - len(high) - len(medium),
        "mrr_at_risk": round(sum(row["mrr"] for _, row in high), 2),
        "top": [
            {"account": row["name"], "mrr": row["mrr"], "risk": round(risk, 2), "why": _why(row)}
            for risk, row in highest
        ],
    }


def _risk(row: sqlite3.Row) -> float:
    lost = max(0.0, 1 - row["mrr"] / row["mrr_before"]) if row["mrr_before"] else 0.0
    return 0.45 * min(row["idle"] / 60, 1) + 0.25 * min(row["open_tickets"] / 5, 1) + 0.30 * lost


def _why(row: sqlite3.Row) -> str:
    reasons = [f"no login for {row['idle']:.0f} days", f"{row['open_tickets']} open tickets"]
    if row["mrr_before"] and row["mrr"] < row["mrr_before"]:
        reasons.append(f"MRR down {1 - row['mrr'] / row['mrr_before']:.0%} in three months")
    return ", ".join(reasons)


@midcourse.tool(effect="write", undo=_put_back, local=True)
def write_memo(text: str) -> dict[str, Any]:
    """Write the memo, in Markdown, in place of the one that is there."""
    change = _files().write(MEMO, text)
    return {"file": str(Path(_files().root) / MEMO), "bytes": change.size, "words": len(text.split())}


# ---- the script


def script(conversation: Conversation) -> Sequence[Piece]:
    """Fetch, join, score, write, say what stands out; from the first of these that the present course still needs."""
    course = course_of(conversation)
    if course.stops:
        return [words(f"Understood: {quoted(course.last)} I stop here and write no memo.")]
    asked = [text for text in course.said if amount_over(text) is not None or re.search(r"all (the )?(acc|cus)", text)]
    least = (amount_over(asked[-1]) if asked else None) or 0.0
    is_short = any(re.search(r"\b(short|shorter|brief|three)\b", text.lower()) for text in course.said)
    has_appendix = any("appendix" in text.lower() for text in course.said)
    known = asked or is_short or has_appendix or re.search(r"memo|churn|again|go on", course.last.lower())
    if course.is_changed and not known:
        return [
            words(
                f"I understood: {quoted(course.last)} I know how to change which accounts count (“only customers over "
                "$10k”), how long the memo is (“keep it short”) and what it appends. I leave it at what is there."
            )
        ]
    so_far = done_since(conversation, "write_memo")
    begin = f"Understood: {quoted(course.last)} " if course.is_changed and not so_far.latest.calls else ""
    top = 3 if is_short else 10

    accounts = result_of(so_far, "fetch_customers")
    if accounts is None:
        return [words(f"{begin}I begin with the list of customers. "), Call("fetch_customers", {})]
    joined = result_of(so_far, "join_mrr", {"min_mrr": least})
    if joined is None:
        which = f"only accounts with an MRR of ${least:,.0f} or more" if least else "all of them"
        return [
            words(f"{begin}There are {accounts['accounts']} accounts. I join them against the MRR table, {which}. "),
            Call("join_mrr", {"min_mrr": least}),
        ]
    scored = result_of(so_far, "score_risk", {"min_mrr": least, "top": top})
    if scored is None:
        return [
            words(
                f"{begin}{joined['matched']} accounts have an MRR, {len(joined['without_mrr'])} have none. "
                f"{joined['kept']} count, with ${joined['monthly_total']:,.2f} a month together. I score their risk. "
            ),
            Call("score_risk", {"min_mrr": least, "top": top}),
        ]
    written = result_of(so_far, "write_memo")
    if written is None:
        memo = _memo(accounts, joined, scored, least, has_appendix=has_appendix)
        found = (
            f"{begin}Of {scored['scored']} accounts {scored['high']} are at high risk, {scored['medium']} at medium "
            f"and {scored['low']} at low risk. I write the memo. "
        )
        return [words(found), Call("write_memo", {"text": memo}, every=pace() / 4)]
    return [words(_remarks(written, scored))]


def _remarks(written: Mapping[str, Any], scored: Mapping[str, Any]) -> str:
    """Return the last words, said while the memo is there already: who interrupts them can still undo it."""
    told = [
        f"The memo is written: {written['words']} words, in {written['file']}. {scored['high']} of "
        f"{scored['scored']} accounts are at high risk, which is ${scored['mrr_at_risk']:,.2f} a month."
    ]
    told += [
        f"{one['account']} pays ${one['mrr']:,.2f} a month and has a risk of {one['risk']:.2f}: {one['why']}."
        for one in scored["top"]
    ]
    return " ".join(told)


def _memo(
    facts: Mapping[str, Any],
    joined: Mapping[str, Any],
    scored: Mapping[str, Any],
    least: float,
    *,
    has_appendix: bool,
) -> str:
    lines = [
        f"# Churn memo, {facts['as_of']}",
        "",
        f"Accounts: {facts['accounts']}, of them {joined['matched']} with an MRR "
        f"and {len(joined['without_mrr'])} without.",
        f"Scored: {scored['scored']}" + (f", those with an MRR of ${least:,.0f} or more." if least else "."),
        f"Monthly revenue of these: ${joined['monthly_total']:,.2f}.",
        f"At high risk: {scored['high']}. At medium risk: {scored['medium']}. At low risk: {scored['low']}.",
        f"Monthly revenue at high risk: ${scored['mrr_at_risk']:,.2f}.",
        "",
        "## Who is likely to leave",
        "",
        "| account | MRR | risk | why |",
        "|---|---:|---:|---|",
        *(f"| {one['account']} | ${one['mrr']:,.2f} | {one['risk']:.2f} | {one['why']} |" for one in scored["top"]),
    ]
    if has_appendix:
        lines += [
            *("", "## Appendix: what was left out", ""),
            f"Accounts below ${least:,.0f}: {joined['left_out']}, with ${joined['left_out_total']:,.2f} a month.",
            f"Accounts without an MRR: {', '.join(joined['without_mrr']) or 'none'}.",
        ]
    return "\n".join([*lines, ""])


# ---- the agent


_agent: Final = Agent(
    model_for(script),
    name=NAME,
    deps_type=midcourse.Run,
    instructions=(
        "You write churn memos. Call fetch_customers, then join_mrr, then score_risk, then write_memo, once each, and "
        "take every number of the memo from their results. If the person narrows the accounts (for example to those "
        "over $10k), pass that as min_mrr and do the joining and scoring again. Say in a sentence what you do before "
        "each call. End with one sentence that sums up the memo."
    ),
    tools=[fetch_customers, join_mrr, score_risk, write_memo],
    capabilities=[PlanFromTools(lambda tool, _: PLAN.get(tool, ""), tuple(PLAN.values()))],
)
agent: Final = wrap(
    _agent,
    deps=lambda run: run,
    description=DESCRIPTION,
    goals=GOALS,
    terms=Terms(task_class="long", policy="standard", budget=2.0),
)
