"""A plain function that sleeps for a minute: in a thread it is named as still running, in a process it is ended."""

from midcourse.models.script import Call
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage, above_all
from tests.adapters.matrix.test_stops import PATIENCE, noted_once
from tests.promises.harness import until_true


async def test_a_sync_tool_in_a_thread_is_listed_as_still_running_until_it_ends(stage: Stage) -> None:
    async with stage.started(courses.after_a_note(Call("nap"), courses.ALL_DONE)) as session:
        courses.hold("nap")
        await until_true(lambda: courses.counted()["nap begun"] == 1)
        reply = await session.pause(grace=0, until="stopping")
        assert reply.level == "stopping"
        assert [call.name for call in reply.running] == ["nap"]
        assert "still running: nap" in str(reply)
        assert await session.status() == "pausing"
        assert courses.counted()["nap done"] == 0
        courses.let("nap")
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"nap": "rested"}
        assert courses.counted()["nap done"] == 1
        assert noted_once()


@above_all("pydantic_ai", "plain")
async def test_a_sync_tool_in_a_process_is_gone_at_once(stage: Stage) -> None:
    mark = stage.path / "napping"
    async with stage.started(courses.after_a_note(Call("nap_apart", {"mark": str(mark)}), courses.ALL_DONE)) as session:
        await until_true(mark.exists)
        assert (await session.pause(grace=0, until="stopped")).level == "stopped"
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"nap_apart": "rested apart"}, "the first one has slept to its end"
        assert noted_once()
