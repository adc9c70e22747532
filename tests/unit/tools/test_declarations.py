"""A file declares many tools; a mistake in it is told with its place, and nothing is then declared."""

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from midcourse.errors import InvalidInput, ToolUnavailable
from midcourse.runtime.tools import find_tool, tool_of
from midcourse.tools.declarations import declare_tools, from_mcp

_numbers = itertools.count()


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Somebody else's module."""
    source = """
from midcourse.tools import observer

reopened = []

def place_order(what: str) -> str:
    return what

async def cancel_order(id: int) -> None: ...

def reopen_order(arguments, result, key):
    reopened.append((arguments, key))

async def is_cancelled(arguments, key):
    return True

class Basket:
    @staticmethod
    def empty() -> None: ...

stock = observer("stock:{what}", lambda arguments: 7)
"""
    module = ModuleType(f"shop_{next(_numbers)}")  # what one test declares stays declared
    exec(source, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def write(folder: Path, text: str, shop: ModuleType | None = None) -> Path:
    path = folder / "tools.toml"
    path.write_text(text.replace("shop_of_a_test", shop.__name__) if shop else text)
    return path


async def test_a_file_declares_what_is_not_ours(tmp_path: Path, shop: ModuleType) -> None:
    path = write(
        tmp_path,
        """
["shop_of_a_test:place_order"]
name = "order"
effect = "idempotent"
timeout = 5
resources = ["shop"]
environment = "prod"
cost = 0.5
on_change = "ask"
observes = [{ observer = "shop_of_a_test:stock" }, { file = "what", root = "." }]

["shop_of_a_test:cancel_order"]
effect = "write"
undo = "shop_of_a_test:reopen_order"
probe = "shop_of_a_test:is_cancelled"
if_silent = "ask"
settle = 10

["shop_of_a_test:cancel_order".observes]
row = "select version from orders where id = :id"
database = "shop.db"

['shop_of_a_test:Basket.empty']
effect = "read"

["not_installed_here:anything"]
undo = "not_installed_here:undo_it"
""",
        shop,
    )
    name = shop.__name__
    assert declare_tools(path)[:2] == (f"{name}:place_order", f"{name}:cancel_order")

    # The functions say that they belong to the module, as imported ones do.
    order = find_tool(f"{name}:place_order")
    assert (order.name, order.kind, order.timeout, order.environment) == ("order", "idempotent", 5, "prod")
    assert (order.resources, order.cost, order.on_change) == (("shop",), 0.5, "ask")
    stock, file = order.observes
    assert (stock.resource({"what": "tea"}), await stock.version({"what": "tea"})) == ("stock:tea", "7")
    assert file.resource({"what": "tea"}) == f"file:{tmp_path}/tea"
    assert tool_of(shop.place_order) is order

    cancel = find_tool(f"{name}:cancel_order")
    assert (cancel.kind, cancel.if_silent, cancel.settles_in) == ("reversible", "ask", 10)
    assert cancel.undo is not None
    cancel.undo({"id": 1}, None, "key")
    assert shop.reopened == [({"id": 1}, "key")]
    assert cancel.probe is not None
    assert await cancel.probe({"id": 1}, "key") is True  # pyright: ignore[reportGeneralTypeIssues]
    assert cancel.observes[0].resource({"id": 1}).startswith(f"row:{tmp_path}/shop.db")
    assert find_tool(f"{name}:Basket.empty").kind == "read"
    with pytest.raises(ToolUnavailable):
        find_tool("not_installed_here:anything")


def test_an_undo_that_is_not_there_is_missed_when_it_is_used(tmp_path: Path, shop: ModuleType) -> None:
    declare_tools(write(tmp_path, '["shop_of_a_test:place_order"]\nundo = "shop_of_a_test:never_written"\n', shop))
    made = tool_of(shop.place_order)
    assert made.undo is not None
    with pytest.raises(ToolUnavailable, match=":never_written' is not here"):
        made.undo({}, None, "key")


MISTAKES: Mapping[str, tuple[str, str]] = {
    "a field that is not known": ('["m:f"]\n\nefect = "read"\n', "line 3: .*efect: .*Did you mean 'effect'"),
    "a word that is not known": ('["m:f"]\neffect = "reed"\n', "line 2: .*is one of read, idempotent.*mean 'read'"),
    "a word of another field": ('["m:f"]\non_change = "never"\n', "line 2: .*tell, ask, refuse, go_on"),
    "a wrong type": ('["m:f"]\neffect = "read"\ntimeout = "5 s"\n', "line 3: .*timeout: Expected `float`, got `str`"),
    "a wrong type inside": ('["m:f"]\nresources = ["a", 1]\n', "line 2: .*resources: Expected `str`, got `int`"),
    "a number below zero": ('["m:f"]\nsettle = -1\n', "line 2: .*settle is -1"),
    "a contradiction": ('["m:f"]\neffect = "read"\nundo = "m:g"\n', "line 3: .*a 'read' changes nothing"),
    "no import path": ('["m:f"]\nundo = "reopen"\n', "line 2: .*undo: it is 'reopen', and is an import path"),
    "a table without quotes": ("[shop.orders]\neffect = 'read'\n", "line 1: .*import path in quotes"),
    "a value outside a table": ("effect = 'read'\n", "effect.*import path in quotes"),
    "a name without a function": ('["shop.orders"]\n', "line 1: .*module:function"),
    "an observer of no kind": ('["m:f"]\nobserves = { fil = "path" }\n', "line 2: .*file, http, row.*mean 'file'"),
    "an observer of two kinds": ('["m:f"]\nobserves = { file = "a", http = "b" }\n', "names one kind"),
    "an observer that is empty": ('["m:f"]\nobserves = {}\n', "names one kind"),
    "an option that does not go": ('["m:f"]\nobserves = { file = "a", rot = "b" }\n', "'rot'.*Did you mean 'root'"),
    "a row without its file": ('["m:f"]\nobserves = { row = "select 1" }\n', "database = 'shop.db'"),
    "an observer of a wrong type": ('["m:f"]\nobserves = { file = 3 }\n', "file is a text, not 3"),
    "a mistake in the second": ('["m:f"]\neffect = "read"\n["m:g"]\nefect = "read"\n', 'line 4: .*"m:g"'),
    "no TOML": ('["m:f"\n', r"is not TOML: .*line 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, mistake: str) -> None:
    text, says = MISTAKES[mistake]
    path = write(tmp_path, text)
    with pytest.raises(InvalidInput, match=says) as refused:
        declare_tools(path)

    assert str(path) in refused.value.message


def test_a_file_with_a_mistake_declares_nothing(tmp_path: Path, shop: ModuleType) -> None:
    text = '["shop_of_a_test:place_order"]\neffect = "read"\n["shop_of_a_test:cancel_order"]\neffect = "reed"\n'
    with pytest.raises(InvalidInput):
        declare_tools(write(tmp_path, text, shop))

    assert not tool_of(shop.place_order).declared


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        declare_tools(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        ({"readOnlyHint": True, "idempotentHint": False}, "read"),
        ({"idempotentHint": True, "destructiveHint": True}, "idempotent"),
        ({"destructiveHint": False}, "write"),
        ({"readOnlyHint": "yes"}, "write"),
        ({}, "write"),
    ],
)
def test_hints_of_mcp_become_an_effect(annotations: dict[str, Any], effect: str) -> None:
    assert from_mcp(annotations) == {"effect": effect}
