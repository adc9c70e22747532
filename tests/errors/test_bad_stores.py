"""A store that cannot be used says why and what to do; when it can be again, its sessions go on."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import midcourse
from midcourse.errors import StoreFull
from midcourse.stores.sqlite import SqliteStore
from tests.promises.harness import Place, Tool, history, resumable, types, until

NOBODY = 65534


async def _refused(url: str) -> tuple[str, str]:
    with pytest.raises(midcourse.MidcourseError) as refused:
        async with midcourse.open(url):
            pass
    return refused.value.code, str(refused.value)


@pytest.fixture
def here(tmp_path: Path) -> Place:
    """An empty SQLite store."""
    return Place("sqlite", tmp_path)


def _agent(tool: Tool) -> midcourse.Agent[object]:
    return resumable(lambda run: run.step("work", tool.run, "x"))


async def _paused(here: Place, tool: Tool) -> None:
    """A store with a session that was paused in its step."""
    async with here.open(_agent(tool)) as mc:
        session = await mc.start(_agent(tool), session_id="s")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
    tool.may_end.set()


async def _goes_on(here: Place, tool: Tool) -> None:
    async with here.open(_agent(tool)) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == "x"


@pytest.mark.parametrize(
    "url", ["mysql://db", "", "midcourse.db", "sqlite:", "sqlite://", "sqlite:///", "memory", "http://a.example/b"]
)
async def test_an_unknown_store_is_told_which_there_are(url: str) -> None:
    """With the number of slashes that people get wrong."""
    code, sentence = await _refused(url)
    assert code == "invalid_input"
    assert sentence.startswith(f"Unknown store '{url}'. Use memory:// or sqlite:///file.db (four slashes for")


async def test_an_unknown_durability_is_told_which_there_are(here: Place) -> None:
    """Before any file is made."""
    with pytest.raises(midcourse.InvalidInput, match="'power' or 'process'"):
        async with midcourse.open(here.url, durability="hope"):  # pyright: ignore[reportArgumentType] - the bad input
            pass
    assert not here.path.exists()


async def test_a_folder_instead_of_a_file_is_told_a_file_to_name(tmp_path: Path) -> None:
    """Nothing is made in it."""
    code, sentence = await _refused(f"sqlite:///{tmp_path}")
    assert code == "is_directory"
    assert "Name a file in it, such as" in sentence
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """Midcourse makes files, not folders that may be a slip of the pen."""
    code, sentence = await _refused(f"sqlite:///{tmp_path}/no/where.db")
    assert code == "folder_missing"
    assert "Make it, or name a file somewhere else" in sentence


async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    """Whatever it is, somebody needs it."""
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Sir,\n" * 200)
    code, sentence = await _refused(f"sqlite:///{letter}")
    assert code == "not_a_store"
    assert "Name another file" in sentence
    assert letter.read_text() == "Dear Sir,\n" * 200


async def test_a_damaged_file_is_not_followed_and_its_backup_goes_on(here: Place) -> None:
    """The sentence says what to restore; the restored file has lost nothing."""
    tool = Tool(holds=True)
    await _paused(here, tool)
    backup = shutil.copy(here.path, here.path.with_suffix(".backup"))
    content = bytearray(here.path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)  # everything but the first page
    here.path.write_bytes(content)
    with pytest.raises(midcourse.Damaged, match=r"[Rr]estore .* from a backup") as refused:
        async with here.open(_agent(tool)) as mc:
            await mc.get("s")
    assert refused.value.code == "damaged"
    shutil.copy(backup, here.path)
    await _goes_on(here, tool)


async def test_a_file_without_permission_is_told_what_to_change_and_goes_on_once_it_is(here: Place) -> None:
    """Root may do everything, so a process of nobody's tries it."""
    tool = Tool(holds=True)
    await _paused(here, tool)
    here.path.chmod(0o400)
    try:
        answer = _opened_by_nobody(here.path) if os.getuid() == 0 else " ".join(await _refused(here.url))
    finally:
        here.path.chmod(0o600)
    assert answer.startswith("no_permission ")
    assert "Change the permissions or the owner, or name another file" in answer
    await _goes_on(here, tool)


def _opened_by_nobody(path: Path) -> str:
    code = (
        "import asyncio, concurrent.futures.thread, os, sys, midcourse, midcourse.bus.local, midcourse.stores.sqlite\n"
        "midcourse.open, midcourse.MidcourseError\n"  # imported on first use, which nobody else may read
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "async def main():\n"
        "    async with midcourse.open(f'sqlite:///{sys.argv[1]}'): pass\n"
        "try: asyncio.run(main())\n"
        "except midcourse.MidcourseError as error: print(error.code, error)\n"
    )
    for parent in path.parents:  # pytest's own folders are root's alone
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    tried = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    return tried.stdout or tried.stderr


async def _set_pages(store: SqliteStore, pages: int) -> None:
    await store.writer.submit(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())


async def test_a_full_disk_stops_a_session_which_goes_on_in_the_same_process_once_there_is_room(here: Place) -> None:
    """A real SQLITE_FULL. What was finished before is not done again; what did not fit is a lost call, done again."""
    first, big, text = Tool(), Tool(), secrets.token_hex(500_000)  # it hardly compresses

    async def agent(run: midcourse.Run) -> int:
        await run.step("first", first.run, "small")
        return len(str(await run.step("big", big.run, text)))

    store = await SqliteStore.open(here.path, _pragmas={"max_page_count": 80})
    one = resumable(agent)
    async with here.open(one, store=store) as mc:
        session = await mc.start(one, session_id="s")
        while (await store.head(session.id)).head.finished_steps < 1 or not big.ended:
            await until(session, "step.finished")
        await _set_pages(store, 1)  # as many as there are
        with pytest.raises(StoreFull, match="Free some space there and try again") as refused:
            await mc.start(one, secrets.token_hex(50_000))
        assert refused.value.code == "store_full"
        await _set_pages(store, 1_000_000)
        assert await session.result() == 1_000_000
        assert (len(first.begun), len(big.begun) >= 2) == (1, True)
        assert types(await history(session)).count("session.failed") == 0


async def test_a_control_on_a_full_disk_is_told_and_works_once_there_is_room(here: Place) -> None:
    """A redirect that could not be written was not taken; the session is as before."""
    tool = Tool(holds=True)
    store = await SqliteStore.open(here.path)
    async with here.open(_agent(tool), store=store) as mc:
        session = await mc.start(_agent(tool), session_id="s")
        await tool.entered.wait()
        await _set_pages(store, 1)
        with pytest.raises(StoreFull):
            await session.redirect(secrets.token_hex(45_000))
        await _set_pages(store, 1_000_000)
        await session.redirect("elsewhere")
        tool.may_end.set()
        assert await session.result() == "x"
        assert [message.text for message in (await session.state()).messages][1:] == ["elsewhere"]
        assert tool.begun == [("x",)]
