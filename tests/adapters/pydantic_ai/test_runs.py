"""Runs of a Pydantic AI agent: dependencies, outputs, limits, processors, handlers, failures, and the turns between."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

import httpx2 as httpx
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, ToolReturn
from pydantic_ai.capabilities import ProcessEventStream, ProcessHistory
from pydantic_ai.messages import AgentStreamEvent, ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import UsageLimits

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.models.script import Call, Conversation, Fail, Script, Text, replies
from midcourse.testing.provider import Provider
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, history, types, until

SLOW = Text("and so on " * 500, every=0.02)


def _look(desk: Desk) -> None:
    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look(at: str = "") -> str:
        """Look at something."""
        desk.done.append(at)
        return f"{at} is fine"


def _failing(kept: asyncio.Event) -> Callable[[], Awaitable[str]]:
    @midcourse.tool(effect="read")
    async def fail() -> str:
        """Fail, when the other is done."""
        await kept.wait()
        raise OSError("no light")

    return fail


async def _failed(session: midcourse.SessionHandle[str], kept: asyncio.Event) -> midcourse.SessionHandle[str]:
    """The session, once its turn has failed with the result of the other call kept."""
    await until(session, "step.finished", times=2)  # the model's wishes, and the other call
    kept.set()
    with pytest.raises(midcourse.SessionEnded, match="no light"):
        await session.result(PATIENCE)
    return session


async def _until_asked(desk: Desk, times: int) -> None:
    while len(desk.heard) < times:
        await asyncio.sleep(0.01)


# ---- dependencies and outputs


@pytest.mark.parametrize("late", [False, True])
async def test_deps_are_made_for_each_run_in_each_process(place: Place, late: bool) -> None:
    """They are made anew when the session goes on cold, and are not journaled."""
    desk = Desk(replies(Call("who"), SLOW), deps_type=dict[str, str])
    made: list[str] = []

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def who(ctx: RunContext[dict[str, str]]) -> str:
        """Say who asks."""
        return ctx.deps["user"]

    def plain(run: midcourse.Run) -> dict[str, str]:
        made.append(str(run.session_id))
        return {"user": "ada", "password": "open sesame"}

    async def awaited(run: midcourse.Run) -> dict[str, str]:
        await asyncio.sleep(0)
        return plain(run)

    agent = desk.held(deps=awaited if late else plain)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "who is it?")
        await _until_asked(desk, 2)
        await session.pause(until="stopped")
    assert desk.results == ["ada"]
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        await _until_asked(desk, 3)
        await again.cancel(until="stopped")
        journal = str([one.event for one in await history(again)])
    assert made == [str(session.id)] * 2
    assert "open sesame" not in journal


class City(BaseModel):
    """A city."""

    name: str
    people: int


async def test_an_output_of_a_model_class_is_a_result_in_json(place: Place) -> None:
    desk = Desk(replies(Call("final_result", {"name": "Rome", "people": 2_800_000})), output_type=City)
    agent = desk.held()
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "Rome")).result(PATIENCE) == {"name": "Rome", "people": 2_800_000}


async def test_an_output_that_does_not_fit_is_asked_for_again(place: Place) -> None:
    wrong = Call("final_result", {"name": "Rome"})
    right = Call("final_result", {"name": "Rome", "people": 1})
    desk = Desk(lambda heard: [right if heard.calls else wrong], output_type=City)
    agent = desk.held()
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "Rome")).result(PATIENCE) == {"name": "Rome", "people": 1}
    assert len(desk.heard) == 2


async def test_an_output_function_runs_and_is_no_step(place: Place) -> None:
    def shout(text: str) -> str:
        """The last word."""
        return text.upper()

    desk = Desk(replies(Call("final_result", {"text": "done"})), output_type=shout)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "speak")
        assert await session.result(PATIENCE) == "DONE"
        assert types(await history(session)).count("step.begun") == 1  # the model


# ---- limits, processors, handlers


async def test_a_limit_ends_the_turn(place: Place) -> None:
    desk = Desk(lambda heard: [Call("look", {"at": str(len(heard.calls))})])
    _look(desk)
    agent = desk.held(usage_limits=UsageLimits(request_limit=3))
    async with place.open(agent) as mc:
        with pytest.raises(midcourse.SessionEnded, match="request_limit"):
            await (await mc.start(agent, "look")).result(PATIENCE)
    assert len(desk.heard) == 3


async def test_a_redirect_does_not_run_into_the_limit_of_the_course_before(place: Place) -> None:
    """Limits are counted from the start or from the redirect."""

    def script(heard: Conversation, /) -> Any:
        if "brief" in heard.user:
            return [Text("Yes.")] if heard.latest.results("look") else [Call("look", {"at": "b"})]
        return [SLOW] if heard.results("look") else [Call("look", {"at": "a"})]

    desk = Desk(script)
    _look(desk)
    agent = desk.held(usage_limits=UsageLimits(request_limit=3))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look")
        await _until_asked(desk, 2)
        await session.redirect("be brief")
        assert await session.result(PATIENCE) == "Yes."
    assert desk.done == ["a", "b"]


async def test_a_history_processor_sees_what_was_said_and_what_it_drops_stays_dropped(place: Place) -> None:
    """Also after a cold resume."""

    def last_three(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages[-3:] if len(messages) > 3 and len(messages) % 2 else messages

    def script(heard: Conversation, /) -> Any:
        seen = int(heard.results("look")[-1].split()[0]) if heard.calls else 0
        return [SLOW] if seen == 3 else [Call("look", {"at": str(seen + 1)})]

    desk = Desk(script, capabilities=[ProcessHistory(last_three)])
    _look(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look")
        await _until_asked(desk, 4)
        await session.pause(until="stopped")
    told = desk.heard[-1]
    desk.heard.clear()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        await _until_asked(desk, 1)
        await again.cancel(until="stopped")
    assert desk.heard[0] == told


async def test_a_handler_of_events_still_gets_them(place: Place) -> None:
    """When a request is over: a token it saw could not be taken back by a cut."""
    seen: list[str] = []

    async def handle(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        seen.extend([event.event_kind async for event in events])

    desk = Desk(replies(Call("look"), Text("Seen by me.")), capabilities=[ProcessEventStream(handle)])
    _look(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "look")).result(PATIENCE) == "Seen by me."
    assert {"part_start", "function_tool_call", "function_tool_result", "final_result"} <= set(seen)


# ---- the provider


class Detour(httpx.AsyncHTTPTransport):
    """Leads requests for anywhere to a provider on this machine."""

    def __init__(self, provider: Provider) -> None:
        super().__init__()
        self._to = httpx.URL(provider.base_url)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host=self._to.host, port=self._to.port)
        return await super().handle_async_request(request)


async def _asked(place: Place, script: Script, model: str = "gpt-4o-mini", *fails: Fail) -> tuple[Any, Any, Provider]:
    async with Provider(script) as provider, httpx.AsyncClient(transport=Detour(provider)) as http:
        provider.fail_next(*fails)
        client = AsyncOpenAI(base_url="https://api.openai.com/v1", api_key="any", http_client=http)
        made = OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client))
        agent = wrap(Agent(made, name="asked"))
        async with place.open(agent) as mc:
            session = await mc.start(agent, "hello")
            try:
                result = await session.result(PATIENCE)
            except midcourse.SessionEnded as ended:
                result = ended
            return result, await session.state(), provider


async def test_a_request_that_fails_is_made_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request that nobody sees: the client's own retries are off."""
    monkeypatch.setattr("midcourse.runtime.retries.MODEL_RETRY", midcourse.Retry(1))
    result, _, provider = await _asked(place, replies(Text("Hi.")), "gpt-4o-mini", Fail(500, "on fire"))
    assert isinstance(result, midcourse.SessionEnded)
    assert "on fire" in str(result)
    assert len(provider.requests) == 1


