"""A graph's run: breakpoints, subgraphs, retries, branches, and what a person says to it."""

import asyncio
import operator
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph._internal._runnable import RunnableCallable  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import Command, RetryPolicy, Send

import midcourse
from midcourse.adapters.langgraph import held, wrap
from midcourse.adapters.langgraph.held_run import as_interrupt, valid
from midcourse.errors import SessionEnded, StepError
from tests.adapters.langgraph.graphs import WORD, Says, State, after, calls, one_node, result, steps_of, with_tools
from tests.promises.harness import NEVER, until_status

QUICKLY = RetryPolicy(initial_interval=0.01, max_attempts=5, jitter=False)


async def _waits(session: Any) -> None:
    await until_status(session, "waiting")


@pytest.mark.parametrize("inside", [False, True], ids=["graph", "subgraph"])
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_breakpoint_holds_also_in_the_process_that_goes_on(
    tmp_path: Path, where: str, answer: str, *, inside: bool
) -> None:
    done: list[str] = []

    def careful(state: State) -> State:
        done.append("careful")
        return {"x": "careful"}

    def daring(state: State) -> State:
        done.append("daring")
        return {"x": "daring"}

    graph: Any = StateGraph(State)
    graph.add_node("careful", careful)
    graph.add_node("daring", daring)
    graph.add_edge(START, "careful")
    graph.add_edge("careful", "daring")
    stops: dict[str, Any] = {where: ["daring" if where == "interrupt_before" else "careful"]}
    compiled = graph.compile(**stops)
    agent = wrap(one_node(compiled) if inside else compiled, name="breakpoints", **WORD)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with midcourse.open(url) as mc:
        await _waits(await mc.start(agent, "go", session_id="s"))
    async with midcourse.open(url) as mc:
        session = await mc.get("s")
        await session.answer(answer)
        await session.result()
    assert done == (["careful", "daring"] if answer == "yes" else ["careful"])


async def test_what_is_in_a_subgraph_is_a_step() -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def audit(state: MessagesState) -> dict[str, Any]:
        return {}

    model = held(Says(answer=after(calls("pay", amount=5))))
    inner = with_tools(model, [pay])
    inner.add_node("audit", audit)
    inner.add_edge("think", "audit")
    agent = wrap(one_node(inner.compile(), state=MessagesState), name="subgraphs")
    async with midcourse.open("memory://") as mc:
        session = await mc.start(agent, "go")
        assert await session.result() == "paid 5"
        assert sorted(set(await steps_of(session))) == ["audit", "model", "pay"]


async def test_plain_nodes_that_wait_for_a_model_take_no_thread_from_anybody() -> None:
    async def slowly(said: Any) -> str:
        await asyncio.sleep(NEVER)
        return "never"

    model = held(Says(answer=slowly))

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    agent = wrap(one_node(node, state=MessagesState), name="threads")
    async with midcourse.open("memory://", grace=0) as mc:
        sessions = [await mc.start(agent, "go") for _ in range(40)]
        while sum(one.name.startswith("midcourse-node") for one in threading.enumerate()) < 40:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(session.pause(until="stopped", wait=NEVER) for session in sessions))
        assert {str(await session.status()) for session in sessions} == {"paused"}
        assert await asyncio.to_thread(lambda: "free") == "free"


async def test_the_thread_of_a_node_that_is_cancelled_ends() -> None:
    asked = asyncio.Event()

    async def slowly(said: Any) -> str:
        asked.set()
        await asyncio.sleep(NEVER)
        return "never"

    model = held(Says(answer=slowly))

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    before = set(threading.enumerate())
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(one_node(node, state=MessagesState), name="cancelled"), "go")
        await asked.wait()
        await session.cancel()
        while any(one.name.startswith("midcourse-node") for one in set(threading.enumerate()) - before):
            await asyncio.sleep(0.01)


async def test_of_a_node_with_two_halves_the_awaited_one_runs() -> None:
    def blocks(state: State) -> State:
        raise NotImplementedError

    async def awaited(state: State) -> State:
        return {"x": "awaited"}

    node: Any = RunnableLambda(blocks, awaited)
    bound = one_node(awaited)
    bound.nodes["n"].runnable = RunnableCallable(blocks, awaited)
    assert await result(wrap(one_node(node), name="lambda", **WORD)) == "awaited"
    assert await result(wrap(bound, name="two-halves", **WORD)) == "awaited"


