"""Promise 17: transient failures are not the user's problem. They are tried again, within the deadline, stoppably.

Tools by their effect: `read` freely, `idempotent` with its key, reversible after its undo, irreversible never.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from midcourse.core.ids import SessionId
from midcourse.core.replies import Reply
from midcourse.runtime.tools import Tool, declared_tool, register
from tests.checkpoints.programs import Skipping, opened
from tests.promises.faults import Faulty
from tests.promises.harness import NEVER, Place, history, resumable, types, until, until_status, until_true

AT_ONCE = midcourse.Retry(first_wait=0.0)
LATER = midcourse.Retry(first_wait=NEVER, max_wait=NEVER, jitter=0.0)
"""Waits for longer than any test lives."""


class Answered(Exception):
    """A refusal over HTTP, as clients raise it."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers or {}


PASSING: list[Callable[[], Exception]] = [
    ConnectionResetError,
    BrokenPipeError,
    TimeoutError,
    *(lambda status=status: Answered(status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
]
STAYING: list[Callable[[], Exception]] = [
    ValueError,
    *(lambda status=status: Answered(status) for status in (400, 401, 403, 404, 422)),
]


class Flaky:
    """A tool that raises what it is given, one after the other, and then returns how often it was called."""

    def __init__(self, *errors: Exception, undo_fails: bool = False, **declared: Any) -> None:
        self.errors = list(errors)
        self.keys: list[str] = []
        self.undone: list[str] = []
        self.exists: set[str] = set()
        self._undo_fails = undo_fails
        if declared.pop("reversible", False):
            declared |= {"effect": "write", "undo": self._undo}
        origin = f"{__name__}:flaky{id(self)}"
        self.run: Tool[..., Any] = declared_tool(self._body, name="flaky", origin=origin, **declared)
        register(self.run)

    async def _body(self) -> int:
        key = midcourse.current_call().key
        self.keys.append(key)
        self.exists.add(key)
        if self.errors:
            raise self.errors.pop(0)
        return len(self.keys)

    async def _undo(self, arguments: object, result: object, key: str) -> None:
        del arguments, result
        if self._undo_fails:
            raise OSError("the undo does not work")
        self.undone.append(key)
        self.exists.discard(key)


class Speaker:
    """A model that says a word, and then raises what it is given; at last it says all of it."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.prefixes: list[str] = []

    async def say(self) -> AsyncIterator[str]:
        prefix = midcourse.current_call().prefix
        self.prefixes.append(prefix)
        if not prefix:
            yield "once "
        if self.errors:
            raise self.errors.pop(0)
        yield "upon a time"


def calling(tool: Flaky, **options: Any) -> midcourse.Agent[Any]:
    """An agent with one step."""

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("call", tool.run, **options)
        except midcourse.Redirected as redirected:
            return f"told: {redirected.instruction} ({redirected.truth})"

    return resumable(agent)


def speaking(model: Speaker, **options: Any) -> midcourse.Agent[Any]:
    """An agent with one model request."""

    async def agent(run: midcourse.Run) -> str:
        try:
            return await run.stream("model", model.say, **options)
        except midcourse.Redirected as redirected:
            return f"told: {redirected.instruction}, after: {redirected.partial}"

    return resumable(agent)


async def of_the_step(session: midcourse.SessionHandle[Any]) -> list[Recorded]:
    """What the journal tells of steps and undos."""
    return [one for one in await history(session) if one.type.startswith(("step.", "undo."))]


def retrying(events: list[Recorded]) -> list[ev.StepRetrying]:
    return [one.event for one in events if isinstance(one.event, ev.StepRetrying)]


# ---- what is tried again


@pytest.mark.parametrize("error", PASSING, ids=lambda make: str(make() or type(make()).__name__))
async def test_what_is_refused_for_a_moment_is_tried_again(place: Place, error: Callable[[], Exception]) -> None:
    """A tool that asks for it, and a model request that says nothing; each attempt is in the journal."""
    tool, model = Flaky(error(), effect="read", retry=AT_ONCE), Speaker(error())

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("look", tool.run), await run.stream("model", model.say, retry=AT_ONCE)]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == [2, "once upon a time"]
        events = await of_the_step(session)
        assert types(events) == ["step.begun", "step.retrying", "step.begun", "step.finished"] * 2
        assert [one.attempt for one in retrying(events)] == [1, 1]


async def test_a_model_request_is_tried_again_if_nothing_is_said_and_a_tool_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request changes nothing; of a tool only its author knows whether trying again helps."""
    monkeypatch.setattr("midcourse.runtime.retries.MODEL_RETRY", AT_ONCE)
    model, tool = Speaker(Answered(503)), Flaky(Answered(503), effect="read")
    assert midcourse.Retry().attempts > 1

    async def agent(run: midcourse.Run) -> str:
        said = await run.stream("model", model.say)
        with pytest.raises(midcourse.StepError):
            await run.step("look", tool.run)
        return said

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == "once upon a time"
        assert (len(model.prefixes), len(tool.keys)) == (2, 1)


@pytest.mark.parametrize("error", STAYING, ids=lambda make: str(make() or type(make()).__name__))
async def test_what_does_not_pass_fails_at_once(place: Place, error: Callable[[], Exception]) -> None:
    """Waiting mends no wrong key and no mistake."""
    tool = Flaky(error(), effect="read", retry=AT_ONCE)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        with pytest.raises(midcourse.MidcourseError):
            await session.result()
        assert types(await of_the_step(session)) == ["step.begun", "step.failed"]


async def test_attempts_are_counted_and_the_last_one_fails_the_step(place: Place) -> None:
    """The session says how often it was tried. A person's resume begins to count anew."""
    tool = Flaky(*(ConnectionError("gone") for _ in range(5)), effect="read", retry=midcourse.Retry(3, first_wait=0.0))
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        with pytest.raises(midcourse.MidcourseError, match=r"failed after 3 attempts: ConnectionError: gone"):
            await session.result()
        assert len(tool.keys) == 3
        await session.resume()
        assert await session.result() == 6
        assert [one.attempt for one in retrying(await history(session))] == [1, 2, 4, 5]


async def test_the_errors_that_are_tried_again_can_be_named(place: Place) -> None:
    """By class, or by a function; then only those."""

    class Busy(Exception):
        pass

    by_class = Flaky(Busy(), effect="read", retry=midcourse.Retry(first_wait=0.0, errors=Busy))
    other = Flaky(ConnectionError(), effect="read", retry=midcourse.Retry(first_wait=0.0, errors=(Busy, KeyError)))
    by_function = Flaky(
        ValueError("busy"), effect="read", retry=midcourse.Retry(first_wait=0.0, errors=lambda one: "busy" in str(one))
    )

    async def agent(run: midcourse.Run) -> list[object]:
        with pytest.raises(midcourse.StepError):
            await run.step("other", other.run)
        return [await run.step("class", by_class.run), await run.step("function", by_function.run)]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == [2, 2]
        assert len(other.keys) == 1


# ---- by effect


async def test_an_idempotent_call_is_tried_again_with_its_key(place: Place) -> None:
    """So that the other side does it once."""
    tool = Flaky(ConnectionError(), Answered(503), effect="idempotent", retry=AT_ONCE)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        assert await session.result() == 3
        assert len(set(tool.keys)) == 1
        assert [one.outcome for one in (await session.receipt()).lines] == ["cannot be undone"]


async def test_a_reversible_call_is_tried_again_after_its_undo_with_a_new_key(place: Place) -> None:
    """What the first attempt may have made is gone before the second begins."""
    tool = Flaky(Answered(503), reversible=True, retry=AT_ONCE)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        assert await session.result() == 2
        first, second = tool.keys
        assert first != second
        assert (tool.undone, tool.exists) == ([first], {second})
        assert types(await of_the_step(session)) == [
            *("step.begun", "step.retrying", "undo.begun", "undo.ended"),
            *("step.begun", "step.finished"),
        ]
        assert [one.outcome for one in (await session.receipt()).lines] == ["undone", "kept"]


async def test_a_reversible_call_whose_undo_fails_is_not_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may exist, and must not exist twice."""
    monkeypatch.setattr("midcourse.runtime.undo.FIRST_PAUSE", 0.0)
    tool = Flaky(Answered(503), reversible=True, undo_fails=True, retry=AT_ONCE)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        with pytest.raises(midcourse.MidcourseError, match="its undo failed: it may have happened"):
            await session.result()
        assert len(tool.keys) == 1
        assert [one.outcome for one in (await session.receipt()).lines] == ["undo failed"]


async def test_a_reversible_call_that_got_no_answer_settles_before_its_undo(place: Place) -> None:
    """Its request may still land: an undo that came before it would undo nothing."""
    tool = Flaky(ConnectionResetError(), reversible=True, settle=NEVER, retry=AT_ONCE)
    async with place.open(calling(tool), grace=0) as mc:
        session = await mc.start(calling(tool), session_id="s")
        await until(session, "step.retrying")
        driver = mc._control.worker.driver(SessionId("s"))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert driver is not None
        await until_true(lambda: bool(driver.gate.settling))
        assert (len(tool.keys), tool.undone) == (1, [])


async def test_an_irreversible_call_is_never_tried_again_by_itself(place: Place) -> None:
    """To ask for it is refused, where it is declared and where it is called; nothing has begun then."""
    with pytest.raises(midcourse.InvalidInput, match="irreversible"):
        Flaky(effect="write", retry=AT_ONCE)
    tool = Flaky(ConnectionError(), effect="write")

    async def agent(run: midcourse.Run) -> int:
        with pytest.raises(midcourse.InvalidInput, match="irreversible"):
            await run.step("send", tool.run, retry=AT_ONCE)
        with pytest.raises(midcourse.InvalidInput, match="irreversible"):
            await run.step("undeclared", lambda: 1, retry=AT_ONCE)
        begun = len(tool.keys)
        with pytest.raises(midcourse.StepError):
            await run.step("send once", tool.run)
        return begun

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == 0
        assert len(tool.keys) == 1


async def test_what_returned_is_not_done_again_whatever_becomes_of_its_result(place: Place) -> None:
    """A result that cannot be shaped or written down is no reason to do it twice."""
    tool = Flaky(effect="idempotent", retry=AT_ONCE)

    def broken(result: object) -> object:
        raise ConnectionError(f"while {result} was read")

    async def agent(run: midcourse.Run) -> None:
        await run.call(tool.run, {}, shape=broken)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.MidcourseError):
            await session.result()
        assert len(tool.keys) == 1


# ---- how long


async def test_the_timeout_is_for_all_attempts(place: Place) -> None:
    """A wait that would end after it is not begun; each attempt has what is left."""
    patient = Flaky(ConnectionError(), ConnectionError(), effect="read", timeout=NEVER, retry=AT_ONCE)
    hasty = Flaky(ConnectionError(), effect="read", timeout=10.0, retry=LATER)

    async def agent(run: midcourse.Run) -> None:
        await run.step("patient", patient.run)
        await run.step("hasty", hasty.run)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.MidcourseError, match="ConnectionError"):
            await session.result()
        assert (len(patient.keys), len(hasty.keys)) == (3, 1)
        left = [one.left for one in retrying(await history(session))]
        assert NEVER > cast("float", left[0]) > cast("float", left[1]) > 0


async def test_a_retry_after_is_waited_for_and_one_that_is_too_long_is_a_failure(place: Place) -> None:
    """In seconds, as the other side says it."""
    told, later = Answered(429, {"retry-after": "7"}), Answered(429, {"retry-after": "61"})
    tool = Flaky(told, effect="read", retry=midcourse.Retry(first_wait=0.0, max_wait=60.0))
    never = Flaky(later, effect="read", retry=midcourse.Retry(first_wait=0.0, max_wait=60.0))

    async def agent(run: midcourse.Run) -> None:
        with pytest.raises(midcourse.StepError):
            await run.step("never", never.run)
        await run.step("call", tool.run)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        waits = (await until(session, "step.retrying")).event
        assert isinstance(waits, ev.StepRetrying)
        assert (waits.retry_after, waits.wait) == (7.0, 7.0)
        await session.cancel()
        assert len(never.keys) == 1


# ---- while it waits


async def test_a_pause_takes_effect_at_once_while_it_waits(place: Place) -> None:
    """Nothing runs. After the resume the rest is waited for, and a cancel ends it at once."""
    tool = Flaky(ConnectionError(), effect="idempotent", retry=LATER)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        await until(session, "step.retrying")
        reply = await session.pause(until="stopped")
        assert (reply.level, reply.status, reply.running) == ("stopped", "paused", ())
        assert (await session.resume()).status == "running"
        reply = await session.cancel(until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert len(tool.keys) == 1
        [line] = (await session.receipt()).lines
        assert (line.outcome, line.detail.partition(",")[0]) == ("unknown", "it raised ConnectionError")


async def test_a_cancel_undoes_what_waits_to_be_tried_again(place: Place) -> None:
    """It may exist, as any call in flight may."""
    tool = Flaky(Answered(503), reversible=True, retry=LATER)
    async with place.open(calling(tool)) as mc:
        session = await mc.start(calling(tool))
        await until(session, "step.retrying")
        reply: Reply = await session.cancel(until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert (tool.undone, tool.exists) == (tool.keys, set())
        assert [one.outcome for one in (await session.receipt()).lines] == ["undone"]


async def test_what_raises_while_it_is_cancelled_is_not_tried_again(place: Place) -> None:
    """Nothing of a cancelled session is begun."""
    entered, may_end = asyncio.Event(), asyncio.Event()
    begun: list[int] = []

    async def body() -> None:
        begun.append(1)
        entered.set()
        await may_end.wait()
        raise ConnectionError("gone")

    tool = declared_tool(body, name="look", origin=f"{__name__}:look", effect="read", retry=AT_ONCE)

    async def agent(run: midcourse.Run) -> None:
        await run.step("look", tool)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await entered.wait()
        await session.cancel(grace=NEVER, until="stopping")
        may_end.set()
        await until_status(session, "cancelled")
        assert types(await of_the_step(session)) == ["step.begun", "step.failed"]
        assert len(begun) == 1


async def test_what_raises_while_it_is_paused_is_tried_again_after_the_resume(place: Place) -> None:
    """The pause is complete without it."""
    entered, may_end = asyncio.Event(), asyncio.Event()
    tool = Flaky(effect="idempotent", retry=AT_ONCE)

    async def body() -> int:
        entered.set()
        await may_end.wait()
        tool.keys.append(midcourse.current_call().key)
        if len(tool.keys) == 1:
            raise ConnectionError("gone")
        return len(tool.keys)

    slow = declared_tool(body, name="put", origin=f"{__name__}:put", effect="idempotent", retry=AT_ONCE)

    async def agent(run: midcourse.Run) -> int:
        return await run.step("put", slow)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await entered.wait()
        await session.pause(until="stopping")
        may_end.set()
        await until_status(session, "paused")
        assert len(tool.keys) == 1
        await session.resume()
        assert await session.result() == 2
        assert len(set(tool.keys)) == 1


@pytest.mark.parametrize("declared", [{"effect": "read"}, {"effect": "idempotent"}, {"reversible": True}])
async def test_a_redirect_takes_effect_at_once_while_it_waits(place: Place, declared: dict[str, Any]) -> None:
    """An agent that wants to be told is told, with the truth; what can be undone is undone first."""
    tool = Flaky(Answered(503), retry=LATER, **declared)
    async with place.open(calling(tool, on_redirect="raise")) as mc:
        session = await mc.start(calling(tool, on_redirect="raise"))
        await until(session, "step.retrying")
        await session.redirect("another way")
        truth = "no effect" if declared.get("effect") == "read" else "it may have happened"
        truth = "undone" if declared.get("reversible") else truth
        assert await session.result() == f"told: another way (interrupted by a redirect; {truth})"
        assert len(tool.keys) == 1


async def test_a_model_that_waits_to_be_asked_again_hears_a_redirect_at_once(place: Place) -> None:
    """The words that were said before the connection broke are kept."""
    model = Speaker(ConnectionResetError())
    async with place.open(speaking(model, retry=LATER, on_redirect="raise")) as mc:
        session = await mc.start(speaking(model, retry=LATER, on_redirect="raise"))
        await until(session, "step.retrying")
        await session.redirect("another way")
        assert await session.result() == "told: another way, after: once "


async def test_a_redirect_ends_the_wait_of_a_model_and_it_has_all_its_attempts(place: Place) -> None:
    """An agent that reads the messages in the request itself has them read at once."""
    errors: list[Exception] = [Answered(503), Answered(503), Answered(503)]
    heard: list[tuple[str, ...]] = []

    async def agent(run: midcourse.Run) -> str:
        async def say() -> AsyncIterator[str]:
            heard.append(tuple(message.text for message in run.messages[1:]))
            if errors:
                raise errors.pop()
            yield "done"

        return await run.stream("model", say, retry=midcourse.Retry(2, NEVER, 1.0, NEVER, 0.0))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        for number, text in enumerate(("one", "two", "three"), start=1):
            await until(session, "step.retrying", times=number)
            await session.redirect(text)
        assert await session.result() == "done"
        assert heard == [(), ("one",), ("one", "two"), ("one", "two", "three")]


async def test_a_text_that_broke_off_is_said_again_or_continued(place: Place) -> None:
    """As after a cut: a model that can continue finds what it had said."""
    again, on = Speaker(ConnectionResetError()), Speaker(ConnectionResetError())

    async def agent(run: midcourse.Run) -> list[str]:
        return [
            await run.stream("again", again.say, retry=AT_ONCE),
            await run.stream("on", on.say, retry=AT_ONCE, on_cut="continue"),
        ]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == ["once upon a time"] * 2
        assert (again.prefixes, on.prefixes) == (["", ""], ["", "once "])


@pytest.mark.parametrize("declared", [{"effect": "read"}, {"effect": "idempotent"}, {"reversible": True}])
async def test_the_next_owner_waits_for_the_rest_and_tries_again(place: Place, declared: dict[str, Any]) -> None:
    """The owner dies while it waits. Its failure counts; an idempotent call keeps its key, a reversible is undone."""
    tool = Flaky(Answered(503), Answered(503), retry=midcourse.Retry(3, NEVER, 1.0, NEVER, 0.0), **declared)
    one, later = calling(tool), Skipping()
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off) as owner:
        session = await owner.start(one, session_id="s")
        await until(session, "step.retrying")
        cut_off.holds = lambda _: True
        dying.abandon()
        async with opened(place, one, clock=later) as heir:
            session = await heir.get("s")
            await until(session, "session.taken")
            driver = None
            while driver is None:  # it waits, too
                await asyncio.sleep(0)
                driver = heir._control.worker.driver(SessionId("s"))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            await until_true(lambda: driver.gate.waiting == 1)
            assert len(tool.keys) == 1
        later.skipped = 2 * NEVER
        async with opened(place, one, clock=later) as another:
            session = await another.get("s")
            await until(session, "step.retrying", times=2)
            assert len(tool.keys) == 2
        later.skipped = 4 * NEVER
        async with opened(place, one, clock=later) as last:
            session = await last.get("s")
            assert await session.result() == 3
            assert len(set(tool.keys)) == (3 if declared.get("reversible") else 1)
            assert tool.undone == (tool.keys[:2] if declared.get("reversible") else [])
            assert [event.attempt for event in retrying(await history(session))] == [1, 2]
        cut_off.let_through()
