"""Tool calls that LangChain's human-in-the-loop middleware has a person review."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

import midcourse
from midcourse.adapters.langgraph import held, wrap
from midcourse.adapters.langgraph.held_run import decided
from tests.adapters.langgraph.graphs import Says, calls, steps_of
from tests.promises.harness import NEVER

MODES = ["batched", "per_call"]


def _agent(mode: str, sent: list[str]) -> midcourse.Agent[Any]:
    """LangChain's agent with a tool that a person reviews."""
    agents: Any = pytest.importorskip("langchain.agents")
    middleware: Any = pytest.importorskip("langchain.agents.middleware")

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return f"sent to {to}"

    def answer(said: list[BaseMessage]) -> Any:
        if not any(one.type == "tool" for one in said):
            return AIMessage("", tool_calls=[calls("send", to=one, id=one).tool_calls[0] for one in ("Ann", "Bob")])
        return " | ".join(str(one.text) for one in said if one.type in {"tool", "human"})

    review = middleware.HumanInTheLoopMiddleware(interrupt_on={"send": True}, interrupt_mode=mode)
    return wrap(agents.create_agent(held(Says(answer=answer)), [send], middleware=[review]), name=f"reviewed-{mode}")


async def _answered(mode: str, sent: list[str], *answers: Any) -> tuple[Any, list[str]]:
    async with midcourse.open("memory://") as mc:
        session = await mc.start(_agent(mode, sent), "go")
        for answer in answers:
            ask = await session.next_ask()
            assert ask.reason == "need_approval"
            assert ask.options == ("yes", "no")
            assert "send" in ask.prompt
            assert "Ann" in ask.prompt or "Bob" in ask.prompt
            await session.answer(answer, ask=ask.id)
        return await session.result(NEVER), await steps_of(session)


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_person_approves_with_a_yes_is_done(mode: str) -> None:
    sent: list[str] = []
    said, steps = await _answered(mode, sent, *["yes"] * (1 if mode == "batched" else 2))
    assert said == "go | sent to Ann | sent to Bob"
    assert sorted(sent) == ["Ann", "Bob"]
    assert steps == ["model", "send", "send", "model"]


@pytest.mark.parametrize("mode", MODES)
async def test_any_other_words_refuse_and_reach_the_model(mode: str) -> None:
    sent: list[str] = []
    said, steps = await _answered(mode, sent, *["not today"] * (1 if mode == "batched" else 2))
    assert said.count("with reason: not today") == 2
    assert not sent
    assert steps == ["model", "model"]


async def test_a_decision_in_the_middlewares_own_form_is_taken_as_it_is() -> None:
    sent: list[str] = []
    edited = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "Eve"}}}
    said, _ = await _answered("batched", sent, {"decisions": [{"type": "reject", "message": "no"}, edited]})
    assert sent == ["Eve"]
    assert "with reason: no" in said


@pytest.mark.parametrize("mode", MODES)
async def test_a_redirect_refuses_what_was_to_be_reviewed(mode: str) -> None:
    sent: list[str] = []
    async with midcourse.open("memory://") as mc:
        session = await mc.start(_agent(mode, sent), "go")
        await session.next_ask()
        await session.redirect("write a poem")
        said = str(await session.result(NEVER))
    assert said.count("Redirected: write a poem") == 2
    assert said.endswith("| write a poem")
    assert not sent


ASK_USER: dict[str, Any] = {
    "action_requests": [{"name": "ask", "args": {}}, {"name": "send", "args": {}}],
    "review_configs": [
        {"action_name": "ask", "allowed_decisions": ["respond"]},
        {"action_name": "send", "allowed_decisions": ["approve", "reject"]},
    ],
}


def test_words_become_what_each_call_allows() -> None:
    assert decided(ASK_USER, "yes") == {"decisions": [{"type": "respond", "message": "yes"}, {"type": "approve"}]}
    refused = {"decisions": [{"type": "respond", "message": "no"}, {"type": "reject"}]}
    assert decided(ASK_USER, "no") == refused
    assert decided({"question": "Well?"}, "yes") == "yes"
    assert decided("Well?", True) is True
