"""The table of effects, cell by cell, for each way a tool can run. What the remote counted decides.

The expected values are written out here by hand, from the design and not from the code.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import midcourse
from midcourse.core import events as ev
from tests.effects.agents import caller, goal
from tests.effects.child import driving
from tests.effects.clients import KINDS, SETTLE, Kind
from tests.effects.remote import Remote
from tests.promises.harness import Kind as Store
from tests.promises.harness import Place, history, until_status, until_true


class Counted(NamedTuple):
    """What there is to see: the remote's counters, the session's status, the outcomes in the receipt."""

    executed: int
    keys: int
    undone: int
    status: str
    receipt: tuple[str, ...]


class Cell(NamedTuple):
    """What a stop leaves, and what there is when the session has gone on to its end. ``truth``: how it was closed."""

    stopped: Counted
    ended: Counted
    result: str = ""
    truth: str = ""


CANCELLED = "the session was cancelled"
TABLE: dict[tuple[str, str], Cell] = {
    # pause, grace over
    ("read", "pause"): Cell(
        Counted(1, 1, 0, "paused", ()),
        Counted(2, 1, 0, "completed", ()),
        "result 2, told: ",
    ),
    ("idempotent", "pause"): Cell(
        Counted(1, 1, 0, "paused", ("unknown",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result 1, told: ",
    ),
    ("reversible", "pause"): Cell(
        Counted(1, 1, 1, "paused", ("undone",)),
        Counted(2, 2, 1, "completed", ("undone", "kept")),
        "result 2, told: ",
    ),
    ("irreversible", "pause"): Cell(
        Counted(1, 1, 0, "paused", ("cannot be undone",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result 1, told: ",
    ),
    # redirect, grace over
    ("read", "redirect"): Cell(
        Counted(1, 1, 0, "completed", ()),
        Counted(1, 1, 0, "completed", ()),
        "told: the other one",
        "interrupted by a redirect; no effect",
    ),
    ("idempotent", "redirect"): Cell(
        Counted(1, 1, 0, "completed", ("unknown",)),
        Counted(1, 1, 0, "completed", ("unknown",)),
        "told: the other one",
        "interrupted by a redirect; it may have happened",
    ),
    ("reversible", "redirect"): Cell(
        Counted(1, 1, 1, "completed", ("undone",)),
        Counted(1, 1, 1, "completed", ("undone",)),
        "told: the other one",
        "interrupted by a redirect; undone",
    ),
    ("irreversible", "redirect"): Cell(
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result 1, told: the other one",
    ),
    # cancel
    ("read", "cancel"): Cell(
        Counted(1, 1, 0, "cancelled", ()),
        Counted(1, 1, 0, "cancelled", ()),
        CANCELLED,
    ),
    ("idempotent", "cancel"): Cell(
        Counted(1, 1, 0, "cancelled", ("unknown",)),
        Counted(1, 1, 0, "cancelled", ("unknown",)),
        CANCELLED,
    ),
    ("idempotent with undo", "cancel"): Cell(
        Counted(1, 1, 1, "cancelled", ("undone",)),
        Counted(1, 1, 1, "cancelled", ("undone",)),
        CANCELLED,
    ),
    ("reversible", "cancel"): Cell(
        Counted(1, 1, 1, "cancelled", ("undone",)),
        Counted(1, 1, 1, "cancelled", ("undone",)),
        CANCELLED,
    ),
    ("irreversible", "cancel"): Cell(
        Counted(1, 1, 0, "cancelled", ("cannot be undone",)),
        Counted(1, 1, 0, "cancelled", ("cannot be undone",)),
        CANCELLED,
    ),
    # the process died
    ("read", "died"): Cell(
        Counted(1, 1, 0, "running", ()),
        Counted(2, 1, 0, "completed", ()),
        "result 2, told: ",
    ),
    ("idempotent", "died"): Cell(
        Counted(1, 1, 0, "running", ("still running",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result 1, told: ",
    ),
    ("reversible", "died"): Cell(
        Counted(1, 1, 0, "running", ("still running",)),
        Counted(2, 2, 1, "completed", ("undone", "kept")),
        "result 2, told: ",
    ),
    ("irreversible", "died"): Cell(
        Counted(1, 1, 0, "running", ("still running",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result 7, told: ",  # as a person said
    ),
    ("irreversible with probe", "died"): Cell(
        Counted(1, 1, 0, "running", ("still running",)),
        Counted(1, 1, 0, "completed", ("cannot be undone",)),
        "result None, told: ",  # the probe knows that it happened, and no more
    ),
}
"""(effect, column) → what must be there when it has stopped, and at the end. 'still running': nobody has looked yet."""

EFFECTS = ("read", "idempotent", "reversible", "irreversible")


async def _counted(remote: Remote, session: midcourse.SessionHandle[Any], name: str = "call") -> Counted:
    receipt = await session.receipt()
    return Counted(
        remote.executed(name),
        remote.keys(name),
        remote.undone(name),
        await session.status(),
        tuple(line.outcome for line in receipt.lines),
    )


def _closed(events: list[midcourse.Recorded]) -> str:
    return next((one.event.truth for one in events if isinstance(one.event, ev.StepClosed)), "")


def _all_settled(events: list[midcourse.Recorded]) -> bool:
    """Whether nothing was undone before a request that nobody waits for could no longer land."""
    left = [
        one.at
        for one in events
        if isinstance(one.event, ev.StepAborted) or (isinstance(one.event, ev.SessionTaken) and one.event.lost)
    ]
    undos = [one.at for one in events if isinstance(one.event, ev.UndoBegun)]
    return all(at >= max(one for one in left if one <= at) + SETTLE for at in undos)


def _prepare(remote: Remote, effect: str, *, dies: bool = False, name: str = "call") -> None:
    if effect.startswith("idempotent"):
        remote.remembers(name)
    # What can be aborted lands when nobody waits for it any more: the meanest moment. What cannot be is let finish.
    remote.meet(name, "let" if effect == "irreversible" and not dies else "gone")


async def _paused(session: midcourse.SessionHandle[Any], finish: Callable[[], Awaitable[None]]) -> None:
    await session.pause(grace=0)
    await finish()
    assert (await session.pause(until="stopped")).level == "stopped"


async def _redirected(session: midcourse.SessionHandle[Any], finish: Callable[[], Awaitable[None]]) -> None:
    await session.redirect("the other one", grace=0)
    await finish()
    await until_status(session, "completed")


async def _cancelled(session: midcourse.SessionHandle[Any], finish: Callable[[], Awaitable[None]]) -> None:
    await session.cancel(grace=0)
    await finish()
    assert (await session.cancel(until="stopped")).level == "stopped"


STOPS = {"pause": _paused, "redirect": _redirected, "cancel": _cancelled}
WHILE_IT_LIVES = {"pause": "pausing", "redirect": "running", "cancel": "cancelling"}
LIVING = [(effect, column) for effect, column in TABLE if column != "died"]


WAYS: list[tuple[Kind, Store]] = [
    ("async", "memory"),
    ("async", "sqlite"),
    ("thread", "memory"),
    ("process", "sqlite"),
    ("shell", "memory"),
]
"""Each way to run a tool, and each kind of store."""


@pytest.mark.parametrize(("kind", "store"), WAYS)
@pytest.mark.parametrize(("effect", "column"), LIVING)
async def test_a_call_in_flight_is_treated_as_its_cell_says(
    effect: str, column: str, kind: Kind, store: Store, tmp_path: Path, remote: Remote
) -> None:
    """Pause, redirect and cancel with no grace, while the call waits for the remote."""
    place = Place(store, tmp_path)
    cell = TABLE[effect, column]
    _prepare(remote, effect)
    async with place.open(caller) as mc:
        session = await mc.start(caller, goal(effect=effect, kind=kind, url=remote.url))
        await until_true(lambda: remote.arrived["call"] == 1)

        async def finish() -> None:
            """An irreversible call is still running, and said to be, until the remote lets it end."""
            if effect != "irreversible":
                return
            await asyncio.sleep(0.02)
            assert await _counted(remote, session) == (0, 0, 0, WHILE_IT_LIVES[column], ("still running",))
            remote.let("call")

        await STOPS[column](session, finish)
        await until_true(lambda: remote.executed("call") == 1)
        assert await _counted(remote, session) == cell.stopped
        assert _closed(await history(session)) == cell.truth
        if column == "pause":
            await session.resume()
        if column == "cancel":
            with pytest.raises(midcourse.Refused) as refused:
                await session.resume()
            assert refused.value.code == "session_ended"
        else:
            assert await session.result() == cell.result
        assert await _counted(remote, session) == cell.ended
        assert _all_settled(await history(session))
        assert (await session.receipt()).final


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", [*EFFECTS, "irreversible with probe"])
async def test_a_call_that_died_with_its_process_is_treated_as_its_cell_says(
    effect: str, kind: Kind, tmp_path: Path, remote: Remote
) -> None:
    """SIGKILL, while the call waits for the remote, which carries it out when it notices; then another process."""
    place = Place("sqlite", tmp_path)
    cell = TABLE[effect, "died"]
    _prepare(remote, effect, dies=True)
    async with driving(place.url, "caller", goal(effect=effect, kind=kind, url=remote.url)) as child:
        await until_true(lambda: remote.arrived["call"] == 1)
        await child.kill()
    await until_true(lambda: remote.executed("call") == 1)
    async with place.open(drive=False) as mc:
        seen = await _counted(remote, await mc.get("s"))
        if effect == "read":  # its start need not be durable before it runs
            assert seen.status in ("queued", "running")
            seen = seen._replace(status="running")
        assert seen == cell.stopped
    async with place.open(caller) as mc:
        session = await mc.get("s")
        if effect == "irreversible":
            await until_status(session, "waiting")
            (ask,) = (await session.state()).asks
            assert (ask.reason, ask.options) == ("did_it_happen", ("it happened", "it did not happen"))
            assert ask.prompt.startswith("Did 'call' with ")
            assert [line.outcome for line in (await session.receipt()).lines] == ["unknown"]
            await session.answer({"happened": True, "result": 7})
        assert await session.result() == cell.result
        assert await _counted(remote, session) == cell.ended
        assert _all_settled(await history(session))
        assert (await session.receipt()).final


LOST: dict[tuple[str, str], Cell] = {
    # A pause leaves it as it is, unknown; at resume it is dealt with as one whose process died.
    ("read", "pause"): Cell(
        Counted(1, 1, 0, "paused", ()),
        TABLE["read", "died"].ended,
        "result 2, told: ",
    ),
    ("idempotent", "pause"): Cell(
        Counted(1, 1, 0, "paused", ("unknown",)),
        TABLE["idempotent", "died"].ended,
        "result 1, told: ",
    ),
    ("reversible", "pause"): Cell(
        Counted(1, 1, 0, "paused", ("unknown",)),
        TABLE["reversible", "died"].ended,
        "result 2, told: ",
    ),
    ("irreversible", "pause"): Cell(
        Counted(1, 1, 0, "paused", ("unknown",)),
        TABLE["irreversible", "died"].ended,
        "result 7, told: ",
    ),
    # A redirect and a cancel settle it; what nobody can tell of is unknown, and no person is asked.
    ("read", "redirect"): TABLE["read", "redirect"],
    ("idempotent", "redirect"): TABLE["idempotent", "redirect"],
    ("reversible", "redirect"): TABLE["reversible", "redirect"],
    ("irreversible", "redirect"): Cell(
        Counted(1, 1, 0, "completed", ("unknown",)),
        Counted(1, 1, 0, "completed", ("unknown",)),
        "told: the other one",
        "interrupted by a redirect; it may have happened",
    ),
    ("read", "cancel"): TABLE["read", "cancel"],
    ("idempotent", "cancel"): TABLE["idempotent", "cancel"],
    ("reversible", "cancel"): TABLE["reversible", "cancel"],
    ("irreversible", "cancel"): Cell(
        Counted(1, 1, 0, "cancelled", ("unknown",)),
        Counted(1, 1, 0, "cancelled", ("unknown",)),
        CANCELLED,
    ),
}
"""What a stop makes of a call whose process is gone: it can neither finish nor be aborted."""


async def test_a_stop_that_finds_a_call_lost_picks_the_column_by_what_was_decided(
    tmp_path: Path, remote: Remote
) -> None:
    """Twelve sessions, one SIGKILL; then a pause, a redirect or a cancel, before anybody goes on with them."""
    place = Place("sqlite", tmp_path)
    names = {cell: "-".join(cell) for cell in LOST}
    async with driving(place.url) as process, place.open(drive=False) as mc:
        for (effect, column), name in names.items():
            _prepare(remote, effect, dies=True, name=name)
            wanted = goal(effect=effect, kind="async", url=remote.url, name=name)
            await mc.start(caller, wanted, session_id=f"{effect}-{column}")
        await until_true(lambda: all(remote.arrived[name] == 1 for name in names.values()))
        await process.kill()
        await until_true(lambda: all(remote.executed(name) == 1 for name in names.values()))
        for (effect, column), name in names.items():
            session = await mc.get(name)
            match column:
                case "pause":
                    reply = await session.pause(until="stopped")
                    assert (reply.level, reply.status) == ("stopped", "paused"), name
                    assert reply.unknown == (() if effect == "read" else ("1/call#1",)), name
                    assert await _counted(remote, session, name) == LOST[effect, column].stopped, name
                case "redirect":
                    await session.redirect("the other one")
                case _:
                    await session.cancel()
    async with place.open(caller) as mc:
        for (effect, column), name in names.items():
            cell, session = LOST[effect, column], await mc.get(name)
            if column == "pause":
                await session.resume()
                if effect == "irreversible":
                    await until_status(session, "waiting")
                    await session.answer({"happened": True, "result": 7})
            await until_status(session, "completed", "cancelled")
            assert await _counted(remote, session, name) == cell.ended, name
            assert _closed(await history(session)) == cell.truth, name
            assert _all_settled(await history(session)), name
            if column != "cancel":
                assert await session.result() == cell.result, name


def test_the_table_has_every_cell() -> None:
    """Four effects in four columns, and the cells that a tool's undo or probe makes different."""
    wanted = {(effect, column) for effect in EFFECTS for column in ("pause", "redirect", "cancel", "died")}
    assert set(TABLE) == wanted | {("idempotent with undo", "cancel"), ("irreversible with probe", "died")}
