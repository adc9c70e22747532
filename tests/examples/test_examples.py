"""Every example does what its docstring says, and every code block of README and docs runs and prints what it shows."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import midcourse
from tests.examples.expected import ROOT, assert_prints, run

EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALONE_SECONDS = 2
"""How long an example may take on an idle machine. Tests run beside others, so they allow ten times that."""

_FENCE = re.compile(r"^```(?P<kind>[a-z]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    body: str
    line: int
    announced: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, each with its first line's number and the line of text before it."""
    for found in _FENCE.finditer(text):
        before = text[: found.start()].rstrip().rpartition("\n")[2]
        yield Block(found["kind"], found["body"], text.count("\n", 0, found.start("body")), before)


def promises(docstring: str) -> list[str]:
    """The lines of a docstring's last section, ``Prints:``."""
    _, found, section = docstring.partition("\nPrints:\n")
    assert found, "the docstring has no section 'Prints:'"
    return [line for line in section.splitlines() if line.strip()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_docstring_promises(example: Path, tmp_path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    assert docstring
    assert_prints(run(example, folder=tmp_path, seconds=10 * ALONE_SECONDS), promises(docstring))
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind where it was started"


def test_examples_are_numbered_without_gaps() -> None:
    assert [int(example.name[:2]) for example in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = list(blocks(text))
    program = [block for block in found if block.kind == "python"]
    if not program or any(block.kind == "bash" for block in found):
        return  # nothing to run, or it needs a server: test_shell_pages.py walks through it
    # The blocks of a page are one program, and each line keeps its number: a traceback points into the page.
    lines = [""] * (text.count("\n") + 1)
    for block in program:
        body = block.body.splitlines()
        lines[block.line : block.line + len(body)] = body
    script = tmp_path / f"{page.stem.replace('-', '_').lower()}_page.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    output = run(script, folder=tmp_path, seconds=150)
    shown = [block for block in found if block.kind == "text" and block.announced.lower().endswith("prints:")]
    assert_prints(output, [line for block in shown for line in block.body.splitlines() if line.strip()])


def test_a_page_never_leads_to_a_file_that_is_not_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} leads to {target}"


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    entries = set(re.findall(r"^(?:#+ |\| )`(?:midcourse\.)?(\w+)", reference, re.MULTILINE))
    assert set(midcourse.__all__) <= entries, sorted(set(midcourse.__all__) - entries)


def test_the_reference_shows_the_signatures_as_they_are() -> None:
    """Names, order and defaults of each method in a table; ``...`` stands for a default that has no name."""
    reference = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    owner, shown = None, 0
    for line in reference.splitlines():
        if line.startswith("### "):
            owner = getattr(midcourse, line.removeprefix("### ").strip("`"), None)
        method = re.match(r"\| `(?:await )?(\w+)\((.*?)\)`", line)
        if method is None or not inspect.isclass(owner):
            continue
        parameters = [*inspect.signature(getattr(owner, method[1])).parameters.values()]
        is_shown = ast.unparse(ast.parse(f"lambda {method[2]}: 0"))
        expected = ", ".join(
            one.name if one.default is one.empty else f"{one.name}={one.default!r}"
            for one in parameters
            if one.name != "self"
        )
        given = is_shown.removeprefix("lambda").removesuffix(": 0").strip().replace("*, ", "").replace("*", "")
        pattern = re.escape(given).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, expected), f"{owner.__name__}.{method[1]}({expected})"
        shown += 1
    assert shown > 40


def test_the_first_screen_of_the_readme_has_the_two_commands_and_code() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:75])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    assert "```python" in first_screen


def test_every_picture_is_used_and_they_are_small() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*"))
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert pictures
    assert [one.name for one in pictures if f"images/{one.name}" not in pages] == []
    assert sum(one.stat().st_size for one in pictures) < 2_000_000


def test_the_page_on_embedding_shows_the_react_component_as_it_is() -> None:
    shown = (ROOT / "docs" / "how-to" / "embed-the-handle.md").read_text(encoding="utf-8")
    component = (ROOT / "examples" / "handle" / "react" / "Held.jsx").read_text(encoding="utf-8")
    assert f"```jsx\n{component}```" in shown
