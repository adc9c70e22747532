"""The sessions of a command, in a file here or on a server; and one of them by its id."""

import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

import midcourse
from midcourse.core.commands import Command
from midcourse.core.parameters import parameters
from midcourse.errors import MidcourseError, SessionNotFound, StoreUnavailable
from midcourse.handle import SessionHandle, Sessions
from midcourse.handle.http.address import TOKEN_VARIABLE, URL_VARIABLE, address_of
from midcourse.handle.http.remote import RemoteMidcourse
from midcourse.handle.http.server_record import whereabouts
from midcourse.policy.durations import parse_duration

FOLDER: Final = Path(".midcourse")
DEFAULT_STORE: Final = "sqlite:///.midcourse/midcourse.db"
TOKEN_FILE: Final = FOLDER / "token"
_PAGE: Final = 1000
_SHOWN: Final = 5

LOCAL: Final = "local"
"""The person at this terminal in a file's journal, as in the Python API. A server knows people by their tokens."""
STORE_VARIABLE: Final = "MIDCOURSE_STORE"


def option(names: str, kind: str, text: str, **more: Any) -> Any:
    """Return an option that takes a value, with its names as ``--reason/-m``."""
    return typer.Option(*names.split("/"), metavar=kind, help=text, **more)


def flag(names: str, text: str) -> Any:
    """Return an option that takes no value."""
    return typer.Option(*names.split("/"), help=text)


def argument(kind: str, text: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=kind, help=text, show_default=False)


def field_of(sent: type[Command], name: str, names: str = "", kind: str | None = None, **more: Any) -> Any:
    """Return the option for a field of a command: its help and limits are those of the table of commands.

    Without ``names`` it is an argument. The rest is checked when the command is sent.
    """
    one = parameters(sent)[name]
    about, least = one.help.replace("`", ""), cast("Any", getattr(one.type, "ge", None))
    if not names:
        most = cast("Any", getattr(one.type, "le", None))
        return typer.Argument(metavar=kind, help=about, show_default=False, min=least, max=most)
    return typer.Option(*names.split("/"), metavar=kind, help=about, min=least, **more)


WaitOption = Annotated[float, option("--wait", "SECONDS", "Timeout of the decision.", min=0.0)]


StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"The store with the sessions. Or {STORE_VARIABLE}. Default: {DEFAULT_STORE}",
        envvar=STORE_VARIABLE,
        show_envvar=False,
    ),
]
UrlOption = Annotated[
    str | None, option("--url", "URL", f"A server, such as http://127.0.0.1:8420. Or {URL_VARIABLE}.")
]
TokenOption = Annotated[
    str | None,
    option("--token", "TOKEN", f"Your token. Or {TOKEN_VARIABLE}. Default, for a server here: the file {TOKEN_FILE}."),
]
SessionArgument = Annotated[str, argument("SESSION", "A session's id, or the beginning of it.")]


def span_option(written: str, option: str, otherwise: str = "") -> float:
    """Return the seconds that an option is given as: ``30s``, ``12h``, ``90d``."""
    try:
        return float(parse_duration(written))
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}{otherwise}.") from error


def span_or_never(written: str, option: str) -> float | None:
    """Return the same; None for ``never``."""
    return None if written == "never" else span_option(written, option, "; or never")


@dataclass(frozen=True)
class Target:
    """The place of the sessions."""

    store: str | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def server(self) -> str | None:
        """The server's address, if it is one. A file that was named wins over an address from the environment."""
        if self.url is not None and self.store is not None:
            raise typer.BadParameter("Give --store for a file or --url for a server, not both.")
        if self.url is not None or self.store is not None:
            return self.url
        return os.environ.get(URL_VARIABLE) or None


