"""The server behind a proxy with a prefix: nothing that it answers leads beside that."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser

from tests.console.pages import link_for
from tests.examples.demo_server import served
from tests.server.prefix_proxy import stripping

ROOT = "/tools/mid-course"


@pytest.mark.timeout(180)
def test_everything_works_below_the_prefix_that_a_proxy_takes_away(browser: Browser, tmp_path: Path) -> None:
    """Links, redirects, the cookie, Location, the document's server, and the console in a browser."""
    with (
        served(tmp_path, "--demo", "--root-path", f"{ROOT}/") as server,
        stripping(ROOT, server.port) as port,
        browser.new_context() as context,
    ):
        assert f"below {ROOT}" in server.said
        origin = f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {server.token}"}
        # Past the proxy the same addresses answer, with the prefix and without.
        for base in (f"{origin}{ROOT}", server.url, f"{server.url}{ROOT}"):
            with httpx2.Client(base_url=base, headers=headers, timeout=30) as client:
                assert client.get("/readyz").status_code == 200
                shown = client.get("/api/v1/openapi.json").json()
                assert shown["servers"] == [{"url": ROOT}]
                made = client.post("/api/v1/sessions", json={"agent": "order-desk", "goal": "Order 3 bolts for acme"})
                assert made.headers["location"] == f"{ROOT}/api/v1/sessions/{made.json()['id']}"
                found = httpx2.get(f"{origin}{made.headers['location']}", headers=headers)
                assert found.json()["id"] == made.json()["id"]
                missing = client.get("/api/v1/nothing").json()
                assert f"{ROOT}/api/v1/openapi.json" in missing["detail"]
                assert client.options("/api/v1/sessions").headers["allow"] == "GET, HEAD, OPTIONS, POST"
        name = made.json()["id"]
        asked: list[tuple[str, int]] = []
        page = context.new_page()
        page.on("response", lambda one: asked.append((urlsplit(one.url).path, one.status)))
        link = link_for(f"{origin}{ROOT}", server.token)
        assert link.startswith(f"{origin}{ROOT}/login#")
        page.goto(link)
        page.wait_for_url(f"{origin}{ROOT}/")
        [cookie] = context.cookies()
        assert cookie.get("name", "").endswith("_tools-mid-course"), "each server of a host has a cookie of its own"
        page.get_by_role("link", name="Order 3 bolts for acme").first.click()
        page.wait_for_url(f"{origin}{ROOT}/?run=*")
        page.goto(f"{origin}{ROOT}/?run={name}")
        page.get_by_role("heading", name="Order 3 bolts for acme").wait_for()
        page.get_by_text("completed").first.wait_for()
        page.reload()
        page.get_by_role("heading", name="Order 3 bolts for acme").wait_for()
        assert len(asked) > 8
        assert [one for one in asked if not one[0].startswith(f"{ROOT}/") or one[1] >= 400] == []
