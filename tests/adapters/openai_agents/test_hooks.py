"""Hooks of a run, and the input that a run is given: as with the SDK's own runner."""

from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    RunContextWrapper,
    RunHooks,
    Tool,
    TResponseInputItem,
    input_guardrail,
)

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.models.script import Call, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, finding


class Diary(RunHooks[Any]):
    """Writes down what happens in a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.lines.append(f"{agent.name} starts")

    async def on_handoff(self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        self.lines.append(f"{from_agent.name} to {to_agent.name}")

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        self.lines.append(f"{tool.name}: {result}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.lines.append(f"{agent.name} ends with {output}")


async def test_hooks_of_a_run_are_told_what_happens_in_it(at_responses: Desk) -> None:
    at, diary = at_responses, Diary()
    porter = at.agent(finding, name="porter")
    clerk = at.agent(name="clerk", handoffs=[porter])
    script = replies(Call("transfer_to_porter"), Call("find", {"what": "it"}), Text("Done."))
    session = await at.start(clerk, script, hooks=diary)
    assert await session.result(PATIENCE) == "Done."
    assert diary.lines == [
        "clerk starts",
        "clerk to porter",
        "porter starts",
        "find: found it",
        "porter ends with Done.",
    ]


@pytest.mark.parametrize("given", [Diary, AgentHooks[Any]()])
def test_what_are_no_hooks_of_a_run_is_refused_when_the_agent_is_wrapped(at_responses: Desk, given: Any) -> None:
    with pytest.raises(midcourse.InvalidInput, match="subclass of the SDK's RunHooks"):
        wrap(at_responses.agent(), hooks=given)


async def test_a_goal_is_a_str_for_guardrails_also_after_a_cold_resume(at_responses: Desk, tmp_path: Path) -> None:
    at, url = at_responses, f"sqlite:///{tmp_path / 'runs.db'}"
    seen: list[str | list[TResponseInputItem]] = []

    @input_guardrail(run_in_parallel=False)
    def reads(
        ctx: RunContextWrapper[Any], agent: Agent[Any], input: str | list[TResponseInputItem]
    ) -> GuardrailFunctionOutput:
        seen.append(input)
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    at.provider.script = replies(Text("So many words to say", every=0.2))
    agent = wrap(at.agent(input_guardrails=[reads]), name="guarded")
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "Go.", session_id="sess_it")
        await at.provider.wait_for_request(0, pieces=1, timeout=PATIENCE)
        await session.pause(until="stopped")
    at.provider.script = replies(Text("Done."))
    async with midcourse.open(url) as mc:
        session = await mc.get("sess_it")
        await session.resume()
        # The scripted model does not care about what it had said before the cut.
        assert (await session.result(PATIENCE)).endswith("Done.")
        assert seen == ["Go.", "Go."]
        at.provider.script = replies(Text("No."), Text("Again."))
        await session.redirect("And now?")
        assert await session.result(PATIENCE) == "Again."
    assert [one["content"] for one in seen[2] if isinstance(one, dict) and "content" in one][-1] == "And now?"
