"""The stream that a page reads, in a browser that came with the login link."""

import json
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.console.pages import link_for
from tests.examples.demo_server import served
from tests.examples.expected import ROOT
from tests.examples.test_examples import blocks

PAGE = ROOT / "docs" / "how-to" / "follow-events.md"


@pytest.mark.timeout(180)
def test_the_javascript_of_follow_events_follows_events(browser: Browser, tmp_path: Path) -> None:
    (script,) = (block.body for block in blocks(PAGE.read_text(encoding="utf-8")) if block.kind == "js")
    with served(tmp_path, "--demo") as server, browser.new_context() as context:
        api = httpx2.Client(
            base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {server.token}"}, timeout=30
        )
        api.post(
            "/sessions", json={"agent": "order-desk", "goal": "Order 3 bolts for acme", "session_id": "sess_clean"}
        )
        page = context.new_page()
        page.goto(link_for(server.url, server.token))
        expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
        with page.expect_console_message(lambda said: "session.completed" in said.text, timeout=60_000):
            page.evaluate(script)
        api.close()


FOLLOWS = """async () => {
  const headers = {
    Accept: "text/event-stream", "Last-Event-ID": "99999",
    "Midcourse-Page": localStorage.getItem("midcourse.page:/api/v1"),
  };
  const answer = await fetch("/api/v1/sessions/sess_clean/events", { headers });
  const heard = [];
  let rest = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + piece).split("\\n\\n");
    rest = frames.pop();
    for (const frame of frames) {
      const lines = frame.split("\\n").filter((one) => !one.startsWith(":"));
      const fields = Object.fromEntries(lines.map((one) => one.split(/: (.*)/s)));
      if (fields.data) heard.push([fields.event, fields.id, JSON.parse(fields.data)]);
    }
    if (heard.length > 2) return heard;
  }
}"""


@pytest.mark.timeout(180)
def test_a_browser_and_the_console_begin_anew_where_the_journal_is_another_one(
    browser: Browser, tmp_path: Path
) -> None:
    """A page hears ``reset`` and then all; the console forgets what it drew, and continues with what is there."""
    with served(tmp_path, "--demo") as server, browser.new_context() as context:
        api = httpx2.Client(
            base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {server.token}"}, timeout=30
        )
        body = {"agent": "order-desk", "goal": "Order 3 bolts for acme", "session_id": "sess_clean"}
        with api:
            api.post("/sessions", json=body)
            api.get("/sessions/sess_clean/result", params={"wait": 60})
            events = api.get("/sessions/sess_clean/events").json()["events"]
        page = context.new_page()
        page.goto(link_for(server.url, server.token))
        expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
        heard = page.evaluate(FOLLOWS)
        assert [one[:2] for one in heard[:2]] == [["reset", "0"], [events[0]["type"], "1"]]
        assert heard[0][2]["position"] == len(events)

        # The store stands again as it was two events after the start; the connection had been lost for that.
        frames = "".join(
            f"id: {one['position']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events[:2]
        )
        reset = json.dumps({"session": "sess_clean", "last_event_id": "9", "position": 2, "detail": "restored"})
        asked: list[str | None] = []

        def restored(route: Route) -> None:
            asked.append(route.request.headers.get("last-event-id"))
            if len(asked) == 1:
                whole = "".join(f"id: {e['position']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
                route.fulfill(content_type="text/event-stream", body=whole)
            elif len(asked) == 2:
                route.fulfill(content_type="text/event-stream", body=f"id: 0\nevent: reset\ndata: {reset}\n\n{frames}")
            else:
                route.fulfill(content_type="text/event-stream", body=": nothing new\n\n")

        page.route("**/sessions/sess_clean/events**", restored)
        page.goto(f"{server.url}/?run=sess_clean")
        with page.expect_request(lambda one: one.headers.get("last-event-id") == "2", timeout=30_000):
            pass
        assert asked[:2] == [None, str(len(events))]
