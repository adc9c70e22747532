"""Who paused, resumed, cancelled or was refused is in the audit log: once, in order, from whichever process."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.core.ids import CommandId, SessionId
from midcourse.ports.audit_log import read_audit
from tests.control.remote import Remote, RemoteRefused
from tests.promises import damage
from tests.promises.harness import KINDS, Kind, Place, resumable, until_status

Told = tuple[str, str, str, str, str]


async def _asking(run: midcourse.Run) -> object:
    return await run.ask("The password?")


ASKER = resumable(_asking)
"""Nothing of it runs while it waits, so that a stop is complete at once."""


async def _ask(owner: Remote, effects: Path, session: str) -> None:
    """The same, in another process."""
    await owner.do("start", agent="asker", goal=str(effects), session=session)
    await owner.do("watch", session=session, until="session.waiting")


async def told(mc: midcourse.Midcourse, session: str | None = None) -> list[Told]:
    """The log in short, of one session or of all; without that they were started."""
    return [
        (one.session, one.by, one.action, one.outcome, one.detail)
        for one in [audited.entry for audited in await mc.audit(limit=1000)]
        if session in (None, one.session) and one.action != "session.start"
    ]


@pytest.fixture(params=KINDS)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store of each kind."""
    kind: Kind = request.param
    return Place(kind, tmp_path)


async def test_every_command_leaves_one_entry_granted_or_refused(anywhere: Place) -> None:
    """In the order they were decided, with who, what, how it ended and when; steps and events leave none."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        await until_status(session, "waiting")
        assert await told(mc) == []
        with pytest.raises(midcourse.Refused):
            await session.resume(by="eve")
        paused = await session.pause("let me read", grace=0, until="stopped", by="ann")
        await session.redirect("in\nFrench", by="bob")
        await session.resume(paused.pause, by="cleo")
        with pytest.raises(midcourse.Refused):
            await session.resume(paused.pause, by="dan")
        with pytest.raises(midcourse.Refused):
            await session.answer("hunter2", ask="ask_7", by="eve")
        await session.cancel("enough", grace=0, until="stopped", by="ann")
        assert await told(mc) == [
            ("s", "eve", "resume", "already_resumed", ""),
            ("s", "ann", "pause", "ok", "grace 0 s; let me read"),
            ("s", "bob", "redirect", "ok", "step; in French"),
            ("s", "cleo", "resume", "ok", "pause_1"),
            ("s", "dan", "resume", "already_resumed", "pause_1"),
            ("s", "eve", "answer", "ask_not_found", "ask_7"),
            ("s", "ann", "cancel", "ok", "grace 0 s; enough"),
        ]
        log = await mc.audit()
        assert [one.seq for one in log] == list(range(1, 9))
        # Whoever has the store open in a program of their own is its operator.
        assert {one.entry.role for one in log} == {"operate"}
        created = (await session.state()).created_at
        times = [one.entry.at for one in log]
        assert times == sorted(times)
        assert all(created <= at < created + 60 for at in times)
        assert list(await mc.audit(after=5)) == list(log[5:])
        assert list(await mc.audit(after=2, limit=2)) == list(log[2:4])


async def test_who_started_or_forked_a_session_is_told_with_it(anywhere: Place) -> None:
    """Both make a session without a command; what a session starts itself is not a person's deed, and leaves none."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, "find it\nnow", session_id="s", by="ann")
        await until_status(session, "waiting")
        position = (await session.state()).position
        await session.fork(position, session_id="f", paused=True, by="bob")
        with pytest.raises(midcourse.StoreError):
            await mc.start(ASKER, session_id="s", by="eve")
        log = [one.entry for one in await mc.audit() if one.entry.action.startswith("session.")]
        assert [(one.session, one.by, one.role, one.action, one.detail) for one in log] == [
            ("s", "ann", "operate", "session.start", f"{ASKER.name}: find it now"),
            ("f", "bob", "operate", "session.fork", f"of s, at {position}"),
        ]
        created = (await session.state()).created_at
        assert (log[0].at, created <= log[1].at) == (created, True)


