"""The instrument itself: it kills where it says, counts what it says, and changes nothing else."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midcourse.core.ids import CommandId, SessionId, WorkerId
from midcourse.errors import SessionNotFound
from midcourse.ports.store import Store
from midcourse.testing.killer import Killer, LineLedger
from midcourse.wiring import open_store

NOBODY = SessionId("sess_nobody")
KILLED = """
import asyncio, sys
from midcourse.testing.killer import Killer
from midcourse.wiring import open_store

async def main() -> None:
    killer = Killer(await open_store("memory://"), at=2, when=sys.argv[1], ledger=sys.argv[2])
    await killer.enlist("worker_1", "")
    await killer.undecided("sess_nobody")

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_process_dies_at_that_call_by_a_real_sigkill(when: str, tmp_path: Path) -> None:
    """Nothing can catch it, and the ledger says where it was."""
    ledger = tmp_path / "ledger"
    dead = subprocess.run([sys.executable, "-c", KILLED, when, str(ledger)], check=False, timeout=30)
    assert dead.returncode == -signal.SIGKILL
    assert ledger.read_text() == f"killed {when} 2 undecided\n"


async def test_polls_do_not_count() -> None:
    """How many polls there are is a matter of time; where a kill point lies must not be."""
    killer: Store = Killer(await open_store("memory://"))
    assert isinstance(killer, Killer)
    await killer.enlist(WorkerId("worker_1"), "")
    await killer.changed()
    await killer.pending(WorkerId("worker_1"))
    await killer.unattended(("running",), 0.0)
    await killer.heads()
    with pytest.raises(SessionNotFound):
        await killer.head(NOBODY)
    await killer.close()
    assert killer.calls == ["enlist", "head", "close"]


async def test_a_write_takes_its_place_when_it_is_called() -> None:
    """The port's order of writes is kept: a call that is never awaited is made all the same."""
    killer = Killer(await open_store("memory://"))
    written = killer.put(NOBODY, CommandId("c-1"), b"{}", 0.0)
    assert killer.calls == ["put"]
    assert isinstance(written, asyncio.Future)
    with pytest.raises(SessionNotFound):
        await written


def test_a_line_of_the_ledger_is_one_write(tmp_path: Path) -> None:
    """Two processes that write at the same time do not mix their lines."""
    first, second = LineLedger(tmp_path / "ledger"), LineLedger(tmp_path / "ledger")
    first.write("ran a")
    second.write("ran b")
    first.write("finished a")
    assert (tmp_path / "ledger").read_bytes() == b"ran a\nran b\nfinished a\n"
