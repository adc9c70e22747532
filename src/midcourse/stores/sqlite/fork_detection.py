"""Notices that this process is a forked child: SQLite connections, threads and locks do not come along."""

import os

_count = 0


def _forked() -> None:
    global _count  # noqa: PLW0603 - one number per process, changed by the operating system's fork alone
    _count += 1


os.register_at_fork(after_in_child=_forked)


def generation() -> int:
    """Return a number that differs between a process and the children it forks."""
    return _count
