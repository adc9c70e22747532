"""The nursery itself: every life is a process of its own, dies its own death, and can tell what went wrong."""

import signal
from pathlib import Path

from tests.crash.nursery import live


def test_a_life_ends_by_itself_or_by_a_real_sigkill_and_none_is_another(tmp_path: Path) -> None:
    """The second one finds what the first has left, as a fresh process would."""
    assert live("cancel", tmp_path, 5, "after").returncode == -signal.SIGKILL
    assert live("cancel", tmp_path, 0, "before").returncode == 0
    lives = [line for line in (tmp_path / "ledger").read_text().splitlines() if line.startswith("life ")]
    assert len(set(lives)) == 2


def test_what_a_life_raised_is_told(tmp_path: Path) -> None:
    """As a process writes it when it ends; and the next life is not harmed."""
    (tmp_path / "store.db").write_text("no store at all, and longer than the header of one: " * 10)
    failed = live("plain", tmp_path, 0, "before")
    assert failed.returncode == 1
    assert "restore this one from a backup" in failed.tail
    healthy = tmp_path / "healthy"
    healthy.mkdir()
    assert live("plain", healthy, 0, "before").returncode == 0
