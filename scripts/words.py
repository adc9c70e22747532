"""Count words of our dialect in what people read, and refuse more of them than are kept in ``words.json``.

Counted are the README, the pages of docs, the sentences and docstrings of the source, and the console's texts; in
docstrings also openings that announce a thing instead of saying what a function does ("What …", "Whether …").
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
WORDS: Final = (
    "nobody",
    "somebody",
    "whoever",
    "goes on",
    "going on",
    "went on",
    "told of",
    "looked at",
    "stood by",
    "let go",
    "lets go",
    "letting go",
    "is taken",
    "are taken",
    "set going",
    "of its own accord",
    "of their own accord",
    "said in words",
)
OPENINGS: Final = ("What", "Whether", "The same", "How")
PATTERN: Final = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in WORDS) + r")\b", re.IGNORECASE)
OPENING: Final = re.compile(rf"\s*({'|'.join(OPENINGS)})\b")
COMMENT: Final = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
CODE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
Counts = dict[str, dict[str, int]]


def strings(path: Path) -> Iterator[tuple[bool, str]]:
    """Yield the strings of a Python file, each with whether it is a docstring, of a field too."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(one.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for one in node.body
        if isinstance(one, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield id(node) in docstrings, node.value


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text with its area; ``sentences`` are those of errors and answers."""
    yield "readme", (ROOT / "README.md").read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        # The reference is made from the code, decisions are history, and the glossary lists the old words.
        if not {"reference", "decisions"} & set(path.relative_to(ROOT).parts) and path.name != "glossary.md":
            yield "docs", CODE.sub("", path.read_text())
    for path in sorted((ROOT / "src" / "midcourse").rglob("*.py")):
        of_cli = "cli" in path.relative_to(ROOT).parts
        for is_docstring, text in strings(path):
            if " " in text:  # a word alone is data
                yield "docstrings" if is_docstring else "cli" if of_cli else "sentences", text
    for path in sorted((ROOT / "console" / "src").rglob("*.ts*")):
        yield "console", COMMENT.sub("", path.read_text())


def count() -> Counts:
    """Return how often each word is in each area, and each opening among the docstrings."""
    found: dict[str, Counter[str]] = {}
    for area, text in texts():
        counter = found.setdefault(area, Counter())
        counter.update(" ".join(match.group(1).lower().split()) for match in PATTERN.finditer(text))
        if area == "docstrings" and (opening := OPENING.match(text)):
            counter[f"{opening.group(1)} …"] += 1
    return {area: dict(sorted(counter.items())) for area, counter in sorted(found.items())}


def main() -> int:
    """Compare, or with ``--keep`` write the counts as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the counts as they are now")
    now = count()
    total = sum(sum(words.values()) for words in now.values())
    if parser.parse_args().keep:
        KEPT.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
        print(f"words: kept {total}.")
        return 0
    before: Counts = json.loads(KEPT.read_text())
    pairs = [(area, word, number) for area, words in now.items() for word, number in words.items()]
    risen = [one for one in pairs if one[2] > before.get(one[0], {}).get(one[1], 0)]
    for area, word, number in risen:
        kept = before.get(area, {}).get(word, 0)
        print(f"'{word}' is {number} times in {area}, {number - kept} more than before.", file=sys.stderr)
    if risen:
        print("Say it in a word of docs/glossary.md; begin a docstring with a verb or a noun.", file=sys.stderr)
        return 1
    lower = sum(sum(words.values()) for words in before.values()) - total
    print(f"words: {total} to rewrite" + (f", {lower} fewer than kept: make words" if lower else "") + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
