"""examples/handle in a real Chromium: the handle in a page of another origin with a strict policy, and in React."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import static_files
from tests.examples.demo_server import Served, served
from tests.examples.expected import ROOT

pytestmark = pytest.mark.timeout(180)
FOLDER = ROOT / "examples" / "handle"
CONSOLE = ROOT / "console"
SECONDS = 30_000.0


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(color_scheme="light")
    context.set_default_timeout(SECONDS)
    try:
        yield context.new_page()
    finally:
        context.close()


def _complaints(page: Page) -> list[str]:
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(f"{error}"))
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    return found


def _style(page: Page, within: str, name: str) -> str:
    root = "document.querySelector('midcourse-handle').shadowRoot"
    return str(page.evaluate(f"getComputedStyle({root}.querySelector('{within}')).{name}"))


def _press(page: Page, name: str) -> None:
    page.wait_for_timeout(600)  # a slot whose meaning has just changed takes no press for half a second
    page.get_by_role("group", name="Controls").get_by_role("button", name=name).click()


def test_the_handle_works_in_a_plain_page_of_another_origin(page: Page, tmp_path: Path) -> None:
    complaints = _complaints(page)
    with (
        static_files(FOLDER) as origin,
        served(tmp_path, "--demo", "--allow-origin", origin, MIDCOURSE_SAMPLE_PACE="0.2") as server,
    ):
        page.goto(f"{origin}/index.html")
        page.get_by_label("Server").fill(server.url)
        page.get_by_label("Token").fill(server.token)
        page.get_by_role("button", name="Start churn-memo").click()

        handle = page.get_by_role("region", name="Interrupt handle")
        log = page.get_by_role("log", name="What the handle told this page")
        expect(handle).to_be_visible(timeout=SECONDS)
        _press(page, "Pause")
        expect(handle.locator(".lamp")).to_have_text("paused", timeout=SECONDS, ignore_case=True)
        expect(log).to_contain_text("pause: ", timeout=SECONDS)

        page.get_by_label("Goal").fill("the keys p, r and c belong to this field")
        expect(handle.locator(".lamp")).to_have_text("paused", ignore_case=True)

        _press(page, "Cancel")
        expect(page.get_by_role("table")).to_be_visible(timeout=SECONDS)
        _press(page, "Cancel run")
        expect(log).to_contain_text("settled: cancelled", timeout=SECONDS)

        assert _style(page, ".slot", "borderRadius") == "12px", "a variable of the page reaches into the handle"
        assert _style(page, ".bar", "borderTopWidth") == "1px", "so does the style of a part"
        assert server.token not in page.content(), "the token stands in no markup"
    assert complaints == []


def test_a_server_that_does_not_allow_the_page_is_explained(page: Page, tmp_path: Path) -> None:
    with static_files(FOLDER) as origin, served(tmp_path, "--demo") as server:
        page.goto(f"{origin}/index.html")
        page.get_by_label("Server").fill(server.url)
        page.get_by_label("Token").fill(server.token)
        page.get_by_role("button", name="Start churn-memo").click()
        expect(page.get_by_role("log")).to_contain_text(f"--allow-origin {origin}", timeout=SECONDS)


@pytest.mark.parametrize(
    "is_before", [pytest.param(True, id="before", marks=pytest.mark.browser_full), pytest.param(False, id="after")]
)
def test_the_token_may_be_set_before_and_after_the_element_is_defined(
    page: Page, tmp_path: Path, is_before: bool
) -> None:
    with static_files(FOLDER) as origin, served(tmp_path, "--demo", "--allow-origin", origin) as server:
        _start(server)
        page.goto(f"{origin}/index.html")
        steps = ["handle.token = token", "await import(`${url}/midcourse-handle.js`)"]
        page.evaluate(
            f"""async ([url, token]) => {{
                const handle = document.querySelector("midcourse-handle");
                handle.setAttribute("src", url);
                handle.setAttribute("session", "sess_shown");
                {"; ".join(steps if is_before else reversed(steps))};
            }}""",
            [server.url, server.token],
        )
        expect(page.get_by_role("region", name="Interrupt handle")).to_be_visible(timeout=SECONDS)


def test_the_handle_works_in_react(page: Page, tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node, "Node.js is missing: run scripts/console.sh"
    vite = CONSOLE / "node_modules" / "vite" / "bin" / "vite.js"
    config = CONSOLE / "vite.example.config.ts"
    built = tmp_path / "built"
    command = [node, vite, "build", "--config", config, "--outDir", built]
    done = subprocess.run(command, cwd=CONSOLE, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    complaints = _complaints(page)
    with (
        static_files(built) as origin,
        served(tmp_path, "--demo", "--allow-origin", origin, MIDCOURSE_SAMPLE_PACE="0.2") as server,
    ):
        _start(server)
        page.goto(f"{origin}/index.html?server={server.url}&session=sess_shown#{server.token}")
        expect(page.get_by_role("region", name="Interrupt handle")).to_be_visible(timeout=SECONDS)
        expect(page.get_by_role("status").first).to_have_text("It has not ended.")
        _press(page, "Cancel")
        expect(page.get_by_role("table")).to_be_visible(timeout=SECONDS)
        _press(page, "Cancel run")
        expect(page.get_by_text("It has ended: cancelled")).to_be_visible(timeout=SECONDS)
    assert complaints == []


def _start(server: Served) -> None:
    begun = {"agent": "churn-memo", "goal": "Write a churn memo", "session_id": "sess_shown"}
    headers = {"Authorization": f"Bearer {server.token}"}
    httpx2.post(f"{server.url}/api/v1/sessions", json=begun, headers=headers, timeout=30).raise_for_status()
