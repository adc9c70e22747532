"""Sessions as OpenTelemetry spans, with the real SDK: made once, of what the journal says, in one trace."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import midcourse
from midcourse.handle import LocalTransport, Midcourse
from midcourse.runtime.settings import Settings
from midcourse.telemetry.spans import Spans
from midcourse.wiring import open_control
from tests.promises.harness import Place, resumable, until_status

SECRET = "the-word-that-nobody-may-see"


class Told:
    """What an exporter was given."""

    def __init__(self, *, content: bool = False) -> None:
        self._memory = InMemorySpanExporter()
        self.spans = Spans(SimpleSpanProcessor(self._memory), content=content)

    @property
    def all(self) -> list[ReadableSpan]:
        """In the order in which they ended."""
        return list(self._memory.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of one name."""
        return [span for span in self.all if span.name == name]

    @property
    def everything(self) -> str:
        """All that is told, in one text."""
        return "\n".join(span.to_json() for span in self.all)


@asynccontextmanager
async def opened(place: Place, told: Told, *agents: midcourse.Agent[Any]) -> AsyncGenerator[Midcourse]:
    """A program with ``agents``, whose spans are told."""
    control = await open_control(
        await place.store(),
        durability="process",
        drives=True,
        settings=Settings(poll=0.05, policy="none"),
        agents={agent.name: agent for agent in agents},
        meter=told.spans,
    )
    try:
        yield Midcourse(LocalTransport(control))
    finally:
        await control.worker.close(2.0)


def span_id(span: ReadableSpan) -> int:
    """Its own id."""
    assert span.context is not None
    return span.context.span_id


def traces(spans: list[ReadableSpan]) -> set[int]:
    """The traces they belong to."""
    return {span.context.trace_id for span in spans if span.context is not None}


@midcourse.tool(effect="write")
async def send_mail(text: str) -> str:
    """Has an effect."""
    return f"sent {text}"


async def _fails() -> None:
    raise ValueError(SECRET)


async def _secretary(run: midcourse.Run) -> str:
    async def says() -> AsyncGenerator[str]:
        yield SECRET

    await run.stream("think", says)
    await run.step("send_mail", send_mail, SECRET)
    with suppress(midcourse.StepError):
        await run.step("fail", _fails)
    return str(await run.ask(f"Is {SECRET} right?"))


SECRETARY = resumable(_secretary, name="secretary")


async def test_a_session_is_an_agents_span_with_its_steps_below_it(memory: Place) -> None:
    told = Told()
    async with opened(memory, told, SECRETARY) as mc:
        session = await mc.start(SECRETARY, SECRET, session_id="sess_one")
        await until_status(session, "waiting")
        await session.answer("yes")
        assert await session.result() == "yes"
    agent, chat, tool, failed = (
        told.named(name)[0]
        for name in ("invoke_agent secretary", "chat think", "execute_tool send_mail", "execute_tool fail")
    )
    assert len(told.all) == 4
    assert len(traces(told.all)) == 1
    assert agent.parent is None
    assert {span.parent.span_id for span in (chat, tool, failed) if span.parent} == {span_id(agent)}
    assert chat.kind is SpanKind.CLIENT
    given = dict(tool.attributes or {})
    assert given["gen_ai.operation.name"] == "execute_tool"
    assert given["gen_ai.tool.name"] == "send_mail"
    assert given["gen_ai.conversation.id"] == "sess_one"
    assert given["midcourse.effect"] == "irreversible"
    assert given["midcourse.outcome"] == "finished"
    assert (chat.attributes or {})["gen_ai.operation.name"] == "chat"
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in agent.events if event.name.startswith("ask.")] == ["ask.opened", "ask.answered"]
    for span in told.all:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


async def test_nothing_that_was_said_is_in_a_span_unless_it_is_wished(memory: Place) -> None:
    for content in (False, True):
        told = Told(content=content)
        async with opened(memory, told, SECRETARY) as mc:
            session = await mc.start(SECRETARY, SECRET)
            await until_status(session, "waiting")
            await session.redirect(f"say {SECRET}", level="goal")
            await session.cancel(reason=SECRET)
            await until_status(session, "cancelled")
        assert told.all
        assert (SECRET in told.everything) is content


async def test_a_session_that_goes_on_elsewhere_goes_on_in_the_same_trace_and_makes_no_span_twice(place: Place) -> None:
    """The second program replays the first steps: they are told of once, and its span has a link to the one before."""
    first, second = Told(), Told()
    async with opened(place, first, SECRETARY) as mc:
        session = await mc.start(SECRETARY, "x", session_id="sess_on")
        await until_status(session, "waiting")
    async with opened(place, second, SECRETARY) as mc:
        session = await mc.get("sess_on")
        await session.answer("yes")
        assert await session.result() == "yes"
    assert len(first.named("execute_tool send_mail")) == 1
    assert [span.name for span in second.all] == ["invoke_agent secretary"]
    assert len(traces([*first.all, *second.all])) == 1
    (before,), (after,) = first.named("invoke_agent secretary"), second.named("invoke_agent secretary")
    assert [link.context.span_id for link in after.links] == [span_id(before)]
    assert span_id(before) != span_id(after)


async def test_what_stopped_a_session_is_an_event_of_its_span(memory: Place) -> None:
    told, going = Told(), asyncio.Event()

    @midcourse.tool(effect="read")
    async def wait() -> bool:
        return await going.wait()

    async def waits(run: midcourse.Run) -> None:
        await run.step("wait", wait)

    agent = resumable(waits, name="waits")
    async with opened(memory, told, agent) as mc:
        session = await mc.start(agent, "x")
        await until_status(session, "running")
        while not (await session.state()).running:
            await asyncio.sleep(0.01)
        await session.pause(grace=0)
        await until_status(session, "paused")
        await session.resume()
        going.set()
        await session.result()
    (span,) = told.named("invoke_agent waits")
    names = [event.name for event in span.events]
    assert names == ["session.pause_requested", "session.paused", "session.resumed"]
    outcomes = [(one.attributes or {})["midcourse.outcome"] for one in told.named("execute_tool wait")]
    assert outcomes == ["aborted", "finished"]


async def test_a_child_is_in_its_parents_trace_below_its_span(memory: Place) -> None:
    told = Told()

    async def small(run: midcourse.Run) -> int:
        return 1

    child = resumable(small, name="small")

    async def large(run: midcourse.Run) -> int:
        return await run.spawn(child, "a part")

    parent = resumable(large, name="large")
    async with opened(memory, told, child, parent) as mc:
        assert await (await mc.start(parent, "x")).result() == 1
    (above,) = told.named("invoke_agent large")
    below = next(
        span for span in told.named("invoke_agent small") if "midcourse.parent_session" in (span.attributes or {})
    )
    assert len(traces(told.all)) == 1
    assert below.parent is not None
    assert below.parent.span_id == span_id(above)


def test_nothing_of_opentelemetry_or_prometheus_is_imported_unless_it_is_wished() -> None:
    program = (
        "import midcourse._public, sys; "
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus'))])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
