"""What the doctor finds in a store that was really damaged, or left alone, and what it says is to be done."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midcourse.cli import doctor, store_checks
from midcourse.clock import SystemClock
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import entomb
from midcourse.core.ids import SessionId, SwitchId
from midcourse.core.switches import Scope, Switch
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import Delivery, Webhook
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.store import Head, Store
from midcourse.stores.sqlite.rows import encode_head
from midcourse.wiring import open_store
from tests.cli.conftest import Command

STORE = Path(".midcourse/midcourse.db")
URL = "sqlite:///.midcourse/midcourse.db"


def found(midcourse: Command, name: str, *options: str) -> dict[str, str]:
    done = midcourse("doctor", "--json", *options)
    checks = {one["name"]: one for one in done.json()["checks"]}
    assert (done.code == 1) == any(one["status"] == "fail" for one in checks.values())
    assert checks[name]["status"] == "ok" or checks[name]["advice"] or checks[name]["status"] == "fail"
    return checks[name]


def spoil(statement: str, *values: object) -> None:
    with closing(sqlite3.connect(STORE)) as connection:
        assert connection.execute(statement, values).rowcount > 0
        connection.commit()


def on_the_store(work: Any) -> None:
    async def doing() -> None:
        store = await open_store(URL)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(doing())


def test_a_deep_look_at_a_store_that_is_well_finds_nothing(midcourse: Command) -> None:
    assert found(midcourse, "journals", "--deep")["status"] == "ok"
    assert "every page" in found(midcourse, "file", "--deep")["detail"]


def test_a_changed_record_is_found_by_a_deep_look(midcourse: Command) -> None:
    spoil("UPDATE journal SET record = replace(record, 'session', 'Session') WHERE place % 4294967296 = 1")
    damaged = found(midcourse, "journals", "--deep")
    assert damaged["status"] == "fail"
    assert "midcourse store restore" in damaged["advice"]


def test_a_record_that_only_looks_erased_is_found(midcourse: Command) -> None:
    with closing(sqlite3.connect(STORE)) as connection:
        (place, record) = connection.execute("SELECT place, record FROM journal ORDER BY place LIMIT 1").fetchone()
    spoil("UPDATE journal SET record = ? WHERE place = ?", entomb(record, record), place)
    assert "look erased" in found(midcourse, "journals", "--deep")["detail"]


def test_an_erased_session_is_well(midcourse: Command) -> None:
    with closing(sqlite3.connect(STORE)) as connection:
        (name,) = connection.execute("SELECT id FROM sessions WHERE status = 'completed' LIMIT 1").fetchone()
    assert midcourse("session", "erase", name, "--yes").code == 0
    assert "1 of them erased" in found(midcourse, "journals", "--deep")["detail"]


def test_a_changed_entry_of_the_audit_log_is_found(midcourse: Command) -> None:
    spoil("UPDATE audit SET entry = CAST(replace(entry, 'role', 'Role') AS BLOB) WHERE seq = 1")
    assert found(midcourse, "audit")["status"] == "fail"


def test_a_detail_of_the_audit_log_that_was_taken_away_by_hand_is_found(midcourse: Command) -> None:
    """The digests still fit: those of a session that was erased do, too. But nobody erased this one."""
    assert midcourse("pause", "sess_waiting", "--reason", "let me look").code == 0
    assert found(midcourse, "audit")["status"] == "ok"
    spoil("UPDATE audit SET entry = CAST(replace(entry, 'let me look', '') AS BLOB)")
    assert "its detail is gone" in found(midcourse, "audit")["detail"]
    assert "its detail is gone" in midcourse("audit", "check").err


def test_a_damaged_head_is_found(midcourse: Command) -> None:
    spoil("UPDATE sessions SET head_seal = x'00' WHERE key = 1")
    assert "checksums" in found(midcourse, "sessions")["detail"]


def test_a_damaged_file_is_found(midcourse: Command) -> None:
    os.truncate(STORE, STORE.stat().st_size // 2)
    assert found(midcourse, "file")["status"] == "fail"


def test_a_store_of_a_newer_midcourse_is_told_of(midcourse: Command) -> None:
    spoil("UPDATE meta SET value = '99' WHERE name = 'schema'")
    assert "Upgrade" in found(midcourse, "store")["detail"]


def test_a_store_in_memory_is_warned_of(midcourse: Command) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("there is no file system in memory here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        shutil.copy(STORE, folder)
        durability = found(midcourse, "store", "--store", f"sqlite:///{folder}/midcourse.db")
    assert durability["status"] == "warn"
    assert "on a disk" in durability["advice"]


PROGRAM = """
import asyncio, midcourse
@midcourse.agent
async def lone_worker(run):
    await asyncio.Event().wait()
