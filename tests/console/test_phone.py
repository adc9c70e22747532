"""A phone: nothing is wider than it, everything can be hit, every consequence is still said."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.console.agents import GATES, goal
from tests.console.conftest import Opening
from tests.console.pages import PHONE, Api, RunPage, Window

pytestmark = pytest.mark.timeout(180)

LONG = "Reconcile-the-intercompany-ledger-and-regenerate-statutory-disclosures-for-eu-west 第二高的是杭州合同十一月到期"
SMALLEST = 44


@pytest.fixture
def phone(opening: Opening) -> Window:
    width, height = PHONE
    return opening(viewport={"width": width, "height": height}, has_touch=True, is_mobile=True)


def hit_by_a_finger(window: Window, where: str) -> None:
    """Everything that can be pressed is 44 pixels high and wide, or stands in a line of text."""
    small = window.page.evaluate(
        """([where, least]) => [...document.querySelectorAll(where)].flatMap((root) =>
            [...root.querySelectorAll("button, a[href], select, textarea, input")].flatMap((one) => {
                const target = one.matches("[type=radio], [type=checkbox]") ? one.closest("label") ?? one : one;
                const box = target.getBoundingClientRect();
                const isShown = box.width > 0 && box.height > 0 && getComputedStyle(target).visibility !== "hidden";
                const isInText = one.matches("a") && getComputedStyle(one).display === "inline";
                const fits = box.height >= least - 0.5 && box.width >= least - 0.5;
                const name = one.textContent || one.name;
                return isShown && !isInText && !fits ? [`${name} ${box.width}x${box.height}`] : [];
            }))""",
        [where, SMALLEST],
    )
    assert small == []


def queued_up(api: Api) -> dict[str, Callable[[], str]]:
    return {
        "running": lambda: api.start("memo", goal(LONG), budget=10),
        "waiting": lambda: api.start("cleaner", goal(LONG)),
        "choosing": lambda: api.start("chooser", goal(LONG)),
        "failed": lambda: api.start("breaks", goal(LONG)),
    }


def test_a_run_fits_and_can_be_hit_wherever_it_stands(phone: Window, api: Api) -> None:
    for state, start in queued_up(api).items():
        run = phone.watch(start())
        run.is_at({"choosing": "waiting"}.get(state, state))
        phone.is_narrow()
        hit_by_a_finger(phone, "body")
        bar = run.handle.locator(".bar").bounding_box()
        assert bar is not None
        assert bar["height"] <= 190
        assert bar["y"] + bar["height"] <= PHONE[1] + 1, "the bar is never covered"
        phone.is_calm()


def test_every_tray_of_the_handle_fits_and_can_be_hit(phone: Window, api: Api) -> None:
    session = api.start("memo", f"{goal(LONG)} and send it", budget=10)
    run = phone.watch(session)
    expect(run.call("send_report")).to_contain_text("running")
    expect(run.slot("Pause")).to_have_accessible_name(re.compile("keeps context"))
    run.slot("Pause").tap()
    run.is_at("pausing")
    expect(run.slot("Pausing")).to_contain_text("waits for send_report")
    GATES.open(session, "send")
    run.is_at("paused")
    look(phone, run)

    run.press("Redirect")
    look(phone, run)
    run.say.fill("x" * 230)
    expect(run.composer).to_contain_text("230 / 200, shorten by 30")
    look(phone, run)
    run.say.fill(LONG)
    run.composer.get_by_role("radio", name="Goal").check()
    run.composer.get_by_role("button", name="Redirect").tap()
    expect(run.tray).to_contain_text("You changed the goal")
    look(phone, run)
    run.tray.get_by_role("button", name="change", exact=True).tap()
    look(phone, run)
    run.tray.get_by_role("button", name="cancel", exact=True).tap()

    run.press("Cancel")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    look(phone, run)
    chosen = run.preview.get_by_role("row", name="create_table").get_by_role("cell")
    expect(chosen).to_have_text(["kept"])  # the chosen column only
    run.preview.get_by_role("radio", name="Undo everything possible").check()
    expect(chosen).to_have_text(["undone"])
    run.press("Cancel run")
    run.is_at("cancelled")
    expect(run.receipt).to_contain_text("cannot be undone")
    look(phone, run)
    phone.is_calm()


def look(phone: Window, run: RunPage) -> None:
    """What is open fits, can be hit, and leaves the bar in sight."""
    phone.is_narrow()
    hit_by_a_finger(phone, ".handle")
    wide, room = run.handle.evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert wide <= room, f"the handle is {wide} px wide in {room}"
    for tray in run.tray.all():
        wide, room = tray.evaluate("one => [one.scrollWidth, one.clientWidth]")
        assert wide <= room, f"the tray is {wide} px wide in {room}"
    bar = run.handle.locator(".bar").bounding_box()
    assert bar is not None
    assert bar["y"] + bar["height"] <= PHONE[1] + 1, "the bar is never covered"


def test_the_other_pages_fit_and_can_be_hit(phone: Window, api: Api) -> None:
    api.start("quick", goal(LONG))
    for query in ("", "?new", "?settings", "?q=nothing-has-this", "?run=sess_nobody"):
        phone.open(query)
        expect(phone.page.get_by_role("main")).to_contain_text(re.compile(r"\w"))
        expect(phone.page.get_by_role("banner")).to_be_visible()
        phone.is_narrow()
        hit_by_a_finger(phone, "body")


def sheets_fit(phone: Window) -> None:
    """No table is cut: a row is what its heads name, below one another."""
    cut: list[str] = phone.page.evaluate(
        """[...document.querySelectorAll(".scroller")].filter((one) => one.scrollWidth > one.clientWidth)
            .map((one) => one.querySelector("table").getAttribute("aria-label"))"""
    )
    assert cut == []


def test_the_policies_are_read_without_scrolling_sideways(phone: Window) -> None:
    phone.open("?policies")
    row = phone.page.get_by_role("row", name="customer-support")
    expect(row.get_by_role("rowheader")).to_be_visible()
    made = row.get_by_role("cell", name="standard")
    expect(made).to_be_visible()
    assert made.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Made from"'
    sheets_fit(phone)
    phone.is_narrow()
    hit_by_a_finger(phone, "body")
    phone.page.set_viewport_size({"width": 1376, "height": 900})
    expect(phone.page.get_by_role("columnheader", name="Made from")).to_be_visible()
    unlabelled = "cell => getComputedStyle(cell, '::before').content === 'none'"
    phone.page.wait_for_function(unlabelled, arg=made.element_handle())  # styles follow a new width in their own time
