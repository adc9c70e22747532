"""A real Chromium for tests. scripts/tools.sh makes sure that one is there, and looks in the same places."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
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
