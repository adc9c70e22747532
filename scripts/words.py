"""Count words of our dialect in what users read, and refuse more of them than are kept in ``words.json``.

A count may only go down: rewrite the sentence, then ``make words`` keeps the lower count. The words to use are in
``docs/glossary.md``.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = Path(__file__).with_name("words.json")
WORDS: Final = ("nobody", "somebody", "whoever", "goes on", "told of", "let go", "set going", "of its own accord")
PATTERN: Final = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in WORDS) + r")\b", re.IGNORECASE)
COMMENT: Final = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
Counts = dict[str, dict[str, int]]


def strings(path: Path) -> Iterator[str]:
    """Yield what a user may read of a Python file: strings other than docstrings, and the docstrings of commands."""
    tree = ast.parse(path.read_text())
    hidden: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list and "cli" in path.parts:
            continue
        hidden |= {id(one.value) for one in node.body if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text with its area; ``sentences`` are those of errors and answers."""
    yield "readme", (ROOT / "README.md").read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        # The reference is made from the code, decisions are history, and the glossary lists the old words.
        if not {"reference", "decisions"} & set(path.relative_to(ROOT).parts) and path.name != "glossary.md":
            yield "docs", path.read_text()
    for path in sorted((ROOT / "src" / "midcourse").rglob("*.py")):
        area = "cli" if "cli" in path.relative_to(ROOT).parts else "sentences"
        yield from ((area, text) for text in strings(path))
    for path in sorted((ROOT / "console" / "src").rglob("*.ts*")):
        yield "console", COMMENT.sub("", path.read_text())


def count() -> Counts:
    """Return how often each word stands in each area."""
    found: dict[str, Counter[str]] = {}
    for area, text in texts():
        counter = found.setdefault(area, Counter())
        counter.update(" ".join(match.group(1).lower().split()) for match in PATTERN.finditer(text))
    return {area: dict(sorted(counter.items())) for area, counter in sorted(found.items())}


def main() -> int:
    """Compare, or with ``--keep`` write the counts as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the counts as they are now")
    now = count()
    total = sum(sum(words.values()) for words in now.values())
    if parser.parse_args().keep:
        KEPT.write_text(json.dumps(now, indent=1) + "\n")
        print(f"words: kept {total}.")
        return 0
    before: Counts = json.loads(KEPT.read_text())
    pairs = [(area, word, number) for area, words in now.items() for word, number in words.items()]
    risen = [one for one in pairs if one[2] > before.get(one[0], {}).get(one[1], 0)]
    for area, word, number in risen:
        kept = before.get(area, {}).get(word, 0)
        print(f"'{word}' stands {number} times in {area}, {number - kept} more than before.", file=sys.stderr)
    if risen:
        print("Say it in a word of docs/glossary.md.", file=sys.stderr)
        return 1
    lower = sum(sum(words.values()) for words in before.values()) - total
    print(f"words: {total} to rewrite" + (f", {lower} fewer than kept: make words" if lower else "") + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
