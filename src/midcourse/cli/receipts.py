"""Receipts on a terminal: a table, one line for each effect."""

from midcourse.cli.printing import say, show_table
from midcourse.cli.words import receipt_title
from midcourse.core.receipt import COLUMNS, SHOWN, Receipt


def show_receipt(receipt: Receipt) -> None:
    """What became of each effect."""
    say(receipt_title(receipt))
    if not receipt.lines:
        return
    rows = [
        (f"{line.name} {line.arguments[:SHOWN]}".rstrip(), line.effect, line.outcome, line.detail)
        for line in receipt.lines
    ]
    show_table(COLUMNS, rows, whole=("effect", "outcome"))
    counts = {
        outcome: sum(line.outcome == outcome for line in receipt.lines)
        for line in receipt.lines
        for outcome in (line.outcome,)
    }
    say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + ".")
    if receipt.twice:
        say(receipt.twice_words)
