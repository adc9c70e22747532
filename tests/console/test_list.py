"""The list of sessions: live, filtered by its address, empty, without a match, without a connection."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.agents import GATES, goal, quick
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import Api, Window
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def empty() -> Iterator[Running]:
    with serving("memory://", quick, settings=SETTINGS, limits=LIMITS, durability="nothing") as running:
        yield running


def test_the_list_changes_as_the_sessions_do(window: Window, api: Api) -> None:
    page = window.open()
    wanted = goal("Seen from afar")
    session = api.start("memo", wanted)
    row = page.get_by_role("row", name=wanted)
    expect(row).to_contain_text("running")
    api.post(f"/sessions/{session}/pause")
    expect(row).to_contain_text("paused")
    api.post(f"/sessions/{session}/resume")
    GATES.open(session, "words")
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("$0.80")
    expect(window.top).to_contain_text("Live")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name=wanted)).to_be_visible()


def test_the_filter_is_in_the_address_and_survives_a_reload(window: Window, api: Api) -> None:
    done, open_one = goal("Filtered"), goal("Filtered")
    api.start("quick", done)
    api.start("memo", open_one)
    page = window.open()
    expect(page.get_by_role("link", name=open_one)).to_be_visible()
    page.get_by_label("Filter sessions").fill("Filtered")
    expect(page).to_have_url(re.compile(r"[?&]q=Filtered"))
    page.get_by_role("button", name=re.compile("completed$")).click()
    expect(page).to_have_url(re.compile(r"[?&]status=completed"))
    for _ in range(2):
        expect(page.get_by_role("link", name=done)).to_be_visible()
        expect(page.get_by_role("link", name=open_one)).to_have_count(0)
        expect(page.get_by_role("button", name=re.compile("completed$"))).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_label("Filter sessions")).to_have_value("Filtered")
        page.reload()
    page.get_by_role("button", name=re.compile("completed$")).click()
    expect(page.get_by_role("link", name=open_one)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("link", name=open_one)).to_have_count(0)


def test_a_session_that_leaves_the_filter_leaves_the_list(window: Window, api: Api) -> None:
    wanted = goal("Leaving")
    session = api.start("memo", wanted)
    page = window.open("?status=running")
    expect(page.get_by_role("link", name=wanted)).to_be_visible()
    GATES.open(session, "words")
    expect(page.get_by_role("link", name=wanted)).to_have_count(0)


def test_nothing_matches_and_the_filter_can_be_cleared(window: Window, api: Api) -> None:
    wanted = goal("Here")
    api.start("quick", wanted)
    page = window.open("?q=nothing-has-this")
    expect(page.get_by_role("main")).to_contain_text("No session matches nothing-has-this.")
    page.get_by_role("link", name="Clear the filter").click()
    expect(page.get_by_role("link", name=wanted)).to_be_visible()
    expect(page.get_by_label("Filter sessions")).to_have_value("")


def test_an_empty_list_says_how_to_begin_and_fills_by_itself(opening: Opening, empty: Running) -> None:
    window = opening(empty.url)
    page = window.open()
    expect(page.get_by_role("main")).to_contain_text("No session runs here yet.")
    page.get_by_role("link", name="start a new run").click()
    expect(page.get_by_role("radio", name="quick")).to_be_checked()
    page.go_back()
    expect(page.get_by_role("main")).to_contain_text("No session runs here yet.")
    with Api(empty.url) as api:
        api.start("quick", "The first of all")
    expect(page.get_by_role("link", name="The first of all")).to_be_visible()
    window.is_calm()


def test_a_session_that_is_not_there_is_named(opening: Opening) -> None:
    window = opening()
    page = window.open("?run=sess_nobody")
    expect(page.get_by_role("main")).to_contain_text("No session sess_nobody here.")
    page.get_by_role("link", name="All sessions").click()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()


def test_a_list_without_a_connection_says_so_and_comes_back(opening: Opening, api: Api) -> None:
    window = opening()
    wanted = goal("After the storm")
    api.start("quick", wanted)
    sessions = re.compile(r"/api/v1/sessions\?limit=10000")
    window.page.route(sessions, lambda route: route.abort())
    page = window.open()
    expect(page.get_by_role("main")).to_contain_text(
        re.compile(r"The server has not answered since \d\d:\d\d:\d\d\. It is retried automatically\.")
    )
    expect(window.top).to_contain_text("Server does not answer")
    page.unroute(sessions)
    expect(page.get_by_role("link", name=wanted)).to_be_visible()
    expect(window.top).to_contain_text("Live")


def test_a_server_that_answers_with_an_error_is_quoted(opening: Opening) -> None:
    window = opening()
    problem = {"status": 403, "code": "role_too_low", "title": "No", "detail": "Your token may not list sessions."}
    window.page.route(
        re.compile(r"/api/v1/sessions\?limit=10000"), lambda route: route.fulfill(status=403, json=problem)
    )
    page = window.open()
    expect(page.get_by_role("main")).to_contain_text("Your token may not list sessions.")


def test_open_asks_are_in_the_title_and_the_icon(opening: Opening, empty: Running, window: Window, api: Api) -> None:
    calm = opening(empty.url)
    calm.open()
    expect(calm.page).to_have_title("Fleet · Midcourse")
    assert calm.page.evaluate("document.querySelector('link[rel=icon]').href").endswith("favicon.svg")

    api.start("chooser", goal("Asks something"))
    page = window.open()
    expect(page).to_have_title(re.compile(r"^\(\d+\) Fleet · Midcourse$"))
    assert page.evaluate("document.querySelector('link[rel=icon]').href").endswith("favicon-asks.svg")
    inbox = window.top.get_by_role("link", name="Inbox")
    expect(inbox).to_contain_text(re.compile(r"\d"))
    inbox.click()
    expect(page.get_by_role("navigation", name="Asks by deadline")).to_contain_text("Asks something")
    expect(page).to_have_url(re.compile(r"\?inbox$"))
