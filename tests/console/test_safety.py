"""No inline script, a strict policy, and nothing that an agent says is taken for more than text."""

import re
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.pages import static_files
from tests.console.agents import GATES, goal
from tests.console.conftest import Opening
from tests.console.hostile import HOSTILE, LONG_WORD, SCRIPTS
from tests.console.pages import PHONE, Api, RunPage, Window, until

pytestmark = pytest.mark.timeout(180)

INJECTED = "script:not([src]), img, iframe, object, embed, base, style, svg[onload], [onerror], [onload], [onclick]"
ATTRIBUTES = """[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
    .map((one) => one.name).filter((name) => name.startsWith("on"))"""
AGENT = '<img src=x onerror="steal()">'


def test_every_page_is_under_a_strict_policy_and_has_no_script_in_it(window: Window) -> None:
    answer = httpx2.get(f"{window.url}/", verify=False, timeout=30)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
    assert " style=" not in answer.text
    assert not re.search(r"\bon\w+=", answer.text)


def test_no_page_breaks_the_policy_or_asks_somebody_else(window: Window) -> None:
    for query in ("", "?new", "?settings", "?q=<script>steal()</script>", "?new&goal=<img src=x>"):
        page = window.open(query)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator(INJECTED).count() == 0
        window.is_calm()


def test_an_address_that_names_a_hostile_session_is_only_text(opening: Opening) -> None:
    window = opening()
    page = window.open("?run=%3Cimg%20src%3Dx%20onerror%3Dsteal()%3E")
    expect(page.get_by_role("main")).to_contain_text("<img src=x onerror=steal()>")
    nothing_was_injected(window)


def nothing_was_injected(window: Window) -> None:
    """No element, no dialog, no request to elsewhere, no link that runs something."""
    page = window.page
    assert page.locator(INJECTED).count() == 0
    assert (
        page.evaluate(
            "[...document.querySelectorAll('a[href]')].filter((a) => a.protocol !== location.protocol).length"
        )
        == 0
    )
    assert page.evaluate(ATTRIBUTES) == []
    assert page.evaluate("document.baseURI.startsWith(location.origin)")
    assert window.dialogs == []
    assert window.strangers == []


@pytest.mark.parametrize("width", [1376, pytest.param(PHONE[0], marks=pytest.mark.browser_full)])
def test_a_hostile_agent_writes_text_and_nothing_else(opening: Opening, api: Api, width: int) -> None:
    window = opening(viewport={"width": width, "height": 844})
    window.page.add_init_script("window.steal = () => { document.title = 'stolen'; alert('stolen'); }")
    wanted = goal(HOSTILE)
    session = api.start(AGENT, wanted)
    run = window.watch(session)
    run.is_at("waiting")

    expect(window.page.get_by_role("heading", level=1)).to_contain_text("<script>steal()</script>")
    expect(run.log).to_contain_text(SCRIPTS)
    expect(run.tray).to_contain_text("<script>steal()</script>")
    expect(run.log).to_contain_text("<iframe src=https://evil.example></iframe>.pdf")
    expect(run.tray.get_by_role("button").first).to_be_visible()
    assert "stolen" not in window.page.title()
    nothing_was_injected(window)
    window.is_narrow()
    window.is_calm()

    api.post(f"/sessions/{session}/pause")
    run.is_at("paused")
    api.post(f"/sessions/{session}/redirect", text=SCRIPTS[:190], level="goal")
    expect(run.tray).to_contain_text("You changed the goal")
    nothing_was_injected(window)
    window.is_narrow()
    for button in run.log.get_by_role("button", name=re.compile("show all|more|read")).all():
        button.click()
    nothing_was_injected(window)
    window.is_narrow()

    window.open()
    expect(window.page.get_by_role("link", name=re.compile("<script>steal")).first).to_be_visible()
    nothing_was_injected(window)
    window.is_narrow()
    window.open("?inbox")
    expect(window.page.get_by_role("main")).to_contain_text("<iframe src=https://evil.example></iframe>.pdf")
    expect(window.page.get_by_role("article")).to_be_visible()
    nothing_was_injected(window)
    window.is_narrow()
    window.open("?new")
    expect(window.page.get_by_role("radio", name=AGENT)).to_be_visible()
    nothing_was_injected(window)
    window.is_narrow()
    window.is_calm()


