"""A copy of a store's file in which some bytes are others."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

CHANGES = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4)
"""Where, and what is there then."""


@contextmanager
def spoiled(whole: Path, changes: Sequence[tuple[int, int]]) -> Generator[Path]:
    """A copy of a store's file with these changes."""
    content = bytearray(whole.read_bytes())
    for where, value in changes:
        content[where % len(content)] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midcourse.db"
        path.write_bytes(content)
        yield path
