"""Hints are commands to be typed as they stand: they repeat the store or the server that was named."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command

STORE = "sqlite:///named.db"


@pytest.fixture
def named(folder: Path) -> Path:
    """The stories in another place than the usual one."""
    kept = folder / ".midcourse" / "midcourse.db"
    kept.rename(folder / "named.db")
    return folder


def test_a_hint_repeats_the_store_that_was_named(midcourse: Command, named: Path) -> None:
    shown = midcourse("show", "sess_paused", "--store", STORE)
    assert f"midcourse resume --store {STORE} sess_paused" in " ".join(shown.out.split())
    again = midcourse("resume", "--store", STORE, "sess_paused", "--wait", "0")
    assert again.code == 0
    missing = midcourse("show", "sess_nowhere", "--store", STORE)
    assert missing.code == 1
    asked = midcourse("show", "sess_waiting", "--store", STORE).out
    assert f"midcourse answer --store {STORE} sess_waiting" in " ".join(asked.split())


def test_a_hint_of_the_usual_place_repeats_nothing(midcourse: Command) -> None:
    midcourse("show", "sess_paused", "--store", "sqlite:///.midcourse/midcourse.db")
    shown = midcourse("show", "sess_paused").out
    assert "midcourse resume sess_paused" in shown
    assert "--store" not in shown


def test_the_store_may_be_named_by_the_environment(
    midcourse: Command, named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert midcourse("ps").code == 1
    monkeypatch.setenv("MIDCOURSE_STORE", STORE)
    assert "sess_paused" in midcourse("ps").out
    assert "midcourse resume sess_paused" in midcourse("show", "sess_paused").out, "the next command finds it as well"
    assert midcourse("ps", "--url", "http://127.0.0.1:1").code == 1, "what was named wins"


def test_the_operators_token_is_never_beside_the_users_database(
    midcourse: Command, named: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from midcourse.cli.serve import _folder_of  # pyright: ignore[reportPrivateUsage]
    from midcourse.cli.target import Target, server_folder, token_file
    from midcourse.server.launcher import token_of

    elsewhere = tmp_path_factory.mktemp("data")
    for place in (named / "data", elsewhere):
        place.mkdir(exist_ok=True)
        token_of(_folder_of(f"sqlite:///{place}/runs.db"), None)
        assert list(place.iterdir()) == [], "nothing beside it"
    token_of(_folder_of(STORE), None)
    assert token_file(Target(store=STORE)) == Path(".midcourse/named.db/token")
    assert token_file(Target(store=STORE)).is_file()
    assert (named / ".midcourse").stat().st_mode & 0o077 == 0
    assert server_folder("sqlite:///.midcourse/midcourse.db") == Path(".midcourse")
    assert server_folder("sqlite:///data/runs.db") == Path(".midcourse/data/runs.db")
    assert server_folder(f"sqlite:///{named}/data/runs.db") == Path(".midcourse/data/runs.db"), "the same file"
    assert server_folder("sqlite:////srv/runs.db") == Path(".midcourse/srv/runs.db")


def test_the_options_of_one_command_stand_in_no_hint_of_the_next(midcourse: Command, tmp_path: Path) -> None:
    midcourse("report", "show", "--store", f"sqlite:///{tmp_path}/nowhere.db")
    told = midcourse("policy", "backtest", "--policy", "nobody", str(tmp_path))
    assert "midcourse policy show NAME > NAME.yaml" in told.err
