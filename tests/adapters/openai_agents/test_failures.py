"""What goes wrong with an agent, its model or its guardrails: the session says so, and can go on."""

from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    RunContextWrapper,
    input_guardrail,
    output_guardrail,
)
from pydantic import BaseModel

import midcourse
from midcourse.models.script import Call, Fail, Text, Wait, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, failure_of, finding, says


async def test_a_request_that_fails_is_made_once_and_a_resume_makes_it_again(at: Desk) -> None:
    at.provider.fail_next(Fail(500, "boom"))
    session = await at.start(at.agent(), replies(Text("Here.")), retry=midcourse.Retry(1))
    assert "Step 'model' failed: InternalServerError" in await failure_of(session)
    assert len(at.provider.requests) == 1
    await session.resume()
    assert await session.result(PATIENCE) == "Here."
    assert len(at.provider.requests) == 2


async def test_a_model_that_calls_what_is_not_there_is_asked_again_by_a_resume(at: Desk) -> None:
    session = await at.start(at.agent(finding), replies(Call("lose", {"what": "it"})))
    sentence = await failure_of(session)
    assert "The model called 'lose', which is no tool of agent 'desk'. It has: find." in sentence
    at.provider.script = replies(Text("Sorry."))
    await session.resume()
    assert await session.result(PATIENCE) == "Sorry."


class Size(BaseModel):
    """What an agent is to say."""

    width: int


async def test_output_of_the_wrong_shape_is_asked_for_again_by_a_resume(at: Desk) -> None:
    agent = at.agent(output_type=Size)
    session = await at.start(agent, replies(Text('{"width": "wide"}')))
    assert "ModelBehaviorError: Invalid JSON" in await failure_of(session)
    at.provider.script = replies(Text('{"width": 3}'))
    await session.resume()
    assert await session.result(PATIENCE) == {"width": 3}


async def test_a_model_that_takes_too_long_fails_the_step(at: Desk) -> None:
    agent = at.agent(model_settings=ModelSettings(timeout=0.3))
    session = await at.start(agent, replies([Text("Well, "), Wait(600), Text("no.")]), retry=midcourse.Retry(1))
    assert "ModelTimeoutError" in await failure_of(session)
    await at.provider.wait_for_close(0, timeout=PATIENCE)


async def test_more_turns_than_allowed_lose_nothing_and_a_resume_has_as_many_again(at: Desk) -> None:
    agent = at.agent(finding)
    session = await at.start(
        agent,
        lambda heard: [Text("Enough.")] if len(heard.calls) == 3 else [Call("find", {"what": str(len(heard.calls))})],
        max_turns=2,
    )
    assert "MaxTurnsExceeded: Max turns (2) exceeded" in await failure_of(session)
    await session.resume()
    assert await session.result(PATIENCE) == "Enough."
    assert at.heard[1:] == [f"{part}" for n in range(3) for part in ("assistant: [find]", f"tool: found {n}")]
    assert len(at.provider.requests) == 4
    at.assert_that_all_requests_were_valid()


async def test_turns_before_a_redirect_count(at_responses: Desk) -> None:
    at = at_responses
    seen: list[int] = []

    def script(heard: Any, /) -> Any:
        seen.append(1)
        return [Text("So many words to say about it", every=0.1) if len(seen) == 2 else Call("find", {"what": "it"})]

    session = await at.start(at.agent(finding), script, max_turns=3)
    await at.provider.wait_for_request(1, pieces=1, timeout=PATIENCE)
    await session.redirect("Go on.")
    assert "MaxTurnsExceeded" in await failure_of(session)
    assert len(at.provider.requests) == 3


async def test_a_tripped_guardrail_fails_the_session_and_cuts_the_model(at: Desk) -> None:
    @input_guardrail
    async def polite(ctx: RunContextWrapper[Any], agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        await at.provider.wait_for_request(0, pieces=1, timeout=PATIENCE)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="please" not in str(given))

    agent = at.agent(input_guardrails=[polite])
    session = await at.start(agent, replies(Text("word " * 2_000, every=0.01)), "Now.")
    assert "InputGuardrailTripwireTriggered" in await failure_of(session)
    assert (await at.provider.wait_for_close(0, timeout=PATIENCE)).pieces < 1_500
    at.provider.script = says(lambda heard: [Text(f"Since you say: {heard.user}")])
    await session.redirect("Now, please.")
    assert await session.result(PATIENCE) == "Since you say: Now, please."
    at.assert_that_all_requests_were_valid()


async def test_an_output_guardrail_fails_the_session(at_responses: Desk) -> None:
    @output_guardrail
    def short(ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=len(output) > 5)

    at = at_responses
    session = await at.start(at.agent(output_guardrails=[short]), replies(Text("A long answer."), Text("Short")))
    assert "OutputGuardrailTripwireTriggered" in await failure_of(session)
    await session.redirect("Shorter.")
    assert await session.result(PATIENCE) == "Short"
    assert at.heard == ["user: Go.", "assistant: A long answer.", "user: Shorter."]


async def test_an_answer_that_a_guardrail_refused_is_asked_for_again_by_a_resume(at: Desk) -> None:
    @output_guardrail
    def short(ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=len(output) > 5)

    answers = replies(Call("find", {"what": "it"}), Text("A long answer."))
    session = await at.start(at.agent(finding, output_guardrails=[short]), answers)
    for _ in range(2):
        assert "OutputGuardrailTripwireTriggered" in await failure_of(session)
        at.provider.script = says(lambda heard: [Text("Short" if len(at.provider.requests) == 4 else "Too long.")])
        await session.resume()
    assert await session.result(PATIENCE) == "Short"
    assert at.heard == ["user: Go.", "assistant: [find]", "tool: found it"]
    at.assert_that_all_requests_were_valid()
    at.provider.script = says(lambda heard: [Text("Yes.")])
    await session.redirect("Sure?")
    assert await session.result(PATIENCE) == "Yes."
    assert at.heard[-2:] == ["assistant: Short", "user: Sure?"]


async def test_a_missing_key_is_missed_when_the_model_is_asked(at_responses: Desk, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    session = await at_responses.start(Agent(name="keyless"), replies(Text("Never.")))
    assert "Step 'model' failed: OpenAIError: Missing credentials" in await failure_of(session)
