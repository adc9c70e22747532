"""A real server for tests: uvicorn on a free loopback port, in a thread of its own, over a real store."""

import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

import midcourse
from midcourse.server import CallerLimits, Server
from midcourse.server.http_protocol import PatientProtocol
from tests.server.documented import Documented

_TLS = ssl.create_default_context()  # made once: each takes a while, and none is used
TOKEN = "mct_a-token-for-the-tests-of-the-server-0000000"


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    url: str
    server: Server
    token: str = TOKEN

    @property
    def api(self) -> str:
        """Where the addresses of the API begin."""
        return f"{self.url}/api/v1"

    def client(self, token: str | None = None, **more: Any) -> httpx2.AsyncClient:
        """A client that sends a token, the operator's unless one is given."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return httpx2.AsyncClient(base_url=self.api, headers=headers, timeout=30, verify=_TLS, **more)


@contextmanager
def serving(
    store: str,
    *agents: "midcourse.Agent[Any]",
    settings: midcourse.Settings | None = None,
    limits: CallerLimits | None = None,
    certificate: tuple[Path, Path] | None = None,
    **more: Any,
) -> Generator[Running]:
    """Serve ``agents`` over ``store`` while the block lasts. ``certificate``: over TLS, with it and its key."""
    named: Mapping[str, midcourse.Agent[Any]] = {agent.name: agent for agent in agents}
    made = Server(
        store=store,
        token=TOKEN,
        agents=named,
        settings=settings or midcourse.Settings(),
        limits=limits or CallerLimits(),
        grace=1.0,
        **more,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listening.getsockname()[1]
    documented = Documented(made.app)
    config = uvicorn.Config(documented, http=PatientProtocol, log_level="warning", timeout_graceful_shutdown=2)
    if certificate is not None:
        config.ssl_certfile, config.ssl_keyfile = certificate
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    while not running.started:
        assert thread.is_alive(), "the server ended before it began"
        time.sleep(0.01)
    try:
        yield Running(f"http{'' if certificate is None else 's'}://127.0.0.1:{port}", made)
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive(), "the server did not end"
    assert not documented.undocumented, f"The document does not tell of: {sorted(documented.undocumented)}"
