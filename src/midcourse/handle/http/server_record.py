"""Record the servers of a folder: each writes its address beside its store, for clients on the same machine."""

import contextlib
import os
from pathlib import Path

import msgspec


class Whereabouts(msgspec.Struct, frozen=True):
    """The address of a server, and its process."""

    url: str
    pid: int
    is_token_given: bool = False
    """True if its token came with ``--token``: then no file has it."""
    store: str = ""
    """The address of its store, as it was given; empty: a file beside this record."""


def whereabouts(folder: Path, store: str = "") -> Whereabouts | None:
    """Return the server of this folder, and of ``store``, that was started last and lives; None if there is none."""
    found: list[tuple[float, Whereabouts]] = []
    for record in folder.glob("server-*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError, OverflowError):
            one = msgspec.json.decode(record.read_bytes(), type=Whereabouts)
            os.kill(one.pid, 0)
            if store and one.store not in ("", store) and not (_is_file(one.store) and _is_file(store)):
                continue
            found.append((record.stat().st_mtime, one))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def write_down(folder: Path, here: Whereabouts) -> None:
    """Record that this process serves there now."""
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(folder, here.pid)
    beside = record.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(here))
    beside.replace(record)


def forget(folder: Path) -> None:
    """Remove the records of this process, which serves no more, and of those that were killed."""
    for record in folder.glob("server-*.json"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(record.stem.removeprefix("server-"))
            if pid == os.getpid() or not _lives(pid):
                record.unlink()


def _is_file(store: str) -> bool:
    # A folder is that of one file, by whatever path it was named; stores of other kinds share the usual one.
    return store.startswith("sqlite:")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _record(folder: Path, pid: int) -> Path:
    return folder / f"server-{pid}.json"