async def test_who_takes_an_ask_or_hands_asks_over_is_told_with_their_role(anywhere: Place) -> None:
    """On a file that is the operator's, as with a control."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        ask = await session.next_ask()
        await mc.own("s", ask.id, "bob", by="ann")
        await mc.hand_over("bob", by="ann")
        found = [one.entry for one in await mc.audit() if one.entry.action != "session.start"]
    assert [(one.by, one.role) for one in found] == [("ann", "operate")] * 2


async def test_the_newest_entries_are_read_without_the_rest(anywhere: Place) -> None:
    """They come oldest first; whoever wants more asks for those before the first of them."""
    async with anywhere.open(ASKER) as mc:
        for name in ("s", "t"):
            await until_status(await mc.start(ASKER, session_id=name), "waiting")
        for number in range(9):
            await (await mc.get("st"[number % 2])).redirect(f"{number}")
        assert [one.seq for one in await mc.audit(limit=3, before=0)] == [9, 10, 11]
        assert [one.seq for one in await mc.audit(limit=3, before=9)] == [6, 7, 8]
        assert [one.seq for one in await mc.audit(limit=1000, before=4)] == [1, 2, 3]
        assert list(await mc.audit(before=1)) == []
        assert [one.entry.detail for one in await mc.audit(limit=2, session="s", before=0)] == ["step; 6", "step; 8"]
        await mc.prune_audit((await mc.audit(before=0, limit=5))[0].entry.at)
        assert [one.seq for one in await mc.audit(limit=1000, before=0)] == [7, 8, 9, 10, 11, 12]
        with pytest.raises(midcourse.InvalidInput, match="before is 3; it is"):
            await mc.audit(2, before=3)


async def test_a_repeated_command_is_one_entry(anywhere: Place) -> None:
    """A double click or a retry is one command, and was decided once."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        await until_status(session, "waiting")
        await asyncio.gather(*(session.pause(command_id="one", by="ann") for _ in range(5)))
        await session.pause(command_id="one", by="ann")
        assert await told(mc) == [("s", "ann", "pause", "ok", "")]


async def test_an_answer_is_told_without_its_value(anywhere: Place) -> None:
    """It may be a password; which ask it answered is told, also if it was not named."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        await until_status(session, "waiting")
        await session.answer("hunter2", by="ann")
        assert await session.result() == "hunter2"
        assert await told(mc) == [("s", "ann", "answer", "ok", "ask_1")]
        store = await anywhere.store()
        assert not [row for row in await store.audit() if b"hunter2" in row.content]
        await store.close()


async def test_a_command_nobody_can_read_is_told_too(anywhere: Place) -> None:
    """It is refused, and the log says that it was there."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        await until_status(session, "waiting")
        store = await anywhere.store()
        await store.put(SessionId("s"), CommandId("odd"), b'{"command":"explode","id":"odd"}', 1.0)
        await session.cancel(grace=0, until="stopped", by="ann")
        (odd, cancelled) = await told(mc)
        assert odd[:4] == ("s", "", "unreadable", "damaged")
        assert odd[4].startswith("command 'odd': A command in the inbox cannot be read")
        assert cancelled[:4] == ("s", "ann", "cancel", "ok")
        await store.close()


async def test_commands_from_several_processes_to_sessions_of_several_are_one_log(place: Place, effects: Path) -> None:
    """Two owners write to it, four people wish; every process reads the same."""
    async with (
        Remote.open(place.url) as one,
        Remote.open(place.url) as two,
        Remote.open(place.url, drive=False) as other,
        place.open(drive=False) as here,
    ):
        for owner, name in ((one, "s1"), (two, "s2")):
            await _ask(owner, effects, name)
        await other.control("s1", "pause", by="ann", grace=0, until="stopped")
        await (await here.get("s2")).pause(by="bob", grace=0, until="stopped")
        await two.control("s1", "resume", by="cleo")
        with pytest.raises(RemoteRefused):
            await one.control("s1", "resume", by="dan")
        await one.control("s2", "cancel", by="ann", reason="enough", grace=0, until="stopped")
        await (await here.get("s1")).cancel("me too", by="bob", grace=0, until="stopped")
        in_order = [
            ("s1", "ann", "pause", "ok", "grace 0 s"),
            ("s2", "bob", "pause", "ok", "grace 0 s"),
            ("s1", "cleo", "resume", "ok", "pause_1"),
            ("s1", "dan", "resume", "already_resumed", ""),
            ("s2", "ann", "cancel", "ok", "grace 0 s; enough"),
            ("s1", "bob", "cancel", "ok", "grace 0 s; me too"),
        ]
        assert await told(here) == in_order
    async with place.open(drive=False) as later:
        assert await told(later) == in_order


