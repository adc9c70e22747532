"""Nothing is wider than its window, and what must be seen stays in sight, from a phone to a desk."""

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.console.agents import goal
from tests.console.conftest import Opening
from tests.console.pages import Api, until
from tests.console.test_phone import LONG

pytestmark = pytest.mark.timeout(180)

WIDTHS: Final = (320, 390, 480, 560, 720, 768, 940, 1024, 1180, 1376, 1600)
CONTENT: Final = ".handle, .empty, .rowlink, .inbox, .grid, form, h2"
"""What a page shows once it has read what it is about."""
PAGES: Final = ("", "?inbox", "?policies", "?reports", "?new", "?settings", "?run={long}", "?run={asks}")


def test_no_page_is_wider_than_its_window_at_any_width(opening: Opening, api: Api) -> None:
    long, asks = (
        api.start("writer", goal("Write four hundred lines")),
        api.start("cleaner", goal(LONG)),
    )
    window = opening()
    until(window.page, lambda: bool(api.events(long, "segment.written")) and api.status(asks) == "waiting")
    for address in PAGES:
        page = window.open(address.format(long=long, asks=asks))
        expect(page.locator("main")).not_to_be_empty()
        page.wait_for_load_state("load")
        expect(page.locator(CONTENT).first).to_be_visible()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            window.is_narrow()


@pytest.mark.parametrize("width", [768, 1376])
def test_the_signals_stay_in_sight_however_long_the_log_grows(opening: Opening, api: Api, width: int) -> None:
    session = api.start("writer", goal("Write four hundred lines"))
    window = opening(viewport={"width": width, "height": 900})
    run = window.watch(session)
    expect(run.log).to_contain_text("line 400 of the page")
    page = window.page
    page.wait_for_function("scrollY > 500")  # it follows its tail
    signals = page.get_by_role("heading", name="Signals")
    expect(signals).to_be_in_viewport()
    # At the top they stand right below the plan, or beside it: not further down by what the log needs.
    page.evaluate("scrollTo(0, 0)")
    expect(signals).to_be_in_viewport()
    handle, column = run.handle.bounding_box(), page.locator(".col-sig").bounding_box()
    assert handle is not None
    assert column is not None
    assert column["y"] + column["height"] <= handle["y"]
