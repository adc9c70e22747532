"""Fixtures of the ready tools' tests."""

from pathlib import Path

import pytest

from midcourse.tools.files import Files, files_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder the tools may work in."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Files:
    """The tools of that folder."""
    return files_in(root, backups=tmp_path / "backups", limit=10_000, backup_limit=50_000)
