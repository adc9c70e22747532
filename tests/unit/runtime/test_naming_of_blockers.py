"""The warning about a blocked loop names a user's code, and never an import of ours."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from midcourse.core import codec
from midcourse.runtime import watchdog
from midcourse.runtime.watchdog import _where  # pyright: ignore[reportPrivateUsage]

seen: list[FrameType] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


@pytest.fixture
def slow_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library that looks at the stack while it is imported, as a long import would be found."""
    library = tmp_path / "lib" / "python3" / "site-packages"
    library.mkdir(parents=True)
    (library / "slow_to_load.py").write_text(f"import sys\nsys.modules[{__name__!r}].seen.append(sys._getframe())\n")
    monkeypatch.setattr(sys, "path", [str(library), *sys.path])
    monkeypatch.delitem(sys.modules, "slow_to_load", raising=False)
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules["tests"])
    return "slow_to_load"


def test_an_import_of_ours_is_not_blamed(slow_module: str) -> None:
    ours = compile(f"import {slow_module}", str(Path(watchdog.__file__).parents[1] / "wiring.py"), "exec")
    exec(ours, {})
    assert _where(seen[0]) is None


def test_an_import_of_a_users_code_is_named(slow_module: str) -> None:
    exec(compile(f"import {slow_module}", "/home/ada/agent.py", "exec"), {})
    assert (_where(seen[0]) or "").startswith("/home/ada/agent.py:1")


LOOKS = f"import sys\nsys.modules[{__name__!r}].seen.append(sys._getframe())\n"
CODEC = str(Path(codec.__file__))


def _run(place: str, then: str) -> None:
    exec(compile("exec(then)", place, "exec"), {"then": compile(then, CODEC, "exec")})


@pytest.fixture
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules["tests"])


@pytest.mark.usefixtures("_named")
def test_work_of_ours_is_not_blamed_but_the_users_code_that_wants_it() -> None:
    _run("/home/ada/agent.py", LOOKS)
    assert (_where(seen[0]) or "").startswith("/home/ada/agent.py:1")


@pytest.mark.usefixtures("_named")
async def test_work_of_ours_that_nobody_waits_for_in_the_loop_blames_nobody() -> None:
    """The program that runs the loop stands below it on the stack, and holds nothing."""

    async def ours() -> None:
        exec(compile(LOOKS, CODEC, "exec"), {})

    ours.__code__ = ours.__code__.replace(co_filename=CODEC)
    await asyncio.get_running_loop().create_task(ours())
    assert _where(seen[0]) == ""
