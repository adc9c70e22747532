"""LangGraph's own tests that take a checkpointer, on ours, with the counts of its SQLite saver beside them."""

import asyncio
import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

CONFTEST = Path(__file__).with_name("their_conftest.py")
PLUGINS = ("pytest-mock", "syrupy")
LEFT_OUT = ("test_prune_postgres.py", "test_remote_graph.py")
"""They need a Postgres or a server of LangGraph's, and look at no other checkpointer."""
OPTIONS = ("-q", "-p", "no:asyncio", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout", "60")


async def _run(*command: str, at: Path | None = None, **environment: str) -> str:
    """Nothing, or what a command that failed had to say."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        cwd=at,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return "" if process.returncode == 0 else said.decode(errors="replace")


async def _tests_of_langgraph(folder: Path) -> None:
    """Their tests as the package index has them, and what these need to run; skips where it cannot be reached."""
    wanted = f"langgraph=={version('langgraph')}"
    plain = ("--no-binary", ":all:", "--no-build-isolation", "--no-deps", "--dest", str(folder), wanted)
    if await _run("pip", "download", "--quiet", *plain):
        pytest.skip(f"the source of {wanted} cannot be downloaded here")
    if await _run("pip", "install", "--quiet", "--no-deps", "--target", str(folder / "plugins"), *PLUGINS):
        pytest.skip(f"{' and '.join(PLUGINS)} cannot be installed here")
    (packed,) = folder.glob("langgraph-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    (source,) = (one for one in folder.glob("langgraph-*") if one.is_dir())
    for one in LEFT_OUT:
        (source / "tests" / one).unlink(missing_ok=True)
    shutil.copy(CONFTEST, source / "tests" / "conftest.py")
    for saver in ("midcourse", "sqlite"):
        shutil.copytree(source / "tests", folder / saver / "tests")


async def _failed(folder: Path, saver: str, *only: str) -> tuple[int, set[str]]:
    """How many tests ran on a saver, and which of them failed."""
    where = folder / saver
    report = folder / f"{saver}.xml"
    report.unlink(missing_ok=True)
    said = await _run(
        *("pytest", *(only or ("tests",)), *OPTIONS, "--rootdir", str(where), f"--junitxml={report}"),
        at=where,
        SAVER=saver,
        PYTHONPATH=os.pathsep.join([str(where), str(folder / "plugins")]),
    )
    assert report.exists(), said[-4_000:]
    ran = [one for one in ElementTree.parse(report).iter("testcase") if one.find("skipped") is None]
    failed = [one for one in ran if one.find("failure") is not None or one.find("error") is not None]
    return len(ran), {f"{one.attrib['classname'].replace('.', '/')}.py::{one.attrib['name']}" for one in failed}


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
async def test_langgraphs_own_tests_pass_on_our_checkpointer(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Whatever passes on LangGraph's SQLite saver passes on ours. What fails is tried once more: some measure time."""
    await _tests_of_langgraph(tmp_path)
    ran, failed = await _failed(tmp_path, "midcourse")
    if failed:
        _, failed = await _failed(tmp_path, "midcourse", *sorted(failed))
    theirs_ran, theirs_failed = await _failed(tmp_path, "sqlite")
    ours, theirs = f"{ran - len(failed)} of {ran}", f"{theirs_ran - len(theirs_failed)} of {theirs_ran}"
    record_property("told", f"LangGraph's own tests: {ours} pass on our checkpointer, {theirs} on its SQLite saver")
    assert ran == theirs_ran > 600
    assert failed <= theirs_failed
