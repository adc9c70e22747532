"""What an agent made itself: who made it, what it is, and when somebody should look at it."""

import asyncio

import msgspec
import pytest

import midcourse
from midcourse.core.policy.acts import AnyAct, Begun, Called, Reported
from midcourse.core.policy.document import Artifacts
from midcourse.core.policy.profiles import STANDARD
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput
from midcourse.monitors.oversight import Oversight
from midcourse.runtime.artifacts import Artifact, due, keep_artifact, read_artifacts, reviewed
from midcourse.wiring import open_store

DAY = 86400.0
RULE = Artifacts()
MADE = Artifact(name="report.md", session="sess_1", agent="writer", position=7, made_at=100.0, documentation="figures")


def test_an_artifact_that_nobody_documented_comes_up_at_once() -> None:
    [alarm] = due([msgspec.structs.replace(MADE, documentation="")], RULE, 100.0)
    assert alarm.sentence == "'report.md' was made by writer, and nothing says what it is."
    assert alarm.level == "notify"


def test_a_documented_one_comes_up_after_seven_days_and_again_seven_days_after_somebody_looked() -> None:
    assert due([MADE], RULE, 100.0 + 7 * DAY - 1) == []
    assert len(due([MADE], RULE, 100.0 + 7 * DAY)) == 1
    looked = msgspec.structs.replace(MADE, reviewed_at=100.0 + 7 * DAY)
    assert due([looked], RULE, 100.0 + 14 * DAY - 1) == []
    assert len(due([looked], RULE, 100.0 + 14 * DAY)) == 1


def test_where_documentation_is_not_wanted_only_age_counts() -> None:
    rule = Artifacts(documented=False)
    undocumented = msgspec.structs.replace(MADE, documentation="")
    assert due([undocumented], rule, 200.0) == []
    assert len(due([undocumented], rule, 100.0 + 7 * DAY)) == 1


async def test_documentation_that_comes_later_counts_and_the_author_stays() -> None:
    store = await open_store("memory://")
    try:
        await keep_artifact(store, msgspec.structs.replace(MADE, documentation=""))
        await keep_artifact(store, msgspec.structs.replace(MADE, position=9, made_at=300.0))
        [kept] = await read_artifacts(store)
        assert (kept.position, kept.made_at, kept.documentation) == (7, 100.0, "figures")
        assert (await reviewed(store, "sess_1", "report.md", by="ada", now=500.0)).reviewed_by == "ada"
        with pytest.raises(InvalidInput, match=r"no artifact 'nothing\.md'"):
            await reviewed(store, "sess_1", "nothing.md", by="ada", now=500.0)
    finally:
        await store.close()


def test_people_are_told_when_it_goes_on_to_use_what_it_made_itself() -> None:
    oversight = Oversight(STANDARD)
    acts: list[AnyAct] = [
        Begun(goal="Write the report and send it", at=0.0),
        Called(kind="tool", name="write", resources=("report.md",), at=1.0),
        Reported(artifact="report.md", at=2.0),
        Called(kind="tool", name="read", resources=("prices.csv",), at=3.0),
    ]
    assert [oversight.see(act) for act in acts] == [None] * 4
    decision = oversight.see(Called(kind="tool", name="read", arguments="1", resources=("report.md",), at=4.0))
    assert decision is not None
    assert decision.level == "notify"
    assert "report.md, made at action 1" in decision.sentence
    assert oversight.see(Called(kind="tool", name="read", arguments="2", resources=("report.md",), at=5.0)) is None


@midcourse.agent(terms=Terms(policy="standard"))
async def author(run: midcourse.Run) -> str:
    run.report(artifact="notes.md")
    run.report(artifact="report.md", documentation="the figures of May")
    return "done"


async def test_what_a_session_tells_of_is_listed_with_its_author() -> None:
    async with midcourse.open("memory://") as mc:
        session = await mc.start(author, "Write the report of May")
        await session.result(10)
        store = mc._worker.store  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        found: dict[str, Artifact] = {}
        async with asyncio.timeout(10):
            while len(found) < 2:  # listed beside the run, a moment after it was told
                await asyncio.sleep(0.01)
                found = {one.name: one for one in await read_artifacts(store)}
        assert found["report.md"].documentation == "the figures of May"
        assert found["notes.md"].session == session.id
        assert found["notes.md"].agent == author.name
