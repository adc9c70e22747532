"""What a model is sent: as the SDK would send it, and valid after every interruption."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, ModelSettings, OpenAIResponsesModel, RunConfig, Usage
from agents.run_config import CallModelData, ModelInputData
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.models.script import Call, Text, replies
from midcourse.ports.bus import Delta
from midcourse.testing.provider import Provider
from tests.adapters.openai_agents.desk import PATIENCE, Desk, finding, searching, until_begun


async def test_ids_that_a_model_repeats_are_renamed(at: Desk) -> None:
    calls = [Call("find", {"what": what}, "same") for what in ("a", "b")]
    session = await at.start(at.agent(finding), replies(*calls, Text("Done.")))
    assert await session.result(PATIENCE) == "Done."
    assert [call.id for call in at.provider.requests[-1].conversation.calls] == ["same", "same_2"]
    at.assert_that_all_requests_were_valid()


async def test_a_cut_answer_stands_in_the_conversation_before_what_the_person_said(at: Desk) -> None:
    session = await at.start(at.agent(), replies(Text("one two three four five six", every=0.1), Text("Well.")))
    await at.provider.wait_for_request(0, pieces=2, timeout=PATIENCE)
    await session.redirect("Shorter.")
    assert await session.result(PATIENCE) == "Well."
    assert at.heard[0] == "user: Go."
    assert at.heard[1].startswith("assistant: one two")
    assert at.heard[2:] == ["user: Shorter."]


async def test_words_are_seen_as_they_come(at: Desk) -> None:
    session = await at.start(at.agent(), replies(Text("one two three four", every=0.05)))
    pieces = [one.text async for one in session.watch(deltas=True) if isinstance(one, Delta)]
    assert len(pieces) > 1
    assert "".join(pieces) == "one two three four"


async def test_what_a_filter_leaves_out_of_a_request_stays_in_the_conversation(at: Desk) -> None:
    lengths: list[int] = []

    def last_two(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        lengths.append(len(given.input))
        return ModelInputData(input=[*given.input[:1], *given.input[1:][-2:]], instructions=given.instructions)

    session = await at.start(
        at.agent(finding),
        lambda heard: [Text("Done.")] if lengths[-1] > 6 else [Call("find", {"what": str(lengths[-1])})],
        run_config=RunConfig(call_model_input_filter=last_two, tracing_disabled=True),
    )
    assert await session.result(PATIENCE) == "Done."
    assert lengths == [1, 3, 5, 7]
    assert len(at.heard) == 3


async def test_settings_and_models_by_name_are_those_the_sdk_would_take(at_responses: Desk) -> None:
    at = at_responses
    agent = at.agent(model_settings=ModelSettings(temperature=0.5))
    session = await at.start(agent, replies(Text("Done.")), run_config={"model_settings": ModelSettings(top_p=0.25)})
    assert await session.result(PATIENCE) == "Done."
    sent = json.loads(at.provider.requests[-1].body)
    assert (sent["temperature"], sent["top_p"], sent["model"], sent["stream"]) == (0.5, 0.25, "m", True)


async def test_tokens_are_counted(at: Desk) -> None:
    session = await at.start(at.agent(), replies(Text("one two three")))
    await session.result(PATIENCE)
    assert (await session.state()).tokens == 3


class Thinker(Model):
    """A model that cannot stream, and thinks before it calls and before it speaks."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **more: Any) -> ModelResponse:
        self.heard.append(input)
        number = len(self.heard)
        thought = ResponseReasoningItem(id=f"rs_{number}", summary=[], type="reasoning", encrypted_content="hmm")
        said: Any = ResponseFunctionToolCall(
            arguments='{"what": "it"}', call_id=f"c{number}", name="find", type="function_call", id=f"fc_{number}"
        )
        if number > 1:
            text = ResponseOutputText(annotations=[], text="Done.", type="output_text")
            said = ResponseOutputMessage(
                id=f"msg_{number}", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[thought, said], usage=Usage(requests=1, output_tokens=7), response_id=None)

    def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def test_thoughts_stay_with_what_they_belong_to_also_for_a_model_that_cannot_stream() -> None:
    thinker = Thinker()
    agent = wrap(Agent(name="thinker", model=thinker, tools=[finding]))
    async with midcourse.open("memory://") as sessions:
        session = await sessions.start(agent, "Go.")
        assert await session.result(PATIENCE) == "Done."
        await session.redirect("And?")
        assert await session.result(PATIENCE) == "Done."
    kinds = [item.get("type", item.get("role")) for item in thinker.heard[-1]]
    before = ["user", "reasoning", "function_call", "function_call_output"]
    assert kinds == [*before, "reasoning", "message", "user"]
    assert [item["id"] for item in thinker.heard[-1] if item.get("type") == "reasoning"] == ["rs_1", "rs_2"]


async def test_what_was_said_while_it_was_stopped_comes_after_what_had_been_done(tmp_path: Path) -> None:
    """In another process, and without asking the model again what it has answered."""
    async with Provider(replies([Call("find", {"what": "it"}), Call("search", {"what": "more"})])) as provider:
        async with AsyncOpenAI(base_url=provider.base_url, api_key="any") as client:
            model = OpenAIResponsesModel("m", client)
            agent = wrap(Agent(name="stopped", model=model, tools=[finding, searching]))
            async with midcourse.open(f"sqlite:///{tmp_path / 'it.db'}") as first:
                session = await first.start(agent, "Go.", session_id="sess_it")
                await until_begun(session, "search")
                await session.pause(grace=0, until="stopped")
        provider.script = replies(Text("Never."), Text("All right."))
        async with AsyncOpenAI(base_url=provider.base_url, api_key="any") as client:
            model = OpenAIResponsesModel("m", client)
            wrap(Agent(name="stopped", model=model, tools=[finding, searching]))
            async with midcourse.open(f"sqlite:///{tmp_path / 'it.db'}") as second:
                session = await second.get("sess_it")
                await session.redirect("That is enough.")
                await session.resume()
                assert await session.result(PATIENCE) == "All right."
        said = [f"{one.role}: {one.text}" for one in provider.requests[-1].conversation]
        assert said[:3] == ["user: Go.", "assistant: ", "tool: found it"]
        assert said[3].startswith("tool: Interrupted by the user.")
        assert said[4:] == ["user: That is enough."]
        assert len(provider.requests) == 2