def server_folder(store: str) -> Path:
    """Return where a server of a store keeps its token and its address: in the working directory, by the file's path.

    Nothing is written beside a user's database. A store in a folder ``.midcourse`` has it there.
    """
    path = store_path(store)
    if path is None:
        return FOLDER
    if path.parent.name == FOLDER.name:
        return path.parent
    whole, here = path.resolve(), Path.cwd().resolve()
    return FOLDER / whole.relative_to(here if whole.is_relative_to(here) else whole.anchor)


def store_path(url: str) -> Path | None:
    """Return the file of a SQLite store; None for any other."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def token_file(target: Target) -> Path:
    """Return the place of the token of a server on this machine."""
    return server_folder(target.store or DEFAULT_STORE) / TOKEN_FILE.name


def token_for(target: Target, url: str) -> str | None:
    """Return the given token, or for a server on this machine the one in its folder."""
    if target.token is not None or os.environ.get(TOKEN_VARIABLE) or not address_of(url).is_loopback:
        return target.token
    file = token_file(target)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return None
        return file.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def check_there(given: str | None) -> str:
    """Return the store that was given, or the usual one.

    Raises:
        StoreUnavailable: there is no such file; it is not made here.
    """
    store = given or DEFAULT_STORE
    if store.startswith("memory:"):
        raise StoreUnavailable("A store in memory belongs to one program. Name a file: --store sqlite:///runs.db.")
    path = store_path(store)
    if path is not None and not path.is_file():
        raise StoreUnavailable(
            f"There is no store at {path}. Name one with --store sqlite:///file.db, or a server with --url."
            f"{others(store)}",
            path=str(path),
        )
    return store


def others(store: str) -> str:
    """Return a sentence about the servers of this folder that have other stores; empty: there are none."""
    folders = (server_folder(store), FOLDER)
    records = sorted({one.parent for folder in folders for one in folder.glob("**/server-*.json")})
    found = sorted({one.store for folder in records if (one := whereabouts(folder)) and one.store not in ("", store)})
    return f" Servers run here with {', '.join(f'--store {one}' for one in found)}." if found else ""


@asynccontextmanager
async def opened(target: Target, *, patience: float = 10.0, make: bool = False) -> AsyncGenerator[Sessions]:
    """Open the sessions, to read and to steer. Other programs may have the file open; with ``make`` it may be new.

    Raises:
        StoreUnavailable: there is no such file.
        InvalidInput: that is neither a store nor a server.
    """
    server = target.server
    if server is not None:
        async with midcourse.connect(server, token=token_for(target, server), patience=patience) as remote:
            yield remote
        return
    store = target.store or DEFAULT_STORE if make else check_there(target.store)
    async with midcourse.open(store, drive=False) as local:
        yield local


async def find(sessions: Sessions, given: str) -> SessionHandle[Any]:
    """Return the session with this id, or the only one whose id begins so; ``sess_`` may be left out.

    Raises:
        SessionNotFound: there is none.
        MidcourseError: there are several.
    """
    try:
        return await sessions.get(given)
    except SessionNotFound as error:
        found = await _beginning_with(sessions, given)
        if not found and isinstance(sessions, RemoteMidcourse):  # the server speaks to programs; here is a person
            raise SessionNotFound(
                f"There is no session '{given}' at {sessions.url}. List them with: midcourse ps --all", session_id=given
            ) from error
        if not found:
            raise
        shortest = min(found, key=len)
        # A session and its children begin alike, and it is the session that is meant.
        if not all(one == shortest or one.startswith(f"{shortest}.") for one in found):
            shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            raise MidcourseError(
                f"Several sessions begin with '{given}': {shown}. Give more of the one you mean.",
                code="ambiguous_session",
                sessions=found,
            ) from error
        return await sessions.get(shortest)


async def _beginning_with(sessions: Sessions, given: str) -> list[str]:
    found: list[str] = []
    before: str | None = None
    while given:
        page = await sessions.list(search=given, limit=_PAGE, before=before)
        found += [head.id for head in page if head.id.startswith((given, f"sess_{given}"))]
        if len(page) < _PAGE:
            break
        before = page[-1].id
    return found
