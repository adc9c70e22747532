"""The same commands over a server, and the token that is found without being asked for."""

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.client.live_server import TOKEN


def keep_token(folder: Path) -> None:
    kept = folder / ".midcourse" / "token"
    kept.write_text(f"{TOKEN}\n")
    kept.chmod(0o600)


def test_every_command_works_over_a_server(midcourse: Command, server: str, folder: Path) -> None:
    keep_token(folder)
    there = ("--url", server)
    assert "sess_paused" in midcourse("ps", *there).out
    assert [one["id"] for one in midcourse("ps", "--search", "MÄRZ", "--json", *there).json()["sessions"]] == [
        "sess_waiting"
    ]
    assert midcourse("show", "sess_don", "--json", *there).json()["result"] == {"goal": "do it", "rows": [1, None]}
    assert "Receipt:" in midcourse("show", "sess_cancelled", *there).out
    assert "ask.opened" in midcourse("events", "sess_waiting", *there).out
    assert "ask_1" in midcourse("answer", "sess_two", "x", *there).err
    assert midcourse("answer", "sess_two", "--ask", "ask_1", "x", *there).code == 0
    assert "nothing runs" in midcourse("pause", "sess_waiting", *there).out
    assert midcourse("redirect", "sess_waiting", "only March", "--level", "step", *there).code == 0
    assert "What it would come to" in midcourse("cancel", "sess_written", "--preview", *there).out
    assert "the session is cancelled" in midcourse("cancel", "sess_written", *there).out
    refused = midcourse("pause", "sess_done", *there)
    assert (refused.code, refused.out) == (1, "")
    assert "Allowed now" in refused.err
    assert midcourse("show", "sess_paused", "--at", "2", *there).code == 0


def test_where_the_token_comes_from(midcourse: Command, server: str, folder: Path) -> None:
    refused = midcourse("ps", "--url", server)
    assert refused.code == 1
    assert "token" in refused.err.lower()
    assert midcourse("ps", "--url", server, "--token", TOKEN).code == 0
    assert midcourse("ps", "--url", server, env={"MIDCOURSE_TOKEN": TOKEN}).code == 0
    assert midcourse("ps", env={"MIDCOURSE_URL": server, "MIDCOURSE_TOKEN": TOKEN}).code == 0
    keep_token(folder)
    assert midcourse("ps", "--url", server).code == 0
    wrong = midcourse("ps", "--url", server, "--token", "mct_wrong-0123456789")
    assert wrong.code == 1
    assert "mct_wrong" not in wrong.err
    assert "does not accept this token: it is unknown, revoked or expired" in wrong.err
    assert "Give another one with --token" in wrong.err
    assert midcourse("ps", "--store", "sqlite:///served.db", env={"MIDCOURSE_URL": "http://127.0.0.1:9"}).code == 0


def test_the_kept_token_is_sent_to_no_other_machine(folder: Path) -> None:
    from midcourse.cli.target import Target, token_for

    keep_token(folder)
    assert token_for(Target(), "http://127.0.0.1:8420") == TOKEN
    assert token_for(Target(), "http://localhost:8420") == TOKEN
    assert token_for(Target(), "http://[::1]:8420") == TOKEN
    assert token_for(Target(), "https://agents.example.org") is None
    assert token_for(Target(), "http://127.0.0.1.example.org") is None
    assert TOKEN not in repr(Target(token=TOKEN))


def test_doctor_finds_the_server(midcourse: Command, server: str, folder: Path) -> None:
    denied = midcourse("doctor", "--url", server, "--json")
    assert denied.code == 1
    keep_token(folder)
    found = {one["name"]: one for one in midcourse("doctor", "--url", server, "--json").json()["checks"]}
    assert found["server"]["status"] == "ok"
    assert found["token"]["status"] == "ok"


def test_what_a_server_does_not_know_is_told_in_the_words_of_the_terminal(
    midcourse: Command, server: str, folder: Path
) -> None:
    keep_token(folder)
    unknown = midcourse("show", "sess_nope", "--url", server)
    assert unknown.code == 1
    assert (
        unknown.err
        == f"There is no session 'sess_nope' at {server}. List them with: midcourse ps --url {server} --all\n"
    )
    (folder / "bad.yaml").write_text("policy: mine\nextends: nobody\nsignals:\n  loopz: {warn: 1}\n")
    (folder / "base.yaml").write_text("policy: mine\nextends: nobody\n")
    here, there = (midcourse("policy", "check", "bad.yaml", *where) for where in ((), ("--url", server)))
    assert (there.code, there.err) == (1, here.err)
    assert "bad.yaml, line 2: " in there.err
    assert "bad.yaml, line 4: " in there.err
    for wish in (("check", "base.yaml"), ("save", "base.yaml", "--why", "x"), ("show", "base.yaml")):
        assert midcourse("policy", *wish, "--url", server).err.startswith("base.yaml, line 2: there is no policy")


def test_who_reviews_a_server_is_told_when_it_reviews_and_how_to_do_it_now(
    midcourse: Command, server: str, folder: Path
) -> None:
    keep_token(folder)
    out = midcourse("policy", "review", "--url", server).out
    assert out.startswith("Nothing is proposed.\nA server makes its reviews by itself, once a week")
    assert "midcourse policy review --store sqlite:///FILE" in out


def test_the_link_of_a_store_that_nobody_serves_names_the_store(midcourse: Command) -> None:
    store = "sqlite:///x.db"
    refused = midcourse("browser", "link", "--store", store)
    assert refused.code == 1
    assert refused.err == f"No server runs for {store}. Start one with: midcourse serve --store {store}\n"


def test_one_person_has_one_name_on_a_file_over_a_server_and_in_python(
    midcourse: Command, server: str, folder: Path
) -> None:
    """``local``: whoever has the store itself, and whoever comes with the server's own token."""
    keep_token(folder)
    there, here = ("--url", server), ("--store", "sqlite:///served.db")
    assert midcourse("pause", "sess_waiting", *there).code == 0
    assert midcourse("resume", "sess_waiting", *here).code == 0
    assert midcourse("pause", "sess_waiting", *here).code == 0
    for where in (there, here):
        assert midcourse("inbox", "list", "--json", *where).json()["you"] == "local"
        shown = midcourse("show", "sess_waiting", "--json", *where).json()
        assert shown["pause"]["by"] == "local"
        entries = [json.loads(line) for line in midcourse("audit", "list", "--json", *where).out.splitlines()]
        steered = [one["by"] for one in entries if one["action"] in ("pause", "resume")]
        assert set(steered) == {"ada", "local"}, "ada paused one of the stories"
