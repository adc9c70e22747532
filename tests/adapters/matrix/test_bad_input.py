"""A model that misbehaves, and a provider that fails: a clear sentence, and a session that can still be steered."""

from collections.abc import Sequence

import pytest

import midcourse
from midcourse.models.script import Call, Fail, Garbage, Piece, Said, Text
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.adapters.matrix.test_stops import PATIENCE, noted_once
from tests.promises.harness import until_status, until_true

FAILURES: dict[str, tuple[Sequence[Piece], tuple[str, ...]]] = {
    "garbage instead of a chunk": ((Text("Let me "), Garbage("{<<<not json")), ("JSON",)),
    "a stream that breaks off": ((Text("Let me "), Fail(0, "")), ("onnection",)),
    "an error in the middle": ((Text("Let me "), Fail(500, "the model fell over")), ("fell over",)),
    "HTTP 401": ((Fail(401, "wrong key sk-1"),), ("401", "wrong key")),
    "HTTP 500": ((Fail(500, "out of order"),), ("500", "out of order")),
    "HTTP 429": ((Fail(429, "too many of you"),), ("429", "too many")),
}


# Each failure with one way to go on; with the other in `make thorough`.
GOING_ON = [
    pytest.param(case, after, marks=() if number % 2 == way else pytest.mark.thorough)
    for number, case in enumerate(FAILURES)
    for way, after in enumerate(("resume", "redirect"))
]