@pytest.mark.parametrize("is_open", [False, True], ids=["plain", "with a model"])
async def test_a_retry_policy_tries_a_node_again(*, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midcourse.runtime.retries.MODEL_RETRY", midcourse.Retry(1))
    tried: list[int] = []

    def fails_twice(said: Any = None) -> str:
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError("not yet")
        return "fine"

    model = held(Says(answer=fails_twice))

    async def asks(state: State) -> State:
        return {"x": (await model.ainvoke("Well?")).text}

    async def plain(state: State) -> State:
        return {"x": fails_twice()}

    graph = one_node(asks if is_open else plain, retry_policy=QUICKLY)
    assert await result(wrap(graph, name="retries", **WORD)) == "fine"
    assert len(tried) == 3


@pytest.mark.parametrize("wraps", [False, True], ids=["policy", "wrapper"])
async def test_a_tool_that_failed_is_tried_again_by_whoever_retries(*, wraps: bool) -> None:
    tried: list[int] = []

    @tool
    def flaky() -> str:
        """Fails twice."""
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError("not yet")
        return "fine"

    async def again(request: Any, execute: Any) -> Any:
        while True:
            try:
                return await execute(request)
            except ConnectionError:
                continue

    model = held(Says(answer=after(calls("flaky"))))
    options: dict[str, Any] = {"awrap_tool_call": again} if wraps else {"retry_policy": QUICKLY}
    assert await result(wrap(with_tools(model, [flaky], **options), name="tool-retries")) == "fine"
    assert len(tried) == 3


async def test_tries_that_failed_are_not_made_again_when_the_session_is_resumed() -> None:
    tried: list[int] = []

    async def node(state: State) -> State:
        tried.append(1)
        if len(tried) < 4:
            raise ConnectionError("not yet")
        return {"x": "fine"}

    policy = RetryPolicy(initial_interval=0.01, max_attempts=3, jitter=False)
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(one_node(node, retry_policy=policy), name="resumed", **WORD), "go")
        with pytest.raises(SessionEnded):
            await session.result()
        await session.resume()
        assert await session.result() == "fine"
    assert len(tried) == 4


async def test_what_was_said_is_before_the_conversation_when_what_it_came_after_is_gone() -> None:
    seen: list[str] = []
    begun, told = asyncio.Event(), asyncio.Event()

    @tool
    def look(place: str) -> str:
        """Look."""
        seen.append(place)
        return f"seen {place}"

    async def answer(said: Any) -> Any:
        if said[-1].type == "tool":
            return "done"
        begun.set()
        await told.wait()
        return calls("look", id=f"c{len(seen)}", place=said[-1].text)

    inner = Says(answer=answer)
    model = held(inner)

    async def think(state: MessagesState) -> dict[str, Any]:
        kept = [one for one in state["messages"][-3:] if one.type != "tool" or state["messages"][-1] is one]
        return {"messages": [await model.ainvoke([SystemMessage("sys"), *kept])]}

    graph = with_tools(model, [look])
    graph.nodes["think"] = one_node(think, state=MessagesState).nodes["n"]
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(graph, name="trimmed"), "Rome")
        await begun.wait()
        await session.redirect("Oslo")
        told.set()
        await session.result()
        inner.asked.clear()
        await session.redirect("Paris")
        await session.result()
    assert seen == ["Oslo", "Paris"]
    assert inner.asked[0][0] == "sys"
    assert inner.asked[0][-1] == "Paris"
    assert inner.asked[-1][:2] == ["sys", "Oslo"]


class Gathered(TypedDict):
    out: Annotated[list[Any], operator.add]


def _nothing(text: str) -> Gathered:
    return {"out": []}


def _sorted(values: Gathered) -> list[Any]:
    return sorted(values["out"])


GATHERED: dict[str, Any] = {"to_input": _nothing, "to_output": _sorted}


async def test_every_branch_hears_what_was_said_once_last_and_then_where_it_was() -> None:
    asking: set[str] = set()
    begun, told = asyncio.Event(), asyncio.Event()

    @tool
    def look(who: str) -> str:
        """Look."""
        return f"seen by {who}"

    async def answer(said: Any) -> Any:
        asking.add(said[0].text)
        if asking == {"A", "B"}:
            begun.set()
        await told.wait()
        return "end" if said[-1].type == "tool" else calls("look", id=f"of {said[0].text}", who=said[0].text)

    inner = Says(answer=answer)
    branch = with_tools(held(inner), [look]).compile()

    async def run_branch(state: Any) -> Any:
        ended = await branch.ainvoke({"messages": [HumanMessage(state["who"])]}, {"recursion_limit": 10})
        return {"out": [ended["messages"][-1].text]}

    def fan_out(state: Gathered) -> list[Send]:
        return [Send("branch", {"who": who}) for who in "AB"]

    graph: Any = StateGraph(Gathered)
    graph.add_node("branch", run_branch)
    graph.add_conditional_edges(START, fan_out, ["branch"])
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(graph, name="branches", **GATHERED), "go")
        await begun.wait()
        await session.redirect("mind the rain")
        told.set()
        assert await session.result() == ["end", "end"]
    assert sorted(one for one in inner.asked if len(one) > 2) == [
        ["A", "mind the rain", "", "seen by A"],
        ["B", "mind the rain", "", "seen by B"],
    ]


