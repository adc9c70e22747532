"""The one count of a receipt's lines. The console counts the same: console/tests/receipt.test.ts has the same cases."""

import pytest

from midcourse.core.events import ReceiptLine, ReceiptOutcome
from midcourse.core.ids import StepId
from midcourse.core.receipt import tally


def _line(outcome: ReceiptOutcome, *, hold: bool = False) -> ReceiptLine:
    return ReceiptLine(StepId("s"), "n", outcome, "hold" if hold else "reversible", 1, "")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [_line("kept"), _line("undone"), _line("kept"), _line("undone", hold=True)],
            "1 undone, 2 kept, 1 hold released",
        ),
        (
            [_line("kept", hold=True), _line("undo failed", hold=True), _line("kept", hold=True)],
            "2 holds still held, 1 hold not released",
        ),
        (
            [_line("still running"), _line("cannot be undone"), _line("unknown")],
            "1 cannot be undone, 1 unknown, 1 still running",
        ),
        ([], ""),
    ],
)
def test_effects_are_counted_by_what_became_of_them_and_what_is_held_beside_them(
    lines: list[ReceiptLine], words: str
) -> None:
    assert tally(lines) == words
