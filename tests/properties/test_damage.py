"""Damage is noticed: whatever byte of whatever row is changed, whatever rows are missing or moved, none is followed."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from midcourse.core.fold import Row, fold
from midcourse.core.ids import Position
from midcourse.core.snapshot import decode_snapshot, encode_snapshot
from midcourse.errors import Damaged
from tests.properties.histories import stories
from tests.unit.core.stories import SESSION, Story


def assert_noticed(story: Story, rows: list[Row]) -> None:
    """However it is looked at: as a whole, with what the head knows."""
    with pytest.raises(Damaged) as caught:
        fold(SESSION, None, rows, ends=(story.session.position, story.fold.digest))
    assert caught.value.code == "damaged"
    assert "restore the store from a backup" in str(caught.value)


def flipped(content: bytes, index: int, mask: int) -> bytes:
    return content[:index] + bytes([content[index] ^ mask]) + content[index + 1 :]


@settings(max_examples=5)
@given(story=stories(min_size=15, max_size=25), mask=st.integers(1, 255))
def test_each_byte_of_each_row_is_guarded(story: Story, mask: int) -> None:
    """All of them, one after the other."""
    for number, (position, content, digest) in enumerate(story.rows):
        before = fold(SESSION, None, story.rows[:number]).snapshot() if number else None
        guarded: list[Row] = [(position, flipped(content, index, mask), digest) for index in range(len(content))]
        guarded += [(position, content, flipped(digest, index, mask)) for index in range(len(digest))]
        for row in guarded:
            with pytest.raises(Damaged):
                fold(SESSION, before, [row])


@given(story=stories(), data=st.data())
def test_a_changed_byte_anywhere_is_noticed(story: Story, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(story.rows) - 1))
    position, content, digest = story.rows[number]
    rows = list(story.rows)
    index, mask = data.draw(st.integers(0, len(content) + len(digest) - 1)), data.draw(st.integers(1, 255))
    if index < len(content):
        rows[number] = (position, flipped(content, index, mask), digest)
    else:
        rows[number] = (position, content, flipped(digest, index - len(content), mask))

    assert_noticed(story, rows)


def swapped(rows: list[Row], i: int, j: int) -> list[Row]:
    rows = list(rows)
    rows[i], rows[j] = rows[j], rows[i]
    return rows


Harm = Callable[[list[Row], int, int], list[Row]]
HARMS: dict[str, Harm] = {
    "a row is dropped": lambda rows, i, j: rows[:i] + rows[i + 1 :],
    "a row is dropped and the later ones move up": lambda rows, i, j: [
        (Position(number), *row[1:]) for number, row in enumerate(rows[:i] + rows[i + 1 :], 1)
    ],
    "rows are dropped at the end": lambda rows, i, j: rows[:i],
    "rows are dropped at the start": lambda rows, i, j: rows[i + 1 :],
    "two rows are swapped": swapped,
    "two rows are swapped but for their positions": lambda rows, i, j: [
        (old[0], *new[1:]) for old, new in zip(rows, swapped(rows, i, j), strict=True)
    ],
    "a row comes twice": lambda rows, i, j: rows[: i + 1] + rows[i:],
    "a row stands for another": lambda rows, i, j: [*rows[:i], (rows[i][0], *rows[j][1:]), *rows[i + 1 :]],
    "a position is changed": lambda rows, i, j: [
        *rows[:i],
        (Position(rows[i][0] + j + 1), *rows[i][1:]),
        *rows[i + 1 :],
    ],
    "a record is cut short": lambda rows, i, j: [
        *rows[:i],
        (rows[i][0], rows[i][1][: -1 - j], rows[i][2]),
        *rows[i + 1 :],
    ],
    "a digest is cut short": lambda rows, i, j: [*rows[:i], (*rows[i][:2], rows[i][2][:-1]), *rows[i + 1 :]],
    "a digest is gone": lambda rows, i, j: [*rows[:i], (*rows[i][:2], b""), *rows[i + 1 :]],
}


@pytest.mark.parametrize("harm", HARMS)
@settings(max_examples=20)
@given(story=stories(min_size=3, max_size=30), data=st.data())
def test_rows_that_are_missing_moved_or_cut_are_noticed(harm: str, story: Story, data: st.DataObject) -> None:
    places = st.integers(0, len(story.rows) - 1)
    rows = HARMS[harm](list(story.rows), data.draw(places), data.draw(places))
    assume(rows != story.rows)

    assert_noticed(story, rows)


@given(story=stories(min_size=5), data=st.data())
def test_damage_after_a_snapshot_is_noticed_too(story: Story, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, len(story.rows)))
    snapshot = decode_snapshot(encode_snapshot(fold(SESSION, None, story.rows[:number]).snapshot())[0])
    rest = story.rows[number:]
    assume(rest)
    place = data.draw(st.integers(0, len(rest) - 1))
    position, content, digest = rest[place]
    rest[place] = (position, flipped(content, data.draw(st.integers(0, len(content) - 1)), 1), digest)

    with pytest.raises(Damaged):
        fold(SESSION, snapshot, rest)


@given(one=stories(min_size=5), other=stories(min_size=5), data=st.data())
def test_a_snapshot_of_another_history_is_noticed_by_the_rows_that_follow(
    one: Story, other: Story, data: st.DataObject
) -> None:
    number = data.draw(st.integers(1, min(len(one.rows), len(other.rows))))
    assume(one.rows[:number] != other.rows[:number])
    snapshot = fold(SESSION, None, other.rows[:number]).snapshot()

    with pytest.raises(Damaged):
        fold(SESSION, snapshot, one.rows[number:], ends=(one.session.position, one.fold.digest))