async def test_calls_of_two_branches_with_one_id_are_two_steps() -> None:
    seen: list[str] = []

    @tool
    async def look(place: str) -> str:
        """Look."""
        seen.append(place)
        await asyncio.sleep(0.05)
        return f"seen {place}"

    def answer(said: list[BaseMessage]) -> AIMessage:
        return calls("look", place=str(said[-1].text))

    model = held(Says(answer=answer))

    class Fanned(TypedDict):
        messages: Annotated[list[Any], operator.add]

    def fan_out(state: Fanned) -> list[Send]:
        return [Send("ask", {"place": one}) for one in ("A", "B")]

    def texts(values: Fanned) -> list[str]:
        return [one.text for one in values["messages"]]

    async def ask(state: Any) -> "Command[Any]":
        return Command(goto=[Send("tools", {"messages": [await model.ainvoke(state["place"])]})])

    graph: Any = StateGraph(Fanned)
    graph.add_node("ask", ask)
    graph.add_node("tools", with_tools(model, [look]).nodes["tools"].runnable)
    graph.add_conditional_edges(START, fan_out, ["ask"])
    agent = wrap(graph, name="same-ids", to_input=lambda _: {"messages": []}, to_output=texts)
    assert await result(agent) == ["seen A", "seen B"]
    assert sorted(seen) == ["A", "B"]


async def test_requests_at_the_same_time_get_their_own_answers_after_a_stop(tmp_path: Path) -> None:
    lives: list[int] = []
    ahead, last = asyncio.Event(), asyncio.Event()

    async def answer(said: Any) -> str:
        asked = said[-1].text
        if asked == "B2":
            ahead.set()
        if asked == "A1":
            await ahead.wait()  # the other chain is ahead, and comes second when both are replayed
        if asked == "A2" and len(lives) == 1:
            last.set()
            await asyncio.sleep(NEVER)
        return f"to {asked}"

    model = held(Says(answer=answer))

    async def chain(name: str) -> list[str]:
        return [f"{name}{one} {(await model.ainvoke(f'{name}{one}')).text}" for one in (1, 2)]

    async def node(state: Gathered) -> dict[str, Any]:
        lives.append(1)
        ours, theirs = await asyncio.gather(chain("A"), chain("B"))
        return {"out": [*ours, *theirs]}

    agent = wrap(one_node(node, state=Gathered), name="gathers", open_nodes=["n"], **GATHERED)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with midcourse.open(url, grace=0) as mc:
        session = await mc.start(agent, "go", session_id="s")
        await last.wait()
        await session.pause(until="stopped")
    async with midcourse.open(url) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == ["A1 to A1", "A2 to A2", "B1 to B1", "B2 to B2"]


async def test_a_redirect_to_a_graph_that_was_parked_at_its_end_is_heard_cold(tmp_path: Path) -> None:
    heard: list[str] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(state: State) -> State:
        heard.append(state["x"])
        begun.set()
        await may_end.wait()
        return {"x": f"did {state['x']}"}

    agent = wrap(one_node(work), name="parked", **WORD)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "one", session_id="s")
        await begun.wait()
        await session.pause()
        may_end.set()
        assert (await session.pause(until="stopped", wait=NEVER)).level == "stopped"
    async with midcourse.open(url) as mc:
        session = await mc.get("s")
        await session.redirect("two")
        await session.resume()
        assert await session.result() == "did two"
    assert heard == ["one", "two"]


async def test_an_error_of_a_step_has_the_real_one_behind_it_and_never_itself() -> None:
    raised: list[BaseException] = []

    def answer(said: list[BaseMessage]) -> float:
        return 1 / 0

    model = held(Says(answer=answer))

    async def node(state: State) -> State:
        try:
            await model.ainvoke("Well?")
        except ZeroDivisionError as error:
            raised.append(error)
        return {"x": "caught"}

    assert await result(wrap(one_node(node), name="causes", **WORD)) == "caught"
    assert isinstance(raised[0].__cause__, StepError)
    assert isinstance(raised[0].__cause__.__cause__, ZeroDivisionError)
    assert raised[0].__cause__.__cause__ is not raised[0]


def test_the_graphs_own_answer_to_a_call_that_is_none_is_kept() -> None:
    wrong = AIMessage(
        "", invalid_tool_calls=[{"name": "x", "args": "{", "id": "i", "error": "", "type": "invalid_tool_call"}]
    )
    own = ToolMessage("please send JSON", tool_call_id="i")
    assert valid([wrong, own]) == [wrong, own]
    assert "no JSON object" in valid([wrong])[1].text


@pytest.mark.parametrize("value", ["x" * 200_000, {"question": "x" * 200_000}])
def test_what_a_graph_asks_is_cut_where_nobody_would_read_on(value: Any) -> None:
    assert len(as_interrupt(value).prompt) == 20_000
