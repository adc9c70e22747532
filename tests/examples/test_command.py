"""The ``midcourse`` command says what there is of it."""

import pytest

import midcourse
from midcourse.cli import main


def test_its_help_says_what_there_is_today(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert "--version" in said
    assert "python -m midcourse.samples" in said
    for verb in ("ps", "show", "events", "pause", "resume", "redirect", "cancel", "answer", "doctor"):
        assert verb in said


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"midcourse {midcourse.__version__}\n"
