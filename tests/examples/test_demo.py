"""The demonstration of ``make demo`` plays to its end and shows what it is for."""

import re
from pathlib import Path

from tests.examples.expected import assert_prints, run


def test_the_demonstration_pauses_kills_and_recovers(tmp_path: Path) -> None:
    output = run("-m", "midcourse.samples.demo", "--fast", folder=tmp_path, seconds=40)
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
            "5 steps finished, in 2 processes; …; finished steps that ran again: 0; calls whose end is unknown: 0.",
        ],
    )
    pids = [re.search(rf"process {letter} \(pid (\d+)\)", output) for letter in "ABC"]
    assert len({found[1] for found in pids if found}) == 3


def test_finished_work_is_done_by_the_killed_process_and_the_rest_by_the_third(tmp_path: Path) -> None:
    output = run("-m", "midcourse.samples.demo", "--fast", folder=tmp_path, seconds=40)
    # ─ a row: step │ letter pid │ times its body ran │ seconds │ ends
    rows = re.findall(r"│ ([a-z ]+?) +│ ([A-C]) \d+ +│ +(\d+) │", output)
    where = {step: letter for step, letter, _ in rows}
    assert where["look up the orbit"] == "A"
    assert where["write the answer"] == "C"
    assert all(times == "1" for step, _, times in rows if step.startswith("look up"))
