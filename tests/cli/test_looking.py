"""What people and programs see of sessions: ps, show, events."""

import json
import signal
import threading
from pathlib import Path

import pytest

import midcourse as package
from midcourse.cli.status_text import SHAPES, ago, expiry_words, span, spent
from midcourse.core.session import Status
from tests.cli.conftest import Command, in_a_process
from tests.cli.stories import UMLAUT

LIVE = ["sess_written", "sess_two", "sess_waiting", "sess_paused"]
ENDED = ["sess_failed", "sess_done", "sess_cancelled"]


def test_ps_lists_what_has_not_ended_newest_first(midcourse: Command) -> None:
    assert [one["id"] for one in midcourse("ps", "--json").json()["sessions"]] == LIVE
    assert [one["id"] for one in midcourse("ps", "--all", "--json").json()["sessions"]] == ENDED + LIVE


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "paused"], ["sess_paused"]),
        (["--status", "failed", "--status", "completed"], ["sess_failed", "sess_done"]),
        (["--agent", "told-writer"], ["sess_written"]),
        (["--agent", "told-writer", "--all"], ["sess_cancelled", "sess_written"]),
        (["--search", "märz"], ["sess_waiting"]),
        (["--all", "--limit", "1"], ["sess_failed"]),
        (["--search", "nothing like it"], []),
    ],
)
def test_ps_filters(midcourse: Command, options: list[str], found: list[str]) -> None:
    assert [one["id"] for one in midcourse("ps", "--json", *options).json()["sessions"]] == found


def test_a_head_has_what_the_api_shows_of_it(midcourse: Command) -> None:
    [head] = midcourse("ps", "--json", "--status", "paused").json()["sessions"]
    assert set(head) == {
        *("id", "agent", "goal", "status", "turn", "position", "created_at", "updated_at", "asks", "cost"),
        *("finished_steps", "parent", "by", "task_class", "policy", "budget", "labels", "risk", "interventions"),
        *("busy", "busy_since", "switch", "was", "open_asks", "erased_at", "finishes_first", "unpriced", "worked"),
        *("working_since", "unattended", "discarded", "unreachable_since", "silent_since", "pending"),
        "estimated",
    }


def test_a_price_that_nobody_knows_is_no_number() -> None:
    assert [spent(3.184, 0), spent(3.184, 2), spent(0.0, 2), spent(0.0, 0), spent(0.002, 0)] == [
        "$3.18",
        "at least $3.18",
        "unknown",
        "$0.00",
        "$0.002",
    ]


def test_ps_says_each_status_in_a_word_and_a_shape(midcourse: Command) -> None:
    out = midcourse("ps", "--all", env={"COLUMNS": "160"}).out
    for status in ("failed", "completed", "cancelled", "waiting", "paused"):
        assert f"{SHAPES[status]:<2} {status}" in out
    assert UMLAUT in out
    assert set(SHAPES) == set(Status)
    assert len(set(SHAPES.values())) == len(Status)


@pytest.mark.parametrize("columns", ["20", "40", "80", "90", "100", "110", "120", "200"])
def test_an_id_is_never_cut_however_narrow_the_terminal(midcourse: Command, columns: str) -> None:
    out = midcourse("ps", "--all", env={"COLUMNS": columns}).out
    for name in LIVE + ENDED:
        assert name in out


def test_nothing_to_list_is_said(midcourse: Command, folder: Path) -> None:
    assert "No session matches" in midcourse("ps", "--search", "nowhere").out
    (folder / ".midcourse" / "midcourse.db").unlink()
    import asyncio

    async def empty() -> None:
        async with package.open("sqlite:///.midcourse/midcourse.db", drive=False):
            pass

    asyncio.run(empty())
    assert "--all" in midcourse("ps").out


def test_what_somebody_wrote_cannot_steer_the_terminal(midcourse: Command) -> None:
    for arguments in (("ps",), ("show", "sess_written"), ("events", "sess_written")):
        out = midcourse(*arguments).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "[bold]" in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "sess_paused",
            ["paused", "pause_1 by ada", "let me read", "midcourse resume sess_paused", "Plan:", "running"],
        ),
        ("sess_waiting", [UMLAUT, "Options: yes, no", "midcourse answer sess_waiting --ask ask_1"]),
        ("sess_two", ["The first?", "The second?", "--ask ask_2"]),
        ("sess_cancelled", ["wrong customer", "Receipt:", "cannot be undone", "1 kept"]),
        ("sess_failed", ["agent_error", "täglich.csv", "resume"]),
        ("sess_done", ["completed", 'Result: {"goal":"do it","rows":[1,null]}']),
    ],
)
def test_show_tells_what_is_known(midcourse: Command, name: str, words: list[str]) -> None:
    done = midcourse("show", name)
    assert done.code == 0
    for word in words:
        assert word in done.out


