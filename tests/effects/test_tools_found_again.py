"""An undo finds its tool wherever its agent is, and waits for it where no process has it."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.runtime import tools as registry
from midcourse.runtime.tools import NOT_MOVED, AgentPlace, declared_tool, find_tool, known_tool, register
from midcourse.server.agent_loader import load_agents_of
from tests.examples.demo_server import served
from tests.promises.harness import Place, history, resumable, until, until_status, until_true

JOB = textwrap.dedent(
    """
    import asyncio, os, sys
    from pathlib import Path

    import midcourse

    def unmake(arguments, result, key):
        Path(arguments["path"]).unlink(missing_ok=True)

    @midcourse.tool(effect="write", undo=unmake, local=True)
    async def make(path: str) -> None:
        Path(path).write_text("made")
        print("made", flush=True)
        await asyncio.sleep(3600)

    @midcourse.agent
    async def maker(run: midcourse.Run) -> None:
        await run.step("make", make, run.goal)

    async def main() -> None:
        async with midcourse.open("sqlite:///sessions.db", durability="process") as mc:
            await mc.start(maker, os.path.abspath("made.txt"), session_id="s")
            await asyncio.sleep(3600)

    if __name__ == "__main__":
        asyncio.run(main())
    """
)


@pytest.fixture
def killed_job(tmp_path: Path) -> Path:
    """A folder with job.py, which was run as a program and killed while it made something."""
    (tmp_path / "job.py").write_text(JOB)
    process = subprocess.Popen([sys.executable, "job.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "made\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "made.txt").exists()
    return tmp_path


CANCEL = """
import asyncio, midcourse
async def main():
    async with midcourse.open("sqlite:///sessions.db", durability="process") as mc:
        session = await mc.get("s")
        await session.cancel(undo="all", until="stopped", wait=20)
        print(await session.status(), [line.outcome for line in (await session.receipt()).lines])
asyncio.run(main())
"""


@pytest.mark.parametrize("by", ["import job", "import pkg.job"])
def test_what_a_program_made_is_undone_by_a_process_that_imports_it(killed_job: Path, by: str) -> None:
    """``python job.py`` calls its module ``__main__``; another process calls it ``job``, or ``pkg.job``."""
    if "pkg" in by:
        (killed_job / "pkg").mkdir()
        (killed_job / "job.py").rename(killed_job / "pkg" / "job.py")
    done = subprocess.run(
        [sys.executable, "-c", by + CANCEL], cwd=killed_job, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "cancelled ['undone']\n", done.stderr
    assert not (killed_job / "made.txt").exists()


async def test_what_a_program_made_is_undone_by_a_server_that_serves_its_file(killed_job: Path) -> None:
    """``serve --agents job.py`` takes it over: the lost call is undone and done again, and then undone for good."""
    with served(killed_job, "--agents", "job.py", "--store", "sqlite:///sessions.db"):
        async with Place("sqlite", killed_job).open(drive=False) as mc:
            session = await mc.get("s")
            await until(session, "step.begun", times=2)
            reply = await session.cancel(undo="all", grace=0, until="stopped", wait=60)
            assert (reply.level, reply.status) == ("stopped", "cancelled")
            assert {line.outcome for line in (await session.receipt()).lines} == {"undone"}
    assert not (killed_job / "made.txt").exists()
    said = (killed_job / "serve.log").read_text(encoding="utf-8")
    assert "takes over what no process drove: s (maker, running)" in said


# ---- how a tool is found


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An empty registry of tools."""
    tools: dict[str, Any] = {}
    monkeypatch.setattr(registry, "_registered", tools)
    return tools


def _tool(origin: str, **declared: Any) -> Any:
    async def body() -> None: ...

    made = declared_tool(body, name="make", origin=origin, **declared)
    register(made)
    return made


