"""Building the package: it carries the built console, and installs nothing on the machine."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.examples.expected import ROOT

NEEDED = ("bash", "dirname", "env", "id", "cat", "git")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a build needs of a clone, in which no console was built."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, clone / name)
    shutil.copytree(ROOT / "scripts", clone / "scripts")
    (clone / "console").mkdir()
    shutil.copy(ROOT / "console" / "package.json", clone / "console" / "package.json")
    package = clone / "src" / "midcourse"
    package.mkdir(parents=True)
    for name in ("__init__.py", "_version.py"):
        shutil.copy(ROOT / "src" / "midcourse" / name, package / name)
    return clone


def _build(clone: Path, kind: str) -> tuple[Path, str]:
    """Build it on a machine without Node, where apt-get leaves a trace."""
    tools = clone.parent / "bin"
    tools.mkdir(exist_ok=True)
    for name in NEEDED:
        found = shutil.which(name)
        if found and not (tools / name).exists():
            (tools / name).symlink_to(found)
    apt = tools / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >>{clone.parent}/apt.txt\nexit 1\n')
    apt.chmod(0o755)
    code = f"from hatchling import build; print(build.build_{kind}('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=clone,
        env={**os.environ, "PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (clone.parent / "apt.txt").exists(), "a build installs nothing"
    return clone / "dist" / done.stdout.splitlines()[-1], done.stderr


def test_a_clone_without_node_is_built_without_the_console_and_says_so(clone: Path) -> None:
    wheel, said = _build(clone, "wheel")
    with zipfile.ZipFile(wheel) as packed:
        assert not [name for name in packed.namelist() if "/console/" in name]
    assert "without its console" in said
    assert "Node.js 20" in said


def test_the_sdist_and_the_wheel_carry_the_built_console(clone: Path) -> None:
    built = clone / "src" / "midcourse" / "console"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<!doctype html>")
    (built / "assets" / "app.js").write_text("1")
    wheel, said = _build(clone, "wheel")
    assert said == ""
    with zipfile.ZipFile(wheel) as packed:
        assert {"midcourse/console/index.html", "midcourse/console/assets/app.js"} <= set(packed.namelist())
    sdist, _ = _build(clone, "sdist")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(clone.parent / "unpacked", filter="data")
    assert {"src/midcourse/console/index.html", "src/midcourse/console/assets/app.js", "hatch_build.py"} <= names
    (unpacked,) = (clone.parent / "unpacked").iterdir()
    again, _ = _build(unpacked, "wheel")
    with zipfile.ZipFile(again) as packed:
        assert "midcourse/console/index.html" in packed.namelist()


def test_the_demo_installs_what_running_needs_from_a_lock_of_its_own() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lock = (ROOT / "requirements" / "demo.txt").read_text(encoding="utf-8")
    assert "--output-file requirements/demo.txt" in makefile
    locked = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    assert {"fastapi", "pydantic-ai-slim", "uvicorn"} <= locked
    assert not {"pytest", "langgraph", "playwright", "matplotlib", "schemathesis"} & locked
    assert lock.count("--hash=sha256:") >= len(locked)
    developing = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    for line in lock.splitlines():
        if "==" in line:
            assert line.split()[0] in developing, "what the demo runs is what the tests run"


def test_the_demo_takes_a_port() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo", "PORT=9123"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "scripts/demo.py --port 9123" in done.stdout
    assert "requirements/dev.txt" not in done.stdout
