"""An agent edits, creates, moves and deletes 47 files of a real git repository, and a person changes their mind."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

import midcourse
from midcourse.tools import Files, files_in
from tests.promises.harness import Place, resumable, until

FILES = 47
FINISHED = 40
"""Changes that are made before the agent waits, with one more in flight."""


def git(repository: Path, *arguments: str) -> str:
    """What git says."""
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True, env=quiet)
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """47 committed files: texts, binaries, scripts that can be run, links."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    for number in range(FILES):
        path = root / f"part{number % 5}" / f"file{number}"
        path.parent.mkdir(exist_ok=True)
        match number % 4:
            case 0:
                path.write_bytes(bytes(range(256)) * (number + 1))
            case 1:
                path.write_text(f"#!/bin/sh\necho {number}\n")
                path.chmod(0o755)
            case 2:
                path.symlink_to(f"file{number - 1}")
            case _:
                path.write_text(f"line one of {number}\nline two\n")
    git(root, "add", "--all")
    git(root, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "as it was")
    return root


def status(repository: Path) -> list[str]:
    """What is different from the commit, one line each; nothing if nothing is."""
    return git(repository, "status", "--porcelain", "--untracked-files=all").splitlines()


async def change(run: midcourse.Run, files: Files, number: int) -> None:
    """One change: which kind depends on the file."""
    path = f"part{number % 5}/file{number}"
    match number % 4:
        case 0:
            await run.step(f"move {number}", files.move, path, f"moved/{number}/file")
        case 1:
            await run.step(f"edit {number}", files.edit, path, "echo", "printf")
        case 2:
            await run.step(f"delete {number}", files.delete, path)
        case _:
            await run.step(f"write {number}", files.write, path, f"new content of {number}")
            await run.step(f"create {number}", files.write, f"new/{number}/note", "a note")


@pytest.fixture
def files(repository: Path, tmp_path: Path) -> Files:
    """The tools, which cannot leave the repository."""
    return files_in(str(repository), backups=str(tmp_path / "backups"))


def changes_them(files: Files, waits: asyncio.Event) -> midcourse.Agent[str]:
    """An agent that waits after most of its changes, if it is to be interrupted."""

    async def changes(run: midcourse.Run) -> str:
        for number in range(FILES):
            if number == FINISHED and not waits.is_set():
                await run.ask("go on?")
            await change(run, files, number)
        return "changed"

    return resumable(changes, name="changes")


async def test_cancel_with_undo_all_leaves_git_status_clean(place: Place, repository: Path, files: Files) -> None:
    async with place.open(agent := changes_them(files, asyncio.Event())) as mc:
        session = await mc.start(agent)
        await until(session, "ask.opened")
        assert len(status(repository)) >= FINISHED

        preview = await session.preview()
        reply = await session.cancel(undo="all", until="stopped", wait=30)

        assert reply.level == "stopped"
        assert status(repository) == []
        receipt = await session.receipt()
        assert {line.outcome for line in receipt.lines} == {"undone"}
        assert [line.outcome for line in preview["all"].lines] == [line.outcome for line in receipt.lines]


async def test_cancel_keeps_finished_changes_and_says_so(place: Place, repository: Path, files: Files) -> None:
    async with place.open(agent := changes_them(files, asyncio.Event())) as mc:
        session = await mc.start(agent)
        await until(session, "ask.opened")
        before = status(repository)

        await session.cancel(until="stopped", wait=30)

        assert status(repository) == before
        assert before
        receipt = await session.receipt()
        assert {line.outcome for line in receipt.lines} == {"kept"}
        assert receipt.final


async def test_undo_works_after_the_session_has_completed(place: Place, repository: Path, files: Files) -> None:
    waits = asyncio.Event()
    waits.set()
    async with place.open(agent := changes_them(files, waits)) as mc:
        session = await mc.start(agent)
        assert await session.result() == "changed"
        assert len(status(repository)) >= FILES

        receipt = await session.undo()

        assert status(repository) == []
        assert receipt.final
        assert {line.outcome for line in receipt.lines} == {"undone"}
        assert await session.status() == "completed"
