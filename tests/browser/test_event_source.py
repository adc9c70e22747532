"""The stream that a page reads, in a browser that came with the login link."""

from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.chromium import browsing
from tests.console.pages import link_for
from tests.examples.expected import ROOT
from tests.examples.served import served
from tests.examples.test_examples import blocks

PAGE = ROOT / "docs" / "how-to" / "follow-events.md"


@pytest.mark.timeout(180)
def test_the_javascript_of_follow_events_follows_events(tmp_path: Path) -> None:
    (script,) = (block.body for block in blocks(PAGE.read_text(encoding="utf-8")) if block.kind == "js")
    with served(tmp_path, "--demo") as server, browsing() as browser:
        api = httpx2.Client(
            base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {server.token}"}, timeout=30
        )
        api.post(
            "/sessions", json={"agent": "order-desk", "goal": "Order 3 bolts for acme", "session_id": "sess_clean"}
        )
        page = browser.new_page()
        page.goto(link_for(server.url, server.token))
        expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
        with page.expect_console_message(lambda said: "session.completed" in said.text, timeout=60_000):
            page.evaluate(script)
        api.close()
