"""``midcourse doctor``: whether this machine has what Midcourse needs, and what to do where it has not."""

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

import midcourse
from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, print_wrapped
from midcourse.cli.store_checks import Check, store_checks
from midcourse.cli.target import DEFAULT_STORE, FOLDER, Target, flag, server_folder, store_path, token_file, token_for
from midcourse.errors import AccessDenied, MidcourseError, ServerUnreachable
from midcourse.handle.http.server_record import whereabouts
from midcourse.policy.signals.encoders import find_encoder, why_none
from midcourse.policy.signals.risk import shipped
from midcourse.wiring import REDIS_URL, sqlite_version, try_redis

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "backtest": ("genai_prices", "matplotlib", "numpy", "yaml"),
    "client": ("httpx2",),
    "drift": ("numpy", "wordllama"),
    "langgraph": ("langgraph",),
    "local-model": ("xllamacpp",),
    "openai-agents": ("agents",),
    "otel": ("opentelemetry",),
    "plain": ("genai_prices",),
    "policies": ("yaml",),
    "pydantic-ai": ("pydantic_ai",),
    "redis": ("redis",),
    "server": ("fastapi", "prometheus_client", "sse_starlette", "structlog", "uvicorn"),
    "testing": ("starlette", "uvicorn"),
    "web": ("httpx2",),
    "yaml": ("pydantic_ai", "yaml"),
}
"""The modules of each extra, to see if they are here."""
_OLDEST_PYTHON: Final = (3, 11)
_LITTLE: Final = 1024**3
_TOO_LITTLE: Final = 100 * 1024**2


