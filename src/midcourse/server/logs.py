"""Write the server's log: to the terminal for people, and as JSON to a file that is rotated."""

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import Any, Final

import structlog

from midcourse.errors import InvalidInput
from midcourse.server.auth import WithoutTokens, without_tokens

FILE: Final = Path("logs") / "app.log"
_SIZE: Final = 10 * 1024 * 1024
_KEPT: Final = 5


def configure_logs(file: Path = FILE, *, level: int = logging.INFO) -> None:
    """Send every log line of this process to the terminal, and as a line of JSON to ``file``.

    Raises:
        InvalidInput: the file cannot be written.
    """
    before: list[structlog.typing.Processor] = [
        # First: whatever else a record brings, its level and its logger are its own.
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = logging.StreamHandler(sys.stderr)
    colours = sys.stderr.isatty()
    for_people = structlog.dev.ConsoleRenderer(
        colors=colours,
        pad_event_to=0,
        # Not structlog's own, which shows every local variable: headers, tokens, what tools were given.
        exception_formatter=structlog.dev.plain_traceback,
    )
    terminal.setFormatter(_formatter(for_people, before))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = logging.handlers.RotatingFileHandler(file, maxBytes=_SIZE, backupCount=_KEPT, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The log file {file} cannot be written ({error.strerror or error}). Start the server in a folder where "
            "it may write, or make that file writable.",
            field="logs",
        ) from error
    written.setFormatter(
        _formatter(structlog.processors.JSONRenderer(), [*before, structlog.processors.format_exc_info])
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    for handler in (terminal, written):
        handler.addFilter(WithoutTokens())
        root.addHandler(handler)
    root.setLevel(level)
    for noisy in ("httpx2", "httpcore2", "watchfiles", "asyncio", "sse_starlette", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _formatter(
    renderer: structlog.typing.Processor, before: list[structlog.typing.Processor]
) -> structlog.stdlib.ProcessorFormatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer, _without_tokens],
    )


def _without_tokens(_logger: object, _name: str, line: Any) -> str:
    """Remove tokens from the whole line, with its fields and its traceback."""
    return without_tokens(line)
