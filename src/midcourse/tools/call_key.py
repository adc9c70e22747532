"""The call that a ready tool runs in: its key, and if it should end."""

from midcourse.clock import SystemClock
from midcourse.runtime.calls import current_call, in_a_step


def key_of_this_call() -> str:
    """Return the key of the step that this code runs in; a fresh one outside any step."""
    return (current_call().key if in_a_step() else "") or SystemClock().fresh_id()


def end_if_asked() -> None:
    """Leave the call here if a stop wants it to end. Outside a step nothing does."""
    if in_a_step():
        current_call().raise_if_cancelled()
