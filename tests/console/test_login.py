"""How a browser gets in and out, in a real Chromium: links, identities, expiry, revocation, and who shares its host."""

import logging
import re
import subprocess
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from midcourse.clock import SystemClock
from midcourse.server.browser_sessions import CODE_SECONDS, SESSION_SECONDS
from tests.console.agents import AGENTS, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import Api, Window, let_in, link_for
from tests.server.live_server import TOKEN, Running, serving

pytestmark = pytest.mark.timeout(180)
SECRET = re.compile(r"mc[tlbp]_[\w-]+")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser that was never here."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def is_logged_out(page: Page, words: str) -> None:
    """The login page, with a field."""
    expect(page.get_by_role("heading", level=1)).to_have_text(words)
    expect(page.get_by_label("Code or token")).to_be_visible()


def is_in(page: Page, name: str) -> None:
    """The console, as somebody."""
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    assert page.evaluate(ME)["name"] == name


ME = """async () => {
    const key = localStorage.getItem("midcourse.page:/api/v1") ?? "";
    return (await fetch("/api/v1/me", {headers: {"Midcourse-Page": key}})).json();
}"""


def test_a_link_opens_the_console_once_and_leaves_no_secret_behind(page: Page, server: Running) -> None:
    link = link_for(server.url)
    page.goto(link)
    is_in(page, "local")
    assert page.url == f"{server.url}/"
    assert SECRET.search(page.evaluate("document.cookie")) is None, "scripts cannot read the cookie"
    page.go_back()
    assert "mcl_" not in page.url
    page.goto(link)
    expect(page.get_by_role("status")).to_contain_text("not valid. A code works once, within a minute")
    is_logged_out(page, "Log in")
    page.get_by_role("link", name="open the console").click()
    is_in(page, "local")


