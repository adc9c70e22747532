"""Where a server finds agents: files, folders, modules, and files of a package with relative imports."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midcourse.errors import InvalidInput
from midcourse.runtime import agents
from midcourse.server.agent_loader import is_module_name, load_agents_of

AGENT = """
import midcourse
from .words import NAME

@midcourse.agent(name=NAME, version="1")
async def clerk(run: midcourse.Run) -> str:
    return NAME
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package whose modules import one another as they stand."""
    package = tmp_path / "placeshop" / "agents"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "words.py").write_text("NAME = 'placed-clerk'\n")
    (package / "clerk.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(agents, "_registered", {})
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "placeshop"]:
        del sys.modules[name]


def test_a_module_is_named_as_python_imports_it(shop: Path) -> None:
    assert load_agents_of(["placeshop.agents.clerk"]) == ["placed-clerk"]
    assert agents.registered()["placed-clerk"].origin == "placeshop.agents.clerk:clerk"


def test_a_package_serves_what_it_imports(shop: Path) -> None:
    (shop / "__init__.py").write_text("from . import clerk\n")
    assert load_agents_of(["placeshop.agents"]) == ["placed-clerk"]
    assert load_agents_of(["placeshop.agents"]) == ["placed-clerk"], "also when it was imported before"


def test_the_relative_imports_of_a_file_work(shop: Path) -> None:
    assert load_agents_of([shop / "clerk.py"]) == ["placed-clerk"]
    assert agents.registered()["placed-clerk"].origin == "placeshop.agents.clerk:clerk"


def test_what_cannot_be_imported_or_holds_no_agent_says_so(shop: Path) -> None:
    with pytest.raises(InvalidInput, match="'placeshop.nowhere' cannot be imported: ModuleNotFoundError"):
        load_agents_of(["placeshop.nowhere"])
    with pytest.raises(InvalidInput, match="'placeshop.agents.words' defines no agent"):
        load_agents_of(["placeshop.agents.words"])


def test_a_file_or_folder_that_exists_is_that(shop: Path) -> None:
    assert not is_module_name("placeshop")
    assert not is_module_name("gone.py")
    assert not is_module_name("agents/gone")
    assert is_module_name("placeshop.agents")
