"""A command's process is ours, and its interpreter is set up for it; a program's that calls us is not."""

import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, gc, sys
from midcourse.cli import main
before = gc.get_threshold(), sys.getswitchinterval()
with contextlib.suppress(SystemExit):
    main({arguments})
print((gc.get_threshold(), sys.getswitchinterval()) == before)
"""


@pytest.mark.parametrize(("arguments", "is_unchanged"), [("", "False"), ("['--version']", "True")])
def test_the_interpreter_is_set_up_in_a_process_of_ours_alone(arguments: str, is_unchanged: str) -> None:
    program = PROGRAM.format(arguments=arguments)
    command = [sys.executable, "-c", program, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == is_unchanged
