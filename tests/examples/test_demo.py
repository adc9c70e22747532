"""``make demo`` as a person starts it: a ready link, steps to try; again it goes on, and a reset starts over."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.examples.demo_server import free_port, surroundings
from tests.examples.expected import ROOT, assert_prints

WITHIN = 60.0
GOAL = "Write a churn memo"


class Demo:
    """A demo that runs, and what it says."""

    def __init__(self, folder: Path, *options: str, pace: str) -> None:
        self.port = free_port()
        self.screen = folder / "screen.txt"
        with self.screen.open("wb") as screen:
            self.process = subprocess.Popen(
                [sys.executable, ROOT / "scripts" / "demo.py", *_options(folder, self.port), *options],
                cwd=folder,
                env=surroundings(folder, MIDCOURSE_SAMPLE_PACE=pace),
                stdout=screen,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + WITHIN
        while "Ctrl-C ends it" not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)
        found = re.search(r"Open (\S+)/login#(mcl_\S+)", self.said)
        assert found, self.said
        self.url = found[1]
        self.code = found[2]
        token = (folder / "demo" / ".midcourse" / "token").read_text(encoding="ascii").strip()
        self.headers = {"Authorization": f"Bearer {token}"}

    @property
    def said(self) -> str:
        """What is on the screen."""
        return self.screen.read_text(encoding="utf-8")

    def ask(self, path: str) -> Any:
        """What the API answers."""
        return httpx2.get(f"{self.url}/api/v1{path}", headers=self.headers, timeout=WITHIN).json()

    def end(self) -> str:
        """Ctrl-C; what it has said when it is gone."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 0, self.said
        return self.said


def _options(folder: Path, port: int) -> list[str]:
    return ["--folder", str(folder / "demo"), "--port", str(port)]


@contextmanager
def demonstrated(folder: Path, *options: str, pace: str = "0.005") -> Generator[Demo]:
    """The demo while the block lasts."""
    demo = Demo(folder, *options, pace=pace)
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait()


@pytest.mark.timeout(180)
def test_the_demo_gives_a_link_and_steps_goes_on_when_run_again_and_starts_over_when_asked(tmp_path: Path) -> None:
    with demonstrated(tmp_path, pace="1") as demo:  # it has not said all that before it is ended
        assert_prints(
            demo.said,
            [
                "Midcourse serves churn-memo, repo-fixer, records-cleaner, order-desk, researcher.",
                "Open http://127.0.0.1:…/login#mcl_…",
                "The link works once, within a minute. For another one: make demo, in a second terminal.",
                "1. New run (n): churn-memo, …",
                "…Pause (p)…",
                "…Redirect (r)…",
                "…Cancel (c)…",
                "…receipt…",
            ],
        )
        entered = httpx2.post(f"{demo.url}/api/v1/login", json={"credential": demo.code}, timeout=WITHIN)
        assert entered.status_code == 200, "the link opens at once"
        begun = {"agent": "churn-memo", "goal": GOAL, "session_id": "sess_demo"}
        httpx2.post(f"{demo.url}/api/v1/sessions", json=begun, headers=demo.headers, timeout=30).raise_for_status()
        second = subprocess.run(
            [sys.executable, ROOT / "scripts" / "demo.py", *_options(tmp_path, free_port())],
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=True,
        )
        assert f"The demo runs already. Open {demo.url}/login" in second.stdout
        assert_prints(
            demo.end(),
            ["1 running was released, none cancelled. To continue: make demo. To start over: make demo-reset."],
        )

    with demonstrated(tmp_path) as demo:
        assert "The sessions of the last demo are there, and continue." in demo.said
        result = demo.ask("/sessions/sess_demo/result?wait=50")
        assert result["status"] == "completed"
        assert str(tmp_path / "demo") in result["result"], "the agents work inside the demo's folder"
        demo.end()

    with demonstrated(tmp_path, "--reset") as demo:
        assert demo.ask("/sessions")["sessions"] == []
        assert "last demo" not in demo.said
        demo.end()
