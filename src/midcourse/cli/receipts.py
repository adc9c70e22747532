"""Receipts on a terminal: a table, one line for each effect."""

from msgspec.structs import replace

from midcourse.cli.printer import print_lines, show_table
from midcourse.cli.status_text import receipt_title
from midcourse.core.events import ReceiptLine
from midcourse.core.receipt import COLUMNS, SHOWN, Receipt, tally

LOST = "lost with its process; it may have happened"


def show_receipt(receipt: Receipt, *, unattended: bool = False) -> None:
    """Print the outcome of each effect. ``unattended``: its process is gone, and what ran there is lost."""
    print_lines(receipt_title(receipt))
    if not receipt.lines:
        print_lines(*filter(None, [receipt.children_words]))
        return
    if unattended:
        receipt = replace(receipt, lines=tuple(map(_lost, receipt.lines)))
    rows = [
        (f"{line.name} {line.arguments[:SHOWN]}".rstrip(), line.effect, line.outcome, line.detail)
        for line in receipt.lines
    ]
    show_table(COLUMNS, rows, whole=("effect", "outcome"))
    print_lines(f"{tally(receipt.lines)}.")
    print_lines(*filter(None, [receipt.twice_words, receipt.children_words]))


def _lost(line: ReceiptLine) -> ReceiptLine:
    """Mark a line as lost: the journal has no end of it, and its process is gone."""
    return replace(line, outcome="unknown", detail=LOST) if line.outcome == "still running" else line