def test_show_as_json_is_the_whole_session(midcourse: Command) -> None:
    shown = midcourse("show", "sess_done", "--json").json()
    assert (shown["status"], shown["goal"], shown["result"]) == (
        "completed",
        "do it",
        {"goal": "do it", "rows": [1, None]},
    )
    assert {"asks", "plan", "pause", "receipt", "terms"} <= set(shown)
    assert midcourse("show", "sess_waiting", "--json").json()["asks"][0]["prompt"] == UMLAUT


def test_show_goes_back_in_time(midcourse: Command) -> None:
    assert "queued" in midcourse("show", "sess_written", "--at", "1").out
    assert midcourse("show", "sess_written", "--at", "1", "--json").json()["session"]["status"] == "queued"
    done = midcourse("show", "sess_written", "--at", "999")
    assert (done.code, done.out) == (1, "")
    assert "positions 1 to" in done.err


def test_an_id_may_be_shortened_as_long_as_it_is_the_only_one(midcourse: Command) -> None:
    assert midcourse("show", "sess_pa", "--json").json()["id"] == "sess_paused"
    assert midcourse("show", "pau", "--json").json()["id"] == "sess_paused"
    several = midcourse("show", "sess_w")
    assert several.code == 1
    assert "sess_written, sess_waiting" in several.err
    assert midcourse("show", "sess_x").code == midcourse("show", "").code == 1


def test_events_tell_the_whole_journal_once(midcourse: Command) -> None:
    lines = [json.loads(line) for line in midcourse("events", "sess_waiting", "--json").out.splitlines()]
    assert [line["position"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["type"] == "session.created"
    assert lines[0]["version"] == 1
    assert lines[0]["data"]["goal"] == UMLAUT
    after = midcourse("events", "sess_waiting", "--after", "3", "--json").out.splitlines()
    assert [json.loads(line) for line in after] == lines[3:]
    assert midcourse("events", "sess_waiting", "--after", "999").out == ""
    assert "ask.opened" in midcourse("events", "sess_waiting").out


def test_deltas_are_only_there_for_who_follows(midcourse: Command) -> None:
    done = midcourse("events", "sess_waiting", "--deltas")
    assert done.code == 2
    assert "--follow" in done.err


def test_following_prints_what_happens_until_ctrl_c(midcourse: Command) -> None:
    following = in_a_process("events", "sess_waiting", "--follow", "--json")
    assert following.stdout is not None
    seen: list[str] = []
    told = threading.Event()

    def read() -> None:
        assert following.stdout is not None
        for line in following.stdout:
            seen.append(json.loads(line)["type"])
            if seen[-1] == "ask.answered":
                told.set()

    reading = threading.Thread(target=read)
    reading.start()
    assert midcourse("answer", "sess_waiting", "yes").code == 0
    assert told.wait(20)
    following.send_signal(signal.SIGINT)
    reading.join(10)
    assert following.wait(10) == 0
    assert following.stderr is not None
    assert following.stderr.read() == ""
    following.stderr.close()
    following.stdout.close()
    assert seen[:2] == ["session.created", "session.started"]


def test_whoever_reads_only_the_beginning_causes_no_complaint() -> None:
    listing = in_a_process("events", "sess_waiting", "--follow", "--json")
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.readline()
    listing.stdout.close()
    listing.send_signal(signal.SIGINT)
    listing.wait(20)
    assert "Traceback" not in listing.stderr.read()
    listing.stderr.close()


def test_a_terminal_without_unicode_gets_words(folder: Path) -> None:
    plain = in_a_process("ps", "--all", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    out, err = plain.communicate(timeout=30)
    assert (plain.returncode, err) == (0, "")
    assert "paused" in out
    assert out.isascii()


def test_times_are_said_in_words() -> None:
    assert [span(one) for one in (0.04, 3.21, 61, 7300, 200_000)] == ["0.0 s", "3.2 s", "1 min", "2 h", "2 d"]
    assert ago(100.0, 99.0) == "now"
    assert ago(100.0, 160.0) == "1 min ago"


def test_what_has_expired_is_called_expired_and_not_merely_ago() -> None:
    assert expiry_words(None, 100.0) == "never"
    assert expiry_words(160.0, 100.0) == "in 1 min"
    assert expiry_words(88.7, 100.0) == "expired 11.3 s ago"
    assert expiry_words(100.0, 100.0) == "expired now"