@command("doctor", "Check this machine, the store and the server.")
async def doctor(
    call: Call, deep: Annotated[bool, flag("--deep", "Also check every page of the store and every journal.")] = False
) -> None:
    """Check this machine: Python, the store and its content, the disk, the token, the server, the extras.

    Each line is ok, warn or fail, and says what to do. Exits with 1 if a check fails. Changes nothing.

    \b
    Examples:
      midcourse doctor
      midcourse doctor --deep --store sqlite:///runs.db
      midcourse doctor --url http://127.0.0.1:8420
    """

    checks = [
        *_machine(),
        *await _store(call, deep=deep),
        *_disk(call),
        *_token_file(call),
        await _server(call),
        *([await _redis(os.environ[REDIS_URL])] if os.environ.get(REDIS_URL) else []),
        _extras(),
        *_signals(),
        _console(),
        _terminal(),
    ]
    is_well = all(check.status != "fail" for check in checks)
    if call.as_json:
        print_json({"ok": is_well, "checks": [check._asdict() for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print_lines(f"{check.status:<4}  {check.name:<{width}}  {check.detail}", hang=width + 8)
            print_wrapped(check.advice, indent=width + 8)
    if not is_well:
        raise typer.Exit(1)


def _machine() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    is_new = sys.version_info[:2] >= _OLDEST_PYTHON
    yield Check("Python", "ok" if is_new else "fail", version, "" if is_new else "Midcourse needs 3.11 or newer.")
    try:
        yield Check("SQLite", "ok", sqlite_version())
    except MidcourseError as error:
        yield Check("SQLite", "fail", str(error))


async def _store(target: Target, *, deep: bool) -> list[Check]:
    name = target.store or DEFAULT_STORE
    path = store_path(name)
    if path is not None and not path.exists():
        if target.store is None:
            return [Check("store", "ok", f"none yet at {path}", "A program or 'midcourse serve' makes it.")]
        return [Check("store", "fail", f"there is none at {path}", "Check --store.")]
    return await store_checks(name, path, deep=deep)


def _disk(target: Target) -> Iterator[Check]:
    path = store_path(target.store or DEFAULT_STORE)
    if path is None:
        return
    folder = next(one for one in (path.parent, *path.absolute().parents) if one.is_dir())
    free = shutil.disk_usage(folder).free
    status = "fail" if free < _TOO_LITTLE else "warn" if free < _LITTLE else "ok"
    advice = "" if status == "ok" else "Make room: a store that cannot write stops its sessions."
    yield Check("disk", status, f"{free / 1024**3:,.1f} GiB free where the store is", advice)


def _token_file(target: Target) -> Iterator[Check]:
    token = token_file(target)
    # A folder that a user chose may hold other things, for other users.
    folder = _is_private("folder", FOLDER, 0o700) if token.parent == FOLDER else None
    yield from filter(None, (folder, _is_private("token", token, 0o600)))


def _is_private(name: str, path: Path, wanted: int) -> Check | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    if mode & 0o077 == 0:
        return Check(name, "ok", f"{path} is this user's alone")
    status = "fail" if name == "token" else "warn"
    return Check(name, status, f"{path} can be used by others ({mode:o})", f"chmod {wanted:o} {path}")


async def _server(target: Target) -> Check:
    is_named = target.server is not None
    store = target.store or DEFAULT_STORE
    here = None if is_named else whereabouts(server_folder(store), store)
    if not is_named and here is None:  # no other server at the usual port gets our token
        return Check("server", "ok", "none runs for this store", "Start one with 'midcourse serve' for the console.")
    url = target.server or (here.url if here else "")
    if importlib.util.find_spec("httpx2") is None:
        status = "fail" if is_named else "ok"
        return Check("server", status, "not checked: httpx2 is not installed", "pip install 'midcourse[client]'")
    try:
        async with midcourse.connect(url, token=token_for(target, url), patience=0.0) as remote:
            url = remote.url
            await remote.list(limit=1)
        return Check("server", "ok", f"answers at {url}")
    except AccessDenied as error:
        status = "fail" if is_named else "warn"
        return Check("server", status, f"answers at {url}, but does not let us in: {error}")
    except ServerUnreachable as error:
        return Check("server", "fail" if is_named else "warn", str(error))
    except MidcourseError as error:
        return Check("server", "fail", str(error))


async def _redis(url: str) -> Check:
    try:
        return Check("Redis", "ok", f"{await try_redis(url)} takes checkpoints")
    except MidcourseError as error:
        return Check("Redis", "fail", str(error), f"Start it, or check {REDIS_URL}.")


def _extras() -> Check:
    here = {name: all(map(importlib.util.find_spec, modules)) for name, modules in EXTRAS.items()}
    installed = ", ".join(name for name, is_here in here.items() if is_here) or "none"
    missing = [name for name, is_here in here.items() if not is_here]
    more = f"Not here: {', '.join(missing)}. As needed: pip install 'midcourse[{missing[0]}]'." if missing else ""
    return Check("extras", "ok", installed, more)


def _signals() -> Iterator[Check]:
    if (encoder := find_encoder()) is not None:
        yield Check("drift", "ok", f"measured with {encoder.name}")
    else:
        yield Check("drift", "warn", f"not measured: {why_none()}", "pip install 'midcourse[drift]'")
    try:
        shipped()
        yield Check("risk", "ok", "the model that comes with the package can be read")
    except (MidcourseError, OSError) as error:
        yield Check("risk", "warn", str(error), "Reinstall midcourse, or name a model: serve --risk-model.")


def _console() -> Check:
    built = Path(midcourse.__file__).parent / "console" / "index.html"
    if built.is_file():
        return Check("console", "ok", "built into this installation")
    return Check("console", "warn", "not built into this installation", "Install a released wheel, or: make console.")


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    where = "a terminal" if sys.stdout.isatty() else "no terminal"
    columns = shutil.get_terminal_size().columns
    if encoding != "utf8":
        return Check("terminal", "warn", f"{where}; its encoding is {encoding or 'unknown'}", "Set LANG=C.UTF-8.")
    return Check("terminal", "ok", f"{where}, UTF-8, {columns} columns")
