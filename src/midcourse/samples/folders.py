"""The work folders of the sample agents: one each, outside any repository, the same for every process of a user."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = "MIDCOURSE_SAMPLES_DIR"
"""Names another place for all of them. A process that continues a session, or undoes it, needs the same one."""


def folder_of(sample: str) -> Path:
    """Return the folder of a sample, the same wherever a process was started: an undo may run in another one."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given).absolute() / sample
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "midcourse" / "samples" / sample


def made_once(target: Path, make: Callable[[Path], object]) -> Path:
    """Return ``target``, made by ``make`` if missing: whole or not at all, also if another process makes it."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        make(fresh)
        try:
            if fresh.is_dir():
                fresh.rename(target)  # fails if another has made it, which is not empty then
            else:
                os.link(fresh, target)
        except OSError:
            if not target.exists():
                raise
    return target
