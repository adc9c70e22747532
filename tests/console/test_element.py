"""``<midcourse-handle>`` in a plain page of another origin: pause, resume, its events, its theme."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import static_files
from tests.console.agents import AGENTS, GATES, goal
from tests.console.conftest import LIMITS, SETTINGS
from tests.console.hostile import STYLES
from tests.console.pages import Api, RunPage, until
from tests.console.test_reasons import SHOWN, answers
from tests.server.live_server import TOKEN, Running, serving

pytestmark = pytest.mark.timeout(180)

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page of somebody else</title>
<link rel="icon" href="data:,"><script type="module" src="page.js"></script></head>
<body><h1>Mine</h1><label>Notes <input></label><midcourse-handle></midcourse-handle></body></html>"""
SCRIPT = """
const given = new URLSearchParams(location.search);
const handle = document.querySelector("midcourse-handle");
window.told = [];
for (const name of ["pause", "resumed", "redirect", "cancel", "answer", "settled", "refused"])
  handle.addEventListener(name, (event) => window.told.push([name, event.detail]));
handle.token = given.get("token") ?? "";
handle.setAttribute("src", given.get("src"));
handle.setAttribute("session", given.get("session"));
await import(`${given.get("src")}/midcourse-handle.js`);
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    (folder / "page.js").write_text(SCRIPT, encoding="utf-8")
    with static_files(folder) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, origin: str) -> Iterator[Running]:
    store: Path = tmp_path_factory.mktemp("console") / "sessions.db"
    with serving(
        f"sqlite:///{store}",
        *AGENTS,
        settings=SETTINGS,
        limits=LIMITS,
        durability="process",
        allowed_origins=(origin,),
    ) as running:
        GATES.begin()
        yield running
        GATES.end()


@pytest.fixture
def site(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"{error}"))
    yield page
    context.close()
    assert complaints == []


def embedded(page: Page, origin: str, server: Running, session: str, token: str = TOKEN) -> RunPage:
    """The handle of a session in the page of another site."""
    page.goto(f"{origin}/?session={session}&src={server.url}&token={token}")
    return RunPage(page)


def told(page: Page, name: str) -> list[dict[str, object]]:
    """What the element's events said."""
    page.wait_for_function("name => window.told.some(([event]) => event === name)", arg=name)
    return [detail for event, detail in page.evaluate("window.told") if event == name]


