"""A real Chromium for tests. scripts/tools.sh makes sure that one is there, and looks in the same places."""

import os
import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APPLICATIONS: Final = ("Chromium", "Google Chrome")
WITHOUT: Final = (
    # A window of each context drew the suggestions of its address bar, hidden: most of the work of a short test.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "AimEnabled"),
    # What Playwright switches off, with a list that the one here replaces.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
)
"""Features of the browser that no test is about."""
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(WITHOUT)}",
)


def program() -> str:
    """The browser's program: what CHROMIUM names, one on the path, or a Mac's application."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given
    bundles = (Path(f"/Applications/{name}.app/Contents/MacOS/{name}") for name in APPLICATIONS)
    found = [path for name in NAMES if (path := shutil.which(name))] + [str(path) for path in bundles if path.exists()]
    assert found, "no Chromium or Google Chrome is here: run scripts/tools.sh"
    return found[0]


@contextmanager
def browsing() -> Generator[Browser]:
    """A browser while the block lasts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


_shared: list[tuple[Browser, ExitStack]] = []


def shared() -> Browser:
    """The browser of all tests that want one and follow one another. Each has windows of its own."""
    if _shared and not _shared[0][0].is_connected():
        close_shared()
    if not _shared:
        stack = ExitStack()
        _shared.append((stack.enter_context(browsing()), stack))
    return _shared[0][0]


def close_shared() -> None:
    """End it. While it is open an event loop of Playwright's runs, and the next test may need one of its own."""
    while _shared:
        _shared.pop()[1].close()
