"""``python -m midcourse.samples`` shows what an agent does, takes what is typed, and says how to come back."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midcourse.samples.__main__ import main
from tests.examples.expected import assert_prints

QUESTION = "? Confirm delete?  (need_approval)"


def terminal(work: Path, *arguments: str, keyboard: int = subprocess.PIPE, pace: str = "0") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "midcourse.samples", *arguments],
        cwd=work.parent,
        env={**os.environ, "MIDCOURSE_SAMPLES_DIR": str(work), "MIDCOURSE_SAMPLE_PACE": pace},
        stdin=keyboard,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(process: "subprocess.Popen[str]", status: int = 0) -> str:
    """All it prints when nobody types anything more."""
    said, _ = process.communicate(timeout=50)
    assert process.returncode == status, said
    return said


def test_a_sample_runs_in_a_terminal_takes_an_answer_and_is_undone(work: Path) -> None:
    store = str(work.parent / "runs.db")
    process = terminal(work, "records-cleaner", "--store", store)
    assert process.stdin is not None
    assert process.stdout is not None
    session = process.stdout.readline().split()[0]
    for line in process.stdout:
        if line.strip() == QUESTION:
            break
    process.stdin.write("yes\n")
    process.stdin.flush()
    assert_prints(
        printed(process),
        [
            "→ delete_records {…}  [reversible, attempt 2]",
            "Deleted … records; … are left. They can be put back.",
            "completed: …",
            "delete_records …kept",
        ],
    )
    assert_prints(printed(terminal(work, "--session", session, "--store", store, "--undo")), ["delete_records …undone"])


def test_what_is_left_waiting_where_nobody_types_is_answered_in_another_process(work: Path) -> None:
    store = str(work.parent / "runs.db")
    said = printed(terminal(work, "records-cleaner", "--store", store), status=3)
    assert_prints(said, ["→ find_candidates …  [read]", "? Confirm delete?  (need_approval)", "waiting: …"])

    process = terminal(work, "--session", said.split()[0], "--store", store)
    answered, _ = process.communicate("yes\n", timeout=50)
    assert_prints(answered, ["Deleted … records; … are left. They can be put back.", "completed: …"])
    assert answered.count("? Confirm delete?") == 1


Answered = Callable[..., str]


@pytest.fixture
def answered(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answered:
    """What the command says where it starts no agent: the same program, without a process of its own."""
    monkeypatch.chdir(work.parent)

    def run(*arguments: str, status: int) -> str:
        monkeypatch.setattr(sys, "argv", ["midcourse.samples", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        said = "".join(capsys.readouterr())
        assert left.value.code == status, said
        return said

    return run


def test_its_help_teaches_and_a_wrong_name_is_explained(answered: Answered) -> None:
    assert_prints(answered("--help", status=0), ["churn-memo …", "cancel all …", "anything else …"])
    assert "No sample agent is called 'chrun'" in answered("chrun", status=2)


def test_the_result_is_printed_if_nobody_has_said_it(work: Path) -> None:
    said = printed(terminal(work, "order-desk", "Order 3 bolts for acme"))
    assert_prints(said, ["→ place_order …", "Order …: 3 × bolt for acme, $6.", "completed: …"])
    said = printed(terminal(work, "order-desk", "Order 500 engines for globex"))
    assert said.count("The order cannot be placed") == 1, "it was streamed already"


def test_words_are_recognised_in_any_case(work: Path) -> None:
    store = str(work.parent / "runs.db")
    left = printed(terminal(work, "records-cleaner", "--store", store), status=3)
    said, _ = terminal(work, "--session", left.split()[0], "--store", store).communicate("Cancel\n", timeout=50)
    assert_prints(said, [QUESTION, "· cancel requested", "cancelled: …"])


def test_a_no_claims_no_effect(work: Path) -> None:
    store = str(work.parent / "runs.db")
    left = printed(terminal(work, "records-cleaner", "--store", store), status=3)
    said, _ = terminal(work, "--session", left.split()[0], "--store", store).communicate("no\n", timeout=50)
    assert_prints(said, ["Nothing was deleted. The person did not confirm.", "nothing was changed: …"])


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    """A terminal: where keys are pressed, and where a program reads them."""
    keys, read = pty.openpty()
    yield keys, read
    os.close(keys)
    os.close(read)


@pytest.mark.parametrize("key", ["Ctrl-C", pytest.param("Ctrl-D", marks=pytest.mark.thorough)])
def test_whoever_leaves_is_told_the_command_that_goes_on(work: Path, key: str, keyboard: tuple[int, int]) -> None:
    keys, read = keyboard
    process = terminal(work, "researcher", "in 2 sections", "--store", "my runs.db", keyboard=read, pace="0.05")
    assert process.stdout is not None
    for line in process.stdout:
        if "gather_notes" in line:  # it is about to write a section, which takes long
            break
    if key == "Ctrl-C":
        process.send_signal(signal.SIGINT)
    else:
        os.write(keys, b"\x04")
    command = printed(process).split("To continue it:")[1].strip()
    assert "…" not in command

    env = {name: value for name, value in os.environ.items() if name != "MIDCOURSE_SAMPLES_DIR"}
    pasted = subprocess.run(
        command,
        shell=True,
        cwd="/",
        env={**env, "MIDCOURSE_SAMPLE_PACE": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert_prints(pasted.stdout, ["This report has 2 sections, from 2 documents.", "completed: …"])


def test_a_store_alone_lists_its_sessions(work: Path) -> None:
    printed(terminal(work, "order-desk", "--store", "runs.db"))
    printed(terminal(work, "records-cleaner", "Clean the contacts", "--store", "runs.db"), status=3)
    said = printed(terminal(work, "--store", "runs.db"))
    assert_prints(
        said,
        [
            "sess_…  waiting    records-cleaner: Clean the contacts",
            "sess_…  completed  order-desk: Order 3 bolts for acme",
            "To continue the newest:",
        ],
    )
    assert re.search(r"--session sess_\w+ --store /\S+/runs.db$", said, re.MULTILINE)


@pytest.mark.parametrize("arguments", [("--session", "sess_1"), (), ("--session", "sess_1", "--undo")])
def test_a_file_that_is_not_there_is_said_and_not_made(
    work: Path, arguments: tuple[str, ...], answered: Answered
) -> None:
    assert "there is no file 'nosuch.db'" in answered(*arguments, "--store", "nosuch.db", status=2)
    assert not (work.parent / "nosuch.db").exists()
