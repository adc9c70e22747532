"""Each framework's hello world, alone and held: both print what they promise, few lines differ, the docs show them."""

import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.expected import ROOT, assert_prints
from tests.examples.test_examples import promises

FOLDER = ROOT / "examples" / "frameworks"
pytestmark = pytest.mark.timeout(180)  # importing a framework takes long on a busy machine
FRAMEWORKS = sorted(path.name.removesuffix("_hello.py") for path in FOLDER.glob("*_hello.py"))
FILES = sorted(FOLDER.glob("*_hello.py")) + sorted(FOLDER.glob("*_held.py"))
MOST_CHANGED_LINES = 15
PAGES = {
    "pydantic_ai": "hold-a-pydantic-ai-agent.md",
    "langgraph": "hold-a-langgraph-graph.md",
    "openai_agents": "hold-an-openai-agents-agent.md",
}


def _run(example: Path, folder: Path) -> str:
    # The hello worlds leave their clients to the end of the process, as the frameworks' own do.
    command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", str(example)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    # On a busy machine, the first import of a client takes long enough to be noticed.
    complaints = [line for line in done.stderr.splitlines() if "has held its event loop" not in line]
    assert not complaints, f"complained:\n{done.stderr}"
    return done.stdout


def _code(example: Path) -> str:
    source = example.read_text(encoding="utf-8")
    end = ast.parse(source).body[0].end_lineno
    return "\n".join(source.splitlines()[end:]).strip("\n")


def test_there_is_a_pair_for_each_framework() -> None:
    assert FRAMEWORKS == ["anthropic", "langgraph", "openai", "openai_agents", "pydantic_ai"]
    assert len(FILES) == 2 * len(FRAMEWORKS)


@pytest.mark.parametrize(
    "example",
    # A framework alone, which nothing here can break, is left to `make thorough`.
    [pytest.param(one, marks=pytest.mark.thorough if one.stem.endswith("_hello") else ()) for one in FILES],
    ids=[one.stem for one in FILES],
)
def test_it_prints_what_its_docstring_promises(example: Path, tmp_path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    assert docstring
    assert_prints(_run(example, tmp_path), promises(docstring))
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind where it was started"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_few_lines_differ_between_an_agent_and_the_same_agent_held(framework: str) -> None:
    plain, held = ((FOLDER / f"{framework}_{which}.py").read_text().splitlines() for which in ("hello", "held"))
    changed = list(difflib.unified_diff(plain, held, lineterm=""))[2:]
    added, removed = (sum(line.startswith(sign) for line in changed) for sign in "+-")
    assert max(added, removed) <= MOST_CHANGED_LINES, "\n".join(changed)


@pytest.mark.parametrize("framework", PAGES)
def test_the_page_shows_both_as_they_are(framework: str) -> None:
    text = (ROOT / "docs" / "how-to" / PAGES[framework]).read_text(encoding="utf-8")
    shown = re.findall(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for which in ("hello", "held"):
        example = FOLDER / f"{framework}_{which}.py"
        assert f"{_code(example)}\n" in shown, f"{PAGES[framework]} does not show {example.name} as it is"
    promised = promises(ast.get_docstring(ast.parse((FOLDER / f"{framework}_held.py").read_text())) or "")
    assert "```text\n" + "\n".join(line.strip() for line in promised) + "\n```" in text
