"""Pictures of every page and state, light and dark, at three widths, and what axe finds on each.

Needs a server that serves console/dist and runs the agents of ``console/fixtures/agents.py``::

    midcourse serve --agents console/fixtures/agents.py
    python console/shots/shots.py --url http://127.0.0.1:8420 --token "$(cat .midcourse/token)" --out shots [scene …]
"""
# ruff: noqa: RUF001 - Chinese is written with its own signs

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Route, sync_playwright

CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS: Final = ((1376, 900), (1024, 768), (390, 844))
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
HERE: Final = Path(__file__).parent
AXE: Final = HERE.parent / "node_modules" / "axe-core" / "axe.min.js"
GOAL: Final = (
    "Write a one-page churn memo for the quarterly review: who is likely to leave, why, and what it would cost"
)


class Server:
    """The server under the console."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url.rstrip("/"), token

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request to the API."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def start(self, agent: str, goal: str = "", **more: object) -> str:
        """Start a run; its id."""
        return self.call("POST", "/sessions", {"agent": agent, "goal": goal, **more})["id"]

    def until(self, session: str, *statuses: str, patience: float = 40) -> None:
        """Wait for a status."""
        end = time.monotonic() + patience
        while self.call("GET", f"/sessions/{session}")["status"] not in statuses:
            if time.monotonic() > end:
                raise TimeoutError(f"{session} did not get to {statuses}")
            time.sleep(0.1)


Scene = Callable[[Page, Server], None]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    """Register a scene under its name."""
    SCENES[function.__name__.replace("_", "-")] = function
    return function


def watch(page: Page, server: Server, session: str) -> None:
    """Open a run's page."""
    page.goto(f"{server.url}/?run={session}")
    page.get_by_role("region", name="Interrupt handle").wait_for()


def slot(page: Page, name: str) -> None:
    """Press a slot, once its guard is over."""
    page.wait_for_timeout(600)
    page.get_by_role("group", name="Controls").get_by_role("button", name=name).click()


def says(page: Page, word: str) -> None:
    """Wait until the lamp says so."""
    page.locator(".bar .lamp", has_text=word).wait_for(timeout=20_000)


@scene
def fleet(page: Page, server: Server) -> None:
    server.until(server.start("memo", "a short memo about the third quarter", budget=5), "completed")
    server.until(server.start("cleaner", "清理 CRM：合并重复联系人，并按保留规则删除四年未联系的记录"), "waiting")
    server.start("memo", GOAL, budget=10)
    page.goto(f"{server.url}/")
    page.get_by_role("link", name="Write a one-page").first.wait_for()


