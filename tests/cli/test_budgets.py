"""A session at its cap, from a terminal: resume is refused with the sum, and --budget raises it and goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import midcourse as package
from midcourse.cli.status_text import spent
from midcourse.samples.catalog import SAMPLES, Sample
from tests.cli.conftest import Command
from tests.promises.harness import until_status


async def dear() -> AsyncIterator[str | package.StreamEnd]:
    """A model that tells what it cost when it has ended."""
    yield "word "
    yield package.StreamEnd(cost=0.4, tokens=1)


@package.agent(name="told-spender", version="1")
async def spender(run: package.Run) -> str:
    """Asks its model twice, and may pay for one answer."""
    return await run.stream("think", dear) + await run.stream("think", dear)


async def _spent() -> None:
    async with package.open("sqlite:///.midcourse/midcourse.db", durability="process", grace=0.1) as mc:
        session = await mc.start(spender, "x", session_id="sess_spent", terms=package.Terms(budget=0.3))
        await until_status(session, "paused")


def test_resume_at_the_cap_is_refused_with_the_sum_and_budget_raises_it(midcourse: Command) -> None:
    asyncio.run(_spent())
    shown = midcourse("show", "sess_spent").out
    assert "raise it with: midcourse resume sess_spent --budget 0.81" in shown
    assert "Options: cancel\n" in shown
    assert "go on" not in shown + midcourse("inbox", "list").out
    refused = midcourse("resume", "sess_spent")
    assert refused.code != 0
    assert "it has spent $0.40 of its budget of $0.30. Raise the budget to $0.81 or more" in refused.err
    assert "midcourse resume --budget" in refused.err
    assert midcourse("resume", "sess_spent", "--budget", "0.5").code != 0
    assert midcourse("resume", "sess_spent", "--budget", "0.81", "--pause", "pause_1").code == 2
    assert midcourse("resume", "sess_spent", "--budget", "0.81").code == 0
    assert midcourse("show", "sess_spent", "--json").json()["status"] == "running"


async def _watched() -> None:
    async with package.open("sqlite:///.midcourse/midcourse.db", durability="process", grace=0.1) as mc:
        terms = package.Terms(policy="standard", budget=0.3)
        await until_status(await mc.start(spender, "x", session_id="sess_spent", terms=terms), "paused")


def test_a_cap_that_held_is_the_same_to_the_report_the_checklist_and_the_signals(midcourse: Command) -> None:
    asyncio.run(_watched())
    report = midcourse("report", "show", "--json").json()
    [row] = report["classes"]
    assert row["task_class"] == midcourse("session", "signals", "sess_spent", "--json").json()["task_class"] == "long"
    assert (row["interrupted_by"]["budget"], report["by"].get("policy"), report["alerts"]) == (1, None, [])
    assert "1 by its budget" in midcourse("report", "show").out
    items = {one["id"]: one for one in midcourse("report", "checklist", "--json").json()["items"]}
    assert items["strategy-finish"]["answer"] == "unknown"
    assert items["labelled"]["todo"] == "No policy has stepped in yet."


def test_at_the_cap_every_hint_names_the_command_that_raises_it_with_the_sum(midcourse: Command) -> None:
    asyncio.run(_spent())
    for command in (("show", "sess_spent"), ("answer", "sess_spent")):
        said = midcourse(*command).out
        assert "midcourse resume sess_spent --budget 0.81" in said
        assert "Or end it: midcourse cancel sess_spent" in said
        assert "midcourse answer sess_spent" not in said, "an answer does not raise it"
    for name in ("sess_waiting", "sess_two", "sess_written", "sess_paused"):
        midcourse("cancel", name)
    listed = midcourse("inbox", "list").out
    assert "Raise the budget to $0.81 or more" in listed
    assert "See how to raise it: midcourse show sess_spent\n" in listed
    assert "midcourse answer" not in listed


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_ps_and_show_tell_the_cap_beside_what_is_spent_of_it(midcourse: Command, columns: str) -> None:
    asyncio.run(_spent())
    wide = {"COLUMNS": columns}
    assert "$0.40 of $0.30" in " ".join(midcourse("ps", "--search", "sess_spent", env=wide).out.split())
    shown = midcourse("show", "sess_spent", env=wide).out
    assert "$0.40 of $0.30, 1 tokens" in " ".join(shown.split())
    assert " of " not in spent(0.4, 0)


@pytest.mark.parametrize(
    ("cost", "unpriced", "budget", "words"),
    [
        (0.4, 0, None, "$0.40"),
        (0.4, 0, 2.0, "$0.40 of $2.00"),
        (0.4, 2, 2.0, "at least $0.40 of $2.00"),
        (0.0, 2, 2.0, "unknown, cap $2.00"),
    ],
)
def test_what_is_spent_is_told_against_the_cap_if_there_is_one(
    cost: float, unpriced: int, budget: float | None, words: str
) -> None:
    assert spent(cost, unpriced, budget) == words


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.name)
def test_every_sample_agent_has_a_cap(sample: Sample) -> None:
    assert sample.agent.terms.budget
