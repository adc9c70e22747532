"""Folding journal rows: damage is noticed wherever it is, and never followed."""

import pytest

from midcourse.core import events as ev
from midcourse.core.codec import GENESIS, chain
from midcourse.core.fold import Row, fold, read_row
from midcourse.core.ids import Position, SessionId
from midcourse.core.snapshot import decode_snapshot, encode_snapshot
from midcourse.errors import Damaged, ImpossibleEvent
from tests.unit.core.stories import FETCH, SESSION, Story, begun, finished


def story() -> Story:
    return Story().happen(ev.SessionStarted(), begun(), finished(), ev.SessionCompleted())


def chained(*events: ev.AnyEvent) -> list[Row]:
    """Rows whose digests are right, whatever they say."""
    rows: list[Row] = []
    digest = GENESIS
    for position, event in enumerate(events, 1):
        content = ev.encode_record(ev.Record(float(position), event))
        digest = chain(digest, position, content)
        rows.append((Position(position), content, digest))
    return rows


def assert_damaged(rows: list[Row], *, ends: tuple[Position, bytes] | None = None, position: int) -> None:
    with pytest.raises(Damaged, match="restore the store from a backup") as caught:
        fold(SESSION, None, rows, ends=ends)
    assert caught.value.code == "damaged"
    assert caught.value.fields == {"session_id": SESSION, "position": position}
    assert f"position {position}" in str(caught.value)


def test_the_fold_of_a_journal_is_the_live_session() -> None:
    live = story()
    state = fold(SESSION, None, live.rows)

    assert (state.session, state.log, state.digest) == (live.session, live.log, live.fold.digest)


def test_the_fold_from_a_snapshot_is_the_same() -> None:
    live = story()
    early = Story().happen(ev.SessionStarted(), begun())
    snapshot = decode_snapshot(encode_snapshot(early.fold.snapshot())[0])
    state = fold(SESSION, snapshot, live.rows[3:])

    assert (state.session, state.log, state.digest) == (live.session, live.log, live.fold.digest)


def test_a_snapshot_at_the_end_needs_no_rows() -> None:
    live = story()

    assert (
        fold(SESSION, live.fold.snapshot(), [], ends=(live.session.position, live.fold.digest)).session == live.session
    )


def test_an_empty_journal_is_damaged() -> None:
    assert_damaged([], position=1)


def test_a_changed_record_is_noticed_at_its_position() -> None:
    rows = story().rows
    position, content, digest = rows[2]
    rows[2] = (position, content.replace(b"fetch", b"patch"), digest)

    assert_damaged(rows, position=3)


def test_a_changed_digest_is_noticed() -> None:
    rows = story().rows
    position, content, digest = rows[-1]
    rows[-1] = (position, content, bytes([digest[0] ^ 1]) + digest[1:])

    assert_damaged(rows, position=5)


def test_a_missing_row_is_noticed() -> None:
    rows = story().rows

    assert_damaged(rows[1:], position=1)
    assert_damaged([*rows[:2], *rows[3:]], position=3)


def test_rows_that_are_missing_at_the_end_are_noticed_by_what_the_head_says() -> None:
    live = story()
    ends = (live.session.position, live.fold.digest)

    assert fold(SESSION, None, live.rows, ends=ends).session == live.session
    assert_damaged(live.rows[:-1], ends=ends, position=5)


def test_a_journal_that_went_on_since_the_head_was_read_is_not_damaged() -> None:
    live = story()
    position, _, digest = live.rows[2]

    assert fold(SESSION, None, live.rows, ends=(position, digest)).session == live.session


def test_another_journal_of_the_same_length_is_noticed_by_what_the_head_says() -> None:
    live = story()

    assert_damaged(live.rows, ends=(live.session.position, GENESIS), position=5)
    with pytest.raises(Damaged):
        fold(SESSION, live.fold.snapshot(), [], ends=(live.session.position, GENESIS))


def test_swapped_rows_are_noticed_even_with_their_positions_exchanged() -> None:
    rows = story().rows
    rows[1], rows[2] = rows[2], rows[1]
    assert_damaged(rows, position=2)

    rows[1], rows[2] = (Position(2), *rows[1][1:]), (Position(3), *rows[2][1:])
    assert_damaged(rows, position=2)


def test_a_row_of_another_session_at_the_same_position_is_noticed() -> None:
    rows = story().rows
    rows[1] = Story(goal="another").happen(ev.SessionStarted()).rows[1]

    assert_damaged(rows, position=2)


def test_events_that_cannot_follow_each_other_are_damage_even_with_right_digests() -> None:
    created = story().events[0]

    assert_damaged(chained(ev.SessionStarted()), position=1)
    assert_damaged(chained(created, created), position=2)
    assert_damaged(chained(created, begun()), position=2)
    assert_damaged(chained(created, ev.SessionStarted(), finished()), position=3)
    assert_damaged(chained(created, ev.SessionStarted(), begun(), finished(), begun(attempt=2)), position=5)


def test_the_error_of_an_impossible_event_says_what_is_impossible() -> None:
    with pytest.raises(Damaged, match=r"is queued; 'step\.begun' cannot happen there") as caught:
        fold(SESSION, None, chained(story().events[0], begun()))
    assert isinstance(caught.value.__cause__, ImpossibleEvent)


def test_a_snapshot_of_another_session_is_not_used() -> None:
    with pytest.raises(Damaged, match="sess_42"):
        fold(SessionId("sess_43"), story().fold.snapshot(), [])


def test_a_row_that_nobody_can_read_names_the_session_and_the_position() -> None:
    content = b'{"at":1.0,"event":{"type":"mood.changed@1"}}'

    with pytest.raises(Damaged, match=r"'sess_42', position 1: .*mood\.changed@1"):
        read_row(SESSION, GENESIS, 1, (Position(1), content, chain(GENESIS, 1, content)))


@pytest.mark.parametrize("event", [begun(), finished(attempt=2), ev.StepCut(step=FETCH, attempt=1, length=0)])
def test_an_impossible_event_leaves_the_fold_as_it_was(event: ev.AnyEvent) -> None:
    live = story()
    before = encode_snapshot(live.fold.snapshot())

    with pytest.raises(ImpossibleEvent):
        live.happen(event)
    assert encode_snapshot(live.fold.snapshot()) == before


def test_looking_ahead_advances_the_session_and_the_digest_alone() -> None:
    live = Story().happen(ev.SessionStarted())
    ahead = Story().happen(ev.SessionStarted()).fold
    content = ev.encode_record(ev.Record(3.0, begun()))
    ahead.look_ahead(3.0, begun(), content)
    live.happen(begun())

    assert (ahead.session, ahead.digest) == (live.session, live.fold.digest)
    assert FETCH not in ahead.log.steps
