"""What is taken back never reaches a model, what is edited arrives as it is then, and what is queued is a turn."""

from collections.abc import Sequence

from midcourse.models.script import Call, Conversation, Piece, Said, Text, replies
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage, above_all
from tests.adapters.matrix.test_stops import PATIENCE, TALKING, TOOLS, WORKING, noted_once, until_all_run, until_words
from tests.promises.harness import until, until_status, until_true

OSLO = Text("Off to Oslo.")


def told(stage: Stage, at: int = -1) -> list[str]:
    """What the person has said, as the model was sent it; and nobody has said nothing."""
    said = [one.text for one in stage.heard(at).said if one.role == "user"]
    assert all(text.strip() for text in said)
    return said


async def test_a_redirect_that_is_withdrawn_while_calls_hold_it_up_was_never_said(stage: Stage) -> None:
    """The calls finish, and the model is sent their results and no word more."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        reply = await session.redirect(courses.INSTEAD)
        assert reply.message == "msg_2"
        await session.withdraw(reply.message)
        courses.let(*TOOLS)
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"look": "Rome is nice", "book": "room 1 is booked", "send": "sent to Ann"}
        assert told(stage) == [courses.GOAL]
        assert len(stage.requests) == 3
        assert [courses.counted()[f"{tool} done"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


async def test_a_redirect_arrives_as_it_was_edited_last(stage: Stage) -> None:
    """Once, and in no other words."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        await session.redirect("Go to Bergen")
        await session.edit("msg_2", courses.INSTEAD)
        stage.provider.script = courses.says(OSLO)
        courses.let(*TOOLS)
        assert await session.result(PATIENCE) == OSLO.text
        assert told(stage) == [courses.GOAL, courses.INSTEAD]
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert not any("Bergen" in one.text for one in stage.heard().said)


async def test_a_stream_that_a_pause_cut_is_asked_for_again_unchanged_if_the_redirect_was_withdrawn(
    stage: Stage,
) -> None:
    """As if nobody had said anything: also no piece of the cut text is in the conversation."""
    async with stage.started(TALKING) as session:
        await until_words(session, 3)
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.redirect(courses.INSTEAD)
        await session.withdraw("msg_2")
        stage.provider.script = courses.says(courses.ALL_DONE)
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        assert stage.heard(2).said == stage.heard(1).said
        assert len(stage.requests) == 3
        assert noted_once()


async def test_of_two_redirects_while_paused_only_the_one_that_stands_is_heard(stage: Stage) -> None:
    """Whichever of them that is."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        await session.pause(grace=0)
        courses.let(*TOOLS)
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.redirect("Go to Bergen")
        await session.redirect("Go to Turku")
        await session.redirect("Go to Umea")
        await session.withdraw("msg_2")
        await session.withdraw("msg_4")
        await session.edit("msg_3", courses.INSTEAD)
        stage.provider.script = courses.says(OSLO)
        await session.resume()
        assert await session.result(PATIENCE) == OSLO.text
        assert told(stage) == [courses.GOAL, courses.INSTEAD]
        assert "undone" in stage.last_results()["book"]
        assert noted_once()


async def test_what_is_said_after_withdrawals_is_heard_once_and_in_its_order(stage: Stage) -> None:
    """How much the model has been told is counted right: over redirects, turns and what was taken back."""
    async with stage.started(WORKING) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        for text in ("first", "second", "third"):
            await session.redirect(text)
        await session.withdraw("msg_3")
        stage.provider.script = TALKING
        courses.let(*TOOLS)
        await stage.provider.wait_for_request(2)
        stage.provider.script = courses.says(courses.LONG)
        await until_words(session, 3)
        stage.provider.script = courses.says(OSLO)
        await session.redirect("fourth")
        assert await session.result(PATIENCE) == OSLO.text
        heard = "\n\n".join(told(stage))
        assert heard == f"{courses.GOAL}\n\nfirst\n\nthird\n\nfourth"
        await session.message("fifth")
        await session.result(PATIENCE)
        assert "\n\n".join(told(stage)) == f"{heard}\n\nfifth"
        assert noted_once()


async def test_a_queued_message_is_the_next_turn_with_the_whole_conversation(stage: Stage) -> None:
    """The turn before is not disturbed, and what it said comes before the message."""

    def script(heard: Conversation) -> Sequence[Piece]:
        return [*WORKING(heard)] if heard.user == courses.GOAL else [OSLO]

    async with stage.started(script) as session:
        courses.hold(*TOOLS)
        await until_all_run()
        await session.message("And then Turku")
        await session.message("never")
        await session.message("And then Umea")
        await session.edit("queued_1", courses.INSTEAD)
        await session.withdraw("queued_2")
        courses.let(*TOOLS)
        await until(session, "session.turn_opened", times=2)
        await session.result(PATIENCE)
        assert told(stage) == [courses.GOAL, courses.INSTEAD, "And then Umea"]
        assert told(stage, 2) == [courses.GOAL]
        assert stage.heard().said[-1] == Said("user", "And then Umea")
        assert [courses.counted()[f"{tool} done"] for tool in TOOLS] == [1, 1, 1]
        assert noted_once()


async def test_an_ask_that_a_withdrawn_redirect_superseded_is_put_again(stage: Stage) -> None:
    """Nothing is said to the model of it, and the call is made once somebody approves."""
    script = replies(Call("pay", {"amount": 5}), courses.ALL_DONE)
    async with stage.started(script) as session:
        await until_status(session, "waiting")
        await session.pause(until="stopped")
        await session.redirect(courses.INSTEAD)
        await session.withdraw("msg_2")
        await session.resume()
        await until(session, "ask.opened", times=2)
        await until_status(session, "waiting")
        assert courses.counted()["pay begun"] == 0
        await session.answer("yes")
        assert await session.result(PATIENCE) == "All is done."
        assert stage.last_results() == {"pay": "paid 5"}
        assert told(stage) == [courses.GOAL]
        assert courses.counted()["pay done"] == 1


async def test_an_event_outside_is_what_the_model_hears_next(stage: Stage) -> None:
    """It cuts what the model is saying."""
    async with stage.started(TALKING) as session:
        await until_words(session, 3)
        stage.provider.script = courses.says(OSLO)
        await session.event("the airport is closed", source="news")
        await stage.cut(1)
        assert await session.result(PATIENCE) == OSLO.text
        assert told(stage)[1:] == [
            "An event outside (news): the airport is closed\nWhat was assumed before may no longer hold."
        ]
        assert courses.counted()["send begun"] == 0


@above_all("langgraph", "openai_agents")
async def test_what_is_queued_and_what_is_taken_back_survives_a_killed_process(stage: Stage) -> None:
    """Another process continues: with the redirect that stands, without the one that does not, then with the queue."""
    courses.hold(*TOOLS)
    async with stage.driven_elsewhere(WORKING) as child:
        await until_all_run()
        async with stage.opened(drive=False) as session:
            await session.redirect("Go to Bergen")
            await session.redirect(courses.INSTEAD)
            await session.withdraw("msg_2")
            await session.message("And then Turku")
            await session.message("never")
            await session.withdraw("queued_2")
        await child.kill()
        courses.let(*TOOLS)
    async with stage.opened() as session:
        stage.provider.script = courses.says(OSLO)
        await until_true(lambda: courses.counted()["room 1 unbooked"] == 1)
        await session.result(PATIENCE)
        assert (await session.state()).turn == 2
        assert told(stage) == [courses.GOAL, courses.INSTEAD, "And then Turku"]
        assert noted_once()
