"""The core decides without the world: no I/O, no clock, no chance, no concurrency, no await."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

CORE: Final = Path(__file__).parents[2] / "src" / "midcourse" / "core"
MODULES: Final = sorted(CORE.rglob("*.py"))
FORBIDDEN: Final = frozenset(
    {
        *("asyncio", "concurrent", "contextvars", "multiprocessing", "queue", "select", "selectors", "signal"),
        *("subprocess", "threading", "datetime", "time", "zoneinfo", "random", "secrets", "uuid"),
        *("fcntl", "glob", "http", "io", "logging", "os", "pathlib", "shutil", "socket", "sqlite3", "ssl", "sys"),
        *("tempfile", "urllib"),
    }
)
IMPURE_NAMES: Final = frozenset({"open", "print", "input", "__import__", "eval", "exec", "globals", "id"})
OURS: Final = ("midcourse.core", "midcourse.errors")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." * node.level


def impurities(source: str) -> list[str]:
    """What in ``source`` reaches for the world, or waits for it."""
    tree = ast.parse(source)
    found = [f"imports {name}" for name in imports(tree) if name.partition(".")[0] in FORBIDDEN]
    found += [
        f"imports {name}"
        for name in imports(tree)
        if name.partition(".")[0] == "midcourse" and not f"{name}.".startswith(tuple(f"{ours}." for ours in OURS))
    ]
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append(f"line {node.lineno}: waits")
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_NAMES:
                found.append(f"line {node.lineno}: calls {name}")
            case ast.Global() | ast.Nonlocal():
                found.append(f"line {node.lineno}: changes what is outside")
            case _:
                pass
    return found


def test_there_is_a_core() -> None:
    assert {path.stem for path in MODULES} >= {
        "codec",
        "commands",
        "decisions",
        "evolution",
        "fold",
        "pauses",
        "records",
        "session",
        "steps",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_core_is_pure(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from datetime import datetime",
        "from asyncio import sleep",
        "def f():\n    import random",
        "from midcourse.ports.clock import Clock",
        "import midcourse.runtime",
        "async def f(): pass",
        "async def f():\n    await g()",
        "open('x')",
        "def f():\n    global x\n    x = 1",
    ],
)
def test_the_check_notices_what_it_is_for(source: str) -> None:
    assert impurities(source)


def test_the_check_lets_pure_code_be() -> None:
    assert impurities("from midcourse.core import events\nfrom midcourse.errors import Damaged\nimport msgspec") == []
