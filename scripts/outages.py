"""Pictures of the console at its worst moments: a worker that is silent or gone, a store that is held, no network,
no server, a login that has ended.

Each in light and dark, wide and on a phone. ``make screenshots`` takes them; by themselves:
``.venv/bin/python -m scripts.outages TO [NAME …]``.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, expect

from tests.browser.chromium import browsing
from tests.console.pages import Api, RunPage, Window, let_in, link_for
from tests.console.processes import Process, held, process
from tests.console.test_kill_switch import cover, halt, report

SIZES: Final = (("", 1376, 860), ("-390", 390, 844))
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
GOAL: Final = "Write a one-page churn memo for the quarterly review"


class Outage:
    """A browser before a server whose sessions may have another worker."""

    def __init__(self, window: Window, worker: Process, server: Process, store: Path) -> None:
        self.window = window
        self.worker = worker
        self.server = server
        self.store = store
        self.ending = contextlib.ExitStack()

    def begin(self, **more: object) -> RunPage:
        """A run that speaks, watched."""
        with Api(self.server.url) as api:
            session = api.start("memo", GOAL if "budget" not in more else f"{GOAL}, costly", **more)
        run = self.window.watch(session)
        run.is_at("paused" if "budget" in more else "running")
        return run


def owner_stopped(outage: Outage) -> None:
    """Nothing was pressed, and the worker sends no heartbeat."""
    run = outage.begin()
    outage.worker.stop()
    run.is_at("Last seen running")


def owner_killed(outage: Outage) -> None:
    """The worker's process is gone."""
    run = outage.begin()
    outage.worker.kill()
    expect(run.sentence).to_contain_text("Its worker is gone")


def token_revoked(outage: Outage) -> None:
    """The login ended while a pause was on its way."""
    with Api(outage.server.url) as api:
        token = api.post("/tokens", name="ada", role="steer")["token"]
        page = outage.window.page
        page.goto(link_for(outage.server.url, token))
        page.get_by_role("button", name="Switch to ada").click()
        expect(outage.window.top.get_by_role("link", name="Logged in as ada")).to_be_visible()
        run = outage.begin()
        page.route("**/pause", lambda route: route.abort())
        run.press("Pause")
        run.is_at("Pause not answered")
        api.delete("/tokens/ada")
    expect(page.get_by_role("heading", level=1)).to_have_text("You are no longer logged in")


def owner_silent(outage: Outage) -> None:
    """Pause was pressed, and the worker does not answer."""
    run = outage.begin()
    outage.worker.stop()
    run.press("Pause")
    run.is_at("Pause stored")


def owner_silent_cancel(outage: Outage) -> None:
    """Cancel was pressed: nothing is known to be held."""
    run = outage.begin()
    outage.worker.stop()
    run.press("Cancel")
    expect(run.tray).to_contain_text("Not known to be held")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()


def owner_silent_fleet(outage: Outage) -> None:
    """The same in the list of all."""
    owner_silent(outage)
    outage.window.open()
    expect(outage.window.page.get_by_role("row", name=GOAL)).to_contain_text("Pause stored")


def store_busy(outage: Outage) -> None:
    """Another program holds the store: a redirect is not stored."""
    run = outage.begin()
    outage.ending.enter_context(held(outage.store))
    run.redirect("Only the large ones", "Step")
    run.is_at("Redirect not stored")


def stop_not_stored(outage: Outage) -> None:
    """The same while the server itself drives the run: its gate is shut, and nothing says so durably."""
    run = outage.begin()
    outage.ending.enter_context(held(outage.store))
    run.press("Pause")
    expect(run.tray).to_contain_text("not stored: the store refused the write")


def switch_not_stored(outage: Outage) -> None:
    """The kill switch was thrown while the store is held: it is on in the server, and nothing says so durably."""
    outage.begin()
    page = outage.window.open()
    outage.ending.enter_context(held(outage.store))
    halt(page, "The release is frozen", 1)
    expect(report(page)).to_contain_text("Kill switch is on, not stored")


def switch_not_answered(outage: Outage) -> None:
    """The kill switch was pressed, and no reply came."""
    outage.begin()
    page = outage.window.open()
    page.route("**/kill-switches", lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    halt(page, "The release is frozen", 1)
    expect(cover(page)).to_contain_text("No reply came")


def offline(outage: Outage) -> None:
    """This device has no network, and Pause was pressed."""
    run = outage.begin()
    outage.window.page.context.set_offline(True)
    run.is_at("Last seen running")
    run.press("Pause")
    expect(run.tray).to_contain_text("Pause not sent yet")


def server_killed(outage: Outage) -> None:
    """The server is gone, and Pause was pressed."""
    run = outage.begin()
    outage.server.kill()
    expect(outage.window.top).to_contain_text("Server does not answer")
    run.press("Pause")
    expect(run.tray).to_contain_text("whether it arrived is not known")


def cap_reached(outage: Outage) -> None:
    """It has spent what it may."""
    run = outage.begin(budget=2)
    expect(run.tray).to_contain_text("The cap of $2 is reached")


OUTAGES: Final[dict[str, Callable[[Outage], None]]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        owner_stopped, owner_killed, owner_silent, owner_silent_cancel, owner_silent_fleet, store_busy, stop_not_stored,
        switch_not_stored, switch_not_answered, offline, server_killed, token_revoked, cap_reached,
    )
}  # fmt: skip


DRIVEN_BY_ITS_SERVER: Final = ("stop-not-stored", "switch-not-stored")


def take(browser: Browser, name: str, to: Path) -> None:
    """Every picture of one of them."""
    with contextlib.ExitStack() as stack:
        store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="midcourse-outage-"))) / "runs.db"
        worker = stack.enter_context(process(store))
        server = worker if name in DRIVEN_BY_ITS_SERVER else stack.enter_context(process(store, "watches"))
        context = let_in(browser, server.url)
        stack.callback(context.close)
        window = Window(context, server.url)
        outage = Outage(window, worker, server, store)
        stack.enter_context(outage.ending)
        OUTAGES[name](outage)
        for theme in THEMES:
            window.page.emulate_media(color_scheme=theme)
            for suffix, width, height in SIZES:
                window.page.set_viewport_size({"width": width, "height": height})
                window.page.mouse.move(0, 0)
                time.sleep(0.5)
                window.page.screenshot(path=to / f"{name}-{theme}{suffix}.png")
                window.is_narrow()


def take_all(browser: Browser, to: Path, *names: str) -> None:
    """Take them."""
    to.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=40_000)  # a store that is held says so after ten seconds
    for name in names or OUTAGES:
        take(browser, name, to)
        print(name, flush=True)


if __name__ == "__main__":
    with browsing() as found:
        take_all(found, Path(sys.argv[1]), *sys.argv[2:])
