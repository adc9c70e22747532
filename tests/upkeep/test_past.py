"""Stores that were written before anything could be erased: read on as they are, and erased like any other."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import midcourse
from midcourse.core.audit import decode_entry
from midcourse.core.codec import GENESIS
from midcourse.errors import Damaged
from midcourse.ports.store import Head
from midcourse.stores.sqlite.rows import encode_head


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "midcourse.db"


async def _long() -> str:
    return "x" * 50_000


@midcourse.agent
async def _writer(run: midcourse.Run) -> str:
    return await run.step("write", _long)


def _as_schema_2(path: Path) -> None:
    """Make a store one of the past: digests over the records themselves, and nobody knows who names a blob."""

    def of_the_past(before: bytes, number: int, content: bytes) -> bytes:
        return hashlib.blake2b(before + number.to_bytes(8, "big") + content, digest_size=16).digest()

    with closing(sqlite3.connect(path)) as past:
        past.executescript("DROP TABLE blob_uses; UPDATE meta SET value = '2' WHERE name = 'schema'")
        digest = GENESIS
        for place, record in past.execute("SELECT place, record FROM journal ORDER BY place").fetchall():
            digest = of_the_past(digest, place % 2**32, record)
            past.execute("UPDATE journal SET digest = ? WHERE place = ?", (digest, place))
        digest = GENESIS
        for seq, content in past.execute("SELECT seq, entry FROM audit ORDER BY seq").fetchall():
            entry = msgspec.json.encode(decode_entry(content))
            digest = of_the_past(digest, seq, entry)
            past.execute("UPDATE audit SET entry = ?, digest = ? WHERE seq = ?", (entry, digest, seq))
        past.commit()


async def test_a_store_of_the_past_is_read_on_and_can_be_erased(path: Path) -> None:
    async with midcourse.open(f"sqlite:///{path}") as mc:
        handle = await mc.start(_writer, "a goal of the past")
        assert await handle.result() == "x" * 50_000
        await handle.rate(5, "a note of the past")
    _as_schema_2(path)
    with closing(sqlite3.connect(path)) as past:
        (last,) = past.execute("SELECT digest FROM journal ORDER BY place DESC LIMIT 1").fetchone()
        (content,) = past.execute("SELECT head FROM sessions").fetchone()
        known = msgspec.structs.replace(msgspec.msgpack.decode(content, type=Head), digest=last)
        encoded = encode_head(known)
        past.execute("UPDATE sessions SET head = ?, head_seal = ?", encoded)
        past.execute("DELETE FROM snapshots")
        past.commit()
    async with midcourse.open(f"sqlite:///{path}", drive=False) as mc:
        handle = await mc.get((await mc.list())[0].id)
        assert (await handle.state()).goal == "a goal of the past"
        assert [one.entry.detail for one in await mc.audit()][1:] == ["5 of 5; a note of the past"]
        await handle.erase()
        assert (await handle.state()).goal == "erased"
        assert [one.entry.detail for one in await mc.audit()] == ["", "", ""]
    with closing(sqlite3.connect(path)) as now:
        assert now.execute("SELECT count(*) FROM blobs").fetchone() == (0,)


async def test_an_audit_log_that_was_changed_in_the_past_is_still_told_of(path: Path) -> None:
    async with midcourse.open(f"sqlite:///{path}") as mc:
        handle = await mc.start(_writer, "a goal")
        await handle.result()
        for score in (1, 2, 3):
            await handle.rate(score)
    _as_schema_2(path)
    with closing(sqlite3.connect(path)) as past:
        past.execute("UPDATE audit SET entry = replace(entry, '2 of 5', '4 of 5') WHERE seq = 3")
        past.commit()
    async with midcourse.open(f"sqlite:///{path}", drive=False) as mc:
        with pytest.raises(Damaged, match="damaged at entry 3"):
            await mc.audit()
