"""Whether all is well here, and what to do where it is not."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from midcourse.cli.doctor import EXTRAS
from tests.cli.conftest import Command


def checks(midcourse: Command, *options: str, **env: str) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in midcourse("doctor", "--json", *options, env=env).json()["checks"]}


def test_all_is_well_and_it_says_so(midcourse: Command) -> None:
    done = midcourse("doctor")
    assert done.code == 0
    assert all(line[:4].strip() in ("ok", "warn", "") for line in done.out.splitlines())
    found = checks(midcourse)
    here = {"Python", "SQLite", "disk", "folder", "server", "extras", "drift", "risk", "console", "terminal"}
    assert here | {"store", "file", "workers", "audit", "driven", "clock", "shelves"} == set(found)
    assert "survives a power failure" in found["store"]["detail"]


def test_a_store_that_cannot_be_opened_fails(midcourse: Command, folder: Path) -> None:
    (folder / "text.db").write_text("no database at all, but long enough to be looked at. " * 40)
    for name in ("text.db", "nowhere.db"):
        done = midcourse("doctor", "--store", f"sqlite:///{name}")
        assert done.code == 1
        assert "fail" in done.out
    assert not (folder / "nowhere.db").exists()


def test_no_store_yet_is_nothing_bad(midcourse: Command, folder: Path) -> None:
    shutil.rmtree(folder / ".midcourse")
    assert checks(midcourse)["store"]["status"] == "ok"
    assert not (folder / ".midcourse").exists()


def test_the_token_is_that_of_the_store_that_is_named(midcourse: Command, folder: Path) -> None:
    other = folder / "other"
    other.mkdir(mode=0o755)
    shutil.copy(folder / ".midcourse" / "midcourse.db", other / "runs.db")
    (folder / ".midcourse" / "token").write_text("mct_0123456789abcdef")
    (folder / ".midcourse" / "token").chmod(0o644)
    named = ("doctor", "--store", "sqlite:///other/runs.db")
    assert (midcourse(*named).code, ".midcourse" in midcourse(*named).out) == (0, False)
    kept = folder / ".midcourse" / "other" / "runs.db"
    kept.mkdir(mode=0o700, parents=True)
    (kept / "token").write_text("mct_0123456789abcdef")
    (kept / "token").chmod(0o644)
    done = midcourse(*named)
    assert (done.code, "chmod 600 .midcourse/other/runs.db/token" in done.out) == (1, True)


def test_a_token_that_others_can_read_fails(midcourse: Command, folder: Path) -> None:
    token = folder / ".midcourse" / "token"
    token.write_text("mct_0123456789abcdef")
    token.chmod(0o644)
    done = midcourse("doctor")
    assert done.code == 1
    assert "chmod 600 .midcourse/token" in done.out
    assert "mct_" not in done.out
    (folder / ".midcourse").chmod(0o755)
    assert checks(midcourse)["folder"]["status"] == "warn"


@pytest.mark.parametrize(("free", "status"), [(50 * 2**20, "fail"), (500 * 2**20, "warn"), (5 * 2**30, "ok")])
def test_a_full_disk_is_noticed(midcourse: Command, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:

    def usage(_: object) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert checks(midcourse)["disk"]["status"] == status


def test_a_server_that_was_named_and_does_not_answer_fails(midcourse: Command) -> None:
    done = midcourse("doctor", "--url", "http://127.0.0.1:9")
    assert done.code == 1
    assert "midcourse serve" in done.out


def test_a_redis_that_is_configured_is_tried(midcourse: Command) -> None:
    found = checks(midcourse, MIDCOURSE_REDIS_URL="redis://user:hunter2@127.0.0.1:9/0")
    assert found["Redis"]["status"] == "fail"
    assert "hunter2" not in str(found)


def test_extras_are_those_of_the_package(midcourse: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(EXTRAS) == set(project["project"]["optional-dependencies"]) - {"all"}
    monkeypatch.setitem(sys.modules, "langgraph", None)
    assert "pip install" in str(checks(midcourse)["extras"])
