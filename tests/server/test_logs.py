"""What the server's log lines must not hold."""

import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from midcourse.server.logs import configure_logs
from midcourse.server.tokens import new_token


@pytest.fixture
def root() -> Generator[logging.Logger]:
    """The root logger, as it was before afterwards."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        if handler not in handlers:
            handler.close()
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(level)


@pytest.mark.usefixtures("root")
def test_an_unforeseen_error_is_logged_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither local variables nor a token in the error itself, on the terminal or in the file."""
    configure_logs(tmp_path / "app.log")
    token, password = new_token(), "hunter2-hunter2"

    def fail(secret: str) -> None:
        raise RuntimeError(f"cannot reach http://host/?token={token}", len(secret))

    try:
        fail(password)
    except RuntimeError:
        logging.getLogger("midcourse.server").exception("failed", extra={"sent": f"Bearer {token}"})
    written = capsys.readouterr().err + (tmp_path / "app.log").read_text(encoding="utf-8")
    assert written.count("cannot reach http://host/?token=[redacted]") == 2
    assert token not in written
    assert password not in written