def test_a_run_is_paused_resumed_and_redirected_from_another_site(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    session = api.start("memo", goal("Write the memo, which is costly"), budget=5)
    run = embedded(site, origin, server, session)
    run.is_at("running")
    expect(run.handle.get_by_role("meter", name="Spent of cap")).to_be_attached()
    run.slot("Pause").click()
    run.is_at("paused")
    (paused,) = told(site, "pause")
    assert (paused["session"], paused["status"]) == (session, paused["status"])
    run.redirect("EU first", "Step")
    assert told(site, "redirect")
    run.press("Resume")
    run.is_at("running")
    assert told(site, "resumed")
    until_told = [event["data"]["text"] for event in api.events(session, "session.redirected")]
    assert until_told == ["EU first"]
    GATES.open(session, "words")
    run.is_at("completed")
    (settled,) = told(site, "settled")
    assert settled["status"] == "completed"


def test_a_run_is_cancelled_with_its_preview_from_another_site(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    session = api.start("memo", goal("Write the memo"))
    run = embedded(site, origin, server, session)
    run.press("Cancel")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    run.press("Cancel run")
    run.is_at("cancelled")
    assert told(site, "cancel")
    assert told(site, "settled")[0]["status"] == "cancelled"


def test_keys_work_while_the_focus_is_in_the_handle_and_not_on_the_rest_of_the_page(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    session = api.start("memo", goal("Write the memo"))
    run = embedded(site, origin, server, session)
    run.is_at("running")
    site.get_by_label("Notes").fill("")
    site.keyboard.type("pcr")
    site.locator("h1").click()
    site.keyboard.press("p")
    expect(run.tray).to_have_count(0)
    run.slot("Redirect").focus()
    run.key("p")
    run.is_at("paused")
    assert len(api.events(session, "session.pause_requested")) == 1
    run.key("r")
    expect(run.say).to_be_focused()
    site.keyboard.type("p c")
    expect(run.say).to_have_value("p c")
    site.keyboard.press("Escape")
    expect(run.slot("Redirect")).to_be_focused()


def test_a_wrong_token_is_told_in_its_place_and_as_an_event_and_a_right_one_mends_it(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    session = api.start("memo", goal("Write the memo"))
    run = embedded(site, origin, server, session, token="mct_wrong")
    (refused,) = told(site, "refused")
    assert refused["code"] == "unauthorized"
    expect(run.handle.get_by_role("alert")).to_contain_text("does not accept this page's token")
    expect(run.handle).to_be_in_viewport()
    expect(run.handle.get_by_role("button")).to_have_count(0)
    site.locator("midcourse-handle").evaluate("(one, token) => { one.token = token; }", TOKEN)
    run.is_at("running")
    expect(run.slot("Pause")).to_be_enabled()


def test_a_token_that_is_revoked_while_a_run_is_shown_leaves_no_buttons_and_another_brings_them_back(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    session = api.start("memo", goal("Write the memo"))
    token = api.post("/tokens", name="of-a-page", role="steer")["token"]
    run = embedded(site, origin, server, session, token=token)
    run.is_at("running")
    api.delete("/tokens/of-a-page")
    expect(run.handle.get_by_role("alert")).to_contain_text("does not accept this page's token")
    expect(run.handle.get_by_role("button")).to_have_count(0)
    site.locator("midcourse-handle").evaluate("(one, token) => { one.token = token; }", TOKEN)
    run.is_at("running")
    expect(run.slot("Pause")).to_be_enabled()


def test_a_session_that_is_not_there_and_a_server_that_does_not_answer_are_told_in_its_place(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    run = embedded(site, origin, server, "sess_nowhere")
    expect(run.handle.get_by_role("alert")).to_contain_text("sess_nowhere")
    handle = site.locator("midcourse-handle")
    site.route("**/sess_away/**", lambda route: route.abort())
    handle.evaluate("(one) => { one.setAttribute('session', 'sess_away'); }")
    expect(run.handle.get_by_role("alert")).to_contain_text(
        re.compile(
            rf"The server has not answered since .*\. {re.escape(server.url)} is down, or does not allow this page"
        )
    )
    handle.evaluate("(one) => { one.setAttribute('src', 'https://['); }")
    expect(run.handle.get_by_role("alert")).to_contain_text("not an address")


@pytest.mark.parametrize("path", ["/me", "/sessions/"])
def test_a_server_that_cannot_answer_now_is_told_with_its_reason_in_its_place(
    site: Page, origin: str, server: Running, api: Api, path: str
) -> None:
    session = api.start("memo", goal("Write the memo"))
    asked = re.compile(rf"/api/v1{path}")
    headers = {"Access-Control-Allow-Origin": "*"}
    site.route(
        asked,
        lambda route: answers(503, headers=headers)(route) if route.request.method != "OPTIONS" else route.fallback(),
    )
    run = embedded(site, origin, server, session)
    said = run.handle.get_by_role("alert")
    expect(said).to_contain_text("The server answers, but has not been available since")
    expect(said).to_contain_text(SHOWN)
    expect(said).to_contain_text("It is retried automatically.")
    expect(run.lamp).to_have_text("Store not available")
    site.unroute(asked)
    run.is_at("running")


STYLED: Final = """
() => {
  const root = document.querySelector("midcourse-handle").shadowRoot;
  return [...root.querySelectorAll(".handle, .handle *")].map((one) => {
    const style = getComputedStyle(one);
    const names = [...style].filter((name) => !name.startsWith("--"));
    const told = Object.fromEntries(names.map((name) => [name, style[name]]));
    return [`${one.tagName} ${one.getAttribute("class")} ${one.textContent}`, told];
  });
}
"""


RESTYLE: Final = """
(styles) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles);
  document.adoptedStyleSheets = [sheet];
}
"""


def test_the_styles_of_a_hostile_page_do_not_reach_into_it(site: Page, origin: str, server: Running, api: Api) -> None:
    session = api.start("memo", goal("Write the memo"))
    until(site, lambda: len(api.events(session, "step.finished")) == 2)
    api.post(f"/sessions/{session}/cancel", undo="all")
    run = embedded(site, origin, server, session)
    run.is_at("cancelled")  # where no clock goes
    expect(run.receipt).to_be_visible()
    expect(run.slot("Undo")).to_be_visible()
    wide = "one => { one.style.cssText = 'position: absolute; left: 0; top: 0; width: 900px'; }"
    site.locator("midcourse-handle").evaluate(wide)
    plain = site.evaluate(STYLED)
    site.evaluate(RESTYLE, STYLES)
    hostile = site.evaluate(STYLED)
    assert [name for name, _style in hostile] == [name for name, _style in plain]
    changed = {
        (name, prop, before[prop], after[prop])
        for (name, before), (_name, after) in zip(plain, hostile, strict=True)
        for prop in before
        if before[prop] != after[prop]
    }
    assert changed == set()


def test_its_colours_can_be_set_and_its_theme_chosen(site: Page, origin: str, server: Running, api: Api) -> None:
    session = api.start("memo", goal("Write the memo"))
    run = embedded(site, origin, server, session)
    run.is_at("running")
    background = "one => getComputedStyle(one).backgroundColor"
    light = run.handle.evaluate(background)
    site.emulate_media(color_scheme="dark")
    assert run.handle.evaluate(background) != light
    site.locator("midcourse-handle").evaluate("one => { one.dataset.theme = 'light'; }")
    assert run.handle.evaluate(background) == light
    site.locator("midcourse-handle").evaluate("one => one.style.setProperty('--mc-surface', 'rgb(1, 2, 3)')")
    assert run.handle.evaluate(background) == "rgb(1, 2, 3)"


def test_another_session_and_a_removed_element_let_go_of_the_first(
    site: Page, origin: str, server: Running, api: Api
) -> None:
    first, second = api.start("memo", goal("Write the memo")), api.start("chooser", goal("Choose"))
    run = embedded(site, origin, server, first)
    run.is_at("running")
    site.locator("midcourse-handle").evaluate("(one, id) => one.setAttribute('session', id)", second)
    run.is_at("waiting")
    expect(run.tray.get_by_role("button", name="login bug")).to_be_visible()
    run.tray.get_by_role("button", name="login bug").click()
    assert told(site, "answer")
    site.locator("midcourse-handle").evaluate("one => one.remove()")
    expect(run.handle).to_have_count(0)


def test_a_page_that_is_not_allowed_gets_nothing(browser: Browser, server: Running, api: Api, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "page.js").write_text(SCRIPT, encoding="utf-8")
    session = api.start("memo", goal("Write the memo"))
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text))
    with static_files(tmp_path) as stranger:
        page.goto(f"{stranger}/?session={session}&src={server.url}&token={TOKEN}")
        until(page, lambda: any("CORS policy" in line for line in said))
        expect(RunPage(page).controls).to_have_count(0)
    context.close()
