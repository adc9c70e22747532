"""Settings of the interpreter for a process that is ours: a command, a server. Not for a program that imports us."""

import gc
import sys
from typing import Final

_COLLECTED_AFTER: Final = 50_000
"""New objects after which cycles among them are looked for: what is imported, and what sessions keep, has few."""
_TURN: Final = 0.0005
"""Seconds that a thread computes while another one waits: a request passes five of them, behind a thousand sessions."""


def own_process() -> None:
    """Look for cycles more seldom, and let threads take turns more often, than suits any program."""
    gc.set_threshold(_COLLECTED_AFTER)
    sys.setswitchinterval(_TURN)
