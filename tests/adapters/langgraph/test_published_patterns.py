"""Patterns that LangGraph publishes, in our own words and offline: each is held as it stands, and stopped mid-way."""

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import Command, Send, interrupt

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph.graphs import Says, calls, entrypoint, one_node, steps_of, task, with_tools
from tests.promises.harness import NEVER


class Scene:
    """Where a session is stopped: the first time that something arrives here it waits, until it is let pass."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._waits = True

    async def reach(self) -> None:
        """Wait, if this is where the session is stopped."""
        if self._waits:
            self.arrived.set()
            await asyncio.sleep(NEVER)

    def clear(self) -> None:
        """From here on nothing waits."""
        self._waits = False


async def _stopped_and_resumed(
    agent: midcourse.Agent[Any], goal: str, scene: Scene, path: Path, *answers: Any
) -> tuple[Any, list[str]]:
    """Pause it where the scene is, close the program, open it again, resume: what it returns, and its steps."""
    url = f"sqlite:///{path / 'runs.db'}"
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, goal, session_id="s")
        await scene.arrived.wait()
        assert (await session.pause(grace=0, until="stopped", wait=NEVER)).level == "stopped"
    scene.clear()
    async with midcourse.open(url) as mc:
        session = await mc.get("s")
        await session.resume()
        for answer in answers:
            ask = await session.next_ask()
            await session.answer(answer, ask=ask.id)
        return await session.result(NEVER), await steps_of(session)


# ---- several agents


def _by_turns(*turns: Any) -> Callable[[list[BaseMessage]], Any]:
    """A model that says the next thing each time; what it has said is told from the messages, not remembered."""

    def answer(said: list[BaseMessage]) -> Any:
        return turns[sum(isinstance(one, AIMessage) for one in said)]

    return answer


def _worker(name: str, role: str, tools: list[Any], *turns: Any) -> Any:
    """An agent with tools of its own, which sees what was said since it was called."""
    answer = _by_turns(*turns)

    def own(said: list[BaseMessage]) -> Any:
        last = max((at for at, one in enumerate(said) if isinstance(one, HumanMessage)), default=-1)
        return answer(said[last + 1 :])

    model = held(Says(answer=own))

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([SystemMessage(role), *state["messages"]])]}

    graph = with_tools(model, tools)
    graph.nodes["think"] = one_node(think, state=MessagesState).nodes["n"]
    return graph.compile(name=name)


async def test_a_supervisor_has_two_agents_work_in_turn(tmp_path: Path) -> None:
    """It decides with a structured answer who is next; the agents are nodes, and report to it as messages."""
    scene, sent = Scene(), list[str]()

    @tool
    @midcourse.tool(effect="read")
    async def search(topic: str) -> str:
        """Search."""
        await scene.reach()
        return f"{topic}: 42"

    @tool
    async def publish(text: str) -> str:
        """Publish."""
        sent.append(text)
        return "published"

    class Route(TypedDict):
        """Who is next."""

        next: Literal["researcher", "writer", "FINISH"]

    def next_one(said: list[BaseMessage]) -> Any:
        reports = [one.text for one in said if one.type == "human"][1:]
        return calls("Route", id=f"r{len(reports)}", next=("researcher", "writer", "FINISH")[len(reports)])

    def arguments(message: AIMessage) -> dict[str, Any]:
        return message.tool_calls[0]["args"]

    class Routes(Says):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            bound: Any = self.bind()
            return bound | arguments

    router = held(Routes(answer=next_one)).with_structured_output(Route)

    async def supervisor(state: MessagesState) -> "Command[Any]":
        wanted = (await router.ainvoke(state["messages"]))["next"]
        return Command(goto=END if wanted == "FINISH" else wanted)

    def reporting(name: str, agent: Any) -> Any:
        async def report(state: MessagesState) -> dict[str, Any]:
            last = state["messages"][-1]
            return {"messages": [HumanMessage(str(last.text), name=name)]}

        inner: Any = StateGraph(MessagesState)
        inner.add_node("work", agent)
        inner.add_node("report", report)
        inner.add_edge(START, "work")
        inner.add_edge("work", "report")
        return inner.compile()

    researcher = _worker("researcher", "Search.", [search], calls("search", topic="GDP"), "GDP is 42")
    writer = _worker("writer", "Write.", [publish], calls("publish", text="GDP: 42"), "It is out")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("supervisor", supervisor, destinations=("researcher", "writer", END))
    graph.add_node("researcher", reporting("researcher", researcher))
    graph.add_node("writer", reporting("writer", writer))
    graph.add_edge(START, "supervisor")
    graph.add_edge("researcher", "supervisor")
    graph.add_edge("writer", "supervisor")
    said, steps = await _stopped_and_resumed(wrap(graph, name="supervisor"), "Write about GDP", scene, tmp_path)
    assert said == "It is out"
    assert sent == ["GDP: 42"]
    assert steps.count("search") == 2  # cut by the pause, and done again
    assert [one for one in steps if one in {"publish", "report"}] == ["report", "publish", "report"]


async def test_a_swarm_hands_over_and_the_next_turn_begins_with_the_active_agent(tmp_path: Path) -> None:
    """Each agent is a node, and a tool hands over with a command to the parent graph."""
    asked: dict[str, list[str]] = {"Alice": [], "Bob": []}
    scene = Scene()

    class Swarm(MessagesState):
        active: str

    def handing_over(to: str) -> Any:
        @tool(f"transfer_to_{to.lower()}")
        async def transfer(tool_call_id: Annotated[str, InjectedToolCallId]) -> "Command[Any]":
            """Hand over."""
            told = ToolMessage(f"handed over to {to}", tool_call_id=tool_call_id)
            return Command(goto=to, graph=Command.PARENT, update={"messages": [told], "active": to})

        return transfer

    def member(name: str, answer: Callable[[str], Any], *tools: Any) -> Any:
        def says(said: list[BaseMessage]) -> Any:
            words = str(next(one for one in reversed(said) if one.type == "human").text)
            asked[name].append(words)
            return answer(words)

        async def slowly(said: list[BaseMessage]) -> Any:
            if name == "Bob":
                await scene.reach()
            return says(said)

        return with_tools(held(Says(answer=slowly)), list(tools)).compile(name=name)

    alice = member("Alice", lambda words: calls("transfer_to_bob"), handing_over("Bob"))
    bob = member("Bob", lambda words: f"Arr, {words}", handing_over("Alice"))

    def active(state: Swarm) -> str:
        return state.get("active", "Alice")

    graph: Any = StateGraph(Swarm)
    graph.add_node("Alice", alice, destinations=("Bob",))
    graph.add_node("Bob", bob, destinations=("Alice",))
    graph.add_conditional_edges(START, active, ["Alice", "Bob"])
    agent = wrap(graph, name="swarm")
    said, steps = await _stopped_and_resumed(agent, "talk to Bob", scene, tmp_path)
    assert said == "Arr, talk to Bob"
    assert steps == ["model", "transfer_to_bob", "model", "model"]
    async with midcourse.open(f"sqlite:///{tmp_path / 'runs.db'}") as mc:
        session = await mc.get("s")
        await session.redirect("what is 5 + 7?")
        assert await session.result(NEVER) == "Arr, what is 5 + 7?"
    assert asked["Alice"] == ["talk to Bob"]


# ---- people


async def test_a_person_edits_a_draft_in_the_middle_of_a_graph(tmp_path: Path) -> None:
    """``interrupt`` in a node between a model and a publishing node; the answer decides where it goes on."""
    scene = Scene()
    published: list[str] = []

    class Draft(TypedDict, total=False):
        topic: str
        draft: str
        done: str

    async def answer(said: list[BaseMessage]) -> str:
        await scene.reach()
        return f"Draft of {said[-1].text}"

    model = held(Says(answer=answer))

    async def write(state: Draft) -> Draft:
        return {"draft": str((await model.ainvoke(state.get("topic", ""))).text)}

    async def review(state: Draft) -> "Command[Any]":
        decision = interrupt({"question": "Publish this?", "draft": state.get("draft")})
        if decision["action"] == "reject":
            return Command(goto="write", update={"topic": decision["topic"]})
        return Command(goto="publish", update={"draft": decision.get("text", state.get("draft"))})

    async def publish(state: Draft) -> Draft:
        published.append(state.get("draft", ""))
        return {"done": f"published {state.get('draft')}"}

    graph: Any = StateGraph(Draft)
    graph.add_node("write", write)
    graph.add_node("review", review, destinations=("write", "publish"))
    graph.add_node("publish", publish)
    graph.add_edge(START, "write")
    graph.add_edge("write", "review")
    agent = wrap(graph, name="drafts", to_input=lambda text: {"topic": text}, to_output=operator.itemgetter("done"))
    answers = ({"action": "reject", "topic": "dogs"}, {"action": "edit", "text": "Cats and dogs"})
    said, steps = await _stopped_and_resumed(agent, "cats", scene, tmp_path, *answers)
    assert said == "published Cats and dogs"
    assert published == ["Cats and dogs"]
    assert steps == ["model", "model", "model", "publish"]


async def test_the_middleware_for_people_reviews_calls_of_langchains_agent(tmp_path: Path) -> None:
    agents: Any = pytest.importorskip("langchain.agents")
    middleware: Any = pytest.importorskip("langchain.agents.middleware")
    scene, written = Scene(), list[str]()

    @tool
    async def write_file(path: str) -> str:
        """Write a file."""
        written.append(path)
        return f"wrote {path}"

    @tool
    @midcourse.tool(effect="read")
    async def read_file(path: str) -> str:
        """Read a file."""
        await scene.reach()
        return f"{path} is empty"

    turns = (calls("read_file", id="1", path="a"), calls("write_file", id="2", path="b"), "All is written.")
    review = middleware.HumanInTheLoopMiddleware(interrupt_on={"write_file": True})
    graph = agents.create_agent(held(Says(answer=_by_turns(*turns))), [write_file, read_file], middleware=[review])
    said, steps = await _stopped_and_resumed(wrap(graph, name="reviewed"), "Write b", scene, tmp_path, "yes")
    assert said == "All is written."
    assert written == ["b"]
    assert steps == ["model", "read_file", "read_file", "model", "write_file", "model"]


# ---- the shapes of graphs


class Topics(TypedDict, total=False):
    """What map and reduce share."""

    topic: str
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]
    best: str


async def test_map_and_reduce_with_send(tmp_path: Path) -> None:
    """Branches that ended before the stop are not run again."""
    scene, told = Scene(), list[str]()

    async def answer(said: list[BaseMessage]) -> str:
        subject = str(said[-1].text)
        if subject == "lions":
            while len(told) < 2:
                await asyncio.sleep(0.001)
            await scene.reach()
        return f"a joke of {subject}"

    inner = Says(answer=answer)
    model = held(inner)

    async def subjects(state: Topics) -> Topics:
        return {"subjects": ["lions", "penguins", "elephants"]}

    def one_each(state: Topics) -> list[Send]:
        return [Send("joke", {"subject": one}) for one in state.get("subjects", [])]

    async def joke(state: Any) -> Topics:
        text = str((await model.ainvoke(state["subject"])).text)
        told.append(text)
        return {"jokes": [text]}

    async def choose(state: Topics) -> Topics:
        return {"best": sorted(state.get("jokes", []))[0]}

    graph: Any = StateGraph(Topics)
    graph.add_node("subjects", subjects)
    graph.add_node("joke", joke)
    graph.add_node("choose", choose)
    graph.add_edge(START, "subjects")
    graph.add_conditional_edges("subjects", one_each, ["joke"])
    graph.add_edge("joke", "choose")
    agent = wrap(graph, name="jokes", to_input=lambda text: {"topic": text}, to_output=operator.itemgetter("best"))
    said, steps = await _stopped_and_resumed(agent, "animals", scene, tmp_path)
    assert said == "a joke of elephants"
    assert sorted(one[0] for one in inner.asked) == ["elephants", "lions", "lions", "penguins"]
    assert sorted(steps) == ["choose", "model", "model", "model", "model", "subjects"]


async def test_a_subgraph_with_a_state_of_its_own_is_called_in_a_node(tmp_path: Path) -> None:
    """A function turns the state into the other one and back; the requests in there are steps."""
    scene = Scene()

    class Logs(TypedDict, total=False):
        logs: list[str]
        summary: str

    class Failures(TypedDict, total=False):
        failures: list[str]
        found: str

    async def answer(said: list[BaseMessage]) -> str:
        await scene.reach()
        return f"{said[-1].text} is the cause"

    model = held(Says(answer=answer))

    def diagnose(state: Failures) -> Failures:
        return {"found": str(model.invoke(state.get("failures", [])[0]).text)}

    inner: Any = StateGraph(Failures)
    inner.add_node("diagnose", diagnose)
    inner.add_edge(START, "diagnose")
    analysis = inner.compile()

    def analyse(state: Logs) -> Logs:
        """In a thread, which waits."""
        ended = analysis.invoke({"failures": [one for one in state.get("logs", []) if "error" in one]})
        return {"summary": ended["found"]}

    async def collect(state: Logs) -> Logs:
        return {"logs": ["fine", "error 7"]}

    graph: Any = StateGraph(Logs)
    graph.add_node("collect", collect)
    graph.add_node("analyse", analyse)
    graph.add_edge(START, "collect")
    graph.add_edge("collect", "analyse")
    agent = wrap(graph, name="logs", to_input=lambda text: {}, to_output=operator.itemgetter("summary"))
    said, steps = await _stopped_and_resumed(agent, "go", scene, tmp_path)
    assert said == "error 7 is the cause"
    assert steps == ["collect", "model", "model"]


async def test_an_essay_in_the_functional_api_is_written_reviewed_and_kept(tmp_path: Path) -> None:
    """Tasks, a person's review, and what the workflow saved for its next turn."""
    scene, written = Scene(), list[str]()

    @task
    async def write(topic: str) -> str:
        written.append(topic)
        return f"Essay about {topic}"

    @task
    async def illustrate(topic: str) -> str:
        while not written:
            await asyncio.sleep(0.001)
        await scene.reach()
        return f"Picture of {topic}"

    @entrypoint()
    async def essay(topic: str, *, previous: list[str] | None = None) -> Any:
        text, picture = write(topic), illustrate(topic)
        review = interrupt({"question": "Good?", "essay": await text, "picture": await picture})
        whole = [*(previous or []), f"{await text} ({review})"]
        return entrypoint.final(value=whole, save=whole)

    agent = wrap(essay, name="essay", to_input=str, declare={"illustrate": {"effect": "read"}})
    said, steps = await _stopped_and_resumed(agent, "cats", scene, tmp_path, "good")
    assert said == ["Essay about cats (good)"]
    assert sorted(steps) == ["illustrate", "illustrate", "write"]
    async with midcourse.open(f"sqlite:///{tmp_path / 'runs.db'}") as mc:
        session = await mc.get("s")
        await session.redirect("dogs")
        await session.next_ask()
        await session.answer("better")
        assert await session.result(NEVER) == ["Essay about cats (good)", "Essay about dogs (better)"]
    assert written == ["cats", "dogs"]


