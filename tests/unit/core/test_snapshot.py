"""Snapshots: they give the fold back exactly, stay small, and are never trusted further than they go."""

from collections.abc import Iterator

import msgspec
import pytest

from midcourse.core import events as ev
from midcourse.core.codec import BLOB_LIMIT, Value, check_blob
from midcourse.core.ids import Epoch, Position, StepId
from midcourse.core.session import Status
from midcourse.core.snapshot import (
    SIZE_LIMIT,
    TOOL_CALLS_LIMIT,
    decode_snapshot,
    encode_snapshot,
    is_due,
    restore_results,
    rows_outside,
)
from midcourse.core.steps import SHORT
from midcourse.errors import Damaged
from tests.unit.core.stories import ASK_1, FETCH, QUESTION, Story, asked, begun, finished, in_status, value


def busy() -> Story:
    """A session with something in every corner."""
    return Story(mode="state").happen(
        ev.SessionStarted(),
        ev.CheckpointTaken(scope="1.1", state=value('{"page":1}')),
        begun(),
        finished(json='{"rows":[1,2,null]}', cost=0.25),
        begun(StepId("1.1/say#0"), kind="model"),
        ev.SegmentWritten(step=StepId("1.1/say#0"), attempt=1, offset=0, text="héllo\n"),
        ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(StepId("1.1/say#0"),)),
        asked(expires_at=99.5),
        ev.ValueDrawn(name="now", value=value("12.5")),
        ev.PlanChanged(items=(ev.PlanItem("write"), ev.PlanItem("send", "running"))),
        ev.ReportMade(progress=0.5, hypothesis="the API is slow"),
        ev.SessionRedirected(text="shorter", level="step", by="ada", grace=1.5),
    )


@pytest.mark.parametrize("status", Status)
def test_a_snapshot_of_a_session_in_any_status_comes_back_equal(status: Status) -> None:
    snapshot = in_status(status).fold.snapshot()

    assert decode_snapshot(encode_snapshot(snapshot)[0]) == snapshot


def test_a_snapshot_of_a_busy_session_comes_back_equal_and_of_the_same_types() -> None:
    snapshot = busy().fold.snapshot()
    back = decode_snapshot(encode_snapshot(snapshot)[0])

    assert back == snapshot
    assert (back.session, back.log, back.digest) == (snapshot.session, snapshot.log, snapshot.digest)
    assert list(back.session.calls) == list(snapshot.session.calls)
    assert {type(step) for step in [*back.session.calls, *back.log.steps, *back.log.asks]} == {str}
    assert isinstance(back.session.status, Status)
    assert isinstance(back.session.messages, tuple)
    assert bytes(back.log.steps[FETCH].value.raw) == b'{"rows":[1,2,null]}'


def test_a_small_snapshot_makes_no_blobs() -> None:
    assert encode_snapshot(busy().fold.snapshot())[1] == ()


def test_a_large_snapshot_moves_its_values_into_blobs_and_leaves_the_live_log_alone() -> None:
    story = Story().happen(ev.SessionStarted())
    text = '"' + "x" * 30_000 + '"'
    for _ in range(40):
        story.happen(ev.ValueDrawn(name="messages", value=value(text)))
    story.happen(
        asked(),
        ev.AskAnswered(ask=ASK_1, step=QUESTION, value=value(text), by="ada"),
    )
    content, blobs, _ = encode_snapshot(story.fold.snapshot())

    assert len(content) < SIZE_LIMIT
    back = decode_snapshot(content)
    assert back.log.drawn["messages"][0].blob == back.log.asks[QUESTION].value.blob == blobs[0].digest
    assert check_blob(blobs[0].digest, blobs[0].content) == text.encode()
    assert story.log.drawn["messages"] == [value(text)] * 40


def long_results() -> Story:
    """A session with a long result, a long text in two pieces, and short ones."""
    say, name = StepId("1/say#0"), StepId("1/name#0")
    return Story().happen(
        ev.SessionStarted(),
        begun(),
        finished(json=f'"{"x" * SHORT}"'),
        begun(say, kind="model"),
        ev.SegmentWritten(step=say, attempt=1, offset=0, text="Once upon "),
        ev.SegmentWritten(step=say, attempt=1, offset=10, text="a time" * SHORT),
        ev.StepFinished(step=say, attempt=1, streamed=True),
        begun(name),
        finished(name, json='"short"'),
    )


def test_a_long_result_is_not_written_again_and_comes_back_from_the_journal() -> None:
    story = long_results()
    content, blobs, size = encode_snapshot(story.fold.snapshot())

    assert len(content) < size - 7 * SHORT
    assert not blobs
    assert b"xxx" not in content
    assert b"a time" not in content
    assert b"short" in content
    assert story.read_back(content).log == story.log
    assert rows_outside(decode_snapshot(content)) == [4, 6, 7]