READS_FROM_THE_LEFT = """(root, words) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.data.indexOf(words);
        if (at < 0) continue;
        const left = (index) => {
            const range = document.createRange();
            range.setStart(node, index);
            range.setEnd(node, index + 1);
            return range.getBoundingClientRect().left;
        };
        return left(at) < left(at + words.length - 1);
    }
    return null;
}"""


def test_the_direction_of_a_text_does_not_turn_what_stands_around_it(window: Window, api: Api) -> None:
    turned = "\u202eesrever"
    session = api.start("memo", goal(turned))
    run = window.watch(session)
    run.is_at("running")
    boxes = [run.slot(name).bounding_box() for name in ("Pause", "Redirect", "Cancel")]
    lefts = [box["x"] for box in boxes if box]
    assert lefts == sorted(lefts)
    api.post(f"/sessions/{session}/pause", reason=turned)
    run.is_at("paused")
    expect(run.log).to_contain_text("nothing ran after")
    assert run.log.evaluate(READS_FROM_THE_LEFT, "nothing ran after") is True
    assert run.sentence.evaluate(READS_FROM_THE_LEFT, "Nothing runs") is True
    api.post(f"/sessions/{session}/redirect", text=turned, level="step")
    expect(run.log).to_contain_text("not seen by the agent yet")
    assert run.log.evaluate(READS_FROM_THE_LEFT, "not seen by the agent yet") is True


def test_a_word_of_a_hundred_thousand_letters_is_kept_and_shown_in_part(window: Window, api: Api) -> None:
    session = api.start(AGENT, goal("Long"))
    run = window.watch(session)
    run.is_at("waiting")
    window.is_narrow()
    text = run.log.locator(".said-text").first.inner_text()
    assert len(text) < 20_000
    run.log.get_by_role("button", name=re.compile("^show all")).first.click()
    expect(run.log.locator(".whole").first).to_contain_text(LONG_WORD)
    window.is_narrow()


def test_a_hostile_reason_name_and_result_stay_text_in_the_receipt(window: Window, api: Api) -> None:
    session = api.start("memo", goal("Write the memo"))
    run = window.watch(session)
    expect(run.log).to_contain_text("word 1")
    api.post(f"/sessions/{session}/pause", reason="<img src=x onerror=steal()>")
    expect(run.sentence).to_contain_text("<img src=x onerror=steal()>")
    GATES.open(session, "words")
    api.post(f"/sessions/{session}/cancel", undo="all", reason="<b>bold</b>")
    run.is_at("cancelled")
    expect(run.receipt).to_be_visible()
    nothing_was_injected(window)


def test_the_page_of_another_site_may_not_frame_the_console(opening: Opening, tmp_path: Path) -> None:
    window = opening()
    (tmp_path / "index.html").write_text(f"<iframe src='{window.url}/'></iframe>", encoding="utf-8")
    with static_files(tmp_path) as site:
        window.page.goto(site)
        until(window.page, lambda: any(frame.url.startswith("chrome-error:") for frame in window.page.frames))
        expect(window.page.frame_locator("iframe").get_by_role("heading", name="Fleet")).to_have_count(0)


def test_runs_are_shown_with_text_of_every_script(window: Window, api: Api) -> None:
    session = api.start("memo", goal("第二高的是 0417 杭州 😀 عربي"))
    run = RunPage(window.open(f"?run={session}"))
    expect(window.page.get_by_role("heading", level=1)).to_contain_text("第二高的是 0417 杭州 😀 عربي")
    run.is_at("running")