async def test_a_request_of_a_priced_model_has_its_price(place: Place) -> None:
    result, state, _ = await _asked(place, replies(Text("Hello to you.")))
    assert result == "Hello to you."
    assert state.cost > 0
    assert state.tokens == 3


async def test_a_request_of_an_unknown_model_costs_nothing(place: Place) -> None:
    result, state, _ = await _asked(place, replies(Text("Hello to you.")), "my-own-model")
    assert (result, state.cost, state.tokens) == ("Hello to you.", 0, 3)


# ---- from turn to turn


def _in_turns(heard: Conversation, /) -> Any:
    if "what" in heard.user:
        return [Text(f"Known: {', '.join(heard.results('look'))}.")]
    seen = len(heard.results("look"))
    return [SLOW] if seen == 2 else [Call("look", {"at": str(seen)})]


async def test_a_cancelled_turn_leaves_its_results_to_the_next(place: Place) -> None:
    desk = Desk(_in_turns)
    _look(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look twice")
        await _until_asked(desk, 3)
        await session.cancel("enough", undo="none", until="stopped")
        await session.redirect("what do you know?")
        assert await session.result(PATIENCE) == "Known: 0 is fine, 1 is fine."
    assert desk.done == ["0", "1"]


async def test_a_call_that_a_cancel_tore_is_closed_with_what_is_known(place: Place) -> None:
    """Every call has a result in the conversation, or a provider would refuse it."""
    desk = Desk(lambda heard: [Text("I see.")] if "what" in heard.user else [Call("hang"), Call("look", {"at": "a"})])
    _look(desk)
    begun = asyncio.Event()

    @desk.agent.tool_plain
    @midcourse.tool(effect="idempotent", settle=0)
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.sleep(3600)
        return "never"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "hang")
        await begun.wait()
        await until(session, "step.finished", times=2)
        await session.cancel("enough", grace=0, until="stopped")
        await session.redirect("what now?")
        assert await session.result(PATIENCE) == "I see."
    hung, looked = desk.results
    assert "did not end" in hung or "not begun" in hung
    assert looked == "a is fine"


