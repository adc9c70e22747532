"""Tables on narrow terminals: no word is broken, nothing is lost, and nothing stands beyond the edge."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from midcourse.cli.printer import print_lines, print_verbatim, print_wrapped, show_table
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
    print_wrapped("until it was decided, undone or re-begun", indent=2)
    assert capsys.readouterr().out == "  until it was\n  decided, undone or\n  re-begun\n"
    monkeypatch.delenv("COLUMNS")
    print_wrapped("until it was decided, undone or re-begun")
    assert capsys.readouterr().out == "until it was decided, undone or re-begun\n"


def said(capsys: pytest.CaptureFixture[str], *lines: str, hang: int = 0) -> list[str]:
    print_lines(*lines, hang=hang)
    return capsys.readouterr().out.splitlines()


def test_what_goes_on_below_stands_as_far_in_as_it_began_and_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert said(capsys, "  ok  until it was decided", hang=4) == ["  ok  until it was", "      decided"]
    assert said(capsys, "one two", "", "three\n  four") == ["one two", "", "three", "  four"]
    path = "sqlite:////a/path/that/fits/nowhere.db"
    assert said(capsys, f"It is {path} and no other") == [f"It is {path}", "and no other"]
    print_verbatim("signals: {drift: {warn: 0.5}}")
    assert capsys.readouterr().out == "signals: {drift: {warn: 0.5}}\n"


def test_wide_signs_take_two_columns_and_are_broken_where_there_are_no_spaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    goal = "注文を確認して、在庫がないものをすべてキャンセルしてください。お願いします。"
    lines = said(capsys, f"goal: {goal}")
    assert "".join(lines).replace(" ", "") == f"goal:{goal}"
    assert all(cell_len(line) <= 20 for line in lines)
    assert len(lines) == 5
    assert not any(line.startswith(("、", "。")) for line in lines)


def test_a_command_to_copy_is_not_broken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = "midcourse answer sess_1 --ask ask_1 TEXT"
    monkeypatch.setenv("COLUMNS", str(len(command)))
    assert said(capsys, f"  Answer it with: {command}") == ["  Answer it with:", command]
    monkeypatch.setenv("COLUMNS", str(len(command) + 2))
    assert said(capsys, f"  Answer it with: {command}") == ["  Answer it with:", f"  {command}"]
    monkeypatch.setenv("COLUMNS", "60")
    told = said(capsys, f"  There is something for you to decide by now. Answer: {command}")
    assert told == ["  There is something for you to decide by now. Answer:", f"  {command}"]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command",
    [
        ("ps", "--all"),
        ("show", "sess_written"),
        ("show", "sess_two"),
        ("inbox", "list"),
        ("audit",),
        ("doctor",),
        ("risk", "show"),
    ],
    ids=" ".join,
)
def test_nothing_stands_beyond_the_edge_of_a_terminal(
    midcourse: Command, command: tuple[str, ...], columns: int
) -> None:
    done = midcourse(*command, env={"COLUMNS": str(columns)})
    assert [line for line in done.out.splitlines() if cell_len(line) > columns] == []


def test_ps_keeps_the_cost_and_cuts_the_goal_at_the_edge(midcourse: Command) -> None:
    out = midcourse("ps", "--status", "waiting", env={"COLUMNS": "60"}).out
    lines = out.splitlines()
    about = next(line for line in lines if "told-asker," in line)
    assert ", $0.00, 1 asked: Die Rechnungen" in about
    assert about.endswith("…")
    assert 59 <= cell_len(about) <= 60


@pytest.mark.parametrize(
    "command", [("report", "show"), ("audit", "list"), ("intervention", "list"), ("report", "checklist")], ids=" ".join
)
def test_what_a_wide_terminal_shows_a_narrow_one_does(midcourse: Command, command: tuple[str, ...]) -> None:
    wide, narrow = (midcourse(*command, env={"COLUMNS": columns}).out for columns in ("300", "80"))
    # A time may pass on between the two.
    passing = re.compile(r"\d+(\.\d+)? (s|ms|min|h|d)\b|now")
    header = {"entry", "who", "role", "did", "outcome", "to", "more", "when", "session", "id", "by", "label", "why"}
    assert words(passing.sub("", wide)) - header <= words(passing.sub("", narrow))
    if command == ("report", "show"):
        assert max(map(len, narrow.splitlines())) <= 80


def test_a_backtest_of_two_policies_names_its_source_in_every_row(midcourse: Command, folder: Path) -> None:
    store = f"sqlite:///{folder}/.midcourse/midcourse.db"
    tried = ("policy", "backtest", "--policy", "standard", "--policy", "permissive", store)
    wide, narrow = (midcourse(*tried, env={"COLUMNS": columns}).out for columns in ("300", "60"))
    assert words(wide) <= words(narrow)
    assert narrow.count("permissive@1") == wide.count("permissive@1") > 1
    of_rates = narrow.partition("what it did first")[0]
    for block in of_rates.split("\n\n"):
        if "permissive@1" in block:
            assert re.search(r"^(source|class) +\S", block, re.MULTILINE), block
