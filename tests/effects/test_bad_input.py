"""Undos that raise or hang, probes that speak too early, results and processes that fail: each a clear outcome."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.runtime.tools import declared_tool, registered_tools
from tests.effects.agents import caller, goal
from tests.effects.child import driving
from tests.effects.clients import SETTLE, TOOLS, die, live
from tests.effects.made_tools import made
from tests.effects.remote import Remote
from tests.promises.faults import Faulty
from tests.promises.harness import QUICK, Place, history, resumable, until, until_status, until_true

IMPATIENT = midcourse.Settings(poll=0.05, unreachable_after=30.0, undo_timeout=0.05)


class Hanging:
    """A reversible tool that is in flight until it is stopped."""

    def __init__(self, undo: Callable[..., object], **declared: Any) -> None:
        self.entered = asyncio.Event()
        self.tool = made(self._body, name="hanging", effect="write", undo=undo, **declared)
        self.agent = resumable(self._agent)

    async def _body(self) -> None:
        self.entered.set()
        await asyncio.Event().wait()

    async def _agent(self, run: midcourse.Run) -> None:
        await run.step("call", self.tool)


def _undos(events: list[midcourse.Recorded]) -> list[tuple[int, str, bool]]:
    """Each try as it was journaled: which it was, what it raised, whether nobody can say what it did."""
    begun = [one.event.number for one in events if isinstance(one.event, ev.UndoBegun)]
    ended = [one.event for one in events if isinstance(one.event, ev.UndoEnded)]
    assert begun == [one.number for one in ended]
    return [(one.number, one.error, one.lost) for one in ended]


async def _receipt(session: midcourse.SessionHandle[Any]) -> list[tuple[str, str, str]]:
    return [(line.name, line.outcome, line.detail) for line in (await session.receipt()).lines]


# ---- undos


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_an_undo_that_raises_is_tried_three_times_and_then_failed_in_its_own_words(
    way: str, place: Place
) -> None:
    """Each try is journaled, and it still ends."""
    tries: list[str] = []

    def plain(_arguments: object, _result: object, key: str) -> None:
        tries.append(key)
        raise ValueError("the ledger is closed")

    async def awaited(arguments: object, result: object, key: str) -> None:
        plain(arguments, result, key)

    hanging = Hanging(awaited if way == "async" else plain)
    async with place.open(hanging.agent) as mc:
        session = await mc.start(hanging.agent)
        await hanging.entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert reply.status == "cancelled"
        words = "ValueError: the ledger is closed"
        assert _undos(await history(session)) == [(number, words, False) for number in (1, 2, 3)]
        assert await _receipt(session) == [("call", "undo failed", words)]
        assert [(line.outcome, line.detail) for line in reply.receipt] == [("undo failed", words)]
        assert len(tries) == 3
        assert len(set(tries)) == 1


async def test_an_undo_that_works_in_the_end_is_undone(place: Place) -> None:
    """Its failures stay in the journal; the receipt tells how it ended."""
    tries: list[str] = []

    async def moody(_arguments: object, _result: object, key: str) -> None:
        tries.append(key)
        if len(tries) < 3:
            raise ValueError("not now")

    hanging = Hanging(moody)
    async with place.open(hanging.agent) as mc:
        session = await mc.start(hanging.agent)
        await hanging.entered.wait()
        await session.cancel(grace=0, until="stopped")
        assert [error for _, error, _ in _undos(await history(session))] == ["ValueError: not now"] * 2 + [""]
        assert await _receipt(session) == [("call", "undone", "")]


async def test_an_undo_that_fails_after_a_pause_fails_the_step_and_it_is_not_done_again(place: Place) -> None:
    """It may have happened: to do it again on resume would be to do it twice."""

    async def broken(_arguments: object, _result: object, _key: str) -> None:
        raise ValueError("the ledger is closed")

    hanging = Hanging(broken)
    async with place.open(hanging.agent) as mc:
        session = await mc.start(hanging.agent)
        await hanging.entered.wait()
        await session.pause(grace=0)
        hanging.entered.clear()
        with pytest.raises(midcourse.SessionEnded, match="its undo failed: it may have happened"):
            await session.result()
        assert not hanging.entered.is_set()
        ((name, outcome, detail),) = await _receipt(session)
        assert (name, outcome) == ("call", "undo failed")
        assert "the ledger is closed" in detail


async def test_an_async_undo_that_hangs_ran_with_unknown_result(place: Place) -> None:
    """It is ended after its time and tried again, as one that raised; what it did by then nobody can say."""
    begun = 0

    async def endless(_arguments: object, _result: object, _key: str) -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    hanging = Hanging(endless)
    async with place.open(hanging.agent, settings=IMPATIENT) as mc:
        session = await mc.start(hanging.agent)
        await hanging.entered.wait()
        assert (await session.cancel(grace=0, until="stopped")).status == "cancelled"
        words = "no end after 0.05 s"
        assert _undos(await history(session)) == [(number, words, True) for number in (1, 2, 3)]
        assert await _receipt(session) == [("call", "undo ran with unknown result", words)]
        assert begun == 3


async def test_an_undo_in_a_thread_that_hangs_is_still_running_until_it_ends(place: Place) -> None:
    """A thread cannot be ended: a second undo beside the first could do anything, and `stopped` would be untrue."""
    may_end = threading.Event()
    begun = 0

    def endless(_arguments: object, _result: object, _key: str) -> None:
        nonlocal begun
        begun += 1
        may_end.wait()

    hanging = Hanging(endless)
    try:
        async with place.open(hanging.agent, settings=IMPATIENT) as mc:
            session = await mc.start(hanging.agent)
            await hanging.entered.wait()
            await session.cancel(grace=0)
            await until_true(lambda: begun == 1)
            reply = await session.cancel(until="stopped", wait=0.5)  # longer than an undo may take
            assert (reply.level, reply.status) == ("stopping", "cancelling")
            assert [(call.name, call.doing) for call in reply.running] == [("call", "its undo")]
            assert await _receipt(session) == [("call", "still running", "its undo")]
            may_end.set()
            assert (await session.cancel(until="stopped")).status == "cancelled"
            assert _undos(await history(session)) == [(1, "", False)]
            assert await _receipt(session) == [("call", "undone", "")]
            assert begun == 1
    finally:
        may_end.set()


async def test_a_tool_that_is_not_there_where_it_must_be_undone_is_named_and_waited_for(place: Place) -> None:
    """The journal tells which; an operator who does not wait for it is told the same by the receipt."""
    hanging = Hanging(_do_nothing)
    async with place.open(hanging.agent) as mc:
        session = await mc.start(hanging.agent)
        await hanging.entered.wait()
        with _not_here(hanging.tool):
            await session.cancel(grace=0, until="decided")
            await until(session, "tools.needed")
            assert (await session.state()).needs == (hanging.tool.origin,)
            await session.cancel(force=True, until="stopped")
        ((name, outcome, detail),) = await _receipt(session)
        assert (name, outcome) == ("call", "undo failed")
        assert f"Tool '{hanging.tool.origin}' is not here" in detail
        assert "Import the module that defines it" in detail
        assert await session.status() == "cancelled"


async def _do_nothing(_arguments: object, _result: object, _key: str) -> None:
    """An undo of nothing."""


@contextmanager
def _not_here(tool: midcourse.Tool[..., Any]) -> Generator[None]:
    """As in a process that has not imported it."""
    known = cast("dict[str, Any]", registered_tools())
    del known[tool.origin]
    try:
        yield
    finally:
        known[tool.origin] = tool


# ---- probes and people


@pytest.mark.parametrize("kind", ["async", "process"])
async def test_a_probe_is_not_believed_before_a_lost_request_can_no_longer_land(
    kind: str, tmp_path: Path, remote: Remote
) -> None:
    """It would say no, and the call would be done twice: it is asked when its no can be final."""
    place = Place("sqlite", tmp_path)
    remote.meet("call", "gone")
    remote.late = SETTLE / 2
    async with driving(place.url, "caller", goal(effect="irreversible with probe", kind=kind, url=remote.url)) as child:
        await until_true(lambda: remote.arrived["call"] == 1)
        await child.kill()
        async with place.open(caller) as mc:
            session = await mc.get("s")
            assert await session.result() == "result None, told: "
            events = await history(session)
    (taken,) = (one.at for one in events if isinstance(one.event, ev.SessionTaken))
    (told,) = (one.at for one in events if isinstance(one.event, ev.StepFinished) and one.event.told_by == "probe")
    assert told >= taken + SETTLE
    assert remote.told == [1]
    assert (remote.executed("call"), remote.arrived["call"]) == (1, 1)


async def test_a_probes_no_has_the_call_done_again_once(tmp_path: Path, remote: Remote) -> None:
    """The request was lost on its way: the probe knows, and nobody needs to be asked."""
    place = Place("sqlite", tmp_path)
    remote.meet("call", "lost")
    async with driving(
        place.url, "caller", goal(effect="irreversible with probe", kind="async", url=remote.url)
    ) as child:
        await until_true(lambda: remote.arrived["call"] == 1)
        await child.kill()
    async with place.open(caller) as mc:
        session = await mc.get("s")
        assert await session.result() == "result 1, told: "
        assert not [one for one in await history(session) if isinstance(one.event, ev.AskOpened)]
        assert await _receipt(session) == [("call", "cannot be undone", "")]
    assert (remote.executed("call"), remote.told) == (1, [0])


async def test_a_persons_no_is_not_used_before_a_lost_request_can_no_longer_land(
    tmp_path: Path, remote: Remote
) -> None:
    """They look, see nothing, and say so at once; it counts when it is settled."""
    place = Place("sqlite", tmp_path)
    remote.meet("call", "lost")
    async with driving(place.url, "caller", goal(effect="irreversible", kind="async", url=remote.url)) as child:
        await until_true(lambda: remote.arrived["call"] == 1)
        await child.kill()
    async with place.open(caller) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        await session.answer("it did not happen")
        assert await session.result() == "result 1, told: "
        events = await history(session)
    taken = next(one.at for one in events if isinstance(one.event, ev.SessionTaken))
    begun = [one.at for one in events if isinstance(one.event, ev.StepBegun)]
    assert begun[-1] >= taken + SETTLE
    assert remote.executed("call") == 1


@pytest.mark.parametrize("broken", ["raises", "hangs", "lies", "knows nothing"])
async def test_a_probe_that_is_of_no_use_leaves_the_question_to_a_person(broken: str, place: Place) -> None:
    """What it said instead of an answer is in the journal; the call is not done again unasked."""
    begun = 0

    async def probe(_arguments: Mapping[str, Any], _key: str) -> object:
        match broken:
            case "raises":
                raise ValueError("no such account")
            case "hangs":
                return await asyncio.Event().wait()
            case "lies":
                return "perhaps"
            case _:
                return None

    async def body() -> object:
        nonlocal begun
        begun += 1
        return await asyncio.Event().wait()

    tool = made(body, name="sends", effect="write", probe=probe)

    async def agent(run: midcourse.Run) -> object:
        return await run.step("send", tool)

    one = resumable(agent)
    async with place.open(one, grace=0, settings=IMPATIENT) as mc:
        await mc.start(one, session_id="s")
        await until_true(lambda: begun == 1)
    async with place.open(one, settings=IMPATIENT) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        (settled,) = [entry.event for entry in await history(session) if isinstance(entry.event, ev.StepSettled)]
        words = {
            "raises": "probe: ValueError: no such account",
            "hangs": "probe: no end after 0.05 s",
            "lies": "probe: the probe returned 'perhaps'; it returns True, False, None or Happened(result)",
            "knows nothing": "probe",
        }
        assert (settled.by, settled.happened) == (words[broken], None)
        assert [ask.reason for ask in (await session.state()).asks] == ["did_it_happen"]
        await session.answer({"happened": True, "result": "sent"})
        assert await session.result() == "sent"
    assert begun == 1


async def test_an_answer_that_is_no_answer_is_asked_for_again(place: Place) -> None:
    """ "Perhaps" decides nothing."""
    begun = 0

    async def body() -> object:
        nonlocal begun
        begun += 1
        return await asyncio.Event().wait()

    tool = made(body, name="sends", effect="write")

    async def agent(run: midcourse.Run) -> object:
        return await run.step("send", tool)

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await until_true(lambda: begun == 1)
    async with place.open(one) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        answered = await session.answer("perhaps")
        await until(session, "ask.opened", after=answered.position - 1)
        await until_status(session, "waiting")
        await session.answer("it happened")
        assert await session.result() is None
    assert begun == 1


async def test_a_lost_irreversible_call_of_an_agent_that_is_not_told_of_redirects_is_asked_about(
    place: Place, remote: Remote
) -> None:
    """A redirect closes it only for an agent that is told; this one would simply call again."""
    remote.meet("call", "gone")

    async def agent(run: midcourse.Run) -> object:
        return await run.step("call", TOOLS["irreversible", "async"], remote.url, "call")

    one = resumable(agent)
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off, grace=0) as owner:
        await owner.start(one, session_id="s")
        await until_true(lambda: remote.arrived["call"] == 1)
        cut_off.holds = lambda _: True
        dying.abandon()
        async with place.open(drive=False) as mc:
            await (await mc.get("s")).redirect("quicker")
        async with place.open(one) as heir:
            session = await heir.get("s")
            await until_status(session, "waiting")
            (ask,) = (await session.state()).asks
            assert ask.reason == "did_it_happen"
            await session.answer({"happened": True, "result": 7})
            assert await session.result() == 7
        cut_off.let_through()
    assert remote.executed("call") <= 1


# ---- results and processes


@pytest.mark.parametrize("effect", ["irreversible", "reversible", "idempotent"])
async def test_a_result_that_cannot_be_encoded_counts_as_done_and_is_never_done_again(
    effect: str, place: Place
) -> None:
    """It fails the step, and the receipt has it as what it is: a call that returned."""
    runs = 0
    undone: list[str] = []

    async def body() -> object:
        nonlocal runs
        runs += 1
        return asyncio.Lock()

    async def undo(_arguments: object, _result: object, key: str) -> None:
        undone.append(key)

    declared = {
        "irreversible": {"effect": "write"},
        "reversible": {"effect": "write", "undo": undo},
        "idempotent": {"effect": "idempotent"},
    }
    tool = made(body, name="makes", **declared[effect])
    one = resumable(lambda run: run.step("make", tool))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        for _ in range(2):
            with pytest.raises(midcourse.SessionEnded, match="The result of step 'make' cannot be journaled"):
                await session.result()
            resumed = await session.resume()
            await until(session, "session.failed", after=resumed.position)
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert runs == 1
        ((name, outcome, _),) = await _receipt(session)
        assert (name, outcome) == ("make", "kept" if effect == "reversible" else "cannot be undone")
        await session.undo()
        assert len(undone) == (effect == "reversible")


async def test_a_killed_process_of_the_pool_is_a_clear_error_and_the_next_call_gets_another(place: Place) -> None:
    """The step fails in words, the receipt says that nobody knows, and the session goes on."""

    async def agent(run: midcourse.Run) -> tuple[str, str, int]:
        try:
            await run.step("die", die)
        except midcourse.StepError as error:
            kind, detail = error.kind, error.detail
        else:
            raise AssertionError("it lives")
        return kind, detail, await run.step("live", live, 20)

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        kind, detail, result = await session.result()
        assert kind == "ProcessDied"
        assert detail.startswith("The process was killed with SIGKILL")
        assert result == 21
        assert await _receipt(session) == [("die", "unknown", "it raised ProcessDied")]


@pytest.mark.parametrize("cut_by", ["its timeout", "the end of its process"])
async def test_a_call_that_was_cut_is_not_called_undone_before_its_request_can_no_longer_land(
    cut_by: str, place: Place, remote: Remote
) -> None:
    """Neither a timeout nor the death of its process is its own end: the request may still land."""
    remote.meet("call", "gone")
    remote.late = SETTLE / 2
    failed = asyncio.Event()
    kind = "async" if cut_by == "its timeout" else "process"
    known = TOOLS["reversible", kind]
    timeout = 0.1 if kind == "async" else None
    tool = made(known.function, effect="write", undo=known.undo, settle=SETTLE, timeout=timeout, run_in=known.run_in)

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("call", tool if kind == "async" else known, remote.url, "call")
        except midcourse.StepError:
            failed.set()
        await run.ask("And now?")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: remote.arrived["call"] == 1)
        if kind == "process":
            for pid in mc._worker._processes.pids:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else knows them
                os.kill(pid, signal.SIGKILL)
        await failed.wait()
        await session.cancel(grace=0, undo="all", until="stopped")
        await until_true(lambda: remote.executed("call") == 1)
        ((_, outcome, _),) = await _receipt(session)
        assert outcome != "undone" or remote.standing("call") == 0


# ---- declarations

CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"effect": "read", "undo": _do_nothing}, "Tool 'nothing': a 'read' changes nothing, so it has no undo"),
    ({"effect": "read", "probe": _do_nothing}, "Tool 'nothing': a 'read' changes nothing, so it has no undo"),
    ({"effekt": "read"}, "Tool 'nothing' declares effekt, which is not known. Known: effect, undo, probe, "),
    ({"effect": "harmless"}, "effect is 'harmless'; it is one of read, idempotent, write"),
    ({"effect": "write", "undo": "later"}, "undo is 'later'; it is a function"),
    ({"effect": "write", "settle": -1}, "settle is -1; it is a number, 0 or more"),
    ({"effect": "write", "settle": float("nan")}, "settle is nan; it is a number, 0 or more"),
    ({"effect": "write", "timeout": "soon"}, "timeout is 'soon'; it is a number, 0 or more"),
    ({"effect": "write", "cost": float("inf")}, "cost is inf; it is a number, 0 or more"),
    ({"effect": "write", "if_silent": "guess"}, "if_silent is 'guess'; it is one of go_on, ask"),
    ({"effect": "read", "on_change": "panic"}, "on_change is 'panic'; it is one of tell, ask, refuse, go_on"),
    ({"effect": "read", "run_in": "cloud"}, "run_in is 'cloud'; it is one of thread, process"),
]


@pytest.mark.parametrize(("declared", "sentence"), CONTRADICTIONS)
def test_a_declaration_that_contradicts_itself_is_refused_with_a_sentence(
    declared: dict[str, Any], sentence: str
) -> None:
    """It names the tool, the field, and what would do."""

    def nothing() -> None: ...

    with pytest.raises(midcourse.InvalidInput) as refused:
        declared_tool(nothing, **declared)
    assert sentence in refused.value.message


def test_a_process_is_for_plain_functions_that_it_can_find() -> None:
    """An async one is a task; a closure cannot be sent."""

    async def awaited() -> None: ...

    def closure() -> None: ...

    with pytest.raises(midcourse.InvalidInput, match="run_in is for a plain 'def'"):
        midcourse.tool(run_in="process")(awaited)
    with pytest.raises(midcourse.InvalidInput, match="a closure cannot be sent to a process; define it at the top"):
        midcourse.tool(run_in="process")(closure)


async def test_a_closure_that_would_let_go_of_something_is_refused_with_a_sentence(place: Place) -> None:
    """Another process could not find it."""

    async def agent(run: midcourse.Run) -> str:
        try:
            await run.hold("lock", lambda: None)
        except midcourse.MisusedRun as error:
            return error.message
        return ""

    one = resumable(agent)
    async with place.open(one, settings=QUICK) as mc:
        told = await (await mc.start(one)).result()
        assert "is a closure, which another process could not find. Define it at the top level of a module" in told
