"""The example's chat page, as a person uses it: by role and label."""

import functools
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Locator, Page


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def static_files(folder: Path) -> Generator[str]:
    """Any static file server will do for the page. Gives its origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class ChatPage:
    """A page object. What the browser complains of is in ``complaints``."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.goto(f"{origin}/index.html")

    def connect(self, url: str, token: str, agent: str = "records-cleaner") -> None:
        """Say where the server is."""
        self.page.get_by_label("Server", exact=True).fill(url)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_label("Agent").fill(agent)

    def send(self, message: str) -> None:
        """Say something to the agent."""
        self.page.get_by_label("Message").fill(message)
        self.page.get_by_role("button", name="Send").click()

    def ask(self, prompt: str = "Confirm delete?") -> Locator:
        """What the agent asks."""
        return self.page.get_by_role("form", name=prompt)

    @property
    def log(self) -> Locator:
        """The conversation."""
        return self.page.get_by_role("log", name="Conversation")

    @property
    def status(self) -> Locator:
        """The line that says how things stand."""
        return self.page.get_by_role("status")
