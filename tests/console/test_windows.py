"""Two windows on one session, a slow server, a lost connection, a server that ends and comes back."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from tests.console.agents import GATES
from tests.console.conftest import Opening
from tests.console.pages import Api, RunPage, Window, started, until
from tests.examples.demo_server import free_port
from tests.server.server_process import Alone, alone

pytestmark = pytest.mark.timeout(180)


def test_what_one_window_does_the_other_shows(opening: Opening, api: Api) -> None:
    first, second = opening(), opening()
    session, here = started(first, api, "Write the memo")
    there = second.watch(session)
    there.is_at("running")
    here.slot("Pause").click()
    there.is_at("paused")
    expect(there.tray).to_have_count(0)
    there.redirect("EU first", "Step")
    expect(here.tray).to_contain_text("You changed the step")
    expect(here.tray.get_by_role("insertion")).to_have_text("EU first")
    there.press("Resume")
    here.is_at("running")
    for run in (here, there):
        expect(run.log).to_contain_text("Told: EU first.")
    GATES.open(session, "words")
    for run in (here, there):
        run.is_at("completed")
    assert here.log.inner_text() == there.log.inner_text()
    first.is_calm()
    second.is_calm()


def test_a_resume_that_was_given_elsewhere_is_no_error(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.slot("Pause").click()
    run.is_at("paused")

    def elsewhere(route: Route) -> None:
        api.post(f"/sessions/{session}/resume")
        until(window.page, lambda: api.status(session) == "running")
        route.continue_()

    window.page.route("**/resume", elsewhere)
    run.press("Resume")
    expect(run.tray).to_contain_text("Already done elsewhere")
    run.is_at("running")
    window.complaints.clear()  # the browser reports every answer of 400 and above


def test_an_ask_that_is_answered_elsewhere_closes_here(window: Window, api: Api) -> None:
    session = api.start("chooser", "Fix something")
    run = window.watch(session)
    expect(run.tray.get_by_role("button", name="login bug")).to_be_visible()
    api.post(f"/sessions/{session}/answer", value="replace the ORM", ask="ask_1")
    expect(run.tray).to_contain_text("replace the ORM: what is the branch called?")


def test_the_word_comes_from_the_server_however_long_it_takes(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    held: list[Route] = []
    window.page.route("**/pause", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it calls
    run.slot("Pause").click()
    run.is_at("Asking to pause…")
    expect(run.sentence).to_have_text("Not stopped yet: the server has not answered.")
    expect(run.polite).to_have_text("Asking to pause.")
    expect(run.handle).to_have_attribute("data-status", "pausing")
    until(window.page, lambda: bool(held))
    more = run.log.inner_text()
    expect(run.log).not_to_have_text(more)  # it writes on, and the page says so
    run.is_at("Asking to pause…")
    assert api.status(session) == "running"
    held[0].continue_()
    run.is_at("paused")


def test_a_stop_whose_answer_is_slow_is_shown_as_the_journal_tells_it(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo and send it")
    expect(run.call("send_report")).to_contain_text("running")
    held: list[Route] = []

    def answered_late(route: Route) -> None:
        route.fetch()
        held.append(route)

    window.page.route("**/pause", answered_late)
    run.slot("Pause").click()
    run.is_at("pausing")
    GATES.open(session, "send")
    run.is_at("paused")
    assert held
    for route in held:
        route.abort()
    window.complaints.clear()  # the browser reports that nobody answered


def test_a_press_without_a_connection_is_kept_and_sent_once(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    window.page.route("**/pause", lambda route: route.abort())
    run.slot("Pause").click()
    run.is_at("Pause not answered")
    expect(run.tray).to_contain_text("whether it arrived is not known. It is retried, and counts once.")
    assert api.events(session, "session.pause_requested") == []
    window.page.unroute("**/pause")
    run.is_at("paused")
    assert len(api.events(session, "session.pause_requested")) == 1
    window.complaints.clear()


class Watched:
    """A server of its own, a run of it, and a window that watches."""

    def __init__(self, server: Alone, window: Window, session: str) -> None:
        self.server, self.window, self.session = server, window, session
        self.run: RunPage = window.watch(session)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def watched(store: Path, port: int, opening: Opening) -> Iterator[Watched]:
    with alone(store, port) as server, Api(server.url) as api:
        session = api.start("counter", '{"steps": 40, "pace": 0.1, "words": 12}')
        yield Watched(server, opening(server.url), session)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.browser_full)])
def test_a_server_that_ends_and_comes_back_is_watched_on_without_loss_or_repetition(
    watched: Watched, store: Path, port: int, how: signal.Signals
) -> None:
    run, window = watched.run, watched.window
    expect(run.call("count").nth(3)).to_be_visible()
    watched.server.send(how)
    watched.server.process.wait(20)

    expect(run.sentence).to_contain_text(
        re.compile(r"The server has not answered since \d\d:\d\d:\d\d\. Presses are kept and sent\.")
    )
    run.is_at("Last seen running")
    expect(window.top).to_contain_text("Server does not answer")
    expect(window.top).not_to_contain_text("Live")
    expect(run.assertive).to_have_text("Server does not answer. Last seen running.")
    expect(run.slot("Pause")).to_have_accessible_name(re.compile("sent when connected"))
    expect(run.slot("Cancel")).to_have_accessible_name(re.compile("needs its preview: when connected"))
    expect(run.slot("Cancel")).to_have_attribute("aria-disabled", "true")

    with alone(store, port) as again, Api(again.url) as api:
        expect(window.top).to_contain_text("Live")
        run.is_at("completed")
        expect(run.call("count")).to_have_count(40)
        said = [event["data"]["text"] for event in api.events(watched.session, "segment.written")]
        fresh = Window(window.page.context, again.url).watch(watched.session)
        fresh.is_at("completed")
        expect(fresh.call("count")).to_have_count(40)
        assert words(run) == words(fresh) == "".join(said).split()


def words(run: RunPage) -> list[str]:
    """What the model has said, as the page shows it."""
    return " ".join(run.log.locator(".said-text").all_inner_texts()).split()


def test_a_pause_that_is_pressed_while_the_server_is_away_is_sent_when_it_is_back(
    watched: Watched, store: Path, port: int
) -> None:
    with Api(watched.server.url) as api:  # one that has not ended by itself before the pause arrives
        session = api.start("counter", '{"steps": 4000, "pace": 0.1, "words": 12}')
    run = watched.window.watch(session)
    expect(run.call("count").nth(1)).to_be_visible()
    watched.server.kill()
    run.is_at("Last seen running")
    run.slot("Pause").click()
    expect(run.sentence).to_contain_text("1 press kept, and sent when the connection is back.")
    with alone(store, port) as again, Api(again.url) as api:
        run.is_at("paused")
        assert len(api.events(session, "session.pause_requested")) == 1


def test_a_console_that_is_opened_while_the_server_is_away_says_so(watched: Watched) -> None:
    context: BrowserContext = watched.window.page.context
    broken = Window(context, watched.server.url)
    context.route("**/api/v1/**", lambda route: route.abort())
    broken.open()
    expect(broken.page.get_by_role("main")).to_contain_text("It is retried automatically.")
    context.unroute("**/api/v1/**")
    expect(broken.page.get_by_role("heading", name="Fleet")).to_be_visible()
