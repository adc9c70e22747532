"""The pictures are there, say what they show, and are the same from the same figures."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from midcourse.analysis.backtest import Backtest, backtest
from midcourse.analysis.backtest.plots import draw
from midcourse.analysis.backtest.tables import remarks, tables
from midcourse.errors import InvalidInput

DATA = Path(__file__).with_name("data")


@pytest.fixture(scope="module")
def tried() -> Backtest:
    return backtest(["standard", "permissive"], [DATA / "runs.jsonl"])


def words(path: Path) -> str:
    return "\n".join(ET.parse(path).getroot().itertext())


def test_each_picture_is_drawn_as_png_and_svg(tried: Backtest, tmp_path: Path) -> None:
    drawn = draw(tried, tmp_path / "new" / "folder")
    assert sorted(path.name for path in drawn) == [
        "recall.png",
        "recall.svg",
        "steps-saved.png",
        "steps-saved.svg",
        "when.png",
        "when.svg",
    ]
    for path in drawn:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert "standard@1" in words(path)
    recall = words(tmp_path / "new" / "folder" / "recall.svg")
    assert "fixer (3 runs)" in recall
    assert "fixer" in words(tmp_path / "new" / "folder" / "steps-saved.svg")


def test_the_same_figures_give_the_same_pictures(tried: Backtest, tmp_path: Path) -> None:
    once, again = draw(tried, tmp_path / "a"), draw(tried, tmp_path / "b")
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_where_no_outcome_is_known_the_picture_says_so(tmp_path: Path) -> None:
    draw(backtest("standard", [DATA / "claude-code.jsonl"]), tmp_path)
    assert "No source has failing and succeeding runs." in words(tmp_path / "recall.svg")
    assert "No source has failing runs." in words(tmp_path / "steps-saved.svg")


def test_without_matplotlib_it_is_said_what_to_install(
    tried: Backtest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInput, match=r"pip install 'midcourse\[backtest\]'"):
        draw(tried, tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tried: Backtest, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot be written to .*file"):
        draw(tried, tmp_path / "file")


def test_the_tables_name_what_could_not_be_measured(tried: Backtest) -> None:
    assert [table.title for table in tables(tried)] == ["by source", "by class", "what it did first", "why"]
    assert "– recall: no run here is known to have failed (desk)." in remarks(tried)
