"""The functional API: a ``@task`` is a step, an ``@entrypoint`` a graph whose body is run again."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import RetryPolicy, interrupt

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph import functional
from tests.adapters.langgraph.graphs import WORD, Says, State, entrypoint, one_node, result, steps_of, task
from tests.adapters.matrix import courses
from tests.promises.harness import NEVER, until_asks, until_status, until_true

ROOT = Path(__file__).parents[3]
HELD = ("look", "book", "send", "post")


def _name(workflow: Any) -> str:
    (name,) = workflow.nodes
    return name


async def test_after_kill_9_no_task_is_silently_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ended is not begun again; of those in flight each is treated by its effect, and a person is asked."""
    monkeypatch.setenv(courses.FOLDER, str(tmp_path))
    courses.hold(*HELD)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", functional.__name__, url), cwd=ROOT, stdin=asyncio.subprocess.PIPE
    )
    try:
        await until_true(lambda: {f"{one} begun" for one in HELD} <= set(courses.lines()))
    finally:
        process.kill()
        await process.wait()
    courses.let(*HELD)
    async with midcourse.open(url, durability="process") as mc:
        session = await mc.get("s")
        assert await until_status(session, "waiting", "completed", "failed") == "waiting"
        asks = await until_asks(session, 2)
        assert {one.reason for one in asks} == {"did_it_happen"}
        assert sorted(one.prompt.partition("?")[0] for one in asks) == [
            """Did 'post' with {"to":"Bob"} happen""",
            """Did 'send' with {"to":"Ann"} happen""",
        ]
        for one in asks:
            await session.answer({"happened": True, "result": "they have it"}, ask=one.id)
        assert await session.result(NEVER) == [
            *("noted go", "Rome is nice", "room 1 is booked"),
            *("they have it", "they have it"),
        ]
    done = courses.counted()
    assert [done[f"{one} begun"] for one in ("note", *HELD)] == [1, 2, 2, 1, 1]
    assert done["room 1 unbooked"] == 1


@task
def double(number: int) -> int:
    return number * 2


@task
async def increment(number: int) -> int:
    return number + 1


@entrypoint()
def in_a_thread(text: str) -> int:
    """Waits for its tasks in a thread."""
    one, other = double(len(text)), double(1)
    return one.result() + other.result()


@entrypoint()
async def on_the_loop(text: str) -> int:
    """Awaits them."""
    return await increment(await double(len(text)))


@pytest.mark.parametrize(
    ("workflow", "steps"), [(in_a_thread, ["double", "double"]), (on_the_loop, ["double", "increment"])]
)
async def test_an_entrypoint_without_an_interrupt_runs_its_tasks_as_steps(workflow: Any, steps: list[str]) -> None:
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(workflow, name=_name(workflow), to_input=str), "go")
        assert await session.result(NEVER) == {"in_a_thread": 6, "on_the_loop": 5}[_name(workflow)]
        assert await steps_of(session) == steps


async def test_an_entrypoint_without_tasks_is_a_step() -> None:
    @entrypoint()
    async def alone(text: str) -> str:
        return text.upper()

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(alone, name=_name(alone), to_input=str), "go")
        assert await session.result(NEVER) == "GO"
        assert await steps_of(session) == ["alone"]


async def test_tasks_that_cannot_be_seen_are_part_of_the_step_that_calls_them() -> None:
    class Registry:
        __slots__ = ("tasks",)
        tasks: dict[str, Any]

    registry = Registry()
    registry.tasks = {"double": double}

    @entrypoint()
    async def hidden(text: str) -> int:
        return await registry.tasks["double"](len(text))

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(hidden, name=_name(hidden), to_input=str), "go")
        assert await session.result(NEVER) == 4
        assert await steps_of(session) == ["hidden"]


async def test_a_task_with_a_retry_policy_is_tried_again_and_each_try_is_a_step() -> None:
    tried: list[int] = []

    @task(retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3, jitter=False))
    def flaky() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError("not yet")
        return "fine"

    @entrypoint()
    def persistent(text: str) -> str:
        return flaky().result()

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(persistent, name=_name(persistent), to_input=str), "go")
        assert await session.result(NEVER) == "fine"
        assert await steps_of(session) == ["flaky"] * 3


async def test_a_task_that_asks_or_has_a_model_is_left_open_and_those_in_it_are_steps() -> None:
    model = held(Says(answer=lambda _: "a poem"))
    begun: list[str] = []

    @task
    def count(text: str) -> int:
        begun.append("count")
        return len(text)

    @task
    def write(topic: str) -> str:
        text = str(model.invoke(topic).text)
        return f"{text} of {count(text).result()}"

    @task
    async def review(text: str) -> str:
        return f"{text}: {interrupt(f'Is {text} good?')}"

    @entrypoint()
    async def essay(topic: str) -> str:
        return await review(await write(topic))

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(essay, name=_name(essay), to_input=str), "cats")
        ask = await session.next_ask()
        assert ask.prompt == "Is a poem of 6 good?"
        await session.answer("yes")
        assert await session.result(NEVER) == "a poem of 6: yes"
        assert await steps_of(session) == ["model", "count"]
    assert begun == ["count"]


async def test_a_node_of_a_graph_may_call_tasks() -> None:
    async def node(state: State) -> State:
        return {"x": str(await double(len(state["x"])))}

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(one_node(node), name="calls-tasks", **WORD), "go")
        assert await session.result(NEVER) == "4"
        assert await steps_of(session) == ["double"]


async def test_a_thread_that_waits_for_a_task_ends_with_its_node() -> None:
    begun = asyncio.Event()

    @task
    async def sleep() -> None:
        begun.set()
        await asyncio.sleep(NEVER)

    @entrypoint()
    def sleeper(text: str) -> None:
        sleep().result()

    before = set(threading.enumerate())
    agent = wrap(sleeper, name=_name(sleeper), to_input=str, declare={"sleep": {"effect": "read"}})
    async with midcourse.open("memory://") as mc:
        session = await mc.start(agent, "go")
        await begun.wait()
        assert (await session.pause(grace=0, until="stopped", wait=NEVER)).level == "stopped"
        await session.cancel()
        while any(one.name.startswith("midcourse-node") for one in set(threading.enumerate()) - before):
            await asyncio.sleep(0.01)


async def test_a_session_of_tasks_that_failed_goes_on_with_the_one_that_did() -> None:
    done: list[str] = []

    @task
    async def first() -> str:
        done.append("first")
        return "one"

    @task
    async def second() -> str:
        done.append("second")
        if len(done) < 3:
            raise ValueError("not yet")
        return "two"

    @entrypoint()
    async def both(text: str) -> list[str]:
        return [await first(), await second()]

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(both, name=_name(both), to_input=str), "go")
        with pytest.raises(midcourse.SessionEnded):
            await session.result(NEVER)
        await session.resume()
        assert await session.result(NEVER) == ["one", "two"]
    assert done == ["first", "second", "second"]


async def test_outside_a_session_a_workflow_is_what_it_was() -> None:
    wrap(on_the_loop, name=_name(on_the_loop), to_input=str)
    assert await on_the_loop.ainvoke("go") == 5
    assert await asyncio.to_thread(in_a_thread.invoke, "go") == 6
    assert await result(wrap(on_the_loop, name=_name(on_the_loop), to_input=str)) == 5
