"""A server that cannot do something says why: the console shows that reason on every page, and never its own guess."""

import json
import re
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.console.agents import goal
from tests.console.conftest import Opening
from tests.console.pages import GUARD, PATIENCE, Api, RunPage, Window, until
from tests.server.live_server import TOKEN, Running

pytestmark = pytest.mark.timeout(180)
WHY: Final = "another program has held the store for 10 s."
SHOWN: Final = re.compile(re.escape(WHY), re.IGNORECASE)


def answers(
    status: int, code: str = "store_unavailable", detail: str = WHY, headers: dict[str, str] | None = None
) -> Callable[[Route], None]:
    """Answer a request with a problem."""
    body = {"type": "about:blank", "title": "", "status": status, "code": code, "detail": detail}
    more = {"content-type": "application/problem+json", **(headers or {})}
    return lambda route: route.fulfill(status=status, headers=more, body=json.dumps(body))


busy = answers(503)


def bare(route: Route) -> None:
    """Answer as a proxy does whose server is away."""
    route.fulfill(status=502, body="<h1>Bad gateway</h1>")


def guesses(page: Page) -> Locator:
    """Words for a server that did not answer: not one of these has one."""
    return page.get_by_text(re.compile("no connection|no answer|no reply|has not answered|does not answer", re.I))


READ: Final = {
    "console": ("", r"/me$"),
    "fleet": ("", r"/sessions\?"),
    "run": ("?run=", r"/sessions/"),
    "inbox": ("?inbox", r"/inbox$"),
    "policies": ("?policies", r"/policies\?"),
    "one policy": ("?policy=standard", r"/policies/standard$"),
    "reports": ("?reports", r"/reports\?"),
    "new run": ("?new", r"/agents\?"),
}


def test_a_503_with_its_reason_is_shown_on_every_page_and_is_gone_when_the_server_answers(
    opening: Opening, api: Api
) -> None:
    page = opening().page
    for name, (query, path) in READ.items():
        asked = re.compile(rf"/api/v1{path}")
        page.route(asked, busy)
        page.goto(f"{api.url}/{query}" + (api.start("memo", goal("Write the memo")) if name == "run" else ""))
        alert = page.get_by_role("main").get_by_role("alert").filter(has_text=SHOWN)
        expect(alert, name).to_contain_text("The server answers, but has not been available since")
        expect(guesses(page), name).to_have_count(0)
        page.unroute(asked)
        expect(alert, name).to_have_count(0)
        expect(page.get_by_role("heading", level=1), name).to_be_visible()


def start(window: Window, _api: Api) -> Locator:
    """Start a run."""
    page = window.open("?new")
    page.get_by_role("button", name=re.compile("^Start")).click()
    return page.get_by_role("status")


def count(window: Window, _api: Api) -> Locator:
    """Count what a kill switch would halt."""
    window.open().get_by_role("button", name="Kill switch…").click()
    return window.page.get_by_role("region", name="Kill switch", exact=True).get_by_role("status")


def halt(window: Window, api: Api) -> Locator:
    """Throw the kill switch."""
    found = count(window, api)
    window.page.get_by_label("Reason").fill("Stop all of it")
    window.page.wait_for_timeout(GUARD)
    window.page.get_by_role("button", name=re.compile("^Halt")).click()
    return found


def log_out(window: Window, _api: Api) -> Locator:
    """Log out."""
    window.open("?settings").get_by_role("button", name="Log out").click()
    return window.page.get_by_role("region", name="This browser").get_by_role("status")


def rate(window: Window, api: Api) -> Locator:
    """Rate a run that has ended."""
    session = api.start("quick", "Count")
    until(window.page, lambda: api.status(session) == "completed")
    window.watch(session)
    rating = window.page.get_by_role("group", name="How satisfied are you with this run?")
    rating.get_by_role("button", name="4 of 5").click()
    return rating.get_by_role("status")


def preview(window: Window, api: Api) -> Locator:
    """Read what a cancel would come to."""
    session = api.start("memo", goal("Write the memo"))
    run = window.watch(session)
    run.is_at("running")
    run.press("Cancel")
    return run.tray.locator(".refusal")


