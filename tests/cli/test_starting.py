"""``midcourse start``: on a server that is named, on the one that runs here, and where there is none."""

import os
from pathlib import Path

import pytest

from midcourse.handle.http.server_record import Whereabouts, write_down
from tests.cli.conftest import Command
from tests.cli.test_servers import TOKEN, keep_token


def test_a_session_is_started_on_a_server_with_what_was_said_of_it(
    midcourse: Command, server: str, folder: Path
) -> None:
    keep_token(folder)
    there = ("--url", server)
    terms = ("--label", "night", "--label", "cheap", "--class", "short", "--budget", "2.5")
    done = midcourse("start", "served-asker", "count", "--session", "sess_mine", *terms, *there)
    assert done.code == 0, done.err
    assert (done.out, done.err) == ("sess_mine\n", ""), "id=$(midcourse start …) takes it as it is"
    found = midcourse("show", "sess_mine", "--json", *there).json()
    assert (found["agent"], found["goal"]) == ("served-asker", "count")
    assert found["terms"]["labels"] == ["night", "cheap"]
    assert (found["terms"]["task_class"], found["terms"]["budget"]) == ("short", 2.5)
    again = midcourse("start", "served-asker", "count", "--session", "sess_mine", *there)
    assert (again.code, again.out) == (1, "")


def test_who_follows_sees_it_to_its_end(midcourse: Command, server: str, folder: Path) -> None:
    keep_token(folder)
    done = midcourse("start", "served-ticker", "2", "--follow", "--url", server)
    assert done.code == 0, done.err
    started, first, *_, last = done.out.splitlines()
    assert started.startswith("sess_")
    assert "session.created" in first
    assert "session.completed" in last
    told = midcourse("start", "served-ticker", "2", "--json", "--url", server).json()
    assert told["agent"] == "served-ticker"
    assert told["id"].startswith("sess_")


def test_the_server_that_runs_here_is_found_and_of_another_file_none_is(
    midcourse: Command, server: str, folder: Path
) -> None:
    keep_token(folder)
    write_down(folder / ".midcourse", Whereabouts(server, os.getpid()))
    assert midcourse("start", "served-ticker", "2", "--session", "sess_here").code == 0
    assert "sess_here" in midcourse("ps", "--all", "--url", server).out
    other = midcourse("start", "served-ticker", "2", "--store", "sqlite:///other.db")
    assert other.code == 1
    assert "No server runs for sqlite:///other.db" in other.err


def test_a_store_that_is_named_has_its_own_server_and_answers_for_no_other(
    midcourse: Command, server: str, folder: Path
) -> None:
    """A server keeps its place by its store; one of a store in memory is not taken for that of the usual file."""
    (folder / ".midcourse" / "runs.db").mkdir()
    write_down(folder / ".midcourse" / "runs.db", Whereabouts(server, os.getpid(), store="sqlite:///runs.db"))
    (folder / ".midcourse" / "runs.db" / "token").write_text(TOKEN)
    assert "served-ticker" in midcourse("agent", "list", "--store", "sqlite:///runs.db").out
    assert midcourse("start", "served-ticker", "2", "--store", "sqlite:///runs.db").code == 0
    write_down(folder / ".midcourse", Whereabouts(server, os.getpid(), store="memory://"))
    keep_token(folder)
    assert "served-ticker" in midcourse("agent", "list", "--store", "memory://").out
    usual = midcourse("agent", "list")
    assert (usual.code, usual.out) == (1, "")
    assert "Servers run here with --store memory://, --store sqlite:///runs.db." in usual.err


@pytest.mark.parametrize("command", [("browser", "list"), ("token", "list"), ("token", "revoke", "ada")], ids=" ".join)
def test_a_store_that_is_not_there_has_no_tokens_and_is_not_made(
    midcourse: Command, folder: Path, command: tuple[str, ...]
) -> None:
    (folder / ".midcourse" / "midcourse.db").unlink()
    (folder / ".midcourse" / "runs.db").mkdir()
    write_down(
        folder / ".midcourse" / "runs.db", Whereabouts("http://127.0.0.1:1", os.getpid(), store="sqlite:///runs.db")
    )
    done = midcourse(*command)
    assert done.code == 1
    assert "There is no store at .midcourse/midcourse.db" in done.err
    assert "Servers run here with --store sqlite:///runs.db." in done.err
    assert not (folder / ".midcourse" / "midcourse.db").exists()
    in_memory = midcourse(*command, "--store", "memory://")
    assert (in_memory.code, "belongs to one program" in in_memory.err) == (1, True)


def test_the_agents_of_a_server_are_listed_with_what_to_ask_of_them(
    midcourse: Command, server: str, folder: Path
) -> None:
    keep_token(folder)
    done = midcourse("agent", "list", "--url", server)
    assert done.code == 0, done.err
    assert "served-asker  Asks, and returns what it is told.\n" in done.out
    assert f"  midcourse start --url {server} served-asker 'Which of the two?'\n" in done.out
    known = {one["name"]: one for one in midcourse("agent", "list", "--json", "--url", server).json()["agents"]}
    assert known["served-asker"]["goals"] == ["Which of the two?"]
    assert known["served-ticker"]["goals"] == []
    nowhere = midcourse("agent", "list", "--json")
    assert '"code":"server_not_running"' in nowhere.err


def test_without_a_server_it_says_how_a_session_is_started(midcourse: Command) -> None:
    done = midcourse("start", "served-ticker", "2", "--json")
    assert (done.code, done.out) == (1, "")
    assert '"code":"server_not_running"' in done.err
    assert "midcourse serve --agents FILE" in done.err


@pytest.mark.parametrize(("theirs", "ours"), [("run", "start"), ("logs", "events"), ("strat", "start")])
def test_a_command_that_is_called_otherwise_here_is_told(midcourse: Command, theirs: str, ours: str) -> None:
    done = midcourse(theirs, "x")
    assert done.code == 2
    assert f"No such command '{theirs}'. Did you mean '{ours}'" in done.err
