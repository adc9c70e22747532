"""Pause, redirect and cancel, while the model talks and while tools run. The expected values are the design's table."""

from typing import Any

import midcourse
from midcourse.models.script import Call, Conversation, Piece, Said, Text, replies
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.promises.harness import stop_watching, until_status, until_true

PATIENCE = 20.0
TALKING = courses.after_a_note((courses.LONG, courses.SEND))
"""Something is noted; then the model talks for long, and would send a letter at the end."""
WORKING = courses.after_a_note(courses.IN_PARALLEL, courses.ALL_DONE)
"""Something is noted; then a read, a reversible and an irreversible call run at the same time."""
TOOLS = ("look", "book", "send")


async def until_all_run() -> None:
    """Until all three calls of the second round have begun."""
    await until_true(lambda: all(courses.counted()[f"{tool} begun"] for tool in TOOLS))


async def until_words(session: midcourse.SessionHandle[Any], count: int) -> None:
    """Until people have seen so many words of the model."""
    watching = session.watch(deltas=True)
    async for one in watching:
        count -= isinstance(one, midcourse.Delta)
        if count == 0:
            break
    await stop_watching(watching)


def noted_once() -> bool:
    """Whether the call of the first round was made once, under one key."""
    under = [line for line in courses.lines() if line.startswith("note under")]
    return len(under) == 1 and courses.counted()["note done"] == 1


async def all_is_done(stage: Stage, session: midcourse.SessionHandle[Any]) -> None:
    """It ends well after a stop that undid a call: what could be done again was, and what could not was done once."""
    assert await session.result(PATIENCE) == "All is done."
    assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "sent to Ann"}
    assert len(stage.requests) == 3
    done = courses.counted()
    assert [done[f"{tool} begun"] for tool in TOOLS] == [2, 2, 1]
    assert [done[f"{tool} done"] for tool in TOOLS] == [1, 1, 1]
    assert done["room 1 unbooked"] == 1
    assert noted_once()


# ---- while the model talks


async def test_a_pause_mid_stream_cuts_the_stream_and_a_resume_goes_on_with_it(stage: Stage) -> None:
    async with stage.started(TALKING) as session:
        await until_words(session, 3)
        assert (await session.pause(until="stopped")).level == "stopped"
        await stage.cut(1)
        assert await session.status() == "paused"
        assert len(stage.requests) == 2
        assert list((await session.state()).cuts.values()) == ["quote"]
        stage.provider.script = courses.after_a_note(courses.ALL_DONE)
        await session.resume()
        said = await session.result(PATIENCE)
        assert said.startswith("word word ")
        assert said.endswith(" All is done.")
        assert len(stage.requests) == 3
        before, begun = stage.heard(2).cut
        assert before == stage.heard(1)
        assert f"{begun} All is done." == said, "what was said is quoted, and not said again"
        assert noted_once()
        assert courses.counted()["send begun"] == 0


async def test_a_half_streamed_call_is_never_run(stage: Stage) -> None:
    slow = Call("send", {"to": "Ann " * 200}, every=0.02)
    async with stage.started(courses.after_a_note((Text("Now. "), slow))) as session:
        await until_words(session, 1)
        await stage.provider.wait_for_request(1, pieces=5)
        assert (await session.pause(until="stopped")).level == "stopped"
        await stage.cut(1)
        stage.provider.script = courses.after_a_note(courses.ALL_DONE)
        await session.resume()
        assert await session.result(PATIENCE) == "Now. All is done."
        assert stage.heard(2).cut == (stage.heard(1), "Now.")
        assert courses.counted()["send begun"] == 0


async def test_a_redirect_mid_stream_cuts_the_stream_and_is_what_the_model_hears_next(stage: Stage) -> None:
    async with stage.started(TALKING) as session:
        await until_words(session, 3)
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        await stage.cut(1)
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert len(stage.requests) == 3
        before, after = stage.heard(1).said, stage.heard(2).said
        assert after[: len(before)] == before
        partial, instruction = after[len(before) :]
        assert partial.role == "assistant"
        assert partial.text.startswith("word word word")
        assert instruction == Said("user", courses.INSTEAD)
        assert noted_once()
        assert courses.counted()["send begun"] == 0


# ---- while tools run