def test_the_field_takes_a_token_a_code_or_a_whole_link(page: Page, server: Running, api: Api) -> None:
    token = api.post("/tokens", name="field-ann", role="watch")["token"]
    page.goto(server.url)
    is_logged_out(page, "Log in")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("status")).to_have_text("Paste a code, a link or a token first.")
    page.get_by_label("Code or token").fill("mct_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("This code or token is not valid.")
    for credential in (token, link_for(server.url, token).partition("#")[2], link_for(server.url, token)):
        page.get_by_label("Code or token").fill(credential)
        page.keyboard.press("Enter")
        is_in(page, "field-ann")
        page.evaluate("localStorage.clear()")
        page.reload()
        is_logged_out(page, "Log in")


def test_an_old_link_with_a_token_in_it_lets_nobody_in(page: Page, server: Running) -> None:
    page.goto(f"{server.url}/login?token={TOKEN}")
    is_logged_out(page, "Log in")
    assert TOKEN not in page.url + page.content()
    assert page.context.cookies() == []


def test_a_link_of_another_identity_asks_before_it_switches(window: Window, server: Running, api: Api) -> None:
    """A page elsewhere may lead the browser to a link: nothing changes before a person has said so."""
    token = api.post("/tokens", name="another-ann", role="watch")["token"]
    page = window.open()
    is_in(page, "local")
    page.evaluate("address => { location.href = address; }", link_for(server.url, token))
    expect(page.get_by_role("heading", name="Switch to another identity?")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("This browser is logged in as local (operate)")
    expect(page.get_by_role("main")).to_contain_text("The link you opened belongs to another-ann (watch)")
    page.get_by_role("button", name="Stay local (operate)").click()
    is_in(page, "local")
    page.goto(link_for(server.url, token))
    page.get_by_role("button", name="Switch to another-ann (watch)").click()
    is_in(page, "another-ann")
    window.complaints.clear()  # the browser's line about the 409


def test_a_pasted_token_of_another_identity_is_not_called_a_link(window: Window, server: Running, api: Api) -> None:
    token = api.post("/tokens", name="pasted-ann", role="watch")["token"]
    page = window.open()
    is_in(page, "local")
    page.goto(f"{server.url}/login")
    page.get_by_label("Code or token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Switch to another identity?")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("What you entered belongs to pasted-ann (watch)")
    expect(page.get_by_role("main")).not_to_contain_text("link")
    page.get_by_role("button", name="Switch to pasted-ann (watch)").click()
    is_in(page, "pasted-ann")
    window.complaints.clear()  # the browser's line about the 409


def test_every_page_says_who_is_logged_in_at_any_width(opening: Opening, api: Api) -> None:
    window = opening(token=api.post("/tokens", name="header-ann", role="steer")["token"])
    session = api.start("chooser", goal("Seen by Ann"))
    for query in ("", "?inbox", "?policies", "?reports", "?new", "?settings", f"?run={session}"):
        window.open(query)
        for width in (390, 1024, 1280, 1376):
            window.page.set_viewport_size({"width": width, "height": 844})
            expect(window.top.get_by_role("link", name="Logged in as header-ann")).to_be_visible()
            window.has_its_top()
    window.open()
    window.top.get_by_role("link", name="Logged in as header-ann").click()
    expect(window.page.get_by_role("heading", name="Settings", level=1)).to_be_visible()
    expect(window.page.get_by_text("Logged in as header-ann (steer)")).to_be_visible()


def test_a_logout_ends_it_in_every_tab_and_at_the_server(window: Window, server: Running, api: Api) -> None:
    api.start("chooser", goal("Asks while logging out"))
    session = api.start("memo", goal("Looked at while logging out"))
    run = window.watch(session)
    expect(window.page).to_have_title(re.compile(r"^\(\d+\) Looked at"))  # the open question is counted
    other = Window(window.page.context, server.url)
    page = other.open("?settings")
    expect(page.get_by_text("Logged in as local (operate) until")).to_be_visible()
    stored = page.evaluate("localStorage.getItem('midcourse.page:/api/v1')")
    (cookie,) = page.context.cookies()
    page.get_by_role("button", name="Log out").click()
    is_logged_out(page, "You are logged out")
    is_logged_out(window.page, "You are no longer logged in")
    for one in (page, window.page):
        expect(one).to_have_title("Log in · Midcourse")
        expect(one.get_by_role("link", name="Logged in as")).to_have_count(0)
    expect(run.handle).to_have_count(0)
    assert page.context.cookies() == []
    kept = {"Cookie": f"{cookie.get('name')}={cookie.get('value')}", "Midcourse-Page": stored}
    assert httpx2.get(f"{server.api}/me", headers=kept).status_code == 401, "it is over at the server, too"
    # The way back in: a link in one tab brings both back to where they were.
    page.goto(link_for(server.url))
    is_in(page, "local")
    expect(run.handle).to_be_visible()
    window.complaints.clear()  # the browser's lines about 401


def test_a_revoked_token_ends_the_page_and_says_what_was_not_sent(browser: Browser, server: Running, api: Api) -> None:
    session = api.start("memo", goal("Watched by somebody whose token goes"))
    token = api.post("/tokens", name="goes-away", role="steer")["token"]
    context = let_in(browser, server.url, token)
    window = Window(context, server.url)
    run = window.watch(session)
    run.is_at("running")
    window.page.route("**/pause", lambda route: route.abort())
    run.press("Pause")
    expect(run.sentence).to_be_visible()
    api.delete("/tokens/goes-away")
    is_logged_out(window.page, "You are no longer logged in")
    expect(window.page.get_by_role("alert").first).to_contain_text("was ended or has expired")
    expect(window.page.get_by_text("Pause is not sent again. It may have arrived before")).to_be_visible()
    assert api.events(session, "session.pause_requested") == []
    # Nobody owns a session that is over: another token logs in without a question.
    window.page.get_by_label("Code or token").fill(TOKEN)
    window.page.keyboard.press("Enter")
    expect(run.handle).to_be_visible()
    assert f"run={session}" in window.page.url, "back where it was"
    context.close()


class Ahead(SystemClock):
    """A clock that can be set forward."""

    seconds = 0.0

    def now(self) -> float:
        """The time, and what was added to it."""
        return super().now() + self.seconds


def test_a_browser_session_that_expires_ends_the_page(page: Page, tmp_path: Path) -> None:
    """Its streams as well, without a request of the page; and a code that is older than a minute is not valid."""
    clock = Ahead()
    with serving(f"sqlite:///{tmp_path / 'runs.db'}", *AGENTS, settings=SETTINGS, limits=LIMITS) as server:
        access = server.server.app.state.access
        access.tokens._clock = access.logins._clock = clock  # noqa: SLF001 - what a week does
        link = link_for(server.url)
        page.goto(link)
        is_in(page, "local")
        late = link_for(server.url)
        clock.seconds += CODE_SECONDS
        page.goto(late)
        expect(page.get_by_role("status")).to_contain_text("not valid")
        page.goto(server.url)
        is_in(page, "local")
        clock.seconds += SESSION_SECONDS
        is_logged_out(page, "You are no longer logged in")
        # A session that is over belongs to nobody: another's link needs no confirmation.
        with Api(server.url) as api:
            token = api.post("/tokens", name="ann", role="watch")["token"]
        page.goto(link_for(server.url, token))
        is_in(page, "ann")


def test_two_servers_on_one_host_keep_their_logins_apart(page: Page, server: Running, tmp_path: Path) -> None:
    """Neither overwrites the other's, and logging out of one leaves the other."""
    with serving(f"sqlite:///{tmp_path / 'runs.db'}", *AGENTS, settings=SETTINGS, limits=LIMITS) as other:
        for one in (server, other):
            page.goto(link_for(one.url))
            is_in(page, "local")
        for one in (server, other):
            page.goto(one.url)
            is_in(page, "local")
        assert len({cookie.get("name") for cookie in page.context.cookies()}) == 2
        page.goto(f"{other.url}/?settings")
        page.get_by_role("button", name="Log out").click()
        is_logged_out(page, "You are logged out")
        page.goto(server.url)
        is_in(page, "local")


@pytest.mark.skipif(which("openssl") is None, reason="needs openssl to make a certificate")
def test_behind_tls_the_cookie_is_bound_to_the_host(browser: Browser, tmp_path: Path) -> None:
    """No page of a neighbouring name, and none without TLS, can set or read it."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    wish = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1")
    subprocess.run(
        ["openssl", "req", "-x509", *wish, "-out", str(certificate), "-keyout", str(key)],
        check=True,
        capture_output=True,
    )
    context = browser.new_context(ignore_https_errors=True)
    with serving("memory://", *AGENTS, settings=SETTINGS, limits=LIMITS, certificate=(certificate, key)) as server:
        page = context.new_page()
        page.goto(link_for(server.url))
        is_in(page, "local")
        (cookie,) = context.cookies()
        assert cookie.get("name") == f"__Host-midcourse_{server.url.rpartition(':')[2]}"
        kept = {name: cookie.get(name) for name in ("path", "httpOnly", "secure", "sameSite", "domain")}
        assert kept == {"path": "/", "httpOnly": True, "secure": True, "sameSite": "Strict", "domain": "127.0.0.1"}
        page.goto(f"{server.url}/?settings")
        page.get_by_role("button", name="Log out").click()
        is_logged_out(page, "You are logged out")
        assert context.cookies() == []
    context.close()


class Lines(logging.Handler):
    """What a log is told."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said.append(record.getMessage())


def test_no_access_log_holds_a_secret(page: Page, server: Running, api: Api) -> None:
    """Uvicorn's, without the filter of our own logs. No address and no referrer has one, either."""
    lines, asked = Lines(), list[str]()
    page.on("request", lambda one: asked.append(f"{one.url} {one.headers.get('referer', '')}"))
    log = logging.getLogger("uvicorn.access")
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        token = api.post("/tokens", name="logged-ann", role="watch")["token"]
        page.goto(link_for(server.url))
        is_in(page, "local")
        page.goto(link_for(server.url, token))
        page.get_by_role("button", name="Switch to logged-ann (watch)").click()
        is_in(page, "logged-ann")
        page.goto(f"{server.url}/?settings")
        page.get_by_role("button", name="Log out").click()
        is_logged_out(page, "You are logged out")
    finally:
        log.removeHandler(lines)
        log.setLevel(before)
    assert any("POST /api/v1/login " in line for line in lines.said), lines.said
    for line in [*lines.said, *asked]:
        assert SECRET.search(line) is None, line


class Neighbour:
    """Another program on another port of the host: it keeps what a browser sends it."""

    def __init__(self) -> None:
        self.heard: list[dict[str, str]] = []
        heard = self.heard

        class Listening(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(dict(self.headers))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<title>neighbour</title>")

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the terminal quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Listening)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen while the block lasts."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        yield
        self._server.shutdown()
        self._server.server_close()
        thread.join()


def test_another_program_on_another_port_receives_nothing_that_it_can_use(page: Page, server: Running) -> None:
    """A browser sends it the cookie, as to every port of the host. It opens nothing, however it is sent."""
    neighbour = Neighbour()
    with neighbour.listening():
        page.goto(link_for(server.url))
        is_in(page, "local")
        page.goto(f"{neighbour.url}/?login")
        expect(page).to_have_title("neighbour")
        cookie = neighbour.heard[0]["Cookie"]
        assert cookie.startswith(f"midcourse_{server.url.rpartition(':')[2]}=mcb_")
        secret = cookie.partition("=")[2]
        own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        for headers in (
            {"Cookie": cookie},
            {"Cookie": cookie, "Midcourse-Page": secret},
            {"Authorization": f"Bearer {secret}"},
        ):
            for method, path in (("GET", "/me"), ("GET", "/sessions"), ("POST", "/login/codes"), ("DELETE", "/login")):
                answer = httpx2.request(method, f"{server.api}{path}", headers={**own, **headers})
                assert answer.status_code == 401, (method, path)
        # Its page can neither ask with the cookie from within the browser, nor read what the console keeps.
        assert page.evaluate("Object.keys(localStorage)") == []
        asked = """url => fetch(url, {credentials: "include"}).then(one => one.status, () => "refused")"""
        assert page.evaluate(asked, f"{server.api}/me") == "refused"
        # What it plants under the cookie's name lets the browser in as nobody else.
        page.context.add_cookies([{"name": cookie.partition("=")[0], "value": "mcb_planted", "url": server.url}])
        page.goto(server.url)
        is_logged_out(page, "You are no longer logged in")
