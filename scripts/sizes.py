"""Compare the size, complexity and repetition of the source with the figures kept in ``sizes.json``.

A figure may rise for a reason: ``make sizes WHY="…"`` keeps the new figures and the reason.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "midcourse"
KEPT: Final = Path(__file__).with_name("sizes.json")
SLACK: Final = 60
"""Lines by which a package may grow before a reason is wanted."""
COMPLEX: Final = 12
"""Branches of a function from which it counts as complex."""
ALIKE: Final = 6
"""Lines in a row that count as repeated when they stand in a second place."""
REASONS: Final = 20
"""Reasons that are kept, newest last."""
Figures = dict[str, Any]


def lines() -> dict[str, int]:
    """Return the lines of each package, and of the modules beside them as ``.``."""
    found: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        found[inside[0] if len(inside) > 1 else "."] += len(path.read_text().splitlines())
    return dict(sorted(found.items()))


def complex_functions() -> list[str]:
    """Return the functions with more than :data:`COMPLEX` branches, each as ``core/steps.py: apply``."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--output-format", "json"]
    limit = ["--config", f"lint.mccabe.max-complexity={COMPLEX}", str(SOURCE)]
    done = subprocess.run([*command, *limit], check=False, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return sorted(f"{Path(one['filename']).relative_to(SOURCE)}: {one['message'].split('`')[1]}" for one in found)


def repeated_lines() -> int:
    """Return how many lines belong to a run of :data:`ALIKE` that occurs again. Imports and blanks do not count."""
    places: defaultdict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        said = [line.strip() for line in path.read_text().splitlines()]
        code = [line for line in said if line and not line.startswith(("import ", "from ", "#", '"""', ")", "]", "}"))]
        for start in range(len(code) - ALIKE + 1):
            places[tuple(code[start : start + ALIKE])].append((path, start))
    found = {
        (path, start + line) for at in places.values() if len(at) > 1 for path, start in at for line in range(ALIKE)
    }
    return len(found)


def compare(before: Figures, now: Figures) -> list[str]:
    """Return a sentence for each figure that rose."""
    said: list[str] = []
    for package, count in now["lines"].items():
        kept = before["lines"].get(package, 0)
        if count > kept + SLACK:
            said.append(f"src/midcourse/{package} has {count} lines, {count - kept} more than were kept.")
    said += [f"{one} has more than {COMPLEX} branches." for one in now["complex"] if one not in before["complex"]]
    if now["repeated"] > before.get("repeated", now["repeated"]) + SLACK:
        more = now["repeated"] - before["repeated"]
        said.append(f"{now['repeated']} lines are repeated elsewhere, {more} more than were kept.")
    return said


def main() -> int:
    """Compare, or with ``--keep`` write the figures as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", metavar="WHY", help="keep the figures as they are now, for this reason")
    options = parser.parse_args()
    now: Figures = {"lines": lines(), "complex": complex_functions(), "repeated": repeated_lines()}
    before: Figures = json.loads(KEPT.read_text()) if KEPT.exists() else {"lines": {}, "complex": [], "why": []}
    total = sum(now["lines"].values())
    said = f"{total} lines, {len(now['complex'])} complex functions, {now['repeated']} repeated lines"
    if options.keep is not None:
        why = [*before["why"], f"{total} lines: {options.keep}"][-REASONS:]
        KEPT.write_text(json.dumps({**now, "why": why}, indent=1, ensure_ascii=False) + "\n")
        print(
            f"sizes: kept {total} lines and {len(now['complex'])} complex functions, {now['repeated']} repeated lines."
        )
        return 0
    risen = compare(before, now)
    for one in risen:
        print(one, file=sys.stderr)
    if risen:
        print('Make it smaller, or say why it may grow: make sizes WHY="…"', file=sys.stderr)
        return 1
    print(f"sizes: {said}, none above what was kept.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
