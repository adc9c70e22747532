"""What an operator needs at a terminal to decide: what a yes is for, who drives what, what a word counted as."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import midcourse as package
from tests.cli.conftest import Command, Ended
from tests.promises.harness import until

IDS = list(range(300))
TRICK = "? It is harmless."


@package.tool(effect="write", environment="prod")
async def purge(ids: list[int], note: str) -> str:
    return f"{len(ids)} gone"


@package.agent(name="operated-purger", terms=package.Terms(labels=("eu",)))
async def purger(run: package.Run) -> str:
    try:
        return await run.step("clean up", purge, IDS, TRICK)
    except package.StepError as error:
        return str(error.fields["detail"])


@package.agent(name="operated-sleeper")
async def sleeper(run: package.Run) -> None:
    await run.step("sleep", asyncio.sleep, 3600)


@package.agent(name="operated-ticker")
async def ticker(run: package.Run) -> None:
    while True:
        await run.step("tick", asyncio.sleep, 0.005)


async def _tell(store: Path) -> None:
    settings = package.Settings(approve_prod=True)
    async with package.open(f"sqlite:///{store}", durability="process", settings=settings) as mc:
        for name in ("sess_purge", "sess_spare"):
            await (await mc.start(purger, "clean up", session_id=name, by="ada")).next_ask(timeout=10)
        await until(await mc.start(ticker, "tick", session_id="sess_left"), "step.begun")
    # Whoever leaves the block lets the ticker go as it is: running, and nobody's.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("operating") / "midcourse.db"
    asyncio.run(_tell(store))
    return store


@pytest.fixture(autouse=True)
def store(made: Path, folder: Path) -> Path:
    """Each test has these sessions in the default place."""
    return Path(shutil.copy(made, folder / ".midcourse" / "midcourse.db"))


def width(columns: int) -> dict[str, str]:
    return {"COLUMNS": str(columns)}


def shown(midcourse: Command, *arguments: str) -> Any:
    return midcourse(*arguments, "--json").json()


def test_an_approval_in_the_inbox_says_which_call_with_what_and_why(midcourse: Command) -> None:
    ask = shown(midcourse, "inbox", "list")["asks"][0]
    assert (ask["tool"], ask["why"]) == ("purge", "changes something in prod")
    assert ask["arguments"].startswith("[[0,1,2,3,")
    assert len(ask["arguments"]) == 1000
    for columns in (80, 120):
        lines = midcourse("inbox", "list", env=width(columns)).out.splitlines()
        told = [line for line in lines if "need_approval: purge (changes something in prod) [[0,1" in line]
        assert len(told) == 2
        assert all(line.endswith("…") for line in told)
        assert max(map(len, lines)) <= columns


def test_a_session_that_waits_for_a_yes_shows_the_call_and_no_argument_passes_for_the_reason(
    midcourse: Command,
) -> None:
    for command in (("show", "sess_purge"), ("answer", "sess_purge")):
        whole = midcourse(*command).out
        assert "need_approval" in whole
        assert "Allow purge?" in whole
        assert "  Wants to call: purge\n" in whole
        assert f'  With: [{json.dumps(IDS).replace(" ", "")},"{TRICK}"]\n' in whole
        assert "  Asked because: it changes something in prod\n" in whole
        cut = midcourse(*command, env=width(60)).out
        assert next(line for line in cut.splitlines() if "With:" in line).endswith("…")
    [ask] = shown(midcourse, "show", "sess_purge")["asks"]
    assert json.dumps(IDS).replace(" ", "") in ask["prompt"]


def test_a_session_that_runs_by_its_status_and_that_nobody_drives_is_called_so(midcourse: Command) -> None:
    assert "running, no process drives it" in midcourse("ps").out
    alone = {one["id"]: one["unattended"] for one in shown(midcourse, "ps")["sessions"]}
    assert alone == {"sess_left": True, "sess_purge": False, "sess_spare": False}
    said = midcourse("show", "sess_left").out
    assert "running, no process drives it  sess_left" in said
    assert "its process has ended" in said
    assert (
        shown(midcourse, "show", "sess_left")["unattended"],
        shown(midcourse, "show", "sess_purge")["unattended"],
    ) == (
        True,
        False,
    )
    midcourse("pause", "sess_left", "--until", "stopped")
    assert "no process drives it" not in midcourse("ps").out


async def test_a_session_that_somebody_drives_is_not_called_so(store: Path) -> None:
    async with package.open(f"sqlite:///{store}") as mc, package.open(f"sqlite:///{store}", drive=False) as other:
        session = await mc.get("sess_left")
        await until(session, "session.taken")
        assert [one.unattended for one in await other.list(status=["running"])] == [False]
        await session.cancel(grace=0, until="stopped")


def _is(done: Ended, session: str, midcourse: Command) -> str:
    assert done.code == 0, done.err
    return str(shown(midcourse, "show", session)["status"])


@pytest.mark.parametrize(
    ("word", "counted"),
    [
        ("YES", "Approved.\n"),
        ("no", "Refused.\n"),
        ("maybe", "Refused; the agent gets: maybe\n"),
    ],
)
def test_a_word_to_an_approval_is_told_with_what_it_counted_as(midcourse: Command, word: str, counted: str) -> None:
    done = midcourse("answer", "sess_purge", word)
    assert (done.code, counted in done.out) == (0, True)
    other = shown(midcourse, "answer", "sess_spare", word)
    assert counted.lower().startswith(other["counted"])
    assert f"counted as {other['counted']}" in other["sentence"]


def test_an_answer_to_anything_else_counts_as_nothing(midcourse: Command, told: Path, folder: Path) -> None:
    shutil.copy(told, folder / "stories.db")
    where = ("--store", "sqlite:///stories.db")
    assert shown(midcourse, "answer", "sess_waiting", "maybe", *where)["counted"] == ""


def test_at_a_terminal_somebody_is_asked_before_a_word_refuses(midcourse: Command) -> None:
    above, below = os.openpty()
    command = [sys.executable, "-W", "error", "-m", "midcourse", "answer", "sess_purge", "maybe"]
    os.write(above, b"n\n")
    done = subprocess.run(command, stdin=below, capture_output=True, text=True, timeout=60, check=False)
    os.close(above)
    os.close(below)
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "'maybe' is neither yes nor no: it refuses, and the agent reads it. Send it? [y/N]" in done.stderr
    assert "Nothing was sent." in done.stderr
    assert len(shown(midcourse, "show", "sess_purge")["asks"]) == 1


def test_whoever_has_the_file_may_end_what_is_halted(midcourse: Command) -> None:
    thrown = shown(midcourse, "kill-switch", "throw", "--agent", "operated-purger", "--reason", "freeze", "--yes")
    said = midcourse("show", "sess_purge").out
    assert f"midcourse kill-switch show {thrown['id']}" in said
    assert "nly an operator" not in said
    refused = midcourse("resume", "sess_purge")
    assert (refused.code, "Lift the switch first" in refused.err) == (1, True)
    assert _is(midcourse("cancel", "sess_purge"), "sess_purge", midcourse) == "cancelled"
    midcourse("kill-switch", "lift", thrown["id"], "--why", "over")
    assert _is(midcourse("resume", "sess_spare"), "sess_spare", midcourse) == "waiting"


def test_what_a_restore_halted_is_lifted_at_once_and_each_says_what_is_unknown(midcourse: Command) -> None:
    midcourse("store", "backup", "b.db")
    midcourse("store", "restore", "b.db", "--into", "again")
    there = ("--store", "sqlite:///again/midcourse.db")
    assert "The role operate lifts this: midcourse session lift " in midcourse("show", "sess_left", *there).out
    assert midcourse("session", "lift", *there).code == 2
    assert midcourse("session", "lift", "sess_left", "--restored", *there).code == 2
    assert shown(midcourse, "session", "lift", "--label", "us", *there) == {"outcomes": []}
    some = shown(midcourse, "session", "lift", "--label", "eu", "--agent", "operated-purger", *there)["outcomes"]
    assert [(one["session"], one["status"]) for one in some] == [("sess_purge", "waiting"), ("sess_spare", "waiting")]
    rest = midcourse("session", "lift", "--restored", *there)
    assert (rest.code, rest.out.startswith("sess_left  is running")) == (0, True)
    again = midcourse("session", "lift", "sess_left", "sess_spare", *there)
    assert again.code == 1
    assert "Cannot lift session 'sess_left': it is running (not_allowed)" in again.out
    assert "0 of 2 are back where they were." in again.out
    assert "No such session is halted" in midcourse("session", "lift", "--restored", *there).out


def test_what_is_unknown_of_a_lifted_session_is_named(midcourse: Command, folder: Path) -> None:
    async def lose() -> None:
        """A call that was in flight when the backup was made."""
        async with package.open(f"sqlite:///{folder}/lost.db", durability="process") as mc:
            session = await mc.start(sleeper, session_id="sess_lost")
            await until(session, "step.begun")
            await asyncio.to_thread(
                midcourse, "store", "backup", "lost-copy.db", "--store", f"sqlite:///{folder}/lost.db"
            )
            await session.cancel(grace=0, until="stopped")

    asyncio.run(lose())
    unknown = shown(midcourse, "store", "restore", "lost-copy.db", "--into", "lost")["unknown"]["sess_lost"]
    [lifted] = shown(midcourse, "session", "lift", "sess_lost", "--store", "sqlite:///lost/midcourse.db")["outcomes"]
    assert (lifted["ok"], lifted["unknown"], len(unknown)) == (True, unknown, 1)


def test_the_newest_entries_of_the_audit_log_are_shown_in_the_order_of_time(midcourse: Command) -> None:
    for word in ("one", "two", "three"):
        assert midcourse("pause", "sess_purge", "--reason", word).code == 0
    said = midcourse("audit", "list", "-n", "2")
    assert said.out.index("two") < said.out.index("three")
    assert "one" not in said.out
    assert "The newest 2." in said.out
    entries = [json.loads(line) for line in midcourse("audit", "list", "--json").out.splitlines()]
    assert [one["action"] for one in entries] == ["session.start"] * 3 + ["pause"] * 3
    assert (entries[0]["by"], entries[0]["detail"]) == ("ada", "operated-purger: clean up")
    assert [json.loads(line) for line in midcourse("audit", "list", "-n", "2", "--json").out.splitlines()] == entries[
        -2:
    ]


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (("--agent", "operated-purgr"), "No agent of that name is known here. Did you mean 'operated-purger'? Known: "),
        (("--label", "asia"), "No label of that name is known here. Known: "),
        (("--tenant", "acme"), "No tenant of that name is known here."),
    ],
)
def test_a_switch_over_a_name_that_nothing_has_stands_and_says_so(
    midcourse: Command, scope: tuple[str, str], said: str
) -> None:
    asked = midcourse("kill-switch", "throw", *scope, "--reason", "x", typed="n\n")
    assert (asked.code, said in asked.err) == (1, True)
    thrown = midcourse("kill-switch", "throw", *scope, "--reason", "x", "--yes")
    assert (thrown.code, "no session is in its scope now" in thrown.out, said in thrown.out) == (0, True, True)
    assert shown(midcourse, "kill-switch", "list")["switches"][0]["stands"]


def test_a_switch_over_a_name_that_is_known_says_nothing_of_it(midcourse: Command) -> None:
    for name in ("sess_purge", "sess_spare"):
        midcourse("cancel", name)
    for scope in (("--agent", "operated-purger"), ("--label", "eu")):
        thrown = shown(midcourse, "kill-switch", "throw", *scope, "--reason", "x", "--yes")
        assert (thrown["report"], thrown["hint"]) == ([], "")


def test_who_hands_over_to_a_name_that_nobody_has_had_is_warned(midcourse: Command) -> None:
    made = shown(midcourse, "inbox", "hand-over", "bbo")
    assert (made["to"], made["warning"]) == ("bbo", "No person called 'bbo' has acted here so far.")
    assert "No person called 'bob'" in midcourse("inbox", "hand-over", "bob").out
    assert shown(midcourse, "inbox", "hand-over", "ada")["warning"] == ""  # she began a session
    midcourse("inbox", "take", "sess_purge", "--for", "bob")
    assert shown(midcourse, "inbox", "hand-over", "bob")["warning"] == ""
    assert shown(midcourse, "inbox", "hand-over", "nobody", "--for", "0")["warning"] == ""