@scene
def fleet_no_match(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/?q=tag%3Ax")
    page.get_by_text("No session matches").wait_for()


@scene
def new_run(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/?new")
    page.get_by_role("radio", name="memo").first.wait_for()


@scene
def settings(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/?settings")
    page.get_by_role("heading", name="Settings").wait_for()


@scene
def not_found(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/?run=sess_nobody")
    page.get_by_text("No session").wait_for()


@scene
def running(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=10))
    page.wait_for_timeout(3500)


@scene
def policy_stopped(page: Page, server: Server) -> None:
    watch(page, server, server.start("stumbles", GOAL))
    says(page, "paused")
    page.locator(".review").wait_for()


@scene
def policy_judged(page: Page, server: Server) -> None:
    session = server.start("stumbles", f"{GOAL}, in short")
    watch(page, server, session)
    page.get_by_role("button", name="Continue", exact=True).click()
    says(page, "completed")
    page.keyboard.press("+")
    page.get_by_text("You said: right.").wait_for()
    page.get_by_role("button", name="4 of 5").click()
    page.get_by_text("Rated 4 of 5.").wait_for()


@scene
def pausing(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", f"{GOAL}, and send it", budget=10))
    page.locator(".call code", has_text="send").wait_for()
    slot(page, "Pause")
    says(page, "pausing")


@scene
def pausing_can_be_torn(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", f"{GOAL}, with a draft", budget=10))
    page.locator(".call code", has_text="draft").wait_for()
    slot(page, "Pause")
    page.get_by_role("button", name="Don't wait").wait_for()


@scene
def asking(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=10))
    page.wait_for_timeout(2000)
    page.route("**/pause", lambda route: None)
    slot(page, "Pause")
    says(page, "Asking to pause")


@scene
def paused(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=10))
    page.wait_for_timeout(3000)
    slot(page, "Pause")
    says(page, "paused")
    slot(page, "Redirect")
    page.get_by_label("What should it do instead?").fill("EU first, the others as one table")
    page.get_by_role("radio", name="Goal").check()
    page.keyboard.press("Enter")
    page.locator(".diff").wait_for()


@scene
def capped(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=0.3))
    page.wait_for_timeout(3000)
    slot(page, "Pause")
    says(page, "paused")
    page.get_by_role("button", name="and resume").first.wait_for()


@scene
def redirect(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=10))
    page.wait_for_timeout(2500)
    slot(page, "Redirect")
    page.get_by_label("What should it do instead?").fill(
        "Only score accounts above $500 MRR; list the rest in an appendix"
    )
    page.get_by_role("radio", name="Step").check()


@scene
def redirect_too_long(page: Page, server: Server) -> None:
    redirect(page, server)
    page.get_by_label("What should it do instead?").fill("Only score accounts above $500 MRR, " * 6)


@scene
def redirected(page: Page, server: Server) -> None:
    redirect(page, server)
    page.keyboard.press("Enter")
    page.locator(".said").wait_for()
    page.wait_for_timeout(2500)


@scene
def cancel_preview(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", f"{GOAL}, and send it", budget=10))
    page.locator(".call code", has_text="send").wait_for()
    slot(page, "Cancel")
    page.locator(".choices tbody tr").first.wait_for()


@scene
def cancelling(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", f"{GOAL}, and archive it", budget=10))
    page.locator(".call code", has_text="archive").wait_for()
    slot(page, "Cancel")
    page.locator(".choices tbody tr").first.wait_for()
    slot(page, "Cancel run")
    says(page, "cancelling")
    page.locator(".receipt li").first.wait_for()


@scene
def cancelled(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", GOAL, budget=10))
    page.wait_for_timeout(3000)
    slot(page, "Cancel")
    page.locator(".choices tbody tr").first.wait_for()
    slot(page, "Cancel run")
    says(page, "cancelled")
    page.locator(".receipt li").first.wait_for()


@scene
def waiting(page: Page, server: Server) -> None:
    watch(page, server, server.start("cleaner", "清理 CRM：合并重复联系人，并按保留规则删除四年未联系的记录"))
    says(page, "waiting")


@scene
def waiting_with_choices(page: Page, server: Server) -> None:
    watch(page, server, server.start("chooser", "Fix the login bug"))
    says(page, "waiting")


@scene
def completed(page: Page, server: Server) -> None:
    watch(page, server, server.start("memo", "a short memo about the third quarter", budget=5))
    says(page, "completed")
    page.get_by_role("button", name="can be undone").wait_for()


@scene
def undo(page: Page, server: Server) -> None:
    completed(page, server)
    slot(page, "Undo")
    page.get_by_role("button", name="newest first").wait_for()


@scene
def failed(page: Page, server: Server) -> None:
    watch(page, server, server.start("breaks", "Join the accounts against the MRR table"))
    says(page, "failed")


@scene
def children(page: Page, server: Server) -> None:
    watch(
        page,
        server,
        server.start(
            "reconcile-intercompany-ledger-and-regenerate-statutory-disclosures-eu-west",
            "Reconcile the intercompany ledger",
        ),
    )
    page.get_by_role("heading", name="Children").wait_for()


@scene
def ten_thousand_lines(page: Page, server: Server) -> None:
    watch(page, server, server.start("talker", "Say ten thousand lines"))
    says(page, "completed")
    page.get_by_text("show all 10,001 lines").first.wait_for()


@scene
def hostile(page: Page, server: Server) -> None:
    watch(page, server, server.start("hostile", "<script>document.title='owned'</script> & <b>bold</b>"))
    says(page, "waiting")
    assert "owned" not in page.title().replace("document.title='owned'", ""), page.title()


@scene
def inspecting(page: Page, server: Server) -> None:
    session = server.start("memo", "a short memo about the third quarter", budget=5)
    server.until(session, "completed")
    page.goto(f"{server.url}/?run={session}&at=14")
    page.get_by_text("Event 14 of").wait_for()


@scene
def lost(page: Page, server: Server) -> None:
    session = server.start("memo", GOAL, budget=10)
    broken = {"is": False}

    def cut(route: Route) -> None:
        if broken["is"]:
            route.abort()
        else:
            events = server.call("GET", f"/sessions/{session}/events?limit=1000")["events"]
            frames = "".join(
                f"id: {one['position']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events
            )
            broken["is"] = True
            route.fulfill(body=frames, headers={"Content-Type": "text/event-stream"})

    time.sleep(3)
    page.route("**/events?*", cut)
    watch(page, server, session)
    page.get_by_text("No connection for").wait_for()


def told(page: Page, server: Server, session: str, records: list[tuple[str, dict[str, Any]]]) -> None:
    """Show a journal that no sample gets to."""
    now = time.time()
    events = [
        {"position": place, "at": now - 60 + place, "type": kind, "version": 1, "data": data}
        for place, (kind, data) in enumerate(records, start=1)
    ]
    frames = "".join(f"id: {one['position']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    page.add_init_script(
        """((address, frames) => {
          const real = window.fetch;
          window.fetch = (url, init) => !String(url).includes(address) ? real(url, init) : Promise.resolve(new Response(
            new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode(frames)) }),
            { headers: { "Content-Type": "text/event-stream" } }));
        })"""
        f"({json.dumps(f'/sessions/{session}/events')}, {json.dumps(frames)})"
    )
    status = records[-1][0].removeprefix("session.")
    view = {"id": session, "status": status, "position": len(events), "allowed": [], "etag": "", "goal": ""}
    page.route(f"**/sessions/{session}", lambda route: route.fulfill(json=view))
    watch(page, server, session)


CREATED: Final = {
    "agent": "repo-fixer",
    "agent_version": "1",
    "goal": "Fix the login bug",
    "parent": None,
    "forked_from": "",
    "by": "ci",
    "terms": {"task_class": "long", "policy": "", "budget": 10, "ttl_seconds": None, "on_expiry": "fail"},
}


@scene
def halted(page: Page, server: Server) -> None:
    halt = {"by": "ops", "reason": "ORM rewrite must not reach the release branch."}
    told(page, server, "sess_halted", [("session.created", CREATED), ("session.started", {}), ("session.halted", halt)])


@scene
def queued(page: Page, server: Server) -> None:
    told(page, server, "sess_queued", [("session.created", CREATED)])


def check(page: Page, name: str) -> list[str]:
    """What axe finds that is serious or critical."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{name}: {one['impact']} {one['id']}: {node['target']} {node['failureSummary'].splitlines()[-1].strip()}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:4]
    ]


def take(browser: Browser, server: Server, name: str, out: Path, *, only_axe: bool) -> list[str]:
    """Bring a page into one scene and take its pictures, or look at it with axe; what was found wrong."""
    problems: list[str] = []
    # Axe is put into the page by evaluation, which the page's policy would refuse.
    context = browser.new_context(color_scheme="light", bypass_csp=only_axe)
    page = context.new_page()

    def hear(message: ConsoleMessage) -> None:
        is_network = "status of" in message.text or "net::" in message.text
        if message.type == "error" and not is_network:
            problems.append(f"{name}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: problems.append(f"{name}: {error}"))
    page.set_viewport_size({"width": WIDTHS[0][0], "height": WIDTHS[0][1]})
    page.goto(server.call("POST", "/login/codes")["link"])
    page.get_by_role("heading", name="Fleet").wait_for()
    try:
        SCENES[name](page, server)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for width, height in WIDTHS:
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(150)
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    problems.append(f"{name}: {wide} px wide at {width}")
                if only_axe:
                    problems += check(page, f"{name} {theme} {width}")
                else:
                    page.screenshot(path=out / f"{name}-{theme}-{width}.png")
    except Exception as error:  # noqa: BLE001 - the others are still worth taking
        problems.append(f"{name}: {str(error).splitlines()[0]}")
        page.screenshot(path=out / f"{name}-broken.png")
    context.close()
    return problems


def main() -> None:
    """Take them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--url", required=True)
    options.add_argument("--token", required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--axe", action="store_true", help="only look for what axe finds")
    options.add_argument("scenes", nargs="*", default=[])
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    server = Server(given.url, given.token)
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in given.scenes or SCENES:
            found = take(browser, server, name, given.out, only_axe=given.axe)
            print("; ".join(found) or "good", name, flush=True)
            problems += found
        browser.close()
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
