"""What an agent made itself: who made it, what it is, and when somebody should look at it."""

import msgspec
import pytest

import midcourse
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items, due, read_artifacts, reviewed
from midcourse.policy.artifacts import Artifact, ArtifactReported, Reviewed, gathered
from midcourse.policy.document import Artifacts
from midcourse.policy.durations import Span
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import AnyAct, Begun, Called, Reported
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.versions import save
from midcourse.wiring import open_store

DAY = 86400.0
RULE = Artifacts()
MADE = ArtifactReported(
    name="report.md", session="sess_1", agent="writer", position=7, made_at=100.0, documentation="figures"
)
BARE = msgspec.structs.replace(MADE, documentation="")


def stands(*told: ArtifactReported, looked: float | None = None, rule: Artifacts = RULE) -> list[Artifact]:
    """What stands of it, after a look at it."""
    seen = [] if looked is None else [Reviewed(name="report.md", session="sess_1", at=looked, by="ada")]
    return gathered(told, seen, {"": rule})


def test_an_artifact_that_nobody_documented_comes_up_at_once() -> None:
    [alarm] = due(stands(BARE), 100.0)
    assert alarm.sentence == "'report.md' was made by writer, and nothing says what it is."
    assert alarm.level == "notify"


def test_a_documented_one_comes_up_after_seven_days_and_again_seven_days_after_somebody_looked() -> None:
    assert due(stands(MADE), 100.0 + 7 * DAY - 1) == []
    assert len(due(stands(MADE), 100.0 + 7 * DAY)) == 1
    looked = stands(MADE, looked=100.0 + 7 * DAY)
    assert due(looked, 100.0 + 14 * DAY - 1) == []
    assert len(due(looked, 100.0 + 14 * DAY)) == 1


def test_where_documentation_is_not_wanted_only_age_counts() -> None:
    rule = Artifacts(documented=False)
    assert due(stands(BARE, rule=rule), 200.0) == []
    assert len(due(stands(BARE, rule=rule), 100.0 + 7 * DAY)) == 1


async def test_documentation_that_comes_later_counts_and_the_author_stays() -> None:
    store = await open_store("memory://")
    try:
        again = msgspec.structs.replace(MADE, position=9, made_at=300.0)
        elsewhere = msgspec.structs.replace(MADE, session="sess_10")
        await store.shelve(ARTIFACTS, artifact_items(BARE, again, elsewhere))
        [kept] = await read_artifacts(store, session="sess_1")
        assert (kept.position, kept.made_at, kept.documentation) == (7, 100.0, "figures")
        looked = await reviewed(store, "sess_1", "report.md", by="ada", now=500.0, documentation="the figures of May")
        assert (looked.reviewed_by, looked.documentation) == ("ada", "the figures of May")
        assert (looked.position, looked.due_at) == (7, 500.0 + 7 * DAY)
        assert (await reviewed(store, "sess_1", "report.md", by="bob", now=600.0)).documentation == looked.documentation
        assert [one.reviewed_at for one in await read_artifacts(store)] == [600.0, None]
        with pytest.raises(InvalidInput, match=r"no artifact 'nothing\.md'"):
            await reviewed(store, "sess_1", "nothing.md", by="ada", now=500.0)
    finally:
        await store.close()


def test_people_are_told_when_it_goes_on_to_use_what_it_made_itself() -> None:
    oversight = RunMonitor(STANDARD)
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


async def test_each_policy_says_when_what_its_sessions_made_is_due() -> None:
    store = await open_store("memory://")
    try:
        patient = msgspec.structs.replace(STANDARD, name="patient", artifacts=Artifacts(review=Span(30 * DAY)))
        kept = await save(store, patient, by="ada", why="a month is enough", now=50.0)
        other = msgspec.structs.replace(MADE, session="s", policy=kept.policy.id)
        await store.shelve(ARTIFACTS, artifact_items(MADE, other))
        assert {one.session: one.due_at for one in await read_artifacts(store)} == {
            "sess_1": 100.0 + 7 * DAY,
            "s": 100.0 + 30 * DAY,
        }
    finally:
        await store.close()


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
        found = {one.name: one for one in await read_artifacts(store)}
        assert found["report.md"].documentation == "the figures of May"
        assert found["notes.md"].session == session.id
        assert found["notes.md"].agent == author.name
