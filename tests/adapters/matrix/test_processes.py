"""A process that dies mid-tool, and one that is not there any more when its session is resumed."""

import pytest

from midcourse.models.script import Call, Fail, Said, Text
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage, above_all
from tests.adapters.matrix.test_stops import PATIENCE, TALKING, TOOLS, WORKING, all_is_done, noted_once, until_all_run
from tests.promises.harness import until, until_status, until_true


@above_all("pydantic_ai", "langgraph_react")
async def test_after_kill_9_mid_tool_another_process_goes_on_by_itself(stage: Stage) -> None:
    """Nothing finished is repeated, and of the call whose fate nobody knows a person is asked."""
    courses.hold(*TOOLS)
    async with stage.driven_elsewhere(WORKING) as child:
        await until_all_run()
        await child.kill()
    courses.let(*TOOLS)
    async with stage.opened() as session:
        assert await until_status(session, "waiting", "completed", "failed") == "waiting"
        (ask,) = (await session.state()).asks
        assert ask.reason == "did_it_happen"
        assert "Did 'send' with" in ask.prompt
        assert courses.counted()["send begun"] == 1
        await session.answer({"happened": True, "result": "Ann has it"})
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "Ann has it"}
        assert len(stage.requests) == 3
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [2, 2, 1]
        assert [done[f"{tool} done"] for tool in TOOLS] == [1, 1, 0]
        assert done["room 1 unbooked"] == 1
        assert noted_once()
        assert sorted((line.name, line.outcome) for line in (await session.receipt()).lines) == [
            ("book", "kept"),
            ("book", "undone"),
            ("note", "cannot be undone"),
            ("send", "cannot be undone"),
        ]


@above_all("yaml_agents", "openai_agents")
async def test_a_paused_and_parked_session_is_resumed_in_another_process(stage: Stage) -> None:
    courses.hold(*TOOLS)
    async with stage.driven_elsewhere(WORKING, park_after=0.05), stage.opened(drive=False) as session:
        await until_all_run()
        assert (await session.pause(grace=0)).level == "stopping"
        courses.let("send")
        assert (await session.pause(until="stopped")).level == "stopped"
        await until(session, "session.parked")
    courses.let("look", "book")
    async with stage.opened() as session:
        assert await session.status() == "paused"
        assert len(stage.requests) == 2
        await session.resume()
        await all_is_done(stage, session)


async def test_a_redirect_of_a_parked_session_is_heard_with_the_truth_about_each_call(stage: Stage) -> None:
    """What was in flight when it was paused is closed, as if it had never been cold."""
    courses.hold(*TOOLS)
    async with stage.started(WORKING) as session:
        await until_all_run()
        await session.pause(grace=0)
        courses.let(*TOOLS)
        assert (await session.pause(until="stopped")).level == "stopped"
    async with stage.opened() as session:
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD, resume=True)
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert len(stage.requests) == 3
        results = stage.last_results()
        assert "no effect" in results["look"]
        assert "undone" in results["book"]
        assert results["send"] == "sent to Ann"
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


async def test_a_stream_that_a_pause_had_cut_goes_on_after_a_cold_resume(stage: Stage) -> None:
    async with stage.started(TALKING) as session:
        await stage.provider.wait_for_request(1, pieces=3)
        assert (await session.pause(until="stopped")).level == "stopped"
        await stage.cut(1)
    stage.provider.script = courses.after_a_note(courses.ALL_DONE)
    async with stage.opened() as session:
        await session.resume()
        said = await session.result(PATIENCE)
        assert len(stage.requests) == 3
        before, begun = stage.heard(2).cut
        assert before == stage.heard(1)
        assert f"{begun} All is done.".lstrip() == said
        assert noted_once()


@pytest.mark.parametrize("tool", ["pay", "wire"])
async def test_an_ask_is_answered_after_its_process_has_ended(stage: Stage, tool: str) -> None:
    """The finished sibling is not repeated, and the call that asked is made once."""
    script = courses.after_a_note((Call(tool, {"amount": 7}), courses.SEND), courses.ALL_DONE)
    async with stage.started(script) as session:
        assert await until_status(session, "waiting", "failed", "completed") == "waiting"
        await until_true(lambda: courses.counted()["send done"] == 1)
    async with stage.opened() as session:
        (ask,) = (await session.state()).asks
        assert ask.reason == "need_approval"
        await session.answer("yes")
        assert await session.result(PATIENCE) == "All is done."
        assert len(stage.requests) == 3
        done = courses.counted()
        assert [done[f"{one} begun"] for one in ("note", tool, "send")] == [1, 1, 1]
        assert noted_once()


@above_all("langgraph", "plain")
async def test_a_redirect_after_kill_9_closes_each_call_with_what_is_known_of_it(stage: Stage) -> None:
    """Nobody saw how they ended, and no person is asked: one may have happened, and the model is told so."""
    courses.hold(*TOOLS)
    async with stage.driven_elsewhere(WORKING) as child:
        await until_all_run()
        await child.kill()
    stage.provider.script = courses.says(Text("Off to Oslo."))
    async with stage.opened(drive=False) as session:
        await session.redirect(courses.INSTEAD)
    async with stage.opened() as session:
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert len(stage.requests) == 3
        results = stage.last_results()
        assert "no effect" in results["look"]
        assert "undone" in results["book"]
        assert "may have happened" in results["send"]
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


async def test_a_program_that_is_closed_and_opened_again_and_again_repeats_nothing_that_had_finished(
    stage: Stage,
) -> None:
    """Without a pause: it lets go mid-tool, and goes on by itself. Only the read, which had not finished, is redone."""
    courses.hold("look")
    async with stage.started(WORKING):
        await until_true(lambda: courses.counted()["look begun"] == 1)
        await until_true(lambda: courses.counted()["send done"] == courses.counted()["book done"] == 1)
    for times in (2, 3):
        async with stage.opened():
            await until_true(lambda begun=times: courses.counted()["look begun"] == begun)
    courses.let("look")
    async with stage.opened() as session:
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "sent to Ann"}
        assert len(stage.requests) == 3
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [4, 1, 1]
        assert done["room 1 unbooked"] == 0
        assert noted_once()


async def test_what_is_said_to_a_cancelled_session_after_a_restart_finds_its_history_whole(stage: Stage) -> None:
    courses.hold(*TOOLS)
    async with stage.started(WORKING) as session:
        await until_all_run()
        await session.cancel(grace=0)
        courses.let("send")
        assert (await session.cancel(until="stopped")).level == "stopped"
    stage.provider.script = courses.says(Text("Off to Oslo."))
    async with stage.opened() as session:
        await session.redirect(courses.INSTEAD)
        await until_status(session, "completed", "failed")
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert stage.last_results()["send"] == "sent to Ann"
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


@pytest.mark.parametrize("after", ["resume", "redirect"])
async def test_a_failed_session_is_tried_again_or_redirected_after_a_restart(stage: Stage, after: str) -> None:
    """The tools had finished, and the request behind them failed: they are not run again."""
    async with stage.started(courses.after_a_note(courses.IN_PARALLEL, Fail(400, "out of order"))) as session:
        assert await until_status(session, "failed", "completed") == "failed"
    stage.provider.script = courses.says(courses.ALL_DONE)
    async with stage.opened() as session:
        assert await session.status() == "failed"
        if after == "resume":
            await session.resume()
        else:
            await session.redirect(courses.INSTEAD)
        await until_status(session, "completed", "failed")
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "sent to Ann"}
        if after == "redirect":
            assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert len(stage.requests) == 4
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()
