"""The demonstration of ``make demo`` plays to its end and shows what it is for."""

import re

import pytest

from tests.examples.expected import assert_prints, run


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What it prints where nobody watches."""
    return run("-m", "midcourse.samples.demo", "--fast", folder=tmp_path_factory.mktemp("demo"), seconds=40)


def test_the_demonstration_pauses_kills_and_recovers(output: str) -> None:
    assert_prints(
        output,
        [
            "process A (pid …) runs sess_moon on runs.db; an answer survives: …",
            "process B (pid …) pauses it from outside",
            "stopping after … ms: from here nothing new begins",
            "still running: …",
            "stopped after … ms: paused, 0 calls run",
            "kill -9 …: process A ended with signal 9 after … ms",
            "process … does not exist any more",
            "in the file: paused, … steps finished, 5 planned",
            "process C (pid …) opened the file in … ms",
            "and lifted pause_1: running after … ms",
            "“Explain it to a ten-year-old.” is durable after … ms",
            "cut, and kept in the journal: “The Moon turns once about its axis …”",
            "“Walk around a chair …”",
            "5 steps finished, in 2 processes; …; finished steps that ran again: 0; calls lost with a process: 0.",
        ],
    )
    pids = [re.search(rf"process {letter} \(pid (\d+)\)", output) for letter in "ABC"]
    assert len({found[1] for found in pids if found}) == 3


def test_the_killed_process_did_the_finished_work_and_the_third_one_the_rest(output: str) -> None:
    # A row: step │ letter pid, … │ how often its body ran │ seconds │ ends
    rows = re.findall(r"│ ([a-z ]+?) +│ ([A-C\d, ]+?) +│ +(\d+) │", output)
    where = {step: set(re.findall("[A-C]", processes)) for step, processes, _ in rows}
    assert where["look up the orbit"] == {"A"}
    assert "C" in where["write the answer"]
    assert all(times == "1" for step, _, times in rows if step.startswith("look up"))