def test_a_tool_beside_its_agent_is_found_where_the_agent_is_now(known: dict[str, Any]) -> None:
    own, other = _tool("job:make"), _tool("__main__:make")
    moved = AgentPlace("__main__:maker", "job:maker")
    assert find_tool("__main__:make", moved) is own, "the main module of this process is another program"
    assert find_tool("__main__:make") is other
    assert known_tool("__main__:gone", moved) is None


def test_a_tool_is_found_by_the_end_of_its_import_path_if_only_one_has_it(known: dict[str, Any]) -> None:
    made = _tool("shop.tools:make")
    assert find_tool("tools:make") is made
    assert known_tool("ools:make") is None
    assert known_tool("stock.tools:make") is None, "that is another module"
    register(_tool("stock.tools:make"))
    assert known_tool("tools:make") is None, "either may be meant"


def test_a_module_that_ends_the_program_when_it_is_imported_has_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without ``if __name__ == "__main__"``: its import fails, and this program continues."""
    (tmp_path / "leaving_script.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.raises(midcourse.MidcourseError, match="'leaving_script:make' is not here .SystemExit: 3"):
        find_tool("leaving_script:make")
    with pytest.raises(midcourse.InvalidInput, match="'leaving_script' cannot be imported: SystemExit: 3"):
        load_agents_of(["leaving_script"])


def test_a_program_is_not_run_a_second_time_to_find_what_it_defines(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(
        "print('runs')\nfrom midcourse.runtime.tools import find_tool, origin_of\ndef free(): ...\n"
        "assert origin_of(free) == 'page:free'\nassert find_tool('page:free').function is free\n"
    )
    run = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("runs\n", "")


def test_what_no_file_defines_keeps_the_name_of_the_main_module() -> None:
    code = "import midcourse\n@midcourse.tool\ndef f(): ...\n@midcourse.agent\nasync def g(run): ...\n"
    code += "print(f.origin, g.origin)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["__main__:f", "__main__:g"], "no file: nothing else is known"


# ---- while no process has it


async def _lost(place: Place, origin: str, undone: list[str]) -> midcourse.Agent[None]:
    """A session that is cancelled with all it did, while no process drives it."""

    def undo(arguments: Any, _result: Any, _key: str) -> None:
        undone.append(arguments["name"])

    async def body(name: str) -> None: ...

    made = declared_tool(body, name="make", origin=origin, effect="write", undo=undo, local=True)
    register(made)

    async def agent(run: midcourse.Run) -> None:
        await run.step("make", made, "a")
        await run.ask("More?")

    maker = resumable(agent, name="maker")
    async with place.open(maker, grace=0) as mc:
        session = await mc.start(maker, session_id="s")
        await until_status(session, "waiting")
    async with place.open(drive=False) as mc:
        await (await mc.get("s")).cancel(undo="all", until="decided")
    return maker


async def test_a_cancel_waits_for_its_tool_says_which_and_continues_when_it_comes(
    place: Place, known: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    undone: list[str] = []
    maker = await _lost(place, "nowhere_at_all:make", undone)
    made = known.pop("nowhere_at_all:make")
    caplog.set_level(logging.WARNING, "midcourse")
    async with place.open(maker) as mc:
        session = await mc.get("s")
        await until(session, "tools.needed")
        assert "nowhere_at_all:make" in caplog.text
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(lambda: not worker.drivers())
        before = await history(session)
        for _ in range(3):
            await worker.sweeper.sweep()  # nothing is written while nothing has changed
        state = await session.state()
        assert (state.status, state.needs) == ("cancelling", ("nowhere_at_all:make",))
        assert len(await history(session)) == len(before)
        assert not any(isinstance(one.event, ev.UndoBegun) for one in before)
        assert undone == []
        register(made)
        await until_status(session, "cancelled")
        assert undone == ["a"]
        assert [line.outcome for line in (await session.receipt()).lines] == ["undone"]
        assert (await session.state()).needs == ()


async def test_an_operator_may_give_up_what_only_a_missing_tool_undoes(place: Place, known: dict[str, Any]) -> None:
    maker = await _lost(place, "nowhere_at_all:make", [])
    known.clear()
    async with place.open(maker) as mc:
        session = await mc.get("s")
        await until(session, "tools.needed")
        await session.cancel(force=True, until="stopped")
        (line,) = (await session.receipt()).lines
        assert line.outcome == "undo failed"
        assert "nowhere_at_all:make" in line.detail
        assert await session.status() == "cancelled"


async def _ended_without_its_tool(
    place: Place, known: dict[str, Any], undone: list[str], *, spawns: bool = False
) -> tuple[list[midcourse.Agent[Any]], Any]:
    """A session that has completed, whose only effect needs a tool to be undone that is gone since."""

    def undo(arguments: Any, _result: Any, _key: str) -> None:
        undone.append(arguments["name"])

    async def body(name: str) -> None: ...

    made = declared_tool(body, name="make", origin="nowhere_at_all:make", effect="write", undo=undo, local=True)
    register(made)

    async def makes(run: midcourse.Run) -> None:
        await run.step("make", made, "a")

    maker = resumable(makes, name="maker")

    async def asks_for_it(run: midcourse.Run) -> None:
        await run.spawn(maker, "make it")
        await run.step("notes", noted, "b")

    noted = declared_tool(body, name="note", origin="here:note", effect="write", undo=undo, local=True)
    register(noted)
    parent = resumable(asks_for_it, name="parent")
    async with place.open(maker, parent) as mc:
        await (await mc.start(parent if spawns else maker, session_id="s")).result()
    return [maker, parent], known.pop("nowhere_at_all:make")


@pytest.mark.parametrize("spawns", [False, True], ids=["its own", "a child's"])
async def test_an_undo_of_an_ended_session_waits_for_its_tool_and_says_which(
    place: Place, known: dict[str, Any], *, spawns: bool
) -> None:
    undone: list[str] = []
    agents, made = await _ended_without_its_tool(place, known, undone, spawns=spawns)
    async with place.open(*agents) as mc:
        session = await mc.get("s")
        receipt = await session.undo(wait=30)
        assert not receipt.final
        state = await session.state()
        assert (state.status, state.needs) == ("completed", ("nowhere_at_all:make",))
        assert undone == [], "children before their parent"
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(lambda: not worker.drivers())
        before = len(await history(session))
        for _ in range(3):
            await worker.sweeper.sweep()  # nothing is written while nothing has changed
        assert len(await history(session)) == before
        register(made)
        await until(session, "undo.finished")
        assert undone == (["a", "b"] if spawns else ["a"])
        receipt = await session.receipt()
        assert receipt.final
        assert {line.outcome for line in receipt.lines if line.effect != "child"} == {"undone"}
        assert (await session.state()).needs == ()


@pytest.mark.parametrize("spawns", [False, True], ids=["its own", "a child's"])
async def test_an_operator_may_give_up_an_undo_that_waits_for_a_tool(
    place: Place, known: dict[str, Any], *, spawns: bool
) -> None:
    agents, _ = await _ended_without_its_tool(place, known, [], spawns=spawns)
    async with place.open(*agents) as mc:
        session = await mc.get("s")
        await session.undo(wait=30)
        await session.cancel(undo="all")  # without force it changes nothing
        assert (await session.state()).needs
        await session.cancel(force=True)
        await until(session, "undo.finished")
        made = await mc.get(next(one.id for one in await mc.list() if one.parent)) if spawns else session
        (line,) = (await made.receipt()).lines
        assert line.outcome == "undo failed"
        assert "nowhere_at_all:make" in line.detail
        assert await session.status() == "completed"


def test_nothing_moved_is_the_default() -> None:
    assert NOT_MOVED.of("job:make") == ""
    assert AgentPlace("job:a", "job:b").of("job:make") == ""
    assert AgentPlace("job:a", "new.job:a").of("lib:make") == ""
    assert AgentPlace("job:a", "new.job:a").of("job:make") == "new.job:make"


@pytest.fixture(autouse=True)
def _own_path() -> Generator[None]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(midcourse.__file__).parents[1])
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
