"""The check of words reads what users read, and its counts only go down."""

import json
from pathlib import Path

import pytest

from scripts import words


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in place of this one."""
    for folder in ("docs", "src/midcourse/cli", "console/src"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text("Whoever reads this.")
    (tmp_path / "docs" / "glossary.md").write_text("nobody")
    (tmp_path / "docs" / "page.md").write_text("It goes\non.\n```\nnobody\n```\n")
    (tmp_path / "src/midcourse/a.py").write_text('"""For nobody."""\n# somebody\nraise ValueError("Nobody answers.")\n')
    (tmp_path / "src/midcourse/cli/b.py").write_text('def b():\n    """What b does."""\n    print("Let go of it.")\n')
    (tmp_path / "console/src/c.tsx").write_text("// nobody\nconst c = <p>Somebody else</p>;\n")
    kept = tmp_path / "words.json"
    kept.write_text("{}")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "KEPT", kept)
    monkeypatch.setattr("sys.argv", ["words.py"])
    return tmp_path


def test_what_people_read_is_counted_and_comments_and_code_on_pages_are_not(project: Path) -> None:
    assert words.count() == {
        "cli": {"let go": 1},
        "console": {"somebody": 1},
        "docs": {"goes on": 1},
        "docstrings": {"What …": 1, "nobody": 1},
        "readme": {"whoever": 1},
        "sentences": {"nobody": 1},
    }


def test_one_more_of_an_old_word_is_refused(project: Path) -> None:
    words.KEPT.write_text(json.dumps(words.count()))
    assert words.main() == 0
    (project / "docs" / "page.md").write_text("It goes on and goes on.")
    assert words.main() == 1


def test_one_more_opening_that_announces_is_refused(project: Path) -> None:
    words.KEPT.write_text(json.dumps(words.count()))
    (project / "src/midcourse/c.py").write_text('def c():\n    """Whether it may."""\n')
    assert words.main() == 1
