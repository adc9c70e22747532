"""A choice of tools that an agent must make: made once in a turn, however often the turn is interrupted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.models.script import Call, Conversation, Piece, Text
from tests.adapters.openai_agents.desk import PATIENCE, Desk, failure_of, finding

REQUIRED = ModelSettings(tool_choice="required")


def choices(at: Desk) -> list[str | None]:
    """What each request said of the tools."""
    return [json.loads(one.body).get("tool_choice") for one in at.provider.requests]


def obeys(at: Desk, slowly: bool = True) -> Any:
    """A model that calls a tool where it must, and else takes its time to answer, the first time."""

    def script(heard: Conversation, /) -> Sequence[Piece]:
        if choices(at)[-1] == "required":
            return [Call("find", {"what": str(len(heard.calls))})]
        return [Text("So many words to say about it", every=0.2 if slowly and len(choices(at)) == 2 else 0.0)]

    return script


async def test_a_redirect_does_not_require_a_tool_again_and_the_next_turn_does(at: Desk) -> None:
    session = await at.start(at.agent(finding, model_settings=REQUIRED), obeys(at))
    await at.provider.wait_for_request(1, pieces=1, timeout=PATIENCE)
    await session.redirect("Be brief.")
    await session.result(PATIENCE)
    assert choices(at) == ["required", None, None]
    await session.redirect("And now?")
    await session.result(PATIENCE)
    assert choices(at)[3:] == ["required", None]
    at.assert_that_all_requests_were_valid()


async def test_a_resume_elsewhere_does_not_require_a_tool_again(at_responses: Desk, tmp_path: Path) -> None:
    at, url = at_responses, f"sqlite:///{tmp_path / 'runs.db'}"
    at.provider.script = obeys(at)
    agent = wrap(at.agent(finding, model_settings=REQUIRED), name="chooser")
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "Go.", session_id="sess_it")
        await at.provider.wait_for_request(1, pieces=1, timeout=PATIENCE)
        await session.pause(until="stopped")
    async with midcourse.open(url) as mc:
        session = await mc.get("sess_it")
        await session.resume()
        await session.result(PATIENCE)
    assert choices(at) == ["required", None, None]


async def test_a_turn_after_one_that_failed_requires_a_tool_again(at_responses: Desk) -> None:
    at = at_responses

    def fails(heard: Conversation, /) -> Sequence[Piece]:
        return [Call("nothing")] if heard.calls else [Call("find", {"what": "it"})]

    session = await at.start(at.agent(finding, model_settings=REQUIRED), fails)
    await failure_of(session)
    at.provider.script = obeys(at, slowly=False)
    await session.redirect("And now?")
    await session.result(PATIENCE)
    assert choices(at) == ["required", None, "required", None]


@pytest.mark.parametrize("resets", [True, False])
async def test_each_agent_has_its_own_choice_to_make(at_responses: Desk, resets: bool) -> None:
    at = at_responses

    def agent(name: str, **given: Any) -> Agent[Any]:
        return at.agent(finding, name=name, model_settings=REQUIRED, reset_tool_choice=resets, **given)

    def script(heard: Conversation, /) -> Sequence[Piece]:
        if heard.system == "clerk":
            return [Call("transfer_to_porter")]
        if len(heard.calls) == 1:
            return [Call("find", {"what": "it"})]
        return [Text("So many words to say about it", every=0.2 if len(choices(at)) == 3 else 0.0)]

    session = await at.start(agent("clerk", handoffs=[agent("porter")]), script)
    await at.provider.wait_for_request(2, pieces=1, timeout=PATIENCE)
    await session.redirect("Be brief.")
    await session.result(PATIENCE)
    assert choices(at) == ["required", "required", *([None] * 2 if resets else ["required"] * 2)]
