"""Tables on narrow terminals: no word is broken, nothing is lost, and nothing stands beyond the edge."""

import re
from pathlib import Path

import pytest

from midcourse.cli.printing import say_wrapped, show_table
from tests.cli.conftest import Command

HEADER = ("class", "interrupted (target)", "by whom", "why")
ROWS = [
    ("very long", "12 % (5–10 %: above)", "1 by a person", "unquestionably too many interruptions of one and the same"),
    ("short", "–", "", "nothing"),
]


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w.%–-]+", text))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_table_keeps_every_word_whole_however_narrow(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_table(HEADER, ROWS, whole=("class",), numbers=("by whom",))
    out = capsys.readouterr().out
    assert words(" ".join([*HEADER, *(cell for row in ROWS for cell in row)])) <= words(out)
    assert max(map(len, out.splitlines())) <= width


def test_a_wide_table_has_a_line_for_each_row_and_a_narrow_one_a_line_for_each_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_table(HEADER, ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setenv("COLUMNS", "40")
    show_table(("session", "agent", "goal"), [("sess_1a1e2e50d7e94fc0c2fa", "repo-fixer", "mend it")])
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [["session", "sess_1a1e2e50d7e94fc0c2fa"], ["agent", "repo-fixer"], ["goal", "mend", "it"]]


def test_a_sentence_is_broken_between_words_and_a_pipe_gets_all_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    say_wrapped("until it was decided, undone or re-begun", indent=2)
    assert capsys.readouterr().out == "  until it was\n  decided, undone or\n  re-begun\n"
    monkeypatch.delenv("COLUMNS")
    say_wrapped("until it was decided, undone or re-begun")
    assert capsys.readouterr().out == "until it was decided, undone or re-begun\n"


@pytest.mark.parametrize("command", [("report",), ("audit",), ("interventions",), ("checklist",)], ids=" ".join)
def test_what_a_wide_terminal_shows_a_narrow_one_does(midcourse: Command, command: tuple[str, ...]) -> None:
    wide, narrow = (midcourse(*command, env={"COLUMNS": columns}).out for columns in ("300", "80"))
    # A time may pass on between the two.
    passing = re.compile(r"\d+(\.\d+)? (s|ms|min|h|d)\b|now")
    header = {"entry", "who", "role", "did", "outcome", "to", "more", "when", "session", "id", "by", "label", "why"}
    assert words(passing.sub("", wide)) - header <= words(passing.sub("", narrow))
    if command == ("report",):
        assert max(map(len, narrow.splitlines())) <= 80


def test_a_backtest_of_two_policies_names_its_source_in_every_row(midcourse: Command, folder: Path) -> None:
    store = f"sqlite:///{folder}/.midcourse/midcourse.db"
    tried = ("backtest", "--policy", "standard", "--policy", "permissive", store)
    wide, narrow = (midcourse(*tried, env={"COLUMNS": columns}).out for columns in ("300", "60"))
    assert words(wide) <= words(narrow)
    assert narrow.count("permissive@1") == wide.count("permissive@1") > 1
    of_rates = narrow.partition("what it did first")[0]
    for block in of_rates.split("\n\n"):
        if "permissive@1" in block:
            assert re.search(r"^(source|class) +\S", block, re.MULTILINE), block
