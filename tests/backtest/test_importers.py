"""Every format is read into the same words; and what cannot be read is told of, with file and line."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midcourse.analysis.backtest import Notice, Recording, backtest, read_recordings, recording_of
from midcourse.analysis.backtest.recordings import Prices
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from midcourse.core.ids import InterventionId, Position, StepId
from midcourse.core.policy_decision import Decision
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Begun, Called, Ended, Rested, Said, SteppedIn, WentOn

DATA = Path(__file__).with_name("data")


def read(*paths: Path) -> tuple[list[Recording], list[Notice]]:
    notices: list[Notice] = []
    return list(read_recordings(paths, tell=notices.append)), notices


def written(path: Path, *lines: object) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def a_run(**fields: Any) -> dict[str, Any]:
    steps = [{"kind": "model", "name": "m", "text": "hm"}]
    return {
        "source": "s",
        "run_id": "s/1",
        "task_key": "1",
        "goal": "g",
        "outcome": "failure",
        "steps": steps,
        **fields,
    }


# ---- one run a line


def test_rows_are_calls_and_words_in_their_order() -> None:
    runs, notices = read(DATA / "runs.jsonl")
    assert not notices
    assert [run.run_id for run in runs] == ["fixer/a/0", "fixer/b/0", "fixer/b/1", "desk/c/0", "desk/d/0"]
    assert [run.outcome for run in runs] == ["success", "failure", "failure", "success", "unknown"]
    desk = runs[3]
    assert desk.acts[0] == Begun(goal="Cancel my flight.")
    assert desk.acts[1] == Said(text="Hello! Please cancel my flight.", by="user")
    assert desk.acts[4] == Called(kind="model", name="cancel", arguments='{"flight":"F1"}', text="call cancel")
    assert desk.acts[5] == Called(
        kind="tool", name="cancel", arguments='{"flight":"F1"}', text="done", resources=("F1",)
    )
    assert desk.steps == (0, 0, 1, 2, 3, 4)
    assert desk.count == 5


def test_what_nobody_measured_is_none_and_never_zero() -> None:
    fixer, *_, desk = read(DATA / "runs.jsonl")[0]
    assert (fixer.seconds, fixer.cost) == (200.0, pytest.approx(0.06))
    assert (desk.seconds, desk.cost) == (None, None)
    tool = fixer.acts[2]
    assert isinstance(tool, Called)
    assert (tool.at, tool.cost, tool.tokens_in) == (None, None, None)


def test_packed_files_and_folders_give_the_same(tmp_path: Path) -> None:
    plain = DATA / "runs.jsonl"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "runs.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "README.md").write_text("no recording")
    assert read(tmp_path) == read(plain)


def test_time_between_turns_is_not_counted(tmp_path: Path) -> None:
    steps = [
        {"kind": "user", "name": "user", "text": "one", "t_offset_s": 5},
        {"kind": "model", "name": "text", "text": "done", "t_offset_s": 15},
        {"kind": "user", "name": "user", "text": "two", "t_offset_s": 3615},
        {"kind": "model", "name": "text", "text": "done", "t_offset_s": 3620},
    ]
    (run,), _ = read(written(tmp_path / "a.jsonl", a_run(goal="one", steps=steps)))
    assert run.seconds == 15
    assert run.acts[3:5] == (Ended(outcome="completed", at=15), Begun(goal="one\ntwo", at=3615))
    assert run.count == 4


def test_a_clock_that_goes_back_is_told_of_and_counts_nothing(tmp_path: Path) -> None:
    steps = [{"kind": "model", "name": "m", "t_offset_s": at} for at in (0, 10, 4, 6)]
    (run,), (notice,) = read(written(tmp_path / "a.jsonl", a_run(steps=steps)))
    assert run.seconds == 12
    assert "goes back once" in notice.sentence
    assert (notice.line, notice.left_out) == (1, 0)


# ---- what cannot be read


def test_a_line_that_is_no_json_is_told_of_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "oops", a_run(), "{not json", "", a_run(run_id="s/2"))
    runs, notices = read(path)
    assert [run.run_id for run in runs] == ["s/1", "s/2"]
    assert [(notice.line, notice.left_out) for notice in notices] == [(1, 1), (3, 1)]
    assert str(notices[1]).startswith(f"{path}, line 3: This line is not JSON")


def test_a_transcript_that_is_cut_in_its_last_line_keeps_whole_runs(tmp_path: Path) -> None:
    whole = (DATA / "runs.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[:-200])
    runs, (notice,) = read(tmp_path / "cut.jsonl")
    assert runs == read(DATA / "runs.jsonl")[0][:4]
    assert (notice.line, notice.left_out) == (5, 1)


def test_wherever_a_packed_file_is_cut_whole_runs_are_kept_and_the_cut_is_told(tmp_path: Path) -> None:
    whole = gzip.compress((DATA / "runs.jsonl").read_bytes(), mtime=0)
    expected = read(DATA / "runs.jsonl")[0]
    path = tmp_path / "cut.jsonl.gz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        runs, notices = read(path)
        assert runs == expected[: len(runs)]
        assert sum(notice.left_out for notice in notices) >= 1
    path.write_bytes(whole)
    assert read(path) == (expected, [])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (a_run(outcome="maybe"), "not a run (Invalid enum value 'maybe'"),
        (a_run(steps=[{"kind": "robot"}]), "of kind 'robot'"),
        (a_run(steps=[{"name": "x"}]), "missing required field `kind`"),
        (a_run(steps=[]), "has no rows"),
    ],
)
def test_a_run_that_is_misshapen_is_left_out_with_a_reason(tmp_path: Path, line: object, words: str) -> None:
    runs, (notice,) = read(written(tmp_path / "a.jsonl", a_run(), line))
    assert len(runs) == 1
    assert words in notice.sentence
    assert (notice.line, notice.left_out) == (2, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "no JSON in its first lines"),
        (b"a,b\n1,2\n", "no JSON in its first lines"),
        (b'{"a": 1}\n', "not known here"),
        (b"[1, 2, 3]\n", "not known here"),
        (b'{\n "resourceSpans": [\n', "cannot be read to its end"),
        (b"[\n 1,\n", "cannot be read to its end"),
        (b"\x1f\x8b\x08\x00", "cut off or damaged here"),
        (b"\xff\xfe\x00", "no JSON in its first lines"),
    ],
)
def test_a_file_that_is_no_recording_is_told_of_and_the_others_are_read(
    tmp_path: Path, content: bytes, words: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    runs, notices = read(bad, DATA / "runs.jsonl")
    assert len(runs) == 5
    assert words in notices[-1].sentence
    assert notices[-1].file == str(bad)
    assert notices[-1].left_out == 1


JUNK: list[Any] = [None, 1, -1, 1e300, "", "x", True, [], {}, [[]], {"a": 1}]


def spoiled(value: Any, chance: st.DataObject) -> Any:
    """The same JSON with something else somewhere in it."""
    if isinstance(value, dict) and value:
        fields = cast("dict[str, Any]", value)
        name = chance.draw(st.sampled_from(sorted(fields)))
        if chance.draw(st.booleans()):
            return {**fields, name: spoiled(fields[name], chance)}
        return {one: held for one, held in fields.items() if one != name}
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        number = chance.draw(st.integers(0, len(items) - 1))
        return [*items[:number], spoiled(items[number], chance), *items[number + 1 :]]
    return chance.draw(st.sampled_from(JUNK))


@pytest.mark.parametrize("name", ["runs.jsonl", "claude-code.jsonl", "spans.jsonl", "trace.json"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=st.data())
def test_whatever_stands_in_a_file_it_is_read_or_told_of(tmp_path: Path, name: str, chance: st.DataObject) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    lines: list[Any] = [json.loads(line) for line in ([text] if name.endswith(".json") else text.splitlines())]
    number = chance.draw(st.integers(0, len(lines) - 1))
    lines[number] = spoiled(lines[number], chance)
    runs, notices = read(written(tmp_path / name, *lines))
    assert runs or notices
    for run in runs:
        assert len(run.acts) == len(run.steps)
        assert all(0 <= step < run.count for step in run.steps)
        assert list(run.steps) == sorted(run.steps)
    if runs:
        backtest("standard", runs, resamples=2)


@pytest.mark.parametrize("counts", [(-1, 5, 0), (5, -1, 0), (5, 5, -1), (5, 5, 9)])
def test_impossible_counts_have_no_price_and_the_model_stays_known(counts: tuple[int, int, int]) -> None:
    prices = Prices()
    heard, said, cached = counts
    assert prices.of("gpt-4o", tokens_in=heard, tokens_out=said, cached=cached) is None
    assert prices.of("gpt-4o", tokens_in=5, tokens_out=5)


def test_where_nobody_listens_nothing_is_left_out_in_silence(tmp_path: Path) -> None:
    reading = read_recordings([written(tmp_path / "a.jsonl", a_run(), "oops", a_run())])
    assert next(reading).run_id == "s/1"
    with pytest.raises(InvalidInput, match="line 2: This line is not JSON") as caught:
        next(reading)
    assert caught.value.code == "unreadable_recording"


def test_a_file_that_is_not_there_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="There is no file .*nowhere.jsonl. Name files"):
        next(read_recordings([DATA / "runs.jsonl", tmp_path / "nowhere.jsonl"]))
    with pytest.raises(InvalidInput, match="no recording in the folder"):
        next(read_recordings([tmp_path]))


def test_progress_ends_at_all_of_it() -> None:
    told: list[tuple[float, int]] = []
    runs = list(
        read_recordings([DATA / "runs.jsonl", DATA / "trace.json"], progress=lambda share, n: told.append((share, n)))
    )
    assert told[-1] == (1.0, len(runs))
    assert told == sorted(told)


# ---- Claude Code


def test_a_transcript_is_a_session_and_a_subagent_one_of_its_own() -> None:
    (session, subagent), _ = read(DATA / "claude-code.jsonl")
    assert session.run_id == "claude_code/11111111-2222-4333-8444-555555555555"
    assert subagent.run_id == f"{session.run_id}/s1"
    assert session.goal == "Mend the login, please."
    assert subagent.goal == "Look for other logins."
    assert (session.outcome, session.source) == ("unknown", "claude_code")
    names = [act.name for act in session.acts if isinstance(act, Called)]
    assert names == ["thinking", "text", "Read", "Read", "Bash", "Bash", "text", "Write", "Write"]


def test_a_messages_tokens_are_counted_once_when_they_are_known() -> None:
    session = read(DATA / "claude-code.jsonl")[0][0]
    counted = [act for act in session.acts if isinstance(act, Called) and act.tokens_in is not None]
    assert [(act.name, act.tokens_in, act.tokens_out) for act in counted] == [
        ("Read", 10 + 5000 + 200, 80),
        ("Bash", 5320, 60),
        ("text", 5430, 12),
        ("Write", 5540, 90),
    ]
    # Sonnet: $3 a million in, $3.75 written to the cache, $0.30 read from it, $15 out.
    assert counted[0].cost == pytest.approx((10 * 3 + 200 * 3.75 + 5000 * 0.3 + 80 * 15) / 1e6)


def test_a_price_nobody_knows_is_none_and_named() -> None:
    (session, _), (notice,) = read(DATA / "claude-code.jsonl")
    write = next(act for act in session.acts if isinstance(act, Called) and act.name == "Write")
    assert write.cost is None
    assert "The price of nobody-9 is unknown" in notice.sentence


def test_without_a_price_list_no_cost_is_known_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    (session, _), (notice,) = read(DATA / "claude-code.jsonl")
    assert session.cost is None
    assert "No price list is installed" in notice.sentence


def test_a_turn_ends_where_a_person_speaks_again() -> None:
    session = read(DATA / "claude-code.jsonl")[0][0]
    assert session.seconds == pytest.approx(14 + 8.1)
    begun = [act for act in session.acts if isinstance(act, Begun)]
    assert [(act.at, act.goal) for act in begun] == [
        (0.0, "Mend the login, please."),
        (1800.0, "Mend the login, please.\nNow write a test."),
    ]


def test_results_belong_to_their_calls_and_a_persons_stop_begins_no_turn() -> None:
    session = read(DATA / "claude-code.jsonl")[0][0]
    tools = [act for act in session.acts if isinstance(act, Called) and act.kind == "tool"]
    assert [(act.name, act.error, act.seconds) for act in tools] == [
        ("Read", "", 0.5),
        ("Bash", "error", 2.0),
        ("Write", "refused", 3.0),
    ]
    assert tools[0].resources == ("/repo/login.py",)
    assert tools[1].text == "1 failed"
    assert tools[1].digest  # its arguments are longer than what is shown of them
    said = [act.text for act in session.acts if isinstance(act, Said)]
    assert said == ["Mend the login, please.", "Now write a test.", "[Request interrupted by user for tool use]"]


def test_a_session_that_was_taken_up_again_does_not_count_its_past_twice(tmp_path: Path) -> None:
    text = (DATA / "claude-code.jsonl").read_text(encoding="utf-8")
    (tmp_path / "twice.jsonl").write_text(text + text, encoding="utf-8")
    assert read(tmp_path / "twice.jsonl")[0] == read(DATA / "claude-code.jsonl")[0]


def test_a_session_that_is_cut_is_kept_up_to_there(tmp_path: Path) -> None:
    text = (DATA / "claude-code.jsonl").read_text(encoding="utf-8")
    (tmp_path / "cut.jsonl").write_text(text[: text.index("a6") + 40], encoding="utf-8")
    (session, _), (notice,) = read(tmp_path / "cut.jsonl")
    assert session.seconds == 14
    assert (notice.line, notice.left_out) == (15, 1)


# ---- OpenTelemetry


def test_an_export_is_a_run_with_its_calls() -> None:
    (run,), notices = read(DATA / "trace.json")
    assert not notices
    assert (run.goal, run.outcome, run.count) == ("Find the invoice.", "failure", 3)
    _, chat, tool, _ = run.acts
    assert chat == Called(
        kind="model",
        name="gpt-4o",
        text="I look it up.",
        seconds=1.5,
        tokens_in=100,
        tokens_out=20,
        cost=(100 * 2.5 + 20 * 10) / 1e6,
        at=2.0,
    )
    assert isinstance(tool, Called)
    assert (tool.kind, tool.name, tool.error, tool.at) == ("tool", "search", "TimeoutError", 5.0)
    assert tool.resources == ("invoices/2026.csv",)


def test_exports_one_a_line_are_the_same(tmp_path: Path) -> None:
    document = json.loads((DATA / "trace.json").read_text())
    scope = document["resourceSpans"][0]["scopeSpans"][0]
    lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in scope["spans"]]
    assert read(written(tmp_path / "lines.jsonl", *lines)) == read(DATA / "trace.json")


def test_spans_as_a_terminal_shows_them_are_the_same(tmp_path: Path) -> None:
    lines = (DATA / "spans.jsonl").read_text().splitlines()
    shown = [json.dumps(json.loads(line), indent=4) for line in lines]
    whole, cut = written(tmp_path / "spans.txt", *shown), tmp_path / "cut.txt"
    assert read(whole)[0] == read(DATA / "spans.jsonl")[0]
    cut.write_text(whole.read_text()[:-100])
    (run,), notices = read(cut)
    assert run.count == 4
    (last,) = (notice for notice in notices if notice.left_out)
    assert last.line == 1 + sum(len(text.splitlines()) for text in shown[:-1])


def test_traces_of_one_conversation_are_its_turns() -> None:
    (run,), (notice,) = read(DATA / "spans.jsonl")
    assert (run.run_id, run.outcome, run.goal) == ("otel/talk-1", "success", "What is due?")
    assert run.seconds == 4 + 2
    assert [type(act).__name__ for act in run.acts] == ["Begun", "Called", "Called", "Ended", "Begun", "Said", "Called"]
    calls = [act for act in run.acts if isinstance(act, Called)]
    assert [(act.kind, act.name, act.tokens_in, act.cost) for act in calls] == [
        ("model", "house-model-1", 50, None),
        ("tool", "lookup", None, None),
        ("model", "house-model-1", 60, 0.25),
    ]
    assert "house-model-1" in notice.sentence


def test_a_span_is_known_when_it_ends(tmp_path: Path) -> None:
    def span(name: str, start: int, end: int) -> dict[str, Any]:
        times = {"startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str(end * 10**9)}
        return {"traceId": "t", "spanId": name, "name": name, **times, "attributes": {"gen_ai.tool.name": name}}

    (run,), _ = read(written(tmp_path / "a.jsonl", span("long", 1, 9), span("brief", 2, 3)))
    assert [(act.name, act.at) for act in run.acts if isinstance(act, Called)] == [("brief", 2.0), ("long", 8.0)]


def test_spans_that_are_no_calls_or_of_no_trace_are_told_of(tmp_path: Path) -> None:
    http = {"traceId": "t", "spanId": "1", "name": "GET /", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    lost = {"context": {}, "name": "chat", "attributes": {"gen_ai.operation.name": "chat"}}
    runs, notices = read(written(tmp_path / "a.jsonl", http, lost))
    assert not runs
    assert "1 of 1 spans here belong to no trace" in notices[0].sentence
    assert "None of the 1 spans of trace 't' is the call" in notices[1].sentence


# ---- our own journal


def a_journal() -> Iterator[Recorded]:
    step, decision = StepId("s1"), Decision(level="pause", wanted="pause", policy="standard@1")
    events: list[ev.AnyEvent] = [
        ev.SessionCreated(
            agent="fixer",
            agent_version="1",
            mode="replay",
            origin="",
            resumable=True,
            goal="Mend it.",
            terms=Terms(task_class="long"),
        ),
        ev.SessionStarted(),
        ev.StepBegun(step=step, name="read", kind="tool", attempt=1, digest="d", arguments='{"path":"a.py"}'),
        ev.StepFinished(step=step, attempt=1),
        ev.InterventionMade(intervention=InterventionId("i1"), by="policy", decision=decision),
        ev.SessionPaused(),
        ev.SessionResumed(by="ada"),
        ev.StepBegun(step=step, name="read", kind="tool", attempt=1, digest="d", arguments='{"path":"a.py"}'),
        ev.StepFailed(step=step, attempt=1, kind="OSError", detail="no such file"),
        ev.SessionFailed(code="raised", message="no such file"),
    ]
    times = (0, 1, 2, 4, 4, 5, 105, 106, 109, 110)
    for position, (at, event) in enumerate(zip(times, events, strict=True), start=1):
        yield Recorded(Position(position), 1000.0 + at, event)


def as_kept(recorded: Recorded) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(recorded))


def as_sent(recorded: Recorded) -> dict[str, Any]:
    data = as_kept(recorded)["event"]
    kind, _, version = data.pop("type").partition("@")
    return {"position": recorded.position, "at": recorded.at, "type": kind, "version": int(version), "data": data}


def test_a_journal_is_a_run_of_its_calls() -> None:
    run = recording_of(a_journal(), run_id="sess_1")
    assert run is not None
    assert (run.source, run.outcome, run.task_class, run.goal) == ("fixer", "failure", "long", "Mend it.")
    assert run.count == 2
    calls = [act for act in run.acts if isinstance(act, Called)]
    assert [(act.name, act.error, act.seconds) for act in calls] == [("read", "", 2.0), ("read", "OSError", 3.0)]
    # Neither the second in the queue nor the pause is time that it worked.
    assert run.seconds == 4 + 5
    assert {type(act) for act in run.acts} >= {Rested, WentOn}


def test_sessions_with_the_same_goal_are_runs_of_one_task() -> None:
    runs = [recording_of(a_journal(), run_id=name) for name in ("sess_1", "sess_2")]
    assert {run.task_key for run in runs if run is not None} == {"Mend it."}


def test_what_another_policy_did_then_is_not_shown() -> None:
    run = recording_of(a_journal(), run_id="sess_1")
    assert run is not None
    assert not any(isinstance(act, SteppedIn) for act in run.acts)


@pytest.mark.parametrize("spelled", [as_sent, as_kept])
def test_a_journal_is_read_as_the_command_and_the_api_print_it(tmp_path: Path, spelled: Any) -> None:
    lines = [spelled(one) for one in a_journal()]
    path = written(tmp_path / "sess_1.jsonl", *lines)
    expected = recording_of(a_journal(), run_id="sess_1")
    assert read(path) == ([expected], [])
    page = written(tmp_path / "sess_1.json", {"events": lines, "next": None})
    assert read(page) == ([expected], [])


def test_two_journals_in_one_file_are_two_runs_and_a_gap_is_told(tmp_path: Path) -> None:
    lines = [as_sent(one) for one in a_journal()]
    runs, (notice,) = read(written(tmp_path / "two.jsonl", *lines, *lines[:4], *lines[7:]))
    assert [run.run_id for run in runs] == ["two", "two#2"]
    assert "misses events at 1 places" in notice.sentence


def test_an_event_nobody_knows_is_told_of(tmp_path: Path) -> None:
    lines: list[object] = [as_sent(one) for one in a_journal()]
    lines.insert(3, {"position": 4, "at": 1.0, "type": "moon.rose", "version": 1, "data": {}})
    _, notices = read(written(tmp_path / "a.jsonl", *lines))
    assert (notices[0].line, notices[0].left_out) == (4, 1)
    assert "moon.rose" in notices[0].sentence
