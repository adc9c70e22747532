"""The ``midcourse`` command line: one file per noun, put together in ``main``."""

from midcourse.cli.main import main

__all__ = ["main"]
