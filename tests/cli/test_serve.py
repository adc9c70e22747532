"""``midcourse serve``, ``link`` and ``token`` as a user runs them: a process, a folder, a port."""

import json
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.examples.demo_server import Served, free_port, served, surroundings

pytestmark = pytest.mark.timeout(180)
GIVEN = "a-token-that-somebody-gave"

TICKER = """
import asyncio
import midcourse

@midcourse.tool(effect="read")
async def tick(number: int) -> int:
    await asyncio.sleep(0.02)
    return number

@midcourse.agent
async def ticker(run: midcourse.Run) -> str:
    for number in range(100_000):
        await run.step("tick", tick, number)
    return "done"
"""

EDITOR = """
from pathlib import Path
import midcourse
from midcourse.tools import file

@midcourse.tool(effect="read", observes=file("path"))
def read(path: str) -> str:
    return Path(path).read_text()

@midcourse.agent
async def editor(run: midcourse.Run) -> list[str]:
    await run.step("read", read, "draft.txt")
    await run.ask("Publish it?")
    return [await run.step("read again", read, "draft.txt", key=change.now) for change in run.changes]
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "tickers.py").write_text(TICKER, encoding="utf-8")
    return folder


def midcourse(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command, run to its end."""
    return subprocess.run(
        ["midcourse", *arguments],
        cwd=folder,
        env=surroundings(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def client(server: Served, token: str | None = None) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token or server.token}"}
    return httpx2.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=30)


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_ctrl_c_lets_sessions_go_says_how_to_come_back_and_they_go_on(tmp_path: Path, agents: Path) -> None:
    port = free_port()
    with served(tmp_path, "--agents", "agents", port=port) as server, client(server) as api:
        api.post("/sessions", json={"agent": "ticker", "session_id": "sess_ticks"})
        until(lambda: api.get("/sessions/sess_ticks").json()["finished_steps"] > 3, "it does not tick")
    said = (tmp_path / "serve.txt").read_text(encoding="utf-8")
    again = f"midcourse serve --agents agents --port {port}"
    assert said.splitlines()[-1] == f"1 session was stopped, none cancelled. To continue: {again}"
    assert midcourse(tmp_path, "browser", "link").returncode == 1, "no server runs"

    with served(tmp_path, "--agents", "agents", port=port) as server, client(server) as api:
        before = api.get("/sessions/sess_ticks").json()["finished_steps"]
        until(lambda: api.get("/sessions/sess_ticks").json()["finished_steps"] > before + 3, "it does not go on")


def test_sigterm_is_an_end_as_good_as_ctrl_c(tmp_path: Path, agents: Path) -> None:
    with served(tmp_path, "--agents", str(agents)) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    assert "Nothing was running. To continue:" in (tmp_path / "serve.txt").read_text(encoding="utf-8")


def entered(server: Served, link: str) -> str:
    """Who a browser is that opens a link; it must be one of the server."""
    address, _, code = link.partition("#")
    assert address == f"{server.url}/login"
    assert re.fullmatch(r"mcl_[\w-]{43}", code)
    with httpx2.Client(base_url=server.url, timeout=30) as browser:
        page = browser.post("/api/v1/login", json={"credential": code}).raise_for_status().json()["page_key"]
        return str(browser.get("/api/v1/me", headers={"Midcourse-Page": page}).json()["name"])