async def test_a_pause_mid_tool_aborts_what_it_may_and_leaves_the_irreversible_sibling_whole(stage: Stage) -> None:
    """A read is aborted and done again, a reversible call undone and done again, an irreversible one finishes."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        reply = await session.pause(grace=0)
        assert reply.level == "stopping"
        assert "send" in [call.name for call in reply.running]
        await until_true(lambda: courses.counted()["room 1 unbooked"] == 1)
        assert await session.status() == "pausing"
        courses.let("send")
        assert (await session.pause(until="stopped")).level == "stopped"
        assert await session.status() == "paused"
        assert courses.counted()["send done"] == 1
        assert courses.counted()["look done"] == courses.counted()["book done"] == 0
        assert len(stage.requests) == 2
        courses.let("look", "book")
        await session.resume()
        await all_is_done(stage, session)


async def test_a_patient_pause_mid_tool_lets_all_calls_finish_and_repeats_none(stage: Stage) -> None:
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        reply = await session.pause()
        assert reply.level == "stopping"
        assert sorted(call.name for call in reply.running) == ["book", "look", "send"]
        courses.let(*TOOLS)
        assert (await session.pause(until="stopped")).level == "stopped"
        assert len(stage.requests) == 2
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "sent to Ann"}
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert [done[f"{tool} done"] for tool in TOOLS] == [1, 1, 1]
        assert done["room 1 unbooked"] == 0
        assert noted_once()


async def test_a_redirect_mid_tool_closes_every_call_with_the_truth_and_is_what_the_model_hears_next(
    stage: Stage,
) -> None:
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD, grace=0)
        await until_true(lambda: courses.counted()["room 1 unbooked"] == 1)
        assert await session.status() == "running"
        assert len(stage.requests) == 2
        courses.let("send")
        assert await session.result(PATIENCE) == "Off to Oslo."
        results = stage.last_results()
        assert "no effect" in results["look"]
        assert "undone" in results["book"]
        assert results["send"] == "sent to Ann"
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert len(stage.requests) == 3
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert [done[f"{tool} done"] for tool in TOOLS] == [0, 0, 1]
        assert done["room 1 unbooked"] == 1
        assert noted_once()


async def test_a_redirect_that_comes_while_paused_is_heard_after_the_resume(stage: Stage) -> None:
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        await session.pause(grace=0)
        courses.let(*TOOLS)
        assert (await session.pause(until="stopped")).level == "stopped"
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD, resume=True)
        assert await session.result(PATIENCE) == "Off to Oslo."
        results = stage.last_results()
        assert results["send"] == "sent to Ann"
        assert "no effect" in results["look"]
        assert "undone" in results["book"]
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


async def test_an_idempotent_call_that_a_pause_aborts_is_done_again_under_its_key(stage: Stage) -> None:
    courses.hold("note")
    async with stage.started(replies((courses.NOTED, courses.SEND), courses.ALL_DONE)) as session:
        await until_true(lambda: courses.counted()["note begun"] == courses.counted()["send done"] == 1)
        assert (await session.pause(grace=0, until="stopped")).level == "stopped"
        courses.let("note")
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"note": "noted Rome", "send": "sent to Ann"}
        assert len(stage.requests) == 2
        assert (courses.counted()["note begun"], courses.counted()["note done"]) == (2, 1)
        assert len({line for line in courses.lines() if line.startswith("note under")}) == 1
        assert courses.counted()["send begun"] == 1


async def test_an_idempotent_call_that_a_redirect_closes_may_have_happened_and_the_same_call_inherits_its_key(
    stage: Stage,
) -> None:
    def once_more(heard: Conversation) -> tuple[Piece, ...]:
        return (courses.ALL_DONE,) if heard.latest.results("note") else (courses.NOTED,)

    courses.hold("note")
    async with stage.started(replies((courses.NOTED, courses.SEND))) as session:
        await until_true(lambda: courses.counted()["note begun"] == courses.counted()["send done"] == 1)
        stage.provider.script = once_more
        await session.redirect("Note Rome down after all", grace=0)
        await stage.provider.wait_for_request(1)
        courses.let("note")
        assert await session.result(PATIENCE) == "All is done."
        closed, noted = stage.heard().results("note")
        assert "may have happened" in closed
        assert noted == "noted Rome"
        assert (courses.counted()["note begun"], courses.counted()["note done"]) == (2, 1)
        assert len({line for line in courses.lines() if line.startswith("note under")}) == 1
        assert courses.counted()["send begun"] == 1


async def test_a_cancel_mid_tool_gives_a_true_receipt_and_what_is_said_later_is_understood(stage: Stage) -> None:
    """The receipt says of each effect what became of it; a new turn begins with a history that is whole."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        reply = await session.cancel(grace=0)
        assert reply.level == "stopping"
        await until_true(lambda: courses.counted()["room 1 unbooked"] == 1)
        assert await session.status() == "cancelling"
        courses.let("send")
        assert (await session.cancel(until="stopped")).level == "stopped"
        assert await session.status() == "cancelled"
        receipt = await session.receipt()
        assert receipt.final
        assert sorted((line.name, line.outcome) for line in receipt.lines) == [
            ("book", "undone"),
            ("note", "cannot be undone"),
            ("send", "cannot be undone"),
        ]
        assert len(stage.requests) == 2
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        await until_status(session, "completed", "failed")
        assert await session.result(PATIENCE) == "Off to Oslo."
        results = stage.last_results()
        assert results["send"] == "sent to Ann"
        assert "Rome is nice" not in results["look"]
        assert "is booked" not in results["book"]
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in TOOLS] == [1, 1, 1]
        assert [done[f"{tool} done"] for tool in TOOLS] == [0, 0, 1]
        assert done["room 1 unbooked"] == 1
        assert noted_once()


async def test_a_cancel_mid_stream_keeps_what_was_said_and_a_new_turn_goes_on_from_it(stage: Stage) -> None:
    async with stage.started(TALKING) as session:
        await until_words(session, 3)
        assert (await session.cancel(until="stopped")).level == "stopped"
        await stage.cut(1)
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        assert await session.result(PATIENCE) == "Off to Oslo."
        partial, instruction = stage.heard().said[-2:]
        assert partial.role == "assistant"
        assert partial.text.startswith("word word word")
        assert instruction == Said("user", courses.INSTEAD)
        assert stage.heard().results("note") == ("noted Rome",)
        assert noted_once()