async def main():
    async with midcourse.open("sqlite:///.midcourse/midcourse.db") as mc:
        handle = await mc.start(lone_worker, "wait", session_id="left_alone")
        while await handle.status() != "running":
            await asyncio.sleep(0.01)
        print("runs", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def test_a_worker_that_was_killed_and_the_session_it_left_are_told_of(midcourse: Command) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        assert "1 alive" in found(midcourse, "workers")["detail"]
        process.send_signal(signal.SIGKILL)
    assert str(process.pid) in found(midcourse, "workers")["detail"]
    driven = found(midcourse, "driven")
    assert "left_alone" in driven["detail"]
    assert "lone_worker" in driven["advice"]


def test_a_time_in_the_future_is_told_of(midcourse: Command) -> None:
    with closing(sqlite3.connect(STORE)) as connection:
        (content,) = connection.execute("SELECT head FROM sessions WHERE key = 1").fetchone()
    head = msgspec.msgpack.decode(content, type=Head)
    ahead = encode_head(msgspec.structs.replace(head, updated_at=SystemClock().now() + 7200))
    spoil("UPDATE sessions SET head = ?, head_seal = ? WHERE key = 1", *ahead)
    clock = found(midcourse, "clock")
    assert clock["status"] == "warn"
    assert head.id in clock["detail"]


def test_a_kill_switch_that_stands_is_told_of(midcourse: Command) -> None:
    async def throw(store: Store) -> None:
        switch = Switch(id=SwitchId("ks_1"), scope=Scope("agent", "mailer"), reason="loops", by="ann", at=1.0)
        entry = AuditEntry(session=SessionId(""), by="ann", role="operate", action="kill_switch.throw")
        await ActiveSwitches(store).keep(switch, entry)

    on_the_store(throw)
    assert "mailer" in found(midcourse, "kill switch")["detail"]


def test_a_webhook_that_nothing_arrives_at_is_told_of(midcourse: Command) -> None:
    async def fail(store: Store) -> None:
        hook = Webhook(id="wh_1", tenant=None, url="https://example.org/", kinds=("*",), by="ann", added_at=1.0)
        await Outbox(store).add(hook)
        row = Delivery(id="d1", webhook="wh_1", kind="ask.opened", made_at=1.0, body="{}", tries=3, tried_at=2.0)
        await Outbox(store).put([row])

    on_the_store(fail)
    assert "wh_1 (1 waiting" in found(midcourse, "webhooks")["detail"]


def test_a_webhook_whose_receiver_is_gone_is_told_of(midcourse: Command) -> None:
    async def leave(store: Store) -> None:
        hook = Webhook(id="wh_1", tenant=None, url="https://example.org/", kinds=("*",), by="ann", added_at=1.0)
        await Outbox(store).add(hook)
        assert await Outbox(store).note_gone(hook, 5.0, by="receiver", now=5.0)

    on_the_store(leave)
    assert "wh_1" in found(midcourse, "webhooks")["detail"]
    assert "gone since" in midcourse("webhook", "list").out


def test_what_cannot_be_read_beside_the_journals_is_named_and_what_is_left_of_a_webhook_can_be_removed(
    midcourse: Command,
) -> None:
    async def put(store: Store) -> None:
        hook = Webhook(id="wh_1", tenant=None, url="https://example.org/", kinds=("*",), by="ann", added_at=1.0)
        await Outbox(store).add(hook)
        await Outbox(store).put([Delivery(id="d1", webhook="wh_1", kind="ask.opened", made_at=1.0, body="{}")])
        await store.shelve("telling", {"due/wh_1/d2": b"not one"})
        await store.shelve("inbox", {"over/ann": b"1", "over/bob": b"1"})
        await store.shelve("langgraph:sess_1", {"c/1": b"1"})

    assert found(midcourse, "shelves")["status"] == "ok"
    on_the_store(put)
    spoil("UPDATE shelves SET value = x'00' WHERE key IN ('wh_1', 'due/wh_1/d1', 'over/bob', 'c/1')")
    told = found(midcourse, "shelves")
    assert told["status"] == "fail"
    for name in ("'wh_1' on the shelf 'webhooks'", "'due/wh_1/d1'", "'due/wh_1/d2'", "'over/bob' on the shelf 'inbox'"):
        assert name in told["detail"]
    assert "c/1" not in told["detail"]
    assert "'c/1' on the shelf 'langgraph:sess_1'" in found(midcourse, "shelves", "--deep")["detail"]
    assert midcourse("webhook", "remove", "wh_1").code == 0
    assert "wh_1" not in found(midcourse, "shelves")["detail"]


def test_a_log_that_grows_is_told_of(midcourse: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_checks, "_LARGE_LOG", 1000)
    with closing(sqlite3.connect(STORE)) as writer:
        writer.execute("UPDATE sessions SET key = key")
        writer.commit()
        assert "compact" in found(midcourse, "log")["advice"]


def test_what_is_not_installed_is_told_of(midcourse: Command, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(doctor, "find_encoder", lambda: None)
    monkeypatch.setattr(doctor, "why_none", lambda: "wordllama is not installed")

    def shipped() -> None:
        raise FileNotFoundError("no risk model here")

    monkeypatch.setattr(doctor, "shipped", shipped)
    monkeypatch.setattr(doctor.midcourse, "__file__", str(folder / "__init__.py"))
    for name in ("drift", "risk", "console"):
        assert found(midcourse, name)["status"] == "warn"