async def test_many_at_once_from_several_processes_leave_no_gap(place: Place, effects: Path) -> None:
    """A hundred resumes of one pause: one entry says ok, ninety-nine that it was too late."""
    async with Remote.several(3, place.url) as processes, place.open(drive=False) as here:
        await _ask(processes[0], effects, "s")
        paused = await processes[1].control("s", "pause", grace=0, until="stopped")
        asked = [one.do("resume_often", session="s", pause=paused["pause"], times=33) for one in processes]
        await asyncio.gather(*asked)
        log = await here.audit(limit=1000)
        assert [one.seq for one in log] == list(range(1, 102))
        outcomes = [one.entry.outcome for one in log if one.entry.action == "resume"]
        assert (outcomes.count("ok"), outcomes.count("already_resumed")) == (1, 98)
        await processes[0].control("s", "cancel", grace=0, until="stopped")


async def test_a_killed_owner_leaves_an_entry_for_what_it_decided_and_none_for_what_it_did_not(
    place: Place, effects: Path
) -> None:
    """They are one transaction. What it left undecided is decided by its heir, and told by that."""
    async with place.open(drive=False) as here:
        async with Remote.open(place.url) as owner:
            await _ask(owner, effects, "s")
            often = asyncio.create_task(owner.do("pause_often", session="s", times=10_000, prefix="x"))
            while len(await told(here)) < 40:
                await asyncio.sleep(0.005)
            await owner.kill()
            with pytest.raises(ConnectionError):
                await often
        decided, entries = _counted(place.path)
        assert decided == entries >= 40
        async with Remote.open(place.url) as heir:
            await heir.control("s", "cancel", grace=0, until="stopped", by="heir")
        decided, entries = _counted(place.path)
        store = await place.store()
        log = await read_audit(store, 0, 10_000)
        await store.close()
        assert decided == entries == len(log) - 1
        assert log[-1].entry.by == "heir"


def _counted(path: Path) -> tuple[int, int]:
    """Decided commands and their entries, at one moment: the first entry is that the session was started."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT (SELECT count(*) FROM inbox WHERE outcome IS NOT NULL), (SELECT count(*) - 1 FROM audit)"
        return connection.execute(query).fetchone()


async def test_a_log_that_was_tampered_with_is_told_and_stops_nobody(place: Place, effects: Path) -> None:
    """Whoever reads it is told where; a pause still pauses."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await _ask(owner, effects, "s")
        session = await here.get("s")
        paused = await session.pause(by="eve")
        await session.resume(paused.pause, by="ann")
        with closing(sqlite3.connect(place.path)) as connection, connection:
            connection.execute("DELETE FROM audit WHERE seq = 1")
        with pytest.raises(midcourse.Damaged, match="The audit log is damaged at entry 1: it is missing") as caught:
            await here.audit()
        assert caught.value.fields["seq"] == 1
        assert (await session.cancel(grace=0, until="stopped", by="ann")).level == "stopped"
        assert [one.entry.action for one in await here.audit(after=3)] == ["cancel"]


async def test_a_command_to_a_damaged_session_is_told_too(anywhere: Place) -> None:
    """Its journal is never continued; that somebody wanted it to is in the log."""
    async with anywhere.open(ASKER) as mc:
        session = await mc.start(ASKER, session_id="s")
        await until_status(session, "waiting")
        await session.pause(until="stopped", by="ann")
    damage.damage_journal(anywhere, "s", "flip", 2)
    damage.damage_snapshots(anywhere, "s", damage.emptied)
    async with anywhere.open(ASKER) as mc:
        with pytest.raises(midcourse.Damaged):
            await (await mc.get("s")).resume(by="bob")
        while not (now := (await told(mc))[1:]):
            await asyncio.sleep(0.005)
        assert now == [("s", "bob", "resume", "damaged", "")]
        assert (await mc.audit())[-1].entry.at > 0


@pytest.mark.parametrize("wrong", [{"after": -1}, {"after": 2**63}, {"limit": 0}, {"limit": 1001}])
async def test_what_cannot_be_asked_is_refused_with_a_sentence(anywhere: Place, wrong: dict[str, Any]) -> None:
    """The field is named, and what would do."""
    async with anywhere.open(drive=False) as mc:
        with pytest.raises(midcourse.InvalidInput, match=" is -?[0-9]+; it is ") as refused:
            await mc.audit(**wrong)
        assert refused.value.fields["field"] in wrong
