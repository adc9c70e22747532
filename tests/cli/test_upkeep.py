"""erase, compact, backup, restore and lift, as a person types them."""

from pathlib import Path

from tests.cli.conftest import Command


def of_status(midcourse: Command, status: str) -> str:
    return next(one["id"] for one in midcourse("ps", "--all", "--json").json()["sessions"] if one["status"] == status)


def test_a_session_is_erased_and_the_store_compacted(midcourse: Command) -> None:
    name = of_status(midcourse, "completed")
    asked = midcourse("session", "erase", name)
    assert asked.code == 1
    assert "--yes" in asked.err
    done = midcourse("session", "erase", name, "--yes", "--reason", "asked for")
    assert done.code == 0, done.err
    assert "midcourse store compact" in done.out
    assert "erased" in midcourse("show", name).out
    assert "left in it" in midcourse("store", "compact").out


def test_what_is_old_enough_is_erased_at_once(midcourse: Command) -> None:
    assert "No session ended" in midcourse("session", "erase", "--older-than", "365d", "--yes").out
    erased = midcourse("session", "erase", "--older-than", "0s", "--yes", "--json").json()["erased"]
    ended = [one for one in midcourse("ps", "--all", "--json").json()["sessions"] if one["id"] in erased]
    assert {one["status"] for one in ended} <= {"completed", "cancelled", "failed"}
    assert {one["goal"] for one in ended} == {"erased"}


def test_one_that_has_not_ended_is_refused(midcourse: Command) -> None:
    refused = midcourse("session", "erase", of_status(midcourse, "waiting"), "--yes")
    assert refused.code == 1
    assert "Cancel it first" in refused.err


def test_a_session_or_an_age_is_named(midcourse: Command) -> None:
    assert midcourse("session", "erase", "--yes").code == 2
    assert midcourse("session", "erase", "x", "--older-than", "1d", "--yes").code == 2
    assert midcourse("session", "erase", "--older-than", "soon", "--yes").code == 2


def test_a_backup_is_made_and_restored(midcourse: Command, folder: Path) -> None:
    made = midcourse("store", "backup", "b.db")
    assert made.code == 0, made.err
    assert "checked" in made.out
    assert midcourse("store", "backup", "b.db").code == 1
    done = midcourse("store", "restore", "b.db", "--into", "again", "--json")
    assert done.code == 0, done.err
    store = done.json()["store"]
    assert store == "again/midcourse.db"
    halted = done.json()["halted"]
    there = ("--store", f"sqlite:///{store}")
    assert {one["status"] for one in midcourse("ps", "--json", *there).json()["sessions"]} == {"halted"}
    assert midcourse("doctor", "--deep", *there).code == 0
    lifted = midcourse("session", "lift", halted[0], *there)
    assert lifted.code == 0, lifted.err
    assert "halted" not in lifted.out
    assert (folder / "b.db").stat().st_mode & 0o077 == 0
