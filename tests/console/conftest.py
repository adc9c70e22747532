"""A server for each module, a window for each test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

import midcourse
from midcourse.server import CallerLimits
from midcourse.server.console_files import is_built
from tests.console.agents import AGENTS, GATES
from tests.console.pages import Api, Window, let_in
from tests.server.live_server import Running, serving

SECONDS = 30_000.0
SETTINGS = midcourse.Settings(poll=0.05)
LIMITS = CallerLimits(rate=10_000, burst=10_000)

Opening = Callable[..., Window]
expect.set_options(timeout=SECONDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real server over a real store, with the agents of these tests."""
    assert is_built(), "the console is not built: run `make console`"
    store = tmp_path_factory.mktemp("console") / "sessions.db"
    with serving(f"sqlite:///{store}", *AGENTS, settings=SETTINGS, limits=LIMITS, durability="process") as running:
        GATES.begin()
        yield running
        GATES.end()


@pytest.fixture(scope="module")
def api(server: Running) -> Iterator[Api]:
    """The same server, behind the browser's back."""
    with Api(server.url) as found:
        yield found


@pytest.fixture
def opening(browser: Browser, server: Running) -> Iterator[Opening]:
    """Opens windows, each a browser of its own; all are closed at the end."""
    contexts: list[BrowserContext] = []

    def open_one(url: str = server.url, **more: Any) -> Window:
        contexts.append(let_in(browser, url, **more))
        return Window(contexts[-1], url)

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture
def window(opening: Opening) -> Iterator[Window]:
    """A window in which nothing may go wrong unseen."""
    one = opening()
    yield one
    one.is_calm()
