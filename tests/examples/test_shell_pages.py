"""The pages that talk to a server are walked through: real bash, real curl, a real ``midcourse serve --demo``.

A page with `bash` blocks is one walk. Blocks that are announced with the name of a file are written there. Then the
server is started, and what the `console` block shows of that start must be what it says. Then each `bash` block is
typed into one shell, each `python` block is run as a program of its own, and every `text` block that follows, and is
announced with "prints:", must be printed, in its order, by what was typed before it (`…` stands for what differs from
run to run). A block that ends with `&` goes on while the next ones are typed.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.examples.demo_server import Served, served, surroundings
from tests.examples.expected import ROOT, assert_prints
from tests.examples.test_examples import PAGES, Block, blocks

PORT = "8420"
"""The port that pages name; the test's server is at another."""
WITHIN = 30.0
FILE = re.compile(r"`([\w./-]+\.(?:py|yaml))`:$")


def walks() -> list[Path]:
    """The pages that have something to type."""
    return [page for page in PAGES if "\n```bash\n" in page.read_text(encoding="utf-8")]


class Shell:
    """A bash that blocks are typed into."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._screen = server.folder / "screen.txt"
        self._number = 0
        self._since = 0
        with self._screen.open("wb") as screen:
            self._bash = subprocess.Popen(
                ["bash", "-u"],
                cwd=server.folder,
                env=surroundings(server.folder),
                stdin=subprocess.PIPE,
                stdout=screen,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def type(self, lines: str) -> None:
        """Type lines, and wait until the shell is ready for more."""
        assert self._bash.stdin is not None
        self._number += 1
        self._since = len(self.screen)
        done = f"block {self._number} is done"
        self._bash.stdin.write(f"{lines.replace(PORT, str(self._server.port))}\necho '{done}'\n".encode())
        self._bash.stdin.flush()
        self._until(lambda: done in self.screen[self._since :], f"still busy with:\n{lines}")

    def run(self, program: str) -> None:
        """Run a Python program."""
        script = self._server.folder / f"program_{self._number}.py"
        script.write_text(program.replace(PORT, str(self._server.port)), encoding="utf-8")
        self.type(f"python -W error {script.name}")

    def must_print(self, promised: str) -> None:
        """What was typed last, or goes on beside it, prints these lines."""
        lines = [line.replace(PORT, str(self._server.port)) for line in promised.splitlines() if line.strip()]

        def printed() -> bool:
            try:
                assert_prints(self.screen[self._since :], lines)
            except AssertionError:
                return False
            return True

        self._until(printed, None)
        assert_prints(self.screen[self._since :], lines)

    @property
    def screen(self) -> str:
        """All that was printed."""
        return self._screen.read_text(encoding="utf-8", errors="replace")

    def _until(self, happened: Callable[[], bool], why: str | None) -> None:
        deadline = time.monotonic() + WITHIN
        while not happened():
            if time.monotonic() > deadline:
                assert why is None, f"{why}\n{self.screen}"
                return
            assert self._bash.poll() is None, f"the shell has ended\n{self.screen}"
            time.sleep(0.02)

    def leave(self) -> None:
        """Close the shell, and end what it has left running."""
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        try:
            self._bash.wait(5)
        finally:
            with suppress(ProcessLookupError):  # its group is its own, and nothing else is in it
                os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait()


@contextmanager
def typing(server: Served) -> Generator[Shell]:
    """A shell in the server's folder."""
    shell = Shell(server)
    try:
        yield shell
    finally:
        shell.leave()


def options_of(found: list[Block]) -> tuple[list[str], list[str]]:
    """How a page starts its server, and what it shows of that."""
    for block in found:
        first, _, shown = block.body.partition("\n")
        if block.kind == "console" and first.startswith("$ midcourse serve"):
            return first.split()[3:], shown.splitlines()
    raise AssertionError("the page does not say how its server is started: $ midcourse serve …")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", walks(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_walk_prints_what_its_page_shows(page: Path, tmp_path: Path) -> None:
    assert shutil.which("curl"), "curl is missing: run scripts/tools.sh"
    found = list(blocks(page.read_text(encoding="utf-8")))
    for block in found:
        if name := FILE.search(block.announced):
            file = tmp_path / name[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
    options, shown = options_of(found)
    with served(tmp_path, *options, terminal=True, COLUMNS="200") as server, typing(server) as shell:
        assert_prints(server.said, [line.replace(PORT, str(server.port)) for line in shown if line.strip()])
        for block in found:
            if block.kind == "bash":
                shell.type(block.body)
            elif block.kind == "python" and not FILE.search(block.announced):
                shell.run(block.body)
            elif block.kind == "text" and re.search(r"prints?:$", block.announced):
                shell.must_print(block.body)