def test_a_link_lets_a_browser_in_and_each_is_another(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        links = [midcourse(tmp_path, "browser", "link").stdout.strip() for _ in range(2)]
        assert links[0] != links[1]
        assert [entered(server, link) for link in links] == ["local", "local"]
        ann = midcourse(tmp_path, "token", "add", "ann").stdout.strip()
        for options in ([], ["--url", server.url]):
            assert (
                entered(server, midcourse(tmp_path, "browser", "link", "--token", ann, *options).stdout.strip())
                == "ann"
            )
        assert entered(server, midcourse(tmp_path, "browser", "link", "--url", server.url).stdout.strip()) == "local"
    kept = tmp_path / ".midcourse" / "token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_without_a_terminal_nothing_secret_is_printed_or_logged(tmp_path: Path) -> None:
    """Under systemd what is printed is in the journal, which others read."""
    with served(tmp_path) as server:
        assert "  open   the link that this prints: midcourse browser link\n" in server.said
        link = midcourse(tmp_path, "browser", "link").stdout.strip()
        entered(server, link)
    for name in ("serve.txt", "serve.log", "logs/app.log"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert re.search(r"mc[tlbp]_", text) is None, name
        assert server.token not in text


def test_on_a_terminal_the_link_that_is_printed_opens_at_once(tmp_path: Path) -> None:
    with served(tmp_path, terminal=True, COLUMNS="200") as server:
        link = re.search(r"open   (http\S+)", server.said)
        assert link is not None
        assert "It works once, within a minute. For another one: midcourse browser link" in server.said
        assert entered(server, link[1]) == "local"


def test_a_given_token_is_kept_nowhere_and_the_link_says_so(tmp_path: Path) -> None:
    with served(tmp_path, MIDCOURSE_TOKEN=GIVEN) as server:
        with client(server, GIVEN) as api:
            assert api.get("/me").json()["role"] == "operate"
        refused = midcourse(tmp_path, "browser", "link")
        assert entered(server, midcourse(tmp_path, "browser", "link", "--token", GIVEN).stdout.strip()) == "local"
    assert refused.returncode == 1
    assert "Put it into MIDCOURSE_TOKEN, and run this again." in refused.stderr
    assert not (tmp_path / ".midcourse" / "token").exists()
    assert GIVEN not in (tmp_path / "logs" / "app.log").read_text(encoding="utf-8")


def test_tokens_are_added_listed_and_revoked_while_it_runs(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        token = midcourse(tmp_path, "token", "add", "ada", "--role", "steer").stdout.strip()
        with client(server, token) as ada:
            assert ada.get("/me").json() == {
                "name": "ada",
                "role": "steer",
                "session": None,
                "tenant": None,
                "only": None,
            }
            assert ada.get("/audit").status_code == 403
            assert token not in midcourse(tmp_path, "token", "list").stdout
            assert midcourse(tmp_path, "token", "revoke", "ada").returncode == 0
            until(lambda: ada.get("/me").status_code == 401, "a revoked token is still let in")
    assert midcourse(tmp_path, "token", "revoke", "ada").returncode == 1


def test_tokens_expire_and_the_list_says_when(tmp_path: Path) -> None:
    def added(name: str, *options: str) -> float | None:
        answer = json.loads(midcourse(tmp_path, "token", "add", name, "--json", *options).stdout)
        return None if answer["expires_at"] is None else answer["expires_at"] - time.time()

    assert added("ada") == pytest.approx(90 * 86_400, abs=60)
    assert added("bob", "--expires", "12h") == pytest.approx(43_200, abs=60)
    assert added("prometheus", "--expires", "never") is None
    for wrong in ("1s", "soon", "20000d"):
        assert midcourse(tmp_path, "token", "add", "eve", "--expires", wrong).returncode != 0
    listed = midcourse(tmp_path, "token", "list").stdout
    assert re.findall(r"^(\S+) .*?(in \d+ \w+|never) ", listed, re.MULTILINE) == [
        ("ada", "in 89 d"),
        ("bob", "in 11 h"),
        ("prometheus", "never"),
    ]


def test_browsers_are_listed_and_logged_out(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert midcourse(tmp_path, "browser", "list").stdout.startswith("No browser is logged in.")
        with httpx2.Client(base_url=server.url, timeout=30) as browser:
            page = browser.post("/api/v1/login", json={"credential": server.token}).json()["page_key"]
            (shown,) = json.loads(midcourse(tmp_path, "browser", "list", "--json").stdout)
            assert (shown["name"], shown["place"]) == ("local", server.url)
            assert re.search(rf"^{shown['id']} +local +{server.url} +in 6 d ", _list(tmp_path), re.MULTILINE)
            assert midcourse(tmp_path, "browser", "end", shown["id"]).returncode == 0
            until(
                lambda: browser.get("/api/v1/me", headers={"Midcourse-Page": page}).status_code == 401,
                "a browser that was logged out is still let in",
            )
        assert midcourse(tmp_path, "browser", "end", shown["id"]).returncode == 1


def _list(folder: Path) -> str:
    return midcourse(folder, "browser", "list").stdout


def test_a_busy_port_is_an_error_if_it_was_wished_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = midcourse(tmp_path, "serve", "--demo", "--port", port)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Port {port} on 127.0.0.1 cannot be used: another program listens there.")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("bad.py", "def f(:\n", "bad.py:1: invalid syntax."),
        ("bad.py", "\n\nraise ValueError('no')\n", "bad.py:3: ValueError: no."),
        ("bad.py", "x = 1\n", "bad.py defines no agent."),
        (
            "bad.yaml",
            "spec:\n  type: chat_model_agent\n  modle: test\n",
            "bad.yaml:3: spec.modle: there is no such field.",
        ),
        ("bad.txt", "", "bad.txt is neither a .py nor a .yaml file."),
    ],
)
def test_a_mistake_in_an_agents_file_is_told_with_its_line(
    tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    refused = midcourse(tmp_path, "serve", "--agents", name)
    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_log_lines_go_to_the_file_as_json_with_their_level_and_without_tokens(tmp_path: Path) -> None:
    with served(tmp_path, "--demo") as server, client(server) as api:
        api.post("/sessions", json={"agent": "records-cleaner", "session_id": "sess_logged"})
        api.post("/sessions/sess_logged/pause", json={"reason": "to be logged"})
        httpx2.get(f"{server.url}/login", params={"token": server.token}, timeout=30)
        token = server.token
    lines = (tmp_path / "logs" / "app.log").read_text(encoding="utf-8").splitlines()
    paused = next(line for line in map(json.loads, lines) if line["event"].startswith("pause of session sess_logged"))
    assert paused["level"] == "info"
    assert paused["by"] == "local"
    assert paused["timestamp"]
    assert token not in "\n".join(lines)


def test_reload_serves_changed_agents_and_survives_a_mistake(tmp_path: Path, agents: Path) -> None:
    with served(tmp_path, "--agents", "agents", "--reload") as server, client(server) as api:

        def names() -> list[str]:
            try:
                return [agent["name"] for agent in api.get("/agents").json()["agents"]]
            except httpx2.TransportError:
                return []

        def says(words: str) -> bool:
            return words in (tmp_path / "serve.log").read_text(encoding="utf-8")

        until(lambda: names() == ["ticker"], "it does not serve")
        (agents / "more.py").write_text(TICKER.replace("ticker", "another"), encoding="utf-8")
        until(lambda: names() == ["another", "ticker"], "the new agent is not served")
        (agents / "more.py").write_text("def f(:\n", encoding="utf-8")
        until(lambda: says("more.py:1: invalid syntax."), "the mistake is not told")
        (agents / "more.py").unlink()
        until(lambda: names() == ["ticker"], "it has not come back")
        assert not says("Traceback")


RUDE = """
import asyncio
import sys
import time
import midcourse

@midcourse.agent
async def holder(run: midcourse.Run) -> None:
    time.sleep(600)

@midcourse.agent
async def lender(run: midcourse.Run) -> None:
    await asyncio.to_thread(time.sleep, 600)
"""


@pytest.mark.parametrize("agent", [pytest.param("holder", marks=pytest.mark.thorough), "lender"])
def test_an_agent_that_does_not_let_go_keeps_no_server(tmp_path: Path, agent: str) -> None:
    """It holds the agents' loop, or a thread that Python would wait for: the server ends all the same, once told twice
    at once, and its session goes on later."""
    (tmp_path / "rude.py").write_text(RUDE, encoding="utf-8")
    with served(tmp_path, "--agents", "rude.py", "--grace", "1s") as server, client(server) as api:
        api.post("/sessions", json={"agent": agent, "session_id": "sess_rude"})
        until(lambda: api.get("/sessions/sess_rude").json()["status"] == "running", "it does not begin")
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    assert "1 session was stopped, none cancelled." in (tmp_path / "serve.txt").read_text(encoding="utf-8")
    assert "running" in midcourse(tmp_path, "ps").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--store", "mysql://db"), "Unknown store 'mysql://db'."),
        (("--store", "sqlite:///broken.db"), "is not a Midcourse store, or its beginning is damaged."),
        (("--redis", "somewhere"), "is no address of a Redis."),
        (("--allow-origin", "*"), "'*' cannot be an allowed origin."),
        (("--allow-host", "a/b"), "'a/b' cannot be an allowed host."),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database at all, and longer than the header of one" * 100)
    ended = midcourse(tmp_path, "serve", "--port", str(free_port()), *arguments)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_of_another_store_names_it_in_the_command_for_a_link(tmp_path: Path) -> None:
    store = "sqlite:///other.db"
    with served(tmp_path, "--store", store) as server:
        assert f"midcourse browser link --store {store}" in server.said
        assert entered(server, midcourse(tmp_path, "browser", "link", "--store", store).stdout.strip()) == "local"


def test_a_warm_session_checks_the_world_after_as_short_a_rest_as_the_server_was_told(
    tmp_path: Path, agents: Path
) -> None:
    (agents / "editors.py").write_text(EDITOR, encoding="utf-8")
    (tmp_path / "draft.txt").write_text("a first draft", encoding="utf-8")
    with served(tmp_path, "--agents", "agents", "--world-after", "0s") as server, client(server) as api:
        api.post("/sessions", json={"agent": "editor", "session_id": "sess_draft"})
        until(lambda: api.get("/sessions/sess_draft").json()["status"] == "waiting", "it does not ask")
        (tmp_path / "draft.txt").write_text("another draft", encoding="utf-8")
        api.post("/sessions/sess_draft/answer", json={"value": "yes"})
        found = api.get("/sessions/sess_draft/result", params={"wait": 60}).json()
        assert found["result"] == ["another draft"]
