"""The last answers as a table in the README, made from results.json and from nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.harness import HEADINGS, Result, cells, saved

README: Final = Path(__file__).with_name("README.md")
BEGIN: Final = "<!-- written by `python -m bench --readme` -->"
END: Final = "<!-- end -->"


def generated(results: Sequence[Result]) -> str:
    """The versions, the table, and what each floor is."""
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *(_merged(results))]
    lines = [_versions(results), "", *(f"| {' | '.join(row)} |" for row in rows), "", "The floors:", ""]
    floors: dict[str, dict[str, None]] = {}
    for one in results:
        if one.floor_is:
            floors.setdefault(one.question, {})[one.floor_is] = None
    lines += [f"- {question}: {'; '.join(each)}." for question, each in floors.items()]
    return "\n".join(lines)


def _merged(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The rows; a question is named once."""
    rows: list[tuple[str, ...]] = []
    before = ""
    for one in results:
        question, *rest = cells(one)
        rows.append(("" if question == before else question, *rest))
        before = question
    return rows


def _versions(results: Sequence[Result]) -> str:
    """What was measured; results of several versions are each named, since they should not be compared."""
    known = sorted({", ".join(f"{name} {version}" for name, version in one.versions.items()) for one in results})
    return " | ".join(known)


def write() -> None:
    """Put the table where the README's markers are."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n\n{generated(saved())}\n\n{END}{after}")