@pytest.mark.parametrize(("case", "after"), GOING_ON)
async def test_a_request_that_fails_ends_the_session_with_a_sentence_and_can_be_tried_again(
    stage: Stage, case: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, where no retry is wanted: the clients' own retries are off."""
    monkeypatch.setattr("midcourse.runtime.retries.MODEL_RETRY", midcourse.Retry(1))
    pieces, words = FAILURES[case]
    async with stage.started(courses.after_a_note(tuple(pieces))) as session:
        with pytest.raises(midcourse.SessionEnded) as ended:
            await session.result(PATIENCE)
        assert ended.value.code == "step_failed"
        for word in words:
            assert word in str(ended.value)
        assert len(str(ended.value)) < 1_000
        assert str(ended.value).endswith("Resume it to try again.")
        assert len(stage.requests) == 2
        if after == "resume":
            stage.provider.script = courses.after_a_note(courses.ALL_DONE)
            await session.resume()
        else:
            stage.provider.script = courses.says(courses.ALL_DONE)
            await session.redirect(courses.INSTEAD)
            await until_status(session, "completed", "failed")
        assert await session.result(PATIENCE) == "All is done."
        assert len(stage.requests) == 3
        assert stage.heard().results("note") == ("noted Rome",)
        if after == "redirect":
            assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert noted_once()


ODD = {
    "an unknown tool": Call("teleport", {"to": "Rome"}),
    "arguments of a wrong type": Call("wire", {"amount": "a lot"}),
    "an argument that is missing": Call("book", {}),
    "arguments that are no JSON": Call("book", raw='{"room": '),
    "arguments that are no object": Call("book", raw="[1, 2]"),
}
TOLD: dict[str, dict[str, str]] = {
    "pydantic_ai": {
        "an unknown tool": "Unknown tool name: 'teleport'",
        "arguments of a wrong type": "Input should be a valid integer",
        "an argument that is missing": "Field required",
        "arguments that are no JSON": "Invalid JSON",
        "arguments that are no object": "Input should be an object",
    },
    "langgraph": {
        "an unknown tool": "teleport is not a valid tool",
        "arguments of a wrong type": "amount: Input should be a valid integer",
        "an argument that is missing": "room: Field required",
        "arguments that are no JSON": "Error invoking tool 'book'",
        "arguments that are no object": "no JSON object",
    },
    # The SDK tells a model no more than this, unless a tool has a failure_error_function.
    "openai_agents": dict.fromkeys(ODD, "An error occurred while running the tool"),
    "plain": {
        "an unknown tool": "There is no tool 'teleport'",
        "arguments of a wrong type": "Expected `int`, got `str` - at `$.amount`",
        "an argument that is missing": "missing required field `room`",
        "arguments that are no JSON": "no JSON object",
        "arguments that are no object": "no JSON object",
    },
}
"""What the model is told: words of the framework where it has some."""
TOLD["yaml_agents"] = TOLD["pydantic_ai"]
TOLD["langgraph_react"] = TOLD["langgraph"]
FATAL = {("openai_agents", "an unknown tool"): "The model called 'teleport', which is no tool of agent"}
"""What the framework itself takes for the end of a run."""


@pytest.mark.parametrize("case", ODD)
async def test_a_call_that_cannot_be_made_is_told_to_the_model_and_harms_no_sibling(stage: Stage, case: str) -> None:
    """Where a framework ends its run over it, the session fails with a sentence. A redirect finds all in order."""
    odd = ODD[case]
    fatal = FATAL.get((stage.adapter, case), "")
    async with stage.started(courses.after_a_note((odd, courses.SEND), courses.ALL_DONE)) as session:
        status = await until_status(session, "completed", "failed")
        if fatal:
            with pytest.raises(midcourse.SessionEnded, match=fatal):
                await session.result(PATIENCE)
        else:
            assert status == "completed"
            assert await session.result(PATIENCE) == "All is done."
            results = stage.last_results()
            assert TOLD[stage.adapter][case] in results[odd.name]
            assert results["send"] == "sent to Ann"
        done = courses.counted()
        assert [done[f"{tool} begun"] for tool in ("wire", "book", "send")] == [0, 0, 0 if fatal else 1]
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        await until_status(session, "completed", "failed")
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert courses.counted() == done
        assert noted_once()


GOES_ON = {
    "openai_agents": "An error occurred while running the tool",
    "plain": "ValueError: the ground is uneven",
}
"""Frameworks that tell a model of a function that raised; the others end their run."""


@pytest.mark.parametrize("after", ["resume", "redirect"])
async def test_a_tool_that_raises_tears_no_sibling_that_is_in_flight(stage: Stage, after: str) -> None:
    """A framework gives up its other calls then. Those that cannot be undone finish, once, and are told of."""
    script = courses.after_a_note((Call("stumble"), courses.SEND, courses.LOOK), courses.ALL_DONE)
    courses.hold("stumble", "send")  # it falls once the other is under way: one that had not begun is never made
    async with stage.started(script) as session:
        await until_true(lambda: courses.counted()["stumble begun"] == courses.counted()["send begun"] == 1)
        courses.let("stumble", "send")
        if stage.adapter not in GOES_ON:
            with pytest.raises(midcourse.SessionEnded, match="the ground is uneven"):
                await session.result(PATIENCE)
            await until_true(lambda: courses.counted()["send done"] == 1)
            stage.provider.script = courses.says(courses.ALL_DONE)
            if after == "resume":  # the call that failed is tried again, and fails again
                await session.resume()
                with pytest.raises(midcourse.SessionEnded, match="the ground is uneven"):
                    await session.result(PATIENCE)
                assert courses.counted()["stumble begun"] == 2
                assert len(stage.requests) == 2
            await session.redirect(courses.INSTEAD)
            await until_status(session, "completed", "failed")
            assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        assert await session.result(PATIENCE) == "All is done."
        results = stage.last_results()
        assert GOES_ON.get(stage.adapter, "the ground is uneven") in results["stumble"]
        assert results["send"] == "sent to Ann"
        done = courses.counted()
        assert [done[f"send {how}"] for how in ("begun", "done")] == [1, 1]
        assert noted_once()


async def test_ids_that_a_model_repeats_do_not_mix_calls_up(stage: Stage) -> None:
    """In one response, and in the next one: each call is made, once, and its result is its own."""
    again = (Call("look", {"at": "Rome"}, "x"), Call("look", {"at": "Oslo"}, "x"), Call("send", {"to": "Ann"}, "x"))
    once_more = Call("look", {"at": "Bonn"}, "x")

    def script(conversation: object) -> Sequence[Piece]:
        looked = len(stage.provider.requests)
        return {1: again, 2: (once_more,)}.get(looked, (courses.ALL_DONE,))

    async with stage.started(script) as session:
        assert await session.result(PATIENCE) == "All is done."
        heard = stage.heard()
        assert sorted(said.text for said in heard if said.role == "tool") == [
            "Bonn is nice",
            "Oslo is nice",
            "Rome is nice",
            "sent to Ann",
        ]
        assert courses.counted()["look done"] == 3
        assert courses.counted()["send done"] == 1
