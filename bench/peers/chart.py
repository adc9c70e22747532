"""The figures of a run as a plot for the docs."""

from pathlib import Path
from typing import Final

from bench import plot
from bench.harness import median
from bench.peers.case import CASES, Case, Figure
from bench.peers.catalogue import CATALOGUE, OURS, Entry
from bench.peers.report import Run

IMAGE: Final = Path(__file__).parent.parent.parent / "docs" / "images" / "peers.svg"


def _dot(run: Run, case: Case, one: Figure, entry: Entry) -> plot.Dot | None:
    medians = [median(each) for each in run.values_of(case.name, entry.name, one.name) if each]
    if not medians:
        return None
    kind = "ours" if entry.module == OURS else "floor" if entry.name == "floor" else "theirs"
    return plot.Dot(entry.title.replace("`", ""), kind, median(medians), min(medians), max(medians))


def panels(run: Run) -> list[plot.Dots]:
    """Return one panel for each figure that was measured."""
    drawn: list[plot.Dots] = []
    for case in CASES:
        for one in case.figures:
            dots = [dot for entry in CATALOGUE if (dot := _dot(run, case, one, entry))]
            if dots:
                drawn.append(plot.Dots(f"{case.short}: {one.says}", one.unit, dots))
    return drawn


SAYS: Final = "Medians of Midcourse and its peers, with their spread; bench/README.md has them as tables"


def write(run: Run, image: Path = IMAGE) -> None:
    """Draw it."""
    plot.write(image, SAYS, panels(run))


def picture(run: Run) -> str:
    """Return the lines of a page that show it."""
    return f"![{SAYS}](images/{IMAGE.name})\n\nMeasured on {run.date} in {run.rounds} rounds."