async def test_a_failed_turn_leaves_its_results_to_the_next(place: Place) -> None:
    desk = Desk(lambda heard: _in_turns(heard) if "what" in heard.user else [Call("look", {"at": "a"}), Call("fail")])
    _look(desk)
    kept = asyncio.Event()

    desk.agent.tool_plain(_failing(kept))
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await _failed(await mc.start(agent, "look and fail"), kept)
        await session.redirect("what do you know?")
        assert (await session.result(PATIENCE)).startswith("Known: a is fine")
    assert "no light" in desk.results[1]


async def test_a_renamed_tools_finished_call_is_not_told_as_not_begun(place: Place) -> None:
    """What has happened must not be told as if it had not."""
    kept = asyncio.Event()

    @midcourse.tool(effect="write")
    async def order() -> str:
        """Order tea."""
        return "tea is on its way"

    shop = FunctionToolset[Any]([order, _failing(kept)]).prefixed("shop")
    both = [Call("shop_order"), Call("shop_fail")]
    desk = Desk(lambda heard: [Text("I see.")] if "what" in heard.user else both, toolsets=[shop])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await _failed(await mc.start(agent, "order and fail"), kept)
        await session.redirect("what now?")
        assert await session.result(PATIENCE) == "I see."
    assert desk.results[0] == "tea is on its way"


async def test_a_rich_result_of_a_failed_turn_is_told_as_it_was(place: Place) -> None:
    desk = Desk(lambda heard: [Text("I see.")] if "what" in heard.user else [Call("describe"), Call("fail")])
    kept = asyncio.Event()

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def describe() -> ToolReturn[Any]:
        """Describe it."""
        return ToolReturn(return_value="a tree", metadata={"secret": "not for the model"})

    desk.agent.tool_plain(_failing(kept))
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await _failed(await mc.start(agent, "describe and fail"), kept)
        await session.redirect("what now?")
        assert await session.result(PATIENCE) == "I see."
    described_as, failed_as = desk.results
    assert described_as == "a tree"
    assert "failed" in failed_as


async def test_what_a_model_had_said_when_it_was_cut_stays_in_the_conversation(place: Place) -> None:
    desk = Desk(lambda heard: [Text("Yes.")] if "brief" in heard.user else [SLOW])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "talk")
        async for seen in session.watch(deltas=True):
            if isinstance(seen, midcourse.Delta):
                break
        await session.redirect("be brief")
        assert await session.result(PATIENCE) == "Yes."
    before = [said for said in desk.heard[-1] if said.role == "assistant"]
    assert before
    assert before[0].text.startswith("and ")


async def test_the_next_turn_hears_the_turns_before(place: Place) -> None:
    desk = Desk(lambda heard: [Text(f"{sum(said.role == 'user' for said in heard)} messages")])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "one")
        assert await session.result(PATIENCE) == "1 messages"
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.redirect("two")
        assert await again.result(PATIENCE) == "2 messages"


def test_an_agent_without_a_name_is_refused() -> None:
    with pytest.raises(midcourse.InvalidInput, match="Give it one: wrap"):
        wrap(Agent("test"))