def preview_of_many(window: Window, api: Api) -> Locator:
    """Read what a cancel of those that are selected would come to."""
    words = "Selected before the store was busy"
    session = api.start("memo", goal(words))
    page = window.open()
    page.locator(f"tr[data-id='{session}']").get_by_role("checkbox").check()
    page.get_by_role("group", name="Controls").get_by_role("button", name=re.compile("^Cancel 1")).click()
    return page.locator(".tray .outcomes")


def check(window: Window, _api: Api) -> Locator:
    """Have the text of a policy checked."""
    window.open("?newpolicy")
    return window.page.locator(".saving").get_by_role("status")


def backtest(window: Window, _api: Api) -> Locator:
    """Try a policy on what was recorded."""
    window.open("?policy=standard")
    return window.page.get_by_role("region", name=re.compile("would have done")).get_by_role("status")


PRESSED: Final[dict[str, tuple[str, Callable[[Window, Api], Locator], str]]] = {
    "new run": (r"/sessions$", start, "Press again: it starts only once."),
    "kill switch, counted": (r"/kill-switches/preview$", count, "The count is not known."),
    "kill switch": (r"/kill-switches$", halt, "Press again: it is not thrown twice."),
    "log out": (r"/login$", log_out, "You may still be logged in: press again."),
    "rating": (r"/rate$", rate, "Not done"),
    "preview": (r"/cancel/preview$", preview, "Nothing was cancelled."),
    "preview of many": (r"/cancel/preview$", preview_of_many, ""),
    "check of a policy": (r"/policies/check$", check, "The text cannot be checked now."),
    "backtest": (r"/policies/backtest$", backtest, "Not done"),
}


def busy_but_for_lists(route: Route) -> None:
    """A busy server that can still be read."""
    if route.request.method == "GET":
        route.fallback()
    else:
        busy(route)


def test_a_503_with_its_reason_is_shown_where_something_was_asked_for(opening: Opening, api: Api) -> None:
    window = opening()
    for name, (path, ask, more) in PRESSED.items():
        asked = re.compile(rf"/api/v1{path}" if path.startswith("/kill") else rf"/api/v1.*{path}")
        window.page.route(asked, busy_but_for_lists if name == "kill switch" else busy)
        said = ask(window, api).filter(has_text=SHOWN)
        expect(said, name).to_contain_text(more)
        expect(guesses(window.page), name).to_have_count(0)
        window.page.unroute(asked)


def test_an_answer_without_a_reason_is_said_to_have_none(opening: Opening, api: Api) -> None:
    window = opening()
    window.page.route("**/policies/backtest", bare)
    said = backtest(window, api).filter(has_text="It answered 502 without a reason.")
    expect(said).to_be_visible()
    expect(guesses(window.page)).to_have_count(0)


@pytest.mark.parametrize(("status", "code"), [(503, "store_unavailable"), (429, "too_many_requests")])
def test_a_login_that_met_a_busy_server_says_why_and_that_the_code_may_still_be_good(
    browser: Browser, server: Running, status: int, code: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/api/v1/login", answers(status, code))
    page.goto(f"{server.url}/login")
    page.get_by_label("Code or token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    said = page.get_by_role("status")
    expect(said).to_have_text(f"Not done: {WHY} Try again: what you entered may still be good.")
    page.unroute("**/api/v1/login")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    context.close()


def test_a_withdrawal_that_was_refused_is_said_to_be_so_in_the_log(opening: Opening, api: Api) -> None:
    window = opening()
    session = api.start("memo", goal("Write the memo"))
    run: RunPage = window.watch(session)
    run.is_at("running")
    run.press("Pause")
    run.is_at("paused")
    run.redirect("Only the large ones", "Step")
    said = run.log.locator(".said").filter(has_text="Only the large ones")
    window.page.route("**/messages/*", answers(409, "message_seen", "The agent has seen it already."))
    said.get_by_role("button", name="withdraw").click()
    expect(said.get_by_role("status")).to_have_text("The agent has seen it already.", timeout=PATIENCE * 1000)
