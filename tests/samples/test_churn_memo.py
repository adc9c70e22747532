"""The churn memo says what the tables say, whatever is done to its run."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import midcourse
from midcourse.samples.churn_memo import GOALS, MEMO, agent, prepare
from tests.samples.listener import SLOWLY, plan_of, until_it_says

# Written from the words of the module's docstring, and not from its code.
SCORES = """
with last_month as (select max(month) as month from mrr),
scored as (
    select c.id, c.name, m.amount as mrr,
           0.45 * min(1.0, (julianday((select as_of from facts)) - julianday(c.last_login)) / 60.0)
         + 0.25 * min(1.0, c.open_tickets / 5.0)
         + 0.30 * max(0.0, 1.0 - m.amount / b.amount) as risk
    from customers c
    join mrr m on m.customer_id = c.id and m.month = (select month from last_month)
    join mrr b on b.customer_id = c.id and b.month = '2026-06'
    where m.amount >= :least
)
select count(*), sum(risk >= 0.5), sum(risk >= 0.25 and risk < 0.5), sum(risk < 0.25),
       sum(mrr), sum(case when risk >= 0.5 then mrr end)
from scored
"""


def expected(work: Path, least: float = 0.0) -> dict[str, float]:
    with closing(sqlite3.connect(work / "churn-memo" / "customers.db")) as tables:
        scored, high, medium, low, total, at_risk = tables.execute(SCORES, {"least": least}).fetchone()
        (accounts,) = tables.execute("select count(*) from customers").fetchone()
        (without,) = tables.execute(
            "select count(*) from customers where id not in (select customer_id from mrr)"
        ).fetchone()
    counted = {"accounts": accounts, "without": without, "scored": scored, "high": high, "medium": medium, "low": low}
    return {**counted, "total": round(total, 2), "at_risk": round(at_risk, 2)}


def memo(work: Path) -> str:
    return (work / "churn-memo" / "memos" / MEMO).read_text()


def numbers(work: Path) -> dict[str, float]:
    """What the memo says."""
    found = re.search(
        r"Accounts: (?P<accounts>\d+), of them \d+ with an MRR and (?P<without>\d+) without\.\n"
        r"Scored: (?P<scored>\d+).*\n"
        r"Monthly revenue of these: \$(?P<total>[\d,.]+)\.\n"
        r"At high risk: (?P<high>\d+)\. At medium risk: (?P<medium>\d+)\. At low risk: (?P<low>\d+)\.\n"
        r"Monthly revenue at high risk: \$(?P<at_risk>[\d,.]+)\.\n",
        memo(work),
    )
    assert found is not None, memo(work)
    return {name: float(value.replace(",", "")) for name, value in found.groupdict().items()}


def change(work: Path, statement: str) -> None:
    with closing(sqlite3.connect(work / "churn-memo" / "customers.db")) as tables, tables:
        tables.execute(statement)


async def test_the_numbers_of_the_memo_are_those_of_the_tables(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, GOALS[0])
    answer = await session.result()

    assert numbers(work) == expected(work)
    assert expected(work)["high"] > 0
    assert f"{expected(work)['high']:.0f} of {expected(work)['scored']:.0f} accounts" in answer
    assert await plan_of(session) == [
        ("fetch customer list", "done"),
        ("join against MRR table", "done"),
        ("score churn risk", "done"),
        ("write summary memo", "done"),
    ]


async def test_a_changed_row_changes_the_memo(mc: midcourse.Midcourse, work: Path) -> None:
    await (await mc.start(agent, GOALS[0])).result()
    before = numbers(work)

    change(work, "update customers set last_login = '2026-01-01', open_tickets = 9 where id = 1")
    change(work, "update mrr set amount = 70000 where customer_id = 1")
    await (await mc.start(agent, GOALS[0])).result()

    assert numbers(work) == expected(work)
    assert numbers(work)["high"] == before["high"] + 1
    assert numbers(work)["at_risk"] == pytest.approx(before["at_risk"] + 70000)
    assert "| $70,000.00 | 0.70 | no login for 272 days, 9 open tickets |" in memo(work)


async def test_a_run_that_was_paused_writes_the_same_memo(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await mc.start(agent, GOALS[0])).result()
    undisturbed = memo(work)
    (work / "churn-memo" / "memos" / MEMO).unlink()

    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    session = await mc.start(agent, GOALS[0])
    await until_it_says(session, "are at high risk")
    reply = await session.pause("let me read", until="stopped")
    assert (reply.level, reply.status) == ("stopped", midcourse.Status.PAUSED)
    assert ("score churn risk", "running") in await plan_of(session)
    assert not (work / "churn-memo" / "memos" / MEMO).exists()

    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    await session.resume()
    await session.result()
    assert memo(work) == undisturbed


async def test_a_redirect_in_the_middle_narrows_the_accounts_and_keeps_what_was_fetched(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    session = await mc.start(agent, GOALS[0])
    await until_it_says(session, "are at high risk")
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    await session.redirect("Only customers over $10k; list the rest in an appendix")
    await session.result()

    assert numbers(work) == expected(work, 10_000)
    assert "Appendix" in memo(work)
    begun = [seen.event for seen in [seen async for seen in session.watch()] if seen.type == "step.begun"]
    names = [getattr(event, "name", "") for event in begun]
    assert (names.count("fetch_customers"), names.count("join_mrr"), names.count("write_memo")) == (1, 2, 1)


async def test_what_the_script_does_not_know_it_says_and_leaves_the_memo(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, GOALS[0])
    await session.result()
    before = memo(work)

    await session.redirect("Sing me a song")

    assert "I understood: “Sing me a song”" in await session.result()
    assert memo(work) == before


async def test_a_cancel_that_undoes_all_removes_the_memo(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await mc.start(agent, GOALS[0])
    await session.result()
    assert (work / "churn-memo" / "memos" / MEMO).exists()

    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    await session.redirect("Write the memo again, for all accounts")
    await until_it_says(session, "I begin with the list")
    await session.cancel("no memo at all", undo="all", until="stopped")

    assert not (work / "churn-memo" / "memos" / MEMO).exists()
    assert {line.outcome for line in (await session.receipt()).lines} == {"undone"}


async def test_an_undo_puts_the_memo_back_that_was_there_before(mc: midcourse.Midcourse, work: Path) -> None:
    prepare()
    (work / "churn-memo" / "memos" / MEMO).write_text("An older memo.\n")
    session = await mc.start(agent, GOALS[0])
    await session.result()
    assert memo(work) != "An older memo.\n"

    await session.undo("the old one was better")

    assert memo(work) == "An older memo.\n"