async def test_plan_and_execute_plans_anew_until_nothing_is_left(tmp_path: Path) -> None:
    """A planner, an executor with a tool, and an edge back; a redirect in the middle reaches the next request."""
    scene, done = Scene(), list[str]()

    class Plan(MessagesState):
        plan: list[str]

    @tool
    async def execute(step: str) -> str:
        """Do one step."""
        done.append(step)
        return f"did {step}"

    async def planned(said: list[BaseMessage]) -> str:
        if done:
            await scene.reach()
        left = [one for one in ("buy", "cook", "serve") if one not in done]
        if any("do not serve" in str(one.text) for one in said):
            left = [one for one in left if one != "serve"]
        return ",".join(left)

    planner = held(Says(answer=planned))
    executor = held(Says(answer=lambda said: calls("execute", id=str(said[-1].text), step=str(said[-1].text))))

    async def plan(state: Plan) -> dict[str, Any]:
        text = str((await planner.ainvoke(state["messages"])).text)
        return {"plan": text.split(",") if text else []}

    async def act(state: Plan) -> dict[str, Any]:
        return {"messages": [await executor.ainvoke(state["plan"][0])]}

    def more(state: Plan) -> str:
        return "act" if state["plan"] else END

    graph: Any = StateGraph(Plan)
    graph.add_node("plan", plan)
    graph.add_node("act", act)
    graph.add_node("tools", with_tools(executor, [execute]).nodes["tools"].runnable)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", more, ["act", END])
    graph.add_edge("act", "tools")
    graph.add_edge("tools", "plan")
    agent = wrap(graph, name="plan-and-execute", to_output=lambda values: values["messages"][-1].text)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "dinner", session_id="s")
        await scene.arrived.wait()
        scene.clear()
        await session.redirect("do not serve it")
        assert await session.result(NEVER) == "did cook"
    assert done == ["buy", "cook"]
