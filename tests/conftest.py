"""Lets pytest explain the asserts of the suites it runs here, and says how many examples properties take."""

import asyncio
import functools
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from midcourse.runtime import agents

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.register_assert_rewrite("midcourse.testing")
gc.disable()  # until all is imported: little of it is garbage
# No test asks a server that an authority vouches for, and every HTTP client would read all of them: 20 ms each.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

settings.register_profile(
    "midcourse",
    # As many as fit into a run with all the rest. `make thorough` takes ten times as many, of every property.
    max_examples=int(os.environ.get("MIDCOURSE_PROPERTY_EXAMPLES", "50")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Without `explain`, which traces every line on Python 3.11 and would take longer than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("midcourse")


@functools.wraps(agents.refuse_namesake)
def _tolerate(other: object, made: object) -> None:
    """The suite is many programs in one process: an agent of one may have the name of another's."""


agents.refuse_namesake = _tolerate


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Of a run in the background of a script. What a test starts would not hear Ctrl-C either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give a test that is marked ``fake_time`` a clock that jumps to the next deadline when nothing is left to do."""
    from tests import fake_time  # not before pytest knows what it may rewrite

    marks = [item.get_closest_marker(name) is not None for name in ("fake_time", "real_time")]
    return {"loop": fake_time.new_loop if marks == [True, False] else asyncio.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _quick_programs() -> Iterator[None]:
    """Programs that tests start need not import everything anew."""
    from tests import forked_programs

    uninstall = forked_programs.install()
    yield
    uninstall()


def pytest_collection_finish() -> None:
    """What was imported stays: no collection has to look through all the frameworks, in any test."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def _nothing_old_to_collect() -> None:
    """For modules whose tests collect garbage: they look through what they have made, not through all before them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that all end together, and have those that need a browser follow one another."""
    items.sort(key=lambda item: (not _needs_browser(item), item.get_closest_marker("timeout") is None))


def _needs_browser(item: pytest.Item | None) -> bool:
    return isinstance(item, pytest.Function) and "browser" in item.fixturenames


@pytest.fixture(scope="module")
def browser() -> "Browser":
    """A real browser; it stays open for the next test that needs one."""
    from tests.browser import chromium

    return chromium.shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Close the browser before a test that needs none."""
    try:
        return (yield)
    finally:
        if _needs_browser(item) and not _needs_browser(nextitem):
            from tests.browser import chromium

            chromium.close_shared()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have counted and people want to read, also when they pass (``record_property("told", …)``)."""
    for report in terminalreporter.stats.get("passed", ()):
        for name, sentence in report.user_properties:
            if name == "told":
                terminalreporter.write_line(str(sentence))


@pytest.fixture(autouse=True)
def _backups_of_one_test() -> Iterator[None]:
    """What file tools of one test have used is not looked at by another's erasing."""
    yield
    backups = sys.modules.get("midcourse.tools.backups")
    if backups is not None:
        backups._USED.clear()  # noqa: SLF001
