"""The page on the terminal shows what the commands print: each is run, in order, on the stories."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.cli.conftest import Command
from tests.examples.expected import ROOT, assert_prints

PAGE: Path = ROOT / "docs" / "how-to" / "steer-from-the-terminal.md"


def shown(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each command of the page's blocks, and the lines below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ midcourse ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            # What has just begun began "now".
            told = (re.sub(r"\s+", " ", line).replace("… ago", "…") for line in lines if line.strip())
            yield shlex.split(command), list(told)


def test_the_page_shows_what_the_commands_print(midcourse: Command) -> None:
    found = list(shown(PAGE.read_text(encoding="utf-8")))
    assert len(found) >= 10
    for arguments, lines in found:
        done = midcourse(*arguments, env={"COLUMNS": "200"})
        assert done.code == 0, done.err
        assert_prints(re.sub(r"[ \t]+", " ", done.out), lines)
