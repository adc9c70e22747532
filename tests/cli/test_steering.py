"""Steering from a terminal: each verb says what is known, and an error is a sentence on stderr."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import midcourse as package
from midcourse.cli.status_text import reply_words
from midcourse.core.events import StepKind
from midcourse.core.ids import SessionId, StepId
from midcourse.core.replies import Reply, RunningCall
from tests.cli.conftest import Command
from tests.cli.stories import slow_mailer, ticker, writer


@pytest.fixture
def driving(folder: Path) -> Iterator[str]:
    """Another program that has the file open and drives two sessions in it."""
    over = threading.Event()
    ready = threading.Event()

    async def drive() -> None:
        async with package.open("sqlite:///.midcourse/midcourse.db", durability="process", grace=0.1) as mc:
            await mc.start(slow_mailer, "mail", session_id="sess_mailing")
            await mc.start(ticker, "count", session_id="sess_ticking")
            mailing = await mc.get("sess_mailing")
            while not (await mailing.state()).calls:
                await asyncio.sleep(0.01)
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.02)
            await mailing.cancel(grace=0, undo="none")

    thread = threading.Thread(target=lambda: asyncio.run(drive()))
    thread.start()
    assert ready.wait(20)
    yield "sess_mailing"
    over.set()
    thread.join(30)


def test_a_pause_names_what_still_runs(midcourse: Command, driving: str) -> None:
    done = midcourse("pause", "sess_mail", "--reason", "wait")
    assert done.code == 0
    assert "stopping; the session is pausing; still running: slow_mail (" in done.out
    assert "irreversible, so it finishes" in done.out
    assert "midcourse resume sess_mailing" in done.out
    assert "Still running: slow_mail" in midcourse("show", driving).out
    told = midcourse("pause", driving, "--json").json()
    assert (told["level"], told["running"][0]["name"]) == ("stopping", "slow_mail")
    resumed = midcourse("resume", driving)
    assert resumed.code == 0
    assert "the session is running" in resumed.out


def test_many_are_paused_at_once_and_each_that_is_not_is_named(midcourse: Command, driving: str) -> None:
    ticking = midcourse("pause", "--agent", "told-ticker", "--reason", "freeze", "--json").json()["outcomes"]
    assert [(one["session"], one["ok"]) for one in ticking] == [("sess_ticking", True)]
    assert midcourse("show", driving, "--json").json()["status"] == "running"
    rest = midcourse("pause", "--all")
    assert rest.code == 0
    assert rest.out.splitlines()[-1].endswith("paused.")
    assert midcourse("show", driving, "--json").json()["status"] in ("pausing", "paused")
    assert "No session could be paused." in midcourse("pause", "--status", "running").out
    for wrong in (["pause"], ["pause", driving, "--all"], ["pause", "--status", "completed"]):
        assert midcourse(*wrong).code == 2


def test_a_session_that_another_program_drives_is_steered_while_it_runs(midcourse: Command, driving: str) -> None:
    paused = midcourse("pause", "sess_tick", "--until", "stopped", "--json").json()
    assert (paused["level"], paused["status"]) == ("stopped", "paused")
    redirected = midcourse("redirect", "sess_tick", "--level", "goal", "count backwards")
    assert "midcourse resume sess_ticking" in redirected.out
    assert "count backwards" in midcourse("show", "sess_tick").out
    assert midcourse("resume", "sess_tick", "--pause", paused["pause"]).code == 0
    again = midcourse("resume", "sess_tick", "--pause", paused["pause"])
    assert again.code == 1
    assert "already_resumed" in again.err
    cancelled = midcourse("cancel", "sess_tick", "--reason", "enough", "--json").json()
    assert (cancelled["level"], cancelled["receipt"]["final"]) == ("stopped", True)


def test_a_pause_of_what_nobody_drives_is_decided_here(midcourse: Command) -> None:
    done = midcourse("pause", "sess_waiting")
    assert "stopped; the session is paused; nothing runs." in done.out
    assert midcourse("show", "sess_waiting", "--json").json()["pause"]["by"]


def test_a_cancel_shows_its_receipt(midcourse: Command) -> None:
    preview = midcourse("cancel", "sess_written", "--preview")
    assert "Nothing was cancelled" in preview.out
    assert preview.out.count("--undo") == 3
    assert set(midcourse("cancel", "sess_written", "--preview", "--json").json()) == {"in-flight", "all", "none"}
    assert midcourse("show", "sess_written", "--json").json()["status"] == "waiting"
    done = midcourse("cancel", "sess_written", "--undo", "none")
    assert "the session is cancelled" in done.out
    assert "Receipt:" in done.out
    assert "send_mail" in done.out


def test_what_a_force_comes_to_is_shown_first_with_what_may_happen_a_second_time(
    midcourse: Command, folder: Path
) -> None:
    async def begin() -> None:
        async with package.open("sqlite:///.midcourse/midcourse.db", durability="process") as mc:
            terms = package.Terms(task_class="protected")
            session = await mc.start(writer, "write", session_id="sess_order", terms=terms)
            await session.next_ask(timeout=20)

    asyncio.run(begin())
    waits = midcourse("cancel", "sess_order", "--preview").out
    assert "starts with the same goal" not in waits
    ends = midcourse("cancel", "sess_order", "--force", "--preview").out
    assert "With midcourse cancel sess_order --force …\nits work is discarded. No new session starts." in ends
    assert "a second time" not in ends
    assert "restart goes with force" in midcourse("cancel", "sess_order", "--restart").err
    forced = midcourse("cancel", "sess_order", "--force", "--restart", "--preview").out
    assert "With midcourse cancel sess_order --force --restart …\nits work is discarded, and a new session" in forced
    told = forced[forced.index("--undo all") : forced.index("--undo none")]
    assert "send_mail may happen a second time in the session that begins anew." in told
    assert "leave out --restart: then no new session starts" in forced
    as_json = midcourse("cancel", "sess_order", "--force", "--restart", "--preview", "--json").json()
    assert {one["begins_anew"] for one in as_json.values()} == {True}
    assert midcourse("show", "sess_order", "--json").json()["status"] == "waiting"


def test_an_answer_goes_to_the_only_ask(midcourse: Command) -> None:
    asked = midcourse("answer", "sess_waiting")
    assert "[yes / no]" in asked.out
    assert midcourse("answer", "sess_waiting", "--json").json()["asks"][0]["id"] == "ask_1"
    done = midcourse("answer", "sess_waiting", "yes")
    assert done.code == 0
    assert "Answered ask_1 (need_input: Die Rechnungen" in done.out
    again = midcourse("answer", "sess_waiting", "--ask", "ask_1", "no")
    assert again.code == 1
    assert "already_answered" in again.err
    assert "asks nothing" in midcourse("answer", "sess_waiting").out


def test_of_several_asks_one_must_be_named(midcourse: Command) -> None:
    done = midcourse("answer", "sess_two", "x")
    assert (done.code, done.out) == (1, "")
    assert "ask_1" in done.err
    assert "The second?" in done.err
    error = json.loads(midcourse("answer", "sess_two", "x", "--json").err)
    assert error["code"] == "ask_id_required"
    assert midcourse("answer", "sess_two", "--ask", "ask_2", "--json-value", '{"ü": [1, null]}').code == 0
    events = midcourse("events", "sess_two", "--json").out
    assert '{"ü":[1,null]}' in events


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["answer", "sess_two", "x", "--json-value", "1"], "not both"),
        (["answer", "sess_two", "--json-value", "yes"], "no JSON"),
        (["ps", "--status", "asleep"], "There are: queued"),
        (["ps", "--store", "sqlite:///x.db", "--url", "http://127.0.0.1:1"], "not both"),
        (["pause"], "SESSION"),
        (["pause", "sess_two", "--grace", "-1"], "--grace"),
        (["pasue", "sess_two"], "pause"),
        (["cancel", "sess_two", "--undo", "some"], "in-flight"),
    ],
)
def test_a_command_that_is_misspelt_exits_with_2(midcourse: Command, arguments: list[str], words: str) -> None:
    done = midcourse(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ps", "--store", "sqlite:///nowhere.db"], "There is no store at nowhere.db"),
        (["ps", "--store", "mysql://db"], "Unknown store"),
        (["ps", "--store", "memory://"], "one program"),
        (["ps", "--store", "sqlite:///."], "no store"),
        (["ps", "--store", "sqlite:///README"], "not a"),
        (["ps", "--url", "nonsense"], "http://127.0.0.1:8420"),
        (["ps", "--url", "http://127.0.0.1:9"], "midcourse serve"),
        (["show", "sess_nowhere"], "There is no session 'sess_nowhere'"),
        (["pause", "sess_done"], "Allowed now"),
        (["resume", "sess_done"], "session_ended"),
        (["resume", "sess_waiting"], "already_resumed"),
        (["redirect", "sess_paused", "  ", "--level", "step"], "in words"),
        (["answer", "sess_paused", "x"], "ask_not_found"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_exits_with_1(
    midcourse: Command, folder: Path, arguments: list[str], words: str
) -> None:
    (folder / "README").write_text("This is not a database, only a text of some length. " * 50)
    done = midcourse(*arguments)
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert "Traceback" not in done.err
    told = midcourse(*arguments, "--json")
    assert (told.code, told.out) == (1, "")
    assert json.loads(told.err)["code"]
    assert not (folder / "nowhere.db").exists()


def test_a_failed_session_is_tried_again(midcourse: Command) -> None:
    assert midcourse("resume", "sess_failed").code == 0
    assert midcourse("ps", "--status", "running", "--json").json()["sessions"][0]["id"] == "sess_failed"


def test_an_ended_session_begins_a_new_turn(midcourse: Command) -> None:
    assert midcourse("redirect", "sess_done", "--level", "goal", "once more").code == 0
    shown = midcourse("show", "sess_done", "--json").json()
    assert (shown["turn"], shown["goal"]) == (2, "once more")


def call(kind: StepKind = "tool", doing: str = "") -> RunningCall:
    return RunningCall(StepId("1/x#0"), "send_mail", kind, 1, 3.21, "idempotent", doing)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"level": "stopping", "status": "pausing", "running": (call(),)}, "still running: send_mail (3.2 s)"),
        ({"level": "stopping", "status": "cancelling", "running": (call(doing="its undo"),)}, "(3.2 s, its undo)"),
        ({"level": "stopped", "status": "paused"}, "nothing runs"),
        ({"level": "stopped", "status": "paused", "unknown": (StepId("s1"),)}, "effects in flight unknown: s1"),
        ({"level": "stopped", "status": "running", "durable": False}, "not durable"),
        ({"level": "accepted", "status": "running", "unreachable_since": 5.0}, "has not answered since"),
        ({"level": "accepted", "status": "running"}, "not decided yet"),
        ({"level": "decided", "status": "running"}, "decided; the session is running."),
    ],
)
def test_a_reply_is_told_as_far_as_it_is_known(reply: dict[str, object], words: str) -> None:
    told = Reply(session=SessionId("s"), durability="power", **reply)  # pyright: ignore[reportArgumentType]
    assert words in reply_words(told, 10.0)
