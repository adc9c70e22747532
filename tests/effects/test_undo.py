"""Rolling back: what a cancel or an undo takes back, in which order, wherever it goes on, and what the receipt says."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.core.effects import UndoChoice
from tests.effects.agents import builder, child, goal, holder, parent
from tests.effects.child import driving
from tests.effects.clients import SETTLE, TOOLS
from tests.effects.made_tools import made
from tests.effects.remote import Remote
from tests.promises.harness import Place, Tool, history, resumable, until, until_status, until_true

CHOICES: tuple[UndoChoice, ...] = ("in-flight", "all", "none")


def _undone(remote: Remote) -> list[str]:
    return [act.name for act in remote.acts if act.what == "undid"]


def _told(receipt: midcourse.Receipt) -> dict[str, str]:
    return {line.name: line.outcome for line in receipt.lines}


# ---- what, and in which order


async def test_all_is_undone_newest_first(place: Place, remote: Remote) -> None:
    """What was built on something goes before it."""
    async with place.open(builder) as mc:
        session = await mc.start(builder, goal(url=remote.url))
        await until_status(session, "waiting")
        await session.cancel(undo="all", until="stopped")
        assert _undone(remote) == ["c", "b", "a"]
        assert _told(await session.receipt()) == {"a": "undone", "b": "undone", "c": "undone"}


EXPECTED: dict[UndoChoice, dict[str, str]] = {
    "in-flight": {"kept": "kept", "sent": "cannot be undone", "in flight": "undone", "twice": "undone"},
    "all": {"kept": "undone", "sent": "cannot be undone", "in flight": "undone", "twice": "undone"},
    "none": {"kept": "kept", "sent": "cannot be undone", "in flight": "unknown", "twice": "unknown"},
}


@pytest.mark.parametrize("choice", CHOICES)
async def test_each_choice_rolls_back_what_it_says_and_the_preview_said_so(
    choice: UndoChoice, place: Place, remote: Remote
) -> None:
    """Finished and reversible, finished and irreversible, in flight: in flight is undone newest first, too."""
    for name in ("in flight", "twice"):
        remote.meet(name, "gone")

    async def agent(run: midcourse.Run) -> None:
        await run.step("kept", TOOLS["reversible", "async"], remote.url, "kept")
        await run.step("sent", TOOLS["irreversible", "async"], remote.url, "sent")
        await asyncio.gather(
            run.step("in flight", TOOLS["reversible", "async"], remote.url, "in flight"),
            run.step("twice", TOOLS["idempotent with undo", "async"], remote.url, "twice"),
        )

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: remote.arrived["in flight"] == remote.arrived["twice"] == 1)
        previewed = await session.preview()
        assert (await session.state()).status == "running"  # to look changes nothing
        assert [_told(previewed[one]) for one in CHOICES] == [EXPECTED[one] for one in CHOICES]
        reply = await session.cancel(undo=choice, grace=0, until="stopped")
        await until_true(lambda: remote.executed("in flight") == remote.executed("twice") == 1)
        receipt = await session.receipt()
        assert _told(receipt) == _told(previewed[choice]) == EXPECTED[choice]
        assert receipt.final
        standing = {name for name in ("kept", "sent", "in flight", "twice") if remote.standing(name)}
        assert standing == {name for name, outcome in EXPECTED[choice].items() if outcome != "undone"}
        # What the cancel answers tells of what it touched, in the same words.
        assert {line.name: line.outcome for line in reply.receipt}.items() <= EXPECTED[choice].items()


@pytest.mark.parametrize("lives", [False, True])
async def test_children_are_undone_before_their_parent(lives: bool, place: Place, remote: Remote) -> None:
    """Whether they have ended or are cancelled with it."""
    async with place.open(parent, child) as mc:
        session = await mc.start(parent, goal(url=remote.url, asks=lives))
        if lives:
            await until(session, "child.asked")
        else:
            await until_status(session, "waiting")
        await session.cancel(undo="all", grace=0, until="stopped")
        after = [] if lives else ["after"]
        assert _undone(remote) == ["child b", "child a", *after, "before"]
        assert await session.status() == "cancelled"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_undo_works_after_the_session_has_completed(
    end: Literal["completed", "failed", "cancelled"], place: Place, remote: Remote
) -> None:
    """Or failed, or was cancelled: it stays what it was, and what it had done is taken back, once."""

    async def agent(run: midcourse.Run) -> str:
        for name in ("a", "b"):
            await run.step(name, TOOLS["reversible", "async"], remote.url, name)
        if end == "failed":
            raise ValueError("out of paper")
        return "done" if end == "completed" else str(await run.ask("Well done?"))

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        if end == "cancelled":
            await until_status(session, "waiting")
            await session.cancel(grace=0, until="stopped")
        await until_status(session, end)
        assert _told(await session.receipt()) == {"a": "kept", "b": "kept"}
    async with place.open(one) as mc:
        session = await mc.get("s")
        receipt = await session.undo("wrong customer")
        assert _told(receipt) == {"a": "undone", "b": "undone"}
        assert receipt.final
        assert _undone(remote) == ["b", "a"]
        assert await session.status() == end
        await session.undo()
        assert _undone(remote) == ["b", "a"]
        if end == "completed":
            assert await session.result() == "done"


async def test_a_live_session_is_not_undone_but_cancelled(place: Place, remote: Remote) -> None:
    """The error says how."""
    async with place.open(builder) as mc:
        session = await mc.start(builder, goal(url=remote.url))
        await until_status(session, "waiting")
        with pytest.raises(midcourse.Refused, match="cancel it with undo='all', which rolls it back as well"):
            await session.undo()
        assert _undone(remote) == []


async def test_an_undo_is_given_the_arguments_the_result_and_the_key(place: Place) -> None:
    """In their types; of a call that was aborted there is no result."""
    given: list[tuple[object, object, str]] = []
    keys: list[str] = []

    async def undo(arguments: object, result: object, key: str) -> None:
        given.append((arguments, result, key))

    async def body(what: str, times: int = 2, *, hangs: bool = False) -> dict[str, int]:
        keys.append(midcourse.current_call().key)
        if what == "second" or hangs:
            await asyncio.Event().wait()
        return {what: times}

    tool = made(body, name="body", effect="write", undo=undo)

    async def agent(run: midcourse.Run) -> None:
        await run.step("one", tool, "first", 3)
        await run.step("two", tool, "second")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: len(keys) == 2)
        await session.cancel(undo="all", grace=0, until="stopped")
    assert given == [
        ({"what": "second", "times": 2, "hangs": False}, None, keys[1]),
        ({"what": "first", "times": 3, "hangs": False}, {"first": 3}, keys[0]),
    ]


# ---- a second cancel


async def test_a_second_cancel_may_only_be_firmer(place: Place, remote: Remote) -> None:
    """It may roll more back and give less time; what was to be rolled back stays so."""
    remote.meet("held", "let")

    async def agent(run: midcourse.Run) -> None:
        await run.step("built", TOOLS["reversible", "async"], remote.url, "built")
        await run.step("held", TOOLS["irreversible", "async"], remote.url, "held")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: remote.arrived["held"] == 1)
        wanted: tuple[UndoChoice, ...] = ("none", "in-flight", "all", "none")
        for undo, stands in zip(wanted, ("none", "in-flight", "all", "all"), strict=True):
            reply = await session.cancel(undo=undo, grace=0)
            assert (reply.level, reply.status) == ("stopping", "cancelling")
            cancel = (await session.state()).cancel
            assert cancel is not None
            assert (cancel.undo, cancel.grace) == (stands, 0)
        before = (await session.state()).cancel
        await session.cancel(grace=5)
        assert (await session.state()).cancel == before
        remote.let("held")
        await session.cancel(until="stopped")
        assert _undone(remote) == ["built"]
        assert _told(await session.receipt()) == {"built": "undone", "held": "cannot be undone"}


# ---- holds


@pytest.mark.parametrize("end", ["completed", "cancelled", "cancelled with undo none"])
async def test_what_is_held_is_let_go_when_the_session_ends(end: str, place: Place, remote: Remote) -> None:
    """Newest first, and not what was let go before. ``undo="none"`` only stops."""
    async with place.open(holder) as mc:
        session = await mc.start(holder, goal(url=remote.url))
        await until_status(session, "waiting")
        if end == "completed":
            await session.answer("yes")
            assert await session.result() == "yes"
        else:
            await session.cancel(undo="none" if "none" in end else "in-flight", grace=0, until="stopped")
        kept = "none" in end
        assert [act.name for act in remote.acts] == (["window"] if kept else ["window", "gate", "door"])
        outcome = "kept" if kept else "undone"
        assert _told(await session.receipt()) == {"door": outcome, "window": "undone", "gate": outcome}


async def test_what_is_held_is_let_go_after_a_kill(tmp_path: Path, remote: Remote) -> None:
    """The process that held it is gone; whoever carries the cancel out lets go of it."""
    place = Place("sqlite", tmp_path)
    async with driving(place.url, "holder", goal(url=remote.url)) as process, place.open(drive=False) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        await process.kill()
        assert remote.executed("window") == 1
    async with place.open(holder) as mc:
        session = await mc.get("s")
        assert (await session.cancel(grace=0, until="stopped")).status == "cancelled"
        assert [act.name for act in remote.acts] == ["window", "gate", "door"]
        assert _told(await session.receipt()) == {"door": "undone", "window": "undone", "gate": "undone"}


async def test_a_release_that_raises_is_tried_three_times_and_told(place: Place, remote: Remote) -> None:
    """What else is held is let go all the same."""
    remote.meet("gate", "refused", "refused", "refused")
    async with place.open(holder) as mc:
        session = await mc.start(holder, goal(url=remote.url))
        await until_status(session, "waiting")
        await session.cancel(grace=0, until="stopped")
        receipt = await session.receipt()
        assert _told(receipt) == {"door": "undone", "window": "undone", "gate": "undo failed"}
        assert [line.detail for line in receipt.lines if line.name == "gate"] == ["Refused: the remote refused it"]
        assert remote.arrived["gate"] == 3


# ---- in another process


async def test_a_rollback_goes_on_in_another_process_after_a_kill(tmp_path: Path, remote: Remote) -> None:
    """Killed in the middle of the second of three undos: the journal says where to go on."""
    place = Place("sqlite", tmp_path)
    remote.meet("undo b", "gone")
    async with driving(place.url, "builder", goal(url=remote.url)) as process, place.open(drive=False) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        reply = await session.cancel(undo="all", grace=0)
        assert (reply.level, reply.status) == ("stopping", "cancelling")
        await until_true(lambda: remote.arrived["undo b"] == 1)
        assert _told(await session.receipt()) == {"a": "kept", "b": "still running", "c": "undone"}
        await process.kill()
        await until_true(lambda: remote.undone("b") == 1)  # nobody was there to hear it
    async with place.open(builder) as mc:
        session = await mc.get("s")
        assert await until_status(session, "cancelled") == "cancelled"
        events = await history(session)
        assert _told(await session.receipt()) == {"a": "undone", "b": "undone", "c": "undone"}
    assert _undone(remote) == ["c", "b", "a"]
    assert remote.arrived["undo b"] == 2  # an undo may run twice
    begun = [(one.event.name, one.event.number) for one in events if isinstance(one.event, ev.UndoBegun)]
    assert begun == [("c", 1), ("b", 1), ("b", 2), ("a", 1)]
    # The undo was lost with its process, so its request had to settle like any other.
    (taken,) = (one.at for one in events if isinstance(one.event, ev.SessionTaken))
    assert next(one.at for one in events if isinstance(one.event, ev.UndoBegun) and one.event.number == 2) >= (
        taken + SETTLE
    )


async def test_a_cancel_of_a_dead_owners_session_undoes_what_was_in_flight(tmp_path: Path, remote: Remote) -> None:
    """Taken, settled, undone; and a process without the tools leaves it to one that has them."""
    place = Place("sqlite", tmp_path)
    remote.meet("c", "gone")
    async with driving(place.url, "builder", goal(url=remote.url)) as process:
        await until_true(lambda: remote.arrived["c"] == 1)
        await process.kill()
    await until_true(lambda: remote.executed("c") == 1)
    async with place.open(drive=False) as mc:
        reply = await (await mc.get("s")).cancel(grace=0)
        assert (reply.level, reply.status) == ("stopping", "cancelling")
        assert reply.unknown == ("1/c#1",)
    async with place.open(builder) as mc:
        session = await mc.get("s")
        await until_status(session, "cancelled")
        assert _told(await session.receipt()) == {"a": "kept", "b": "kept", "c": "undone"}
    assert _undone(remote) == ["c"]


# ---- the receipt


async def _a_receipt(place: Place, remote: Remote) -> tuple[midcourse.Receipt, midcourse.Receipt]:
    """A provisional and a final one."""
    remote.meet("send", "let")

    async def agent(run: midcourse.Run) -> None:
        await run.step("look", TOOLS["read", "async"], remote.url, "look")
        await run.step("build", TOOLS["reversible", "async"], remote.url, "build")
        await run.step("send", TOOLS["irreversible", "async"], remote.url, "send")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: remote.arrived["send"] == 1)
        await session.cancel(grace=0)
        await until(session, "session.cancel_requested")
        provisional = await session.receipt()
        remote.let("send")
        await session.cancel(until="stopped")
        return provisional, await session.receipt()


async def test_a_receipt_is_a_table_a_person_can_read(place: Place, remote: Remote) -> None:
    """One line for each effect, what and what became of it; a read has none."""
    provisional, final = await _a_receipt(place, remote)
    rows = [line.split() for line in str(final).splitlines()]
    assert [(row[0], *row[2:]) for row in rows[1:]] == [
        ("build", "reversible", "kept"),
        ("send", "irreversible", "cannot", "be", "undone"),
    ]
    assert rows[0] == ["what", "effect", "outcome", "detail"]
    title, *table = str(provisional).splitlines()
    assert title == "provisional: this is not the end yet"
    assert "still running" in table[-1]
    assert "look" not in str(final)


async def test_a_receipt_is_json_and_back(place: Place, remote: Remote) -> None:
    """For programs."""
    for receipt in await _a_receipt(place, remote):
        content = msgspec.json.encode(receipt)
        assert msgspec.json.decode(content, type=midcourse.Receipt) == receipt
        plain: dict[str, Any] = msgspec.json.decode(content)
        assert plain["final"] is receipt.final
        assert [line["name"] for line in plain["lines"]] == ["build", "send"]


async def test_the_receipt_of_a_parent_does_not_say_that_nothing_was_changed(place: Place) -> None:
    """The effects of its children are in receipts of their own: it says that there are some."""
    kid = resumable(lambda run: run.step("send", Tool(effect="write").run), name="kid")

    async def spawns(run: midcourse.Run) -> None:
        await run.spawn(kid, "one", key="one")
        await run.ask("Well?")

    async with place.open(one := resumable(spawns), kid) as mc:
        session = await mc.start(one)
        await until_status(session, "waiting")
        assert (await session.preview())["all"].children == 1
        await session.cancel(until="stopped")
        [told, of_children] = str(await session.receipt()).splitlines()
        assert told == "no call of the session itself that could have an effect had begun"
        assert of_children == "Its child has a receipt of its own."


async def test_nothing_done_is_an_empty_receipt_in_words(place: Place) -> None:
    """Of a session that never began."""
    one = resumable(lambda run: run.ask("Well?"))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_status(session, "waiting")
        await session.cancel(until="stopped")
        receipt = await session.receipt()
        assert (receipt.lines, receipt.final) == ((), True)
        assert str(receipt) == "nothing was changed: no call that could have an effect had begun"


@pytest.mark.fake_time
async def test_an_undo_answers_within_its_wait_however_long_the_sending_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is for all of it, not for each of its parts."""
    may_end = asyncio.Event()

    async def endless(_arguments: object, _result: object, _key: str) -> None:
        await may_end.wait()

    @midcourse.tool(effect="write", undo=endless)
    async def change() -> None:
        """Change nothing; its undo does not end."""

    place, one = Place("memory", tmp_path), resumable(lambda run: run.step("call", change))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await session.result()
        control = mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        send, clock = control.send, control.worker.clock

        async def slow(*arguments: Any, **named: Any) -> Any:
            reply = await send(*arguments, **named)
            await clock.sleep(1.5)
            return reply

        monkeypatch.setattr(control, "send", slow)
        began = clock.monotonic()
        receipt = await session.undo("wrong customer", wait=2.0)
        assert clock.monotonic() - began < 2.5
        assert not receipt.final
        may_end.set()
        await until(session, "undo.finished")
