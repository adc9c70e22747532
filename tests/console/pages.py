"""The console's pages, as a person uses them: by role and label."""

import json
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, Self

import httpx2
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.console.agents import goal
from tests.server.live_server import TOKEN

GUARD: Final = 550.0
"""Milliseconds after which a slot whose meaning has just changed takes a press: the guard, and a little."""
PATIENCE: Final = 30.0
PHONE: Final = (390, 844)
Data = dict[str, Any]


class Api:
    """The server under the console, for what a test does behind its back."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url = url
        self._client = httpx2.Client(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30, verify=False
        )

    def get(self, path: str, **query: str | int) -> Any:
        """What is there."""
        answer = self._client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        """Do something."""
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def put(self, path: str, **body: Any) -> Any:
        """Keep something under a name."""
        answer = self._client.put(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def delete(self, path: str) -> None:
        """Take something away."""
        self._client.delete(path).raise_for_status()

    def start(self, agent: str, goal: str = "", **more: Any) -> str:
        """Start a run; its id."""
        return str(self.post("/sessions", agent=agent, goal=goal, **more)["id"])

    def events(self, session: str, kind: str = "") -> list[Data]:
        """Its journal, or what of one kind is in it."""
        found: list[Data] = []
        after: int | None = 0
        while after is not None:
            page = self.get(f"/sessions/{session}/events", after=after, limit=1000)
            found += page["events"]
            after = page["next"]
        return [event for event in found if not kind or event["type"] == kind]

    def status(self, session: str) -> str:
        """Where it stands."""
        return str(self.get(f"/sessions/{session}")["status"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()


class Window:
    """A tab of a browser that is let in. What it complains of, and whom it asks, is kept."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.dialogs: list[str] = []
        self.asked_to_stay = 0
        self.page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda sent: None if sent.url.startswith(url) else self.strangers.append(sent.url))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":
            self.asked_to_stay += 1
            dialog.accept()
            return
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, query: str = "") -> Page:
        """Go to a page of the console."""
        self.page.goto(f"{self.url}/{query}")
        return self.page

    def watch(self, session: str) -> "RunPage":
        """The page of a run, with its handle there."""
        self.open(f"?run={session}")
        run = RunPage(self.page)
        expect(run.handle).to_be_visible()
        return run

    @property
    def top(self) -> Locator:
        """The top bar."""
        return self.page.get_by_role("banner")

    def is_calm(self) -> None:
        """Nothing was complained of, and nobody else was asked."""
        assert self.complaints == []
        assert self.strangers == []
        assert self.dialogs == []

    def has_its_top(self) -> None:
        """The top bar is as wide as its window, one line high, and nothing of it is cut."""
        expect(self.top).to_be_visible()
        # In one turn of the page: once it is loaded, a page brings a top bar of its own.
        wide, room, high, cut = self.page.evaluate(
            """() => {
                const top = document.querySelector("header.top");
                const all = [...top.querySelectorAll("a, button")].filter((one) => one.offsetParent !== null);
                const isCut = (one) => one.getBoundingClientRect().right > innerWidth || one.scrollHeight > 52;
                const cut = all.filter(isCut).map((one) => one.textContent);
                return [top.scrollWidth, top.clientWidth, top.offsetHeight, cut];
            }"""
        )
        assert wide <= room, f"a top bar of {wide} px in {room}"
        assert high == 52, f"a top bar of {high} px"
        assert cut == []

    def is_narrow(self) -> None:
        """The page is not wider than its window."""
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room, f"{wide} px in {room}"


class RunPage:
    """A run, by what its page says and offers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.handle = page.get_by_role("region", name="Interrupt handle")
        self.controls = self.handle.get_by_role("group", name="Controls")
        self.lamp = self.handle.locator(".bar .lamp")
        self.sentence = self.handle.locator(".bar .doing")
        self.tray = self.handle.locator(".tray")
        self.log = page.get_by_role("log", name="What happened")
        self.polite = self.handle.locator("[aria-live=polite]")
        self.assertive = self.handle.locator("[aria-live=assertive]")
        self.composer = self.handle.get_by_role("form", name="Redirect")
        self.say = page.get_by_label("What should it do instead?")
        self.preview = self.handle.get_by_role("table")
        self.receipt = self.handle.locator(".receipt")

    def slot(self, label: str) -> Locator:
        """One of the three, by its first word."""
        return self.controls.get_by_role("button", name=re.compile(rf"^{re.escape(label)}\b"))

    def press(self, label: str) -> None:
        """Press a slot, once its guard is over."""
        expect(self.slot(label)).to_be_visible()
        self.page.wait_for_timeout(GUARD)
        self.slot(label).click()

    def key(self, name: str) -> None:
        """Press a key, once the guard of what it stands for is over."""
        self.page.wait_for_timeout(GUARD)
        self.page.keyboard.press(name)

    def is_at(self, word: str) -> None:
        """The lamp says so."""
        expect(self.lamp).to_have_text(word, ignore_case=True)

    def call(self, name: str) -> Locator:
        """The line of a tool call in the log."""
        return self.log.locator(".call").filter(has=self.page.locator("code", has_text=re.compile(f"^{name}$")))

    def redirect(self, text: str, level: str) -> None:
        """Open the composer, choose, send."""
        self.press("Redirect")
        self.say.fill(text)
        self.composer.get_by_role("radio", name=level).check()
        self.page.keyboard.press("Enter")


def started(window: Window, api: Api, words: str, **more: Any) -> tuple[str, RunPage]:
    """A run of the memo agent, watched."""
    session = api.start("memo", goal(words), **more)
    return session, window.watch(session)


def let_in(browser: Browser, url: str, token: str = TOKEN, **more: Any) -> BrowserContext:
    """A context whose browser is logged in already; tests/console/test_login.py takes the way through /login."""
    context = browser.new_context(**more)
    answer = httpx2.post(f"{url}/api/v1/login", json={"credential": token}, timeout=30, verify=False)
    assert answer.status_code == 200, answer.text
    name, _, value = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
    is_secure = url.startswith("https:")
    context.add_cookies(
        [{"name": name, "value": value, "url": url, "httpOnly": True, "secure": is_secure, "sameSite": "Strict"}]
    )
    # Once: what the page does to it later stays so when it is loaded again.
    key = json.dumps(answer.json()["page_key"])
    context.add_init_script(
        f"""if (location.origin === {json.dumps(url)} && !sessionStorage.getItem("let in")) {{
            sessionStorage.setItem("let in", "yes");
            localStorage.setItem("midcourse.page:/api/v1", {key});
        }}"""
    )
    return context


def link_for(url: str, token: str = TOKEN) -> str:
    """A login link that works once."""
    answer = httpx2.post(
        f"{url}/api/v1/login/codes", headers={"Authorization": f"Bearer {token}"}, timeout=30, verify=False
    )
    return str(answer.raise_for_status().json()["link"])


@contextmanager
def standstill(page: Page) -> Generator[None]:
    """No time passes for guards: what was shown before takes presses, and what changes meanwhile takes none."""
    page.wait_for_timeout(GUARD)
    page.evaluate("(at => { performance.now = () => at; })(performance.now())")
    yield
    page.evaluate("delete performance.now")


def until(page: Page, holds: Callable[[], bool]) -> None:
    """Until something behind the page's back is so."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        page.wait_for_timeout(20)
