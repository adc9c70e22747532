"""Erasing a session: nothing of what was said can be read, nothing more can be done with it, and who did it is told."""

import asyncio
import base64
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.codec import entomb
from midcourse.core.events import SessionErased
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Position, SessionId, WorkerId
from midcourse.core.terms import DefaultAnswer, Terms
from midcourse.errors import Damaged, Refused, SessionEnded, SessionNotFound, StoreError
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import Webhook, delivery
from midcourse.policy.intervention_shelf import read_alarms
from midcourse.ports.store import Owned, Store
from midcourse.runtime import session_loader
from midcourse.runtime.worker import Worker
from midcourse.stores.sqlite import rows
from midcourse.tools import files_in
from midcourse.tools.backups import default_backups
from midcourse.upkeep import erasure
from midcourse.wiring import compact, open_store
from tests.checkpoints.programs import Skipping

SECRET = "quixotic-marmalade-7391"
"""In everything that anybody says in these tests, and nowhere else."""


def spellings(text: str) -> list[bytes]:
    """How a text could lie in a file."""
    plain = text.encode()
    escaped = msgspec.json.encode(text)[1:-1]
    # Of base64, what is the same wherever in a longer text it begins.
    shifted = [base64.b64encode(b"x" * shift + plain)[4:-4] for shift in range(3)]
    return [plain, escaped, text.encode("utf-16-le"), msgspec.msgpack.encode(text), *shifted]


def files_with(text: str, folder: Path) -> dict[str, int]:
    """Every file below a folder that holds a text in any spelling, the log and what lies beside it included."""
    found: dict[str, int] = {}
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        count = sum(content.count(one) for one in spellings(text))
        if count:
            found[path.name] = count
    return found


@midcourse.tool(effect="write")
async def send(to: str, text: str) -> str:
    return f"sent {text} to {to}"


@midcourse.tool(effect="read")
async def fetch(about: str) -> str:
    return f"{about} " * 3000


@midcourse.agent
async def teller(run: midcourse.Run) -> str:
    """Says it in every way there is."""
    run.plan.set(f"tell {SECRET}")
    run.report(progress=0.1, hypothesis=f"it is {SECRET}", message=SECRET)
    await run.step("send", send, f"{SECRET}@example.org", SECRET, key=f"to {SECRET}")
    await run.step("fetch", fetch, SECRET)
    run.report(artifact=f"{SECRET}.md", documentation=f"about {SECRET}")
    answer = await run.ask(f"Is it {SECRET}?", options=(SECRET, "no"))
    return f"{answer} {SECRET}"


async def told(mc: midcourse.Midcourse, name: str = "sess_told") -> midcourse.SessionHandle[str]:
    """A session that has said it, been told it and asked for it, and ended."""
    handle = await mc.start(teller, f"find {SECRET}", session_id=name)
    ask = await handle.next_ask(timeout=10)
    await handle.redirect(f"look for {SECRET}", level="step")
    ask = await handle.next_ask(timeout=10)
    await handle.pause(f"because of {SECRET}", until="stopped")
    await handle.resume()
    await handle.answer(SECRET, ask=ask.id)
    assert SECRET in await handle.result(timeout=10)
    await handle.rate(4, f"{SECRET} was found")
    return handle


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store/midcourse.db"


