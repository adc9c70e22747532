"""The errors of the ready tools: one sentence for each reason, and a stable code."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

from midcourse.errors import InvalidInput, MidcourseError, ToolUnavailable


def bad_argument(sentence: str, field: str, *, code: str | None = None) -> InvalidInput:
    return InvalidInput(sentence, code=code, field=field)


def outside_root(path: str, root: str, why: str) -> InvalidInput:
    """Return the error for a path that leads out of the root, or may."""
    return InvalidInput(
        f"'{path}' is refused: {why}. Name a file below {root} by its path from there, like 'notes/a.txt'.",
        code="outside_root",
        field="path",
        path=path,
    )


def not_found(path: str) -> MidcourseError:
    return MidcourseError(f"There is no '{path}'. List the folder to see what there is.", code="not_found", path=path)


def exists_already(path: str, advice: str) -> MidcourseError:
    return MidcourseError(f"'{path}' exists already. {advice}", code="exists_already", path=path)


def wrong_kind(path: str, kind: str, wanted: str) -> MidcourseError:
    return MidcourseError(f"'{path}' is {kind}, and this tool is for {wanted}.", code="wrong_kind", path=path)


def too_large(what: str, size: int, limit: int, advice: str) -> MidcourseError:
    """Over a limit that keeps a call, or its backup, small."""
    return MidcourseError(
        f"{what} is too large: {size:,} bytes, and the limit is {limit:,}. {advice}",
        code="too_large",
        size=size,
        limit=limit,
    )


def changed_meanwhile(path: str) -> MidcourseError:
    """Return the error for a file that was changed while the tool was about to write."""
    return MidcourseError(
        f"'{path}' was changed by another program just now, so nothing was done to it. Read it again, then decide.",
        code="changed_meanwhile",
        path=path,
    )


def changed_since(path: str, found: str) -> MidcourseError:
    """Return the error for an undo that would destroy a later change."""
    return MidcourseError(
        f"'{path}' cannot be put back: it was changed by another program since the call ({found}). "
        "Nothing was touched. Compare it with the backup, and decide by hand.",
        code="changed_since",
        path=path,
    )


def cannot_undo(sentence: str) -> MidcourseError:
    return MidcourseError(sentence, code="cannot_undo")


def took_too_long(what: str, seconds: float) -> MidcourseError:
    return MidcourseError(
        f"{what} took longer than {seconds:g} s and was stopped. Ask for less, or give it more time.",
        code="took_too_long",
        seconds=seconds,
    )


def not_installed(what: str, library: str, extra: str) -> ToolUnavailable:
    """Return the error for a tool whose library is an optional extra."""
    return ToolUnavailable(
        f"{what} needs {library}, which is not installed: pip install 'midcourse[{extra}]'.", tool=what
    )


@contextmanager
def explained_os_errors(path: str) -> Generator[None]:
    """Turn the operating system's errors about ``path`` into sentences that name it as the caller did."""
    try:
        yield
    except FileNotFoundError as error:
        raise not_found(path) from error
    except OSError as error:
        reason = {
            errno.EACCES: "this process may not do that",
            errno.EPERM: "this process may not do that",
            errno.ENOSPC: "no space is left on the disk",
            errno.EROFS: "the file system is read-only",
            errno.EXDEV: "it would have to go to another file system, where a move is no longer one act",
            errno.ENAMETOOLONG: "the name is too long",
            errno.ENOTDIR: "a part of the path is not a folder",
            errno.ENOTEMPTY: "the folder is not empty",
        }.get(error.errno or 0, os.strerror(error.errno) if error.errno else str(error))
        raise MidcourseError(f"'{path}': {reason}.", code="file_error", path=path) from error
