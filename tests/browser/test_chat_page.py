"""examples/chat-page in a real Chromium, against a real ``midcourse serve``: the chat contract with fetch alone."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.cut_connection import cutting
from tests.browser.pages import ChatPage, static_files
from tests.examples.demo_server import Served, free_port, served
from tests.examples.expected import ROOT

pytestmark = pytest.mark.timeout(180)
CLEAN = "Clean the contacts, only duplicates"
DELETED = "Deleted 38 records; 258 are left. They can be put back."
SECONDS = 30_000.0

expect.set_options(timeout=SECONDS)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with static_files(ROOT / "examples" / "chat-page") as found:
        yield found


@pytest.fixture
def server(tmp_path: Path, origin: str) -> Iterator[Served]:
    with served(tmp_path, "--demo", "--allow-origin", origin) as running:
        yield running


@pytest.fixture
def chat(browser: Browser, origin: str) -> Iterator[ChatPage]:
    context = browser.new_context()
    try:
        yield ChatPage(context.new_page(), origin)
    finally:
        context.close()


def test_a_person_talks_approves_and_reads_the_result(chat: ChatPage, server: Served) -> None:
    chat.connect(server.url, server.token)
    chat.send(CLEAN)

    expect(chat.ask()).to_be_visible()
    expect(chat.log).to_contain_text("I look for records that can go.")
    expect(chat.log).to_contain_text("find_candidates (read): finished")
    expect(chat.log).to_contain_text("delete_records (reversible): interrupted")
    expect(chat.status).to_have_text("It waits for you: Confirm delete?")

    chat.ask().get_by_role("button", name="yes").click()

    expect(chat.status).to_have_text("Done.")
    expect(chat.ask()).to_be_hidden()
    expect(chat.log).to_contain_text("delete_records (reversible): finished")
    expect(chat.log.get_by_text(DELETED)).to_have_count(1)
    assert chat.complaints == []


def test_everything_can_be_done_with_the_keyboard(chat: ChatPage, server: Served) -> None:
    keys = chat.page.keyboard
    for text in (server.url, server.token, "records-cleaner"):
        keys.press("Tab")
        keys.press("ControlOrMeta+a")
        keys.type(text)
    keys.press("Tab")
    expect(chat.log).to_be_focused()
    keys.press("Tab")
    keys.type(CLEAN)
    keys.press("Enter")

    expect(chat.ask()).to_be_visible()
    expect(chat.page.get_by_label("Message")).to_be_focused()
    keys.press("Shift+Tab")
    keys.press("Shift+Tab")
    expect(chat.page.get_by_label("Another answer")).to_be_focused()
    keys.type("no, keep them")
    keys.press("Enter")

    expect(chat.status).to_have_text("Done.")
    expect(chat.page.get_by_label("Message")).to_be_focused()
    expect(chat.log).to_contain_text("Nothing was deleted.")


def test_a_second_message_goes_on_with_the_same_session(chat: ChatPage, server: Served) -> None:
    chat.connect(server.url, server.token)
    chat.send(CLEAN)
    chat.ask().get_by_role("button", name="yes").click()
    expect(chat.status).to_have_text("Done.")

    chat.send("Now clean only obsolete contacts")
    chat.ask().get_by_role("button", name="yes").click()

    expect(chat.log).to_contain_text("Deleted 21 records; 237 are left.")
    expect(chat.status).to_have_text("Done.")
    heads = httpx2.get(f"{server.url}/api/v1/sessions", headers=_bearer(server), timeout=30).json()["sessions"]
    assert len(heads) == 1


def test_the_page_comes_back_after_kill_9_of_the_server(chat: ChatPage, origin: str, tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, "--demo", "--allow-origin", origin, port=port) as first:
        chat.connect(first.url, first.token)
        chat.send(CLEAN)
        expect(chat.ask()).to_be_visible()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(10)
        expect(chat.status).to_have_text("The connection is lost. Trying again.")
    with served(tmp_path, "--demo", "--allow-origin", origin, port=port):
        chat.ask().get_by_role("button", name="yes").click()
        expect(chat.status).to_have_text("Done.")
        expect(chat.log.get_by_text(DELETED)).to_have_count(1)
        expect(chat.log.get_by_text("I look for records that can go.")).to_have_count(1)


@pytest.mark.parametrize("after", [1100, pytest.param(2000, marks=pytest.mark.browser_full)])
def test_what_comes_again_after_lost_connections_is_shown_once(
    chat: ChatPage, origin: str, tmp_path: Path, after: int
) -> None:
    with (
        served(tmp_path, "--demo", "--allow-origin", origin, MIDCOURSE_SAMPLE_PACE="0.05") as slow,
        cutting(slow.port, cuts=6, after=after) as relay,
    ):
        chat.connect(relay.url, slow.token)
        chat.send(CLEAN)
        chat.ask().get_by_role("button", name="yes").click()
        expect(chat.status).to_have_text("Done.")

        assert relay.cuts_left < 6
        said = [
            "I look for records that can go.",
            "Of 296 records 38 are duplicates and 0 obsolete. I ask before I delete them.",
            DELETED,
        ]
        expect(chat.log.locator(".agent span")).to_have_text(said)
        assert "begun" not in chat.log.inner_text(), "every call is seen to end"


def test_an_answer_from_elsewhere_is_noticed(chat: ChatPage, server: Served) -> None:
    chat.connect(server.url, server.token)
    chat.send(CLEAN)
    expect(chat.ask()).to_be_visible()
    (head,) = httpx2.get(f"{server.url}/api/v1/sessions", headers=_bearer(server), timeout=30).json()["sessions"]

    given = {"value": "yes", "ask": "ask_1"}
    httpx2.post(f"{server.url}/api/v1/sessions/{head['id']}/answer", json=given, headers=_bearer(server), timeout=30)

    expect(chat.status).to_have_text("Done.")
    expect(chat.ask()).to_be_hidden()
    expect(chat.log).to_contain_text(DELETED)


def test_a_refused_answer_leaves_the_ask_open(chat: ChatPage, server: Served) -> None:
    steer = httpx2.post(
        f"{server.url}/api/v1/tokens", json={"name": "stan", "role": "steer"}, headers=_bearer(server), timeout=30
    ).json()["token"]
    chat.connect(server.url, steer)
    chat.send(CLEAN)
    chat.ask().get_by_role("button", name="yes").click()

    expect(chat.log).to_contain_text("(approver_only)")
    expect(chat.status).to_have_text("It still waits for you.")
    expect(chat.ask().get_by_role("button", name="yes")).to_be_enabled()


def test_a_wrong_token_and_a_server_that_does_not_allow_the_page_are_explained(
    chat: ChatPage, server: Served, tmp_path: Path, origin: str
) -> None:
    chat.connect(server.url, "mct_wrong")
    chat.send(CLEAN)
    expect(chat.log).to_contain_text("This token is unknown, was revoked or has expired")
    expect(chat.log).to_contain_text("(unauthorized)")

    closed = tmp_path / "closed"
    closed.mkdir()
    with served(closed, "--demo") as other:
        chat.connect(other.url, other.token)
        chat.send(CLEAN)
        expect(chat.log).to_contain_text(f"--allow-origin {origin}")
    assert httpx2.get(f"{server.url}/api/v1/sessions", headers=_bearer(server), timeout=30).json()["sessions"] == []


def _bearer(server: Served) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token}"}