@pytest.fixture(autouse=True)
def store_folder(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def _nothing_is_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a text that was left in a file is found there, however long the record that held it."""
    monkeypatch.setattr(rows, "PACKED", 2**40)


async def test_after_erasing_and_compaction_nothing_of_the_text_is_left_in_any_file(
    url: str, store_folder: Path
) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        assert files_with(SECRET, store_folder)  # the search can find something
        await handle.erase("a customer asked for it")
        # While the store is open in this process, as a server has it.
        await asyncio.to_thread(compact, store_folder / "midcourse.db")
        assert files_with(SECRET, store_folder) == {}
        assert {path.name for path in store_folder.iterdir()} >= {"midcourse.db-wal", "midcourse.db-shm"}
        state = await handle.state()
        assert (state.status, state.goal, state.finished_steps) == ("completed", "erased", 2)
    assert files_with(SECRET, store_folder) == {}


async def test_what_a_snapshot_held_is_gone_too(url: str, store_folder: Path) -> None:
    async with midcourse.open(url, settings=midcourse.Settings(park_after=0.0)) as mc:
        handle = await mc.start(teller, SECRET)
        async for event in handle.watch(follow=True):
            if event.type == "session.parked":
                break
        await handle.cancel(until="stopped")
        with closing(sqlite3.connect(store_folder / "midcourse.db")) as connection:
            assert connection.execute("SELECT count(*) FROM snapshots WHERE instr(content, ?)", (SECRET,)).fetchone()[0]
        await handle.erase()
        await asyncio.to_thread(compact, store_folder / "midcourse.db")
        assert files_with(SECRET, store_folder) == {}


async def test_who_erased_it_when_and_why_is_journaled_and_audited(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        before = [entry.entry.action for entry in await mc.audit()]
        await handle.erase("a customer asked for it", by="ann")
        last = [record async for record in handle.watch()][-1].event
        assert isinstance(last, SessionErased)
        assert (last.by, last.reason) == ("ann", "a customer asked for it")
        entries = [one.entry for one in await mc.audit()]
        assert [entry.action for entry in entries] == [*before, "erase"]
        assert (entries[-1].by, entries[-1].role, entries[-1].detail) == ("ann", "operate", "a customer asked for it")
        assert {entry.detail for entry in entries[:-1]} == {""}
        assert {entry.by for entry in entries} == {"local", "ann"}


async def test_the_receipt_and_the_lists_tell_of_it_without_a_word(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        lines = [(line.name, line.outcome) for line in (await handle.receipt()).lines]
        await handle.erase()
        assert [(line.name, line.outcome) for line in (await handle.receipt()).lines] == lines
        head = (await mc.list())[0]
        assert (head.goal, head.erased_at is not None) == ("erased", True)
        assert await mc.list(search=SECRET) == []
        assert SECRET not in str(await handle.inspect())
        assert SECRET not in str([record async for record in handle.watch()])


async def test_nothing_more_can_be_done_with_it(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        await handle.erase()
        for wish in (
            handle.message("go on"),
            handle.redirect("go on"),
            handle.undo(),
            handle.rate(1),
            handle.fork(),
            handle.result(),
        ):
            with pytest.raises(Refused) as refused:
                await wish
            assert refused.value.code == "session_erased"


async def test_a_command_that_is_sent_once_more_is_told_that_it_was_erased(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await mc.start(teller, SECRET)
        await handle.next_ask(timeout=10)
        await handle.cancel(SECRET, until="stopped", command_id="mine")
        await handle.erase()
        with pytest.raises(Refused, match="session_erased"):
            await handle.cancel(SECRET, command_id="mine")


async def test_one_that_has_not_ended_is_not_erased(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await mc.start(teller, SECRET)
        await handle.next_ask(timeout=10)
        with pytest.raises(Refused, match="Cancel it first") as refused:
            await handle.erase()
        assert refused.value.code == "not_ended"
        assert (await handle.state()).goal == SECRET


async def test_one_that_a_worker_holds_is_not_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "_PATIENCE", 0.05)
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        other = await open_store(url)
        await other.enlist(WorkerId("worker_other"), "")
        await other.take(handle.id, WorkerId("worker_other"))
        with pytest.raises(Refused) as refused:
            await handle.erase()
        assert refused.value.code == "session_busy"
        await other.close()
        assert (await handle.erase()).goal == "erased"


async def test_what_another_session_names_too_stays(url: str) -> None:
    async with midcourse.open(url) as mc:
        first, second = await told(mc, "sess_one"), await told(mc, "sess_two")
        await first.erase()
        steps = {step.name: step.value for step in (await second.inspect()).steps}
        assert steps["fetch"] == f"{SECRET} " * 3000
        await second.erase()
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (0,)


@midcourse.agent
async def parent(run: midcourse.Run) -> str:
    return await run.spawn(child, f"{SECRET} for a child")


@midcourse.agent
async def child(run: midcourse.Run) -> str:
    return SECRET


async def test_children_are_erased_with_it_if_that_is_wanted(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await mc.start(parent, SECRET)
        await handle.result(timeout=10)
        await handle.erase()
        assert sorted(head.goal for head in await mc.list()) == ["erased", f"{SECRET} for a child"]
        await handle.erase(children=True)
        assert [head.goal for head in await mc.list()] == ["erased", "erased"]
        with pytest.raises(SessionNotFound):
            await mc.get(SECRET)


async def test_what_shelves_keep_of_it_goes_and_what_reports_count_stays(url: str) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        store = await open_store(url)
        alarm = {
            "at": 1.0,
            "session": handle.id,
            "intervention": "int_1",
            "agent": "teller",
            "person": "ann",
            "by": "p",
        }
        await store.shelve(
            "interventions", {"1/x/int_1": msgspec.json.encode(alarm | {"level": "stop", "sentence": SECRET})}
        )
        await store.shelve(
            "telling", {"due/w/1": msgspec.json.encode({"webhook": "w", "session": handle.id, "body": SECRET})}
        )
        batch = msgspec.json.encode({"alarms": [{"session": handle.id, "sentence": SECRET}]}).decode()
        await store.shelve("telling", {"due/w/2": msgspec.json.encode({"webhook": "w", "session": "", "body": batch})})
        await store.shelve(f"framework:{handle.id}", {"c/1": SECRET.encode()})
        await handle.erase()
        assert await store.shelves(f"framework:{handle.id}") == []
        assert await store.shelved("artifacts") == []
        [counted] = await read_alarms(store)
        assert (counted.level, counted.sentence) == ("stop", "erased")
        [(key, kept)] = await store.shelved("telling")
        assert (key, SECRET.encode() in kept) == ("due/w/2", False)
        await store.close()


class Blind:
    """Cannot be looked at, and says so."""

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments["text"])

    async def version(self, arguments: Mapping[str, object]) -> str:
        raise RuntimeError(f"cannot look at {arguments['text']}")


async def untell(arguments: Mapping[str, object], result: object, key: str) -> None:
    raise RuntimeError(f"{arguments['text']} was read already")


@midcourse.tool(effect="write", undo=untell, observes=Blind())
async def tell(text: str) -> str:
    return text


@midcourse.agent
async def blunderer(run: midcourse.Run) -> str:
    """Fails in every way there is, and says what it fails with."""
    await run.step("tell", tell, SECRET, key=SECRET)
    await run.ask(f"Is it {SECRET}?", reason=f"because of {SECRET}", key="one")
    if run.turn > 1:
        await asyncio.Event().wait()
    try:
        raise ValueError(f"no {SECRET} here")
    except ValueError as error:
        group = ExceptionGroup(SECRET, [KeyError(SECRET)])
        raise RuntimeError(f"{SECRET} cannot be found") from (group if run.goal else error)


async def test_no_line_of_the_log_has_a_word_of_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    """A log is not erased. At the level that a server has it at, and with all that fails."""
    caplog.set_level("INFO")
    async with midcourse.open("memory://") as mc:
        handle = await mc.start(blunderer, SECRET)
        ask = await handle.next_ask(timeout=10)
        await handle.answer(SECRET, ask=ask.id)
        with pytest.raises(SessionEnded, match=SECRET):
            await handle.result(timeout=10)
        await handle.message(f"once more, {SECRET}")
        ask = await handle.next_ask(timeout=10)
        await handle.cancel(SECRET, until="stopped", undo="all")
        await handle.receipt()
    lines = caplog.text
    for wanted in (
        "agent 'blunderer' failed",
        "an undo of 'tell' failed",
        "cannot be checked",
        "checkpoint: session",
    ):
        assert wanted in lines
    assert "RuntimeError" in lines
    assert "upkeep/test_erasure.py" in lines
    assert SECRET not in lines


@midcourse.agent
async def filer(run: midcourse.Run) -> str:
    tools = files_in(run.messages[-1].text)
    await run.step("write", tools.write, "notes.txt", "something else")
    return "done"


async def test_what_the_file_tools_kept_for_an_undo_goes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text(SECRET)
    async with midcourse.open(url) as mc:
        handle = await mc.start(filer, str(tmp_path / "work"))
        assert await handle.result(timeout=10) == "done"
        assert files_with(SECRET, Path(default_backups()))
        await handle.erase()
        assert files_with(SECRET, Path(default_backups())) == {}


async def test_what_ended_long_enough_ago_is_erased_and_the_rest_is_not(url: str) -> None:
    clock = Skipping()
    async with midcourse.open("memory://", clock=clock) as mc:
        old = await mc.start(child, SECRET, session_id="sess_old")
        await old.result(timeout=10)
        clock.skipped = 91 * 86_400.0
        new = await mc.start(child, SECRET, session_id="sess_new")
        await new.result(timeout=10)
        assert [one.id for one in await mc.erase_older(90)] == ["sess_old"]
        assert await mc.erase_older(90) == []
        assert {head.id: head.goal for head in await mc.list()} == {"sess_old": "erased", "sess_new": SECRET}
        last = [record async for record in old.watch()][-1].event
        assert isinstance(last, SessionErased)
        assert (last.by, last.reason) == ("retention", "ended more than 90 days ago")


async def test_a_budget_and_terms_stay_without_a_default_answer(url: str) -> None:
    terms = Terms(budget=2.5, ttl_seconds=60.0, on_expiry=DefaultAnswer(SECRET))
    async with midcourse.open(url) as mc:
        handle = await mc.start(child, SECRET, terms=terms)
        await handle.result(timeout=10)
        erased = await handle.erase()
        assert erased.terms.budget == 2.5
        assert SECRET not in str(erased.terms)


@pytest.mark.parametrize("name", ["standing", "langgraph", "chat", "shown", "due", "told", "taken", "kind", "w"])
async def test_a_session_called_like_a_word_that_keys_are_made_of_takes_nothing_of_others(url: str, name: str) -> None:
    others = {
        "kill-switches": ["standing/ks_1", "all/ks_1"],
        "webhooks": ["w", "due"],
        "tokens": [name],
        "policies": [f"{name}@1"],
        "langgraph:sess_live": ["c/1"],
        f"langgraph:{name}:thread": ["c/1"],
        f"langgraph:thread:{name}": ["c/1"],
        "chat:sess_live:shown": ["ann"],
        "inbox": ["taken/sess_live/ask_1", f"over/{name}", "answer/chat/001/sess_live/ask_1"],
        "telling": ["due/w/1", "told/sess_live/ask_1", f"seen/kind/{name}"],
        "artifacts": [f"sess_live/{name}"],
    }
    own = {f"langgraph:{name}": ["c/1"], f"chat:{name}:begun": ["1"]}
    own_keys = {"inbox": [f"taken/{name}/ask_1", f"answer/ann/001/{name}/ask_1"], "telling": [f"told/{name}/ask_1"]}
    async with midcourse.open(url) as mc:
        handle = await mc.start(child, SECRET, session_id=name)
        await handle.result(timeout=10)
        store = await open_store(url)
        for shelf, keys in [*others.items(), *own.items(), *own_keys.items()]:
            await store.shelve(shelf, dict.fromkeys(keys, b"1"))
        await handle.erase()
        assert {shelf: sorted(await store.shelf_keys(shelf)) for shelf in await store.shelves()} == {
            shelf: sorted(keys) for shelf, keys in others.items()
        }
        await store.close()


@pytest.mark.parametrize("name", ["shown", "begun", "chat"])
async def test_a_fork_of_a_session_called_like_that_takes_nothing_of_others_either(url: str, name: str) -> None:
    others = ["chat:sess_live:begun", "chat:sess_live:shown", f"chat:{name}:shown", f"langgraph:thread:{name}"]
    async with midcourse.open(url) as mc:
        handle = await mc.start(child, SECRET, session_id=name)
        await handle.result(timeout=10)
        store = await open_store(url)
        for shelf in (*others, f"langgraph:{name}"):
            await store.shelve(shelf, {"c/1": shelf.encode()})
        fork = await handle.fork()
        wanted = sorted([*others, f"langgraph:{name}", f"langgraph:{fork.id}"])
        assert [shelf for shelf in await store.shelves() if ":" in shelf] == wanted
        assert await store.shelved(f"langgraph:{fork.id}") == [("c/1", f"langgraph:{name}".encode())]
        await store.close()


async def test_a_fork_that_is_refused_changes_nothing_of_the_session_that_has_its_name(url: str) -> None:
    async with midcourse.open(url) as mc:
        store = await open_store(url)
        for name in ("one", "two"):
            await (await mc.start(child, SECRET, session_id=name)).result(timeout=10)
            await store.shelve(f"langgraph:{name}", {"c/1": name.encode()})
        with pytest.raises(StoreError, match="exists already"):
            await (await mc.get("one")).fork(session_id="two")
        assert await store.shelved("langgraph:two") == [("c/1", b"two")]
        await store.close()


async def test_a_damaged_item_beside_it_keeps_nothing_of_it(url: str, store_folder: Path) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        store = await open_store(url)
        row = msgspec.json.encode({"webhook": "w", "session": handle.id, "body": SECRET})
        keys = ["due/w/1", "due/w/2", f"told/{handle.id}/ask_1", "told/other/ask_1"]
        await store.shelve("telling", dict.fromkeys(keys, row))
        with closing(sqlite3.connect(store_folder / "midcourse.db")) as connection:
            connection.execute("UPDATE shelves SET value = x'00' WHERE key IN ('due/w/1', ?)", (keys[2],))
            connection.commit()
        await handle.erase()
        assert await store.shelf_keys("telling") == ["due/w/1"]
        await store.close()


async def test_what_a_server_writes_of_it_while_it_is_erased_goes_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        store = await open_store(url)
        hook = Webhook(id="w", tenant=None, url="http://127.0.0.1:1/", kinds=("*",), by="ann", added_at=0.0)
        shelves = erasure._shelves  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

        async def written_since(store: Store, session_id: SessionId) -> dict[str, dict[str, bytes | None]]:
            found = await shelves(store, session_id)
            row = delivery(hook, "ask.reminder", (session_id,), {"goal": SECRET}, now=1.0, session=session_id)
            await Outbox(store).put([row], {f"told/{session_id}/ask_1": b"{}"})
            return found

        monkeypatch.setattr(erasure, "_shelves", written_since)
        await handle.erase()
        assert await store.shelf_keys("telling") == []
        await store.close()


async def test_a_log_that_is_pruned_while_a_session_is_erased_stays_whole(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Skipping()
    async with midcourse.open(url, clock=clock) as mc:
        handle = await mc.start(child, SECRET)
        await handle.result(timeout=10)
        await handle.rate(2, SECRET)
        clock.skipped = 9.0
        taken = erasure._take_session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

        async def pruned_first(worker: Worker, session_id: SessionId) -> Owned:
            assert await mc.prune_audit(worker.clock.now()) == 2
            return await taken(worker, session_id)

        monkeypatch.setattr(erasure, "_take_session", pruned_first)
        await handle.erase()
        assert [one.entry.action for one in await mc.audit()] == ["audit.prune", "erase"]


async def test_what_is_audited_while_the_session_is_being_taken_goes_too(url: str, store_folder: Path) -> None:
    """A command whose sender died is decided by whoever erases the session, and makes an entry then."""
    async with midcourse.open(url) as mc:
        await (await mc.start(child, "x", session_id="a")).result(timeout=10)
    store = await open_store(url)
    command = cmd.Rate(id=CommandId("c"), by="ann", role="steer", score=2, note=SECRET)
    await store.put(SessionId("a"), command.id, cmd.encode_command(command), 1.0)
    await store.close()
    async with midcourse.open(url, drive=False) as mc:
        await (await mc.get("a")).erase()
        told = [(one.entry.action, one.entry.detail) for one in await mc.audit()]
        assert told == [("session.start", ""), ("rate", ""), ("erase", "")]


async def test_what_is_said_to_an_erased_session_is_not_kept(url: str, store_folder: Path) -> None:
    async with midcourse.open(url) as mc:
        handle = await mc.start(child, "x")
        await handle.result(timeout=10)
        await handle.erase()
        for _ in range(2):
            with pytest.raises(Refused, match="session_erased"):
                await handle.message(SECRET, command_id="mine")
        last = (await mc.audit())[-1].entry
        assert (last.action, last.outcome, last.detail) == ("message", "session_erased", "")
        await asyncio.to_thread(compact, store_folder / "midcourse.db")
        assert files_with(SECRET, store_folder) == {}


@midcourse.agent
async def payer(run: midcourse.Run) -> str:
    await run.ask("Pay?")
    return run.messages[0].text


async def test_a_tombstone_that_somebody_made_by_hand_is_not_followed(url: str) -> None:
    """Its digest fits, and what it says is not what was said."""
    async with midcourse.open(url) as mc:
        await (await mc.start(payer, "pay 10", session_id="sess_live")).next_ask(timeout=10)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        place, record = connection.execute("SELECT place, record FROM journal ORDER BY place LIMIT 1").fetchone()
        forged = entomb(record, record.replace(b"pay 10", b"pay 99"))
        connection.execute("UPDATE journal SET record = ? WHERE place = ?", (forged, place))
        connection.execute("DELETE FROM snapshots")
    async with midcourse.open(url) as mc:
        handle = await mc.get("sess_live")
        with pytest.raises(Damaged, match="look erased"):
            await handle.state()
        with pytest.raises(Damaged, match="looks erased"):
            await handle.fork()


async def test_a_session_that_is_erased_while_somebody_reads_it_is_read_as_erased(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_loader, "_PAGE", 3)
    async with midcourse.open(url) as mc:
        handle = await told(mc)
        store = await open_store(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("DELETE FROM snapshots")
        head, read = (await store.head(handle.id)).head, store.read

        async def erased_meanwhile(session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
            rows = await read(session_id, after, limit)
            if not after:
                monkeypatch.setattr(store, "read", read)
                await handle.erase()
            return rows

        monkeypatch.setattr(store, "read", erased_meanwhile)
        assert (await session_loader.load(store, head)).state.session.goal == "erased"
        await store.close()