@pytest.mark.parametrize("change", ["another text", "another event", "no row"])
def test_a_snapshot_whose_results_the_journal_does_not_hold_is_not_used(change: str) -> None:
    story = long_results()
    snapshot = decode_snapshot(encode_snapshot(story.fold.snapshot()).content)
    events = {record.position: record.event for record in story.records}
    if change == "no row":
        del events[Position(7)]
    elif change == "another event":
        events[Position(7)] = ev.SessionStarted()
    else:
        events[Position(4)] = finished(json=f'"{"y" * SHORT}"')

    with pytest.raises(Damaged, match="rebuilt from the journal"):
        restore_results(snapshot, events)


def test_a_text_that_was_overwritten_in_part_stays_in_the_snapshot() -> None:
    say = StepId("1/say#0")
    story = Story().happen(
        ev.SessionStarted(),
        begun(say, kind="model"),
        ev.SegmentWritten(step=say, attempt=1, offset=0, text="Once upon "),
        ev.SegmentWritten(step=say, attempt=1, offset=5, text="more" * SHORT),
        ev.SegmentWritten(step=say, attempt=1, offset=5 + 4 * SHORT, text="!"),
        ev.StepFinished(step=say, attempt=1, streamed=True),
    )
    content = encode_snapshot(story.fold.snapshot()).content

    assert rows_outside(decode_snapshot(content)) == []
    assert decode_snapshot(content).log == story.log


def test_a_snapshot_from_before_that_holds_its_results_is_read() -> None:
    fields = msgspec.json.decode(encode_snapshot(busy().fold.snapshot()).content)
    del fields["outside"]

    assert decode_snapshot(msgspec.json.encode({**fields, "format": 2})).session == busy().session


def test_a_value_that_is_a_blob_already_stays_the_same_blob() -> None:
    story = Story().happen(
        ev.SessionStarted(),
        begun(),
        ev.StepFinished(step=FETCH, attempt=1, value=Value(blob="ab" * 16, size=99_999)),
        begun(StepId("1/say#0"), kind="model"),
        ev.SegmentWritten(step=StepId("1/say#0"), attempt=1, offset=0, text="x" * SIZE_LIMIT),
    )
    content, blobs, _ = encode_snapshot(story.fold.snapshot())

    assert blobs == ()
    assert decode_snapshot(content).log.steps[FETCH].value == Value(blob="ab" * 16, size=99_999)


def damaged_snapshots() -> Iterator[bytes]:
    content = encode_snapshot(busy().fold.snapshot())[0]
    yield b""
    yield content[:-1]
    yield content.replace(b'"running"', b'"ambling"')
    yield content.replace(b'"format":3', b'"format":1')
    fields = msgspec.json.decode(content)
    yield msgspec.json.encode({**fields, "position": fields["position"] + 1})
    yield b"\xff" + content[1:]


@pytest.mark.parametrize("content", tuple(damaged_snapshots()), ids=range(6))
def test_a_snapshot_that_cannot_be_used_says_that_it_is_rebuilt(content: bytes) -> None:
    with pytest.raises(Damaged, match="rebuilt from the journal"):
        decode_snapshot(content)


def test_a_snapshot_is_due_when_the_journal_has_grown_by_its_size() -> None:
    assert not is_due(grown=BLOB_LIMIT - 1, last_size=0, steps_since=0)
    assert is_due(grown=BLOB_LIMIT, last_size=0, steps_since=0)
    assert not is_due(grown=BLOB_LIMIT, last_size=BLOB_LIMIT + 1, steps_since=0)
    assert is_due(grown=BLOB_LIMIT + 1, last_size=BLOB_LIMIT + 1, steps_since=0)


def test_a_snapshot_is_due_at_the_latest_after_a_thousand_steps() -> None:
    assert not is_due(grown=0, last_size=SIZE_LIMIT, steps_since=TOOL_CALLS_LIMIT - 1)
    assert is_due(grown=0, last_size=SIZE_LIMIT, steps_since=TOOL_CALLS_LIMIT)


def test_a_snapshot_of_a_megabyte_is_written_by_growth_alone() -> None:
    assert not is_due(grown=SIZE_LIMIT, last_size=SIZE_LIMIT + 1, steps_since=100 * TOOL_CALLS_LIMIT)
    assert is_due(grown=SIZE_LIMIT + 1, last_size=SIZE_LIMIT + 1, steps_since=1)


def test_snapshots_written_when_due_cost_at_most_twice_the_journal() -> None:
    written, size, grown, journal = 0, 0, 0, 0
    for _ in range(10_000):
        grown, journal = grown + 500, journal + 500
        if is_due(grown=grown, last_size=size, steps_since=0):
            size, grown = journal, 0  # the worst case: nothing of the journal can be left out
            written += size
    assert written <= 2 * journal
    assert Position(journal) > 0
