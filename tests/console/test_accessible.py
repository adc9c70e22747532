"""Axe finds nothing serious or critical on any page and in any state, light and dark, wide and narrow."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import expect

from tests.console.agents import GATES, goal
from tests.console.conftest import Opening
from tests.console.pages import PHONE, Api, RunPage, Window, link_for

pytestmark = pytest.mark.timeout(180)

AXE: Final = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
Look = tuple[Literal["light", "dark"], tuple[int, int]]
WIDE, TABLET = (1376, 900), (768, 1024)
THEMES: Final[tuple[Look, ...]] = (("light", WIDE), ("dark", PHONE))
OTHERS: Final[tuple[Look, ...]] = (("dark", WIDE), ("light", TABLET), ("dark", TABLET), ("light", PHONE))
GRAVE: Final = ("serious", "critical")
Scene = Callable[[Window, Api], None]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    """A page or a state, by its name."""
    SCENES[function.__name__.strip("_").replace("_", " ")] = function
    return function


def at_work(window: Window, api: Api, words: str = "Write the memo", call: str = "") -> tuple[str, RunPage]:
    """A run that is under way."""
    session = api.start("memo", goal(words), budget=10)
    run = window.watch(session)
    if call:
        expect(run.call(call)).to_contain_text("running")
    else:
        expect(run.log).to_contain_text("word 1")
    return session, run


@scene
def fleet(window: Window, api: Api) -> None:
    api.start("quick", goal("Done"))
    api.start("chooser", goal("Waits"))
    api.start("breaks", goal("Breaks"))
    window.open()
    expect(window.page.get_by_role("link", name="Breaks").first).to_be_visible()


@scene
def no_match(window: Window, api: Api) -> None:
    window.open("?q=nothing-has-this")
    expect(window.page.get_by_role("main")).to_contain_text("No session matches")


@scene
def new_run(window: Window, api: Api) -> None:
    window.open("?new")
    expect(window.page.get_by_label("Goal")).to_be_visible()


@scene
def login(window: Window, api: Api) -> None:
    window.open()
    window.page.evaluate("localStorage.clear()")
    window.page.reload()
    window.page.get_by_role("button", name="Log in").click()
    expect(window.page.get_by_role("status")).to_contain_text("Paste a code")


@scene
def switching_identity(window: Window, api: Api) -> None:
    token = api.post("/tokens", name=f"switch-{abs(hash(window))}", role="watch")["token"]
    window.page.goto(link_for(window.url, token))
    expect(window.page.get_by_role("heading", name="Switch to another identity?")).to_be_visible()


@scene
def settings(window: Window, api: Api) -> None:
    window.open("?settings")
    expect(window.page.get_by_label("Single keys")).to_be_visible()


@scene
def not_found(window: Window, api: Api) -> None:
    window.open("?run=sess_nobody")
    expect(window.page.get_by_role("main")).to_contain_text("No session")


@scene
def running(window: Window, api: Api) -> None:
    at_work(window, api)


@scene
def asking_to_pause(window: Window, api: Api) -> None:
    _, run = at_work(window, api)
    window.page.route("**/pause", lambda route: None)
    run.slot("Pause").click()
    run.is_at("Asking to pause…")


@scene
def pausing(window: Window, api: Api) -> None:
    _, run = at_work(window, api, "Write the memo and send it", "send_report")
    run.slot("Pause").click()
    run.is_at("pausing")


@scene
def paused_with_a_difference(window: Window, api: Api) -> None:
    session, run = at_work(window, api)
    run.slot("Pause").click()
    run.is_at("paused")
    api.post(f"/sessions/{session}/redirect", text="EU first", level="goal")
    expect(run.tray).to_contain_text("You changed the goal")


@scene
def redirect_too_long(window: Window, api: Api) -> None:
    _, run = at_work(window, api)
    run.press("Redirect")
    run.say.fill("x" * 212)
    run.composer.get_by_role("radio", name="Step").check()


@scene
def redirected(window: Window, api: Api) -> None:
    session, run = at_work(window, api)
    api.post(f"/sessions/{session}/redirect", text="EU first", level="step")
    expect(run.log).to_contain_text("Told: EU first.")


@scene
def cap_reached(window: Window, api: Api) -> None:
    run = window.watch(api.start("memo", goal("Write the costly memo"), budget=2))
    expect(run.tray).to_contain_text("The cap of $2 is reached.")


@scene
def cancel_preview(window: Window, api: Api) -> None:
    _, run = at_work(window, api, "Write the memo and send it", "send_report")
    run.press("Cancel")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()


@scene
def cancelling(window: Window, api: Api) -> None:
    session, run = at_work(window, api, "Write the memo and send it", "send_report")
    api.post(f"/sessions/{session}/cancel", undo="all")
    run.is_at("cancelling")
    expect(run.receipt).to_contain_text("still running")


@scene
def cancelled(window: Window, api: Api) -> None:
    session, run = at_work(window, api)
    api.post(f"/sessions/{session}/cancel", undo="all")
    run.is_at("cancelled")
    expect(run.receipt).to_contain_text("undone")


@scene
def approval(window: Window, api: Api) -> None:
    run = window.watch(api.start("cleaner", goal("Clean")))
    expect(run.tray.get_by_role("button", name="Refuse")).to_be_visible()


@scene
def choices(window: Window, api: Api) -> None:
    run = window.watch(api.start("chooser", goal("Choose")))
    expect(run.tray.get_by_role("button", name="login bug")).to_be_visible()


@scene
def undo_after_the_end(window: Window, api: Api) -> None:
    session = api.start("memo", goal("Write the memo"))
    GATES.open(session, "words")
    run = window.watch(session)
    run.is_at("completed")
    run.press("Undo")
    expect(run.tray.get_by_role("button", name="newest first")).to_be_visible()


@scene
def failed(window: Window, api: Api) -> None:
    window.watch(api.start("breaks", goal("Breaks"))).is_at("failed")


@scene
def children(window: Window, api: Api) -> None:
    run = window.watch(api.start("parent", goal("Has a child")))
    expect(run.tray).to_contain_text("asked by child")


@scene
def inspecting(window: Window, api: Api) -> None:
    session = api.start("memo", goal("Write the memo"))
    GATES.open(session, "words")
    window.watch(session).is_at("completed")
    window.open(f"?run={session}&at=6")
    expect(window.page.get_by_role("region", name="Inspect")).to_be_visible()


@scene
def connection_lost(window: Window, api: Api) -> None:
    session, run = at_work(window, api)
    window.page.route(f"**/sessions/{session}/events?*", lambda route: route.abort())
    window.page.route(
        f"**/sessions/{session}/events?*",
        lambda route: route.fulfill(body=stream(api, session), headers={"Content-Type": "text/event-stream"}),
        times=1,
    )
    window.page.reload()
    run.is_at("Last seen running")


def stream(api: Api, session: str) -> str:
    """The journal so far as a stream that then ends."""
    return "".join(f"id: {one['position']}\ndata: {json.dumps(one)}\n\n" for one in api.events(session))


@scene
def policies(window: Window, api: Api) -> None:
    window.open("?policies")
    expect(window.page.get_by_role("link", name="conservative")).to_be_visible()


@scene
def one_policy_and_what_it_would_have_done(window: Window, api: Api) -> None:
    window.watch(api.start("breaks", goal("Breaks"))).is_at("failed")
    window.open("?policy=standard")
    expect(window.page.get_by_text("Too few to say.")).to_be_visible()


@scene
def a_policy_with_a_mistake(window: Window, api: Api) -> None:
    page = window.open("?newpolicy")
    page.get_by_label("The policy as YAML").fill("policy: mine\nsignals:\n  lops: {warn: 3}\n")
    expect(page.get_by_role("button", name="line 3")).to_be_visible()


@scene
def report(window: Window, api: Api) -> None:
    window.watch(api.start("breaks", goal("Breaks"))).is_at("failed")
    window.open("?reports&period=day")
    expect(window.page.get_by_role("heading", name="Ready for production?")).to_be_visible()


def _scenes() -> list[Any]:
    """Every third one in `make test`; `make browser` looks at all of them."""
    full = pytest.mark.browser_full
    return [pytest.param(name, marks=() if number % 3 == 0 else full) for number, name in enumerate(SCENES)]


@pytest.mark.parametrize("name", _scenes())
def test_axe_finds_nothing_grave(opening: Opening, api: Api, name: str) -> None:
    # Axe is put into the page by evaluation, which the console's own policy would refuse.
    window = opening(bypass_csp=True)
    SCENES[name](window, api)
    assert looked_at(window, THEMES) == []


@pytest.mark.browser_full
@pytest.mark.parametrize("name", SCENES)
def test_axe_finds_nothing_grave_at_the_other_widths_in_either_theme(opening: Opening, api: Api, name: str) -> None:
    window = opening(bypass_csp=True)
    SCENES[name](window, api)
    assert looked_at(window, OTHERS) == []


def looked_at(window: Window, looks: tuple[Look, ...]) -> list[str]:
    """What axe finds grave, look by look. Nothing is wider than the window, and nothing of the top bar is cut."""
    window.page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    for theme, (width, height) in looks:
        window.page.emulate_media(color_scheme=theme)
        window.page.set_viewport_size({"width": width, "height": height})
        expect(window.page.locator("html")).to_have_attribute("data-theme", theme)
        window.is_narrow()
        window.has_its_top()
        found += [f"{theme} {width}: {one}" for one in grave(window)]
    return found


def grave(window: Window) -> list[str]:
    """What axe finds that is serious or critical."""
    rules: list[dict[str, Any]] = window.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{rule['impact']} {rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in rules
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]
