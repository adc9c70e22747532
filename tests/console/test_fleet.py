"""Thousands of sessions: drawn as far as they are seen, live, filtered by the address, paused and cancelled by many."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.agents import GATES, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.fleets import Elsewhere, elsewhere
from tests.console.pages import GUARD, PHONE, Api, Window, standstill, until
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(180)
MANY = 2000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Elsewhere]]:
    """A server over a store whose 2,000 sessions a worker elsewhere has, which answers nobody."""
    url = f"sqlite:///{tmp_path_factory.mktemp('fleet') / 'sessions.db'}"
    with elsewhere(url) as worker:
        worker.fill(MANY)
        with serving(url, settings=SETTINGS, limits=LIMITS, durability="process") as running:
            yield running, worker


def rows(page: Page) -> Locator:
    """Those that are drawn."""
    return page.locator("tr[data-id]")


def tile(page: Page, status: str) -> Locator:
    """The tile of a status."""
    return page.get_by_role("group", name="Sessions by status").get_by_role("button", name=re.compile(f"{status}$"))


def chosen(page: Page, number: int) -> Locator:
    """The handle of those that are selected."""
    many = "1 selected session" if number == 1 else f"{number:,} selected sessions"
    return page.get_by_role("region", name=f"Handle for {many}")


def slot(page: Page, label: str) -> Locator:
    """A slot of that handle."""
    return page.get_by_role("group", name="Controls").get_by_role("button", name=re.compile(rf"^{re.escape(label)}"))


def test_of_2000_sessions_only_those_in_sight_are_drawn_and_all_are_counted(
    opening: Opening, crowd: tuple[Running, Elsewhere]
) -> None:
    window = opening(crowd[0].url, viewport={"width": 1376, "height": 900})
    page = window.open()
    table = page.get_by_role("table", name="Sessions")
    expect(table).to_have_attribute("aria-rowcount", str(MANY + 1))
    expect(tile(page, "running")).to_contain_text("1,200")
    expect(tile(page, "completed")).to_contain_text("500")
    assert rows(page).count() < 60
    assert rows(page).first.get_attribute("aria-rowindex") == "2"

    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(f"tr[aria-rowindex='{MANY + 1}']")).to_be_visible()
    assert rows(page).count() < 60
    assert page.evaluate("[...document.querySelectorAll('tr[data-id]')].every((row) => row.offsetHeight === 44)")

    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("tr[aria-rowindex='2']")).to_be_visible()
    for _ in range(70):  # further than what was drawn
        page.keyboard.press("j")
    expect(page.locator("tr[aria-rowindex='71'] .rowlink")).to_be_focused()
    expect(page.locator("tr[aria-rowindex='71']")).to_be_in_viewport()
    window.is_narrow()
    window.is_calm()


def test_the_fleet_is_live_without_being_sent_again(opening: Opening, crowd: tuple[Running, Elsewhere]) -> None:
    running, worker = crowd
    window = opening(running.url)
    page = window.open("?q=Task+00003")
    row = page.get_by_role("row", name="Task 00003")
    expect(row).to_contain_text("running")
    worker.change("sess_00003", status="cancelling", busy="send_report", finished_steps=1234)
    expect(row).to_contain_text("cancelling")
    expect(row).to_contain_text("send_report still running")
    expect(row).to_contain_text("1,234")
    worker.change("sess_00003", status="running", busy="", finished_steps=3)
    expect(row).to_contain_text("running")
    window.is_calm()


def test_the_filter_and_the_order_are_in_the_address(opening: Opening, crowd: tuple[Running, Elsewhere]) -> None:
    window = opening(crowd[0].url)
    page = window.open("?agent=repo-fixer&class=medium&status=paused&sort=risk")
    table = page.get_by_role("table", name="Sessions")
    expect(table).to_have_attribute("aria-rowcount", "101")
    expect(page.get_by_role("radio", name="Riskiest")).to_be_checked()
    risks = [float(cell) for cell in page.locator("td.ri").all_inner_texts() if cell.strip() != "–"]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.9
    page.get_by_role("button", name=re.compile("agent repo-fixer")).click()
    expect(page).not_to_have_url(re.compile("agent="))
    page.get_by_label("Filter sessions").fill("tag:repo:api 00010")
    expect(page).to_have_url(re.compile(r"q=tag%3Arepo%3Aapi"))
    expect(page.get_by_role("main")).to_contain_text("No session matches 00010 class:medium tag:repo:api paused.")
    page.get_by_role("link", name="Clear the filter").click()
    expect(table).to_have_attribute("aria-rowcount", str(MANY + 1))
    page.get_by_role("button", name="Worked").click()
    expect(page).to_have_url(re.compile("sort=elapsed"))
    expect(page.get_by_role("columnheader", name="Worked")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tr[aria-rowindex='2']")).to_contain_text("Task 00000")
    window.is_calm()


@pytest.mark.browser_full
def test_a_failure_lights_its_tile_until_somebody_has_seen_it(
    opening: Opening, crowd: tuple[Running, Elsewhere]
) -> None:
    running, worker = crowd
    window = opening(running.url)
    page = window.open()
    expect(tile(page, "failed")).to_have_class("tile lit")
    expect(tile(page, "completed")).to_have_class("tile")
    tile(page, "failed").click()
    expect(page).to_have_url(re.compile("status=failed"))
    expect(tile(page, "failed")).to_have_class("tile")
    worker.change("sess_00018", cost=9.9)  # something happened to one that had failed
    expect(tile(page, "failed")).to_have_class("tile lit")
    expect(page.locator("tr[aria-rowindex='2']")).to_contain_text("Task 00018")


@pytest.mark.browser_full
def test_a_row_does_not_move_from_under_the_pointer(opening: Opening, crowd: tuple[Running, Elsewhere]) -> None:
    running, worker = crowd
    window = opening(running.url)
    page = window.open("?q=Task+0012")
    first = page.locator("tr[aria-rowindex='2']")
    last = page.locator("tr[aria-rowindex='11']")
    expect(first).to_contain_text("Task 00129")
    page.keyboard.press("j")
    box = first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 20)
    moving = "() => { window.t = setInterval(() => document.querySelector('tbody').dispatchEvent(new PointerEvent("
    page.evaluate(moving + "'pointermove', { pointerType: 'mouse', bubbles: true })), 200) }")
    worker.change("sess_00120", asks=1)
    expect(last).to_contain_text("has a question")
    expect(first).to_contain_text("Task 00129")
    page.evaluate("clearInterval(window.t)")
    page.mouse.move(5, 5)
    expect(first).to_contain_text("Task 00120")
    expect(page.get_by_role("link", name="Task 00129")).to_be_focused()
    worker.change("sess_00120", asks=0)


def test_many_are_paused_and_resumed_with_one_press_and_each_is_told(window: Window, api: Api) -> None:
    words = goal("Together")
    names = [api.start("memo", f"{words} {number}") for number in range(4)]
    ended = api.start("quick", f"{words} ended")
    until(window.page, lambda: api.status(ended) == "completed")
    page = window.open(f"?q={words.replace(' ', '+')}")
    expect(rows(page)).to_have_count(5)
    page.get_by_label("Select all 5").check()
    expect(chosen(page, 5)).to_contain_text("4 running, 1 completed")
    expect(slot(page, "Redirect")).to_have_attribute("aria-disabled", "true")
    expect(slot(page, "Pause 4")).to_contain_text("pauses 4; 1 cannot be")
    page.keyboard.press("p")
    expect(page.locator(".tray")).to_contain_text("4 paused.")
    assert {api.status(one) for one in names} == {"paused"}
    assert api.events(names[0], "session.pause_requested")
    expect(slot(page, "Resume 4")).to_contain_text("each continues where it stopped")
    page.keyboard.press("Escape")
    page.wait_for_timeout(GUARD)
    page.keyboard.press("p")
    expect(page.locator(".tray")).to_contain_text("4 running.")
    assert {api.status(one) for one in names} == {"running"}
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("group", name="Controls")).to_have_count(0)
    for one in names:
        GATES.open(one, "words")


def test_rows_are_chosen_with_keys_and_a_cancel_says_first_what_it_means(window: Window, api: Api) -> None:
    words = goal("Cancelled together")
    names = [api.start("memo", f"{words} {number}") for number in range(3)]
    page = window.open(f"?q={words.replace(' ', '+')}")
    expect(rows(page)).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press(" ")
    expect(chosen(page, 1)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Shift+ ")
    expect(chosen(page, 3)).to_be_visible()
    page.keyboard.press("c")
    tray = page.locator(".tray")
    expect(tray).to_contain_text("Cancel 3 sessions? What is in flight is undone, finished work is kept.")
    expect(tray.get_by_role("listitem").first).to_contain_text(re.compile(r"\d (kept|undone)"))
    page.keyboard.press("Escape")
    expect(tray).to_have_count(0)
    assert {api.status(one) for one in names} == {"running"}
    with standstill(page):
        page.keyboard.press("c")
        expect(tray).to_be_visible()
        page.keyboard.press("Enter")  # within the guard: nothing is confirmed by a double press
    page.wait_for_timeout(GUARD)
    assert {api.status(one) for one in names} == {"running"}
    page.keyboard.press("Enter")
    expect(tray).to_contain_text("3 cancelled.")
    assert {api.status(one) for one in names} == {"cancelled"}


def test_those_that_cannot_be_reached_are_named(opening: Opening, crowd: tuple[Running, Elsewhere]) -> None:
    running, worker = crowd
    window = opening(running.url)
    page = window.open("?q=Task+0134&status=running")
    expect(rows(page)).to_have_count(10)
    page.get_by_label("Select all 10").check()
    slot(page, "Pause 10").click()
    expect(page.locator(".tray")).to_contain_text("10 not reachable.")
    expect(page.locator(".tray").get_by_role("listitem").first).to_contain_text("Stored; its worker has not answered")
    assert all(worker.heads[one].status == "running" for one in worker.heads if one.startswith("sess_0134"))
    window.is_calm()


@pytest.mark.browser_full
def test_the_fleet_fits_a_phone_and_can_be_hit(opening: Opening, crowd: tuple[Running, Elsewhere]) -> None:
    window = opening(crowd[0].url, viewport={"width": PHONE[0], "height": PHONE[1]}, has_touch=True)
    page = window.open()
    expect(rows(page).first).to_be_visible()
    window.is_narrow()
    rows(page).first.locator(".tick-box").click()
    expect(chosen(page, 1)).to_be_visible()
    small = page.evaluate(
        "[...document.querySelectorAll('tr[data-id] .tick-box, .slot')].filter((one) => one.offsetHeight < 44).length"
    )
    assert small == 0
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(f"tr[aria-rowindex='{MANY + 1}']")).to_be_visible()
    window.is_narrow()
    window.is_calm()
