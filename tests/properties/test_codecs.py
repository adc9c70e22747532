"""Whatever is written is read back the same: events of every type, values, commands, snapshots."""

from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.core import codec
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import canonical, decode, encode, preview, value_of
from midcourse.core.events import Record, decode_record, encode_record
from midcourse.core.snapshot import encode_snapshot
from midcourse.errors import Damaged
from tests.properties.histories import EVENT_TYPES, any_command, any_event, json_values, stories, structs
from tests.unit.core.stories import Story

times = st.floats(0, 4e9)


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=12)
@given(data=st.data(), at=times)
def test_a_record_of_every_type_is_read_back_as_it_was_written(
    kind: type[ev.AnyEvent], data: st.DataObject, at: float
) -> None:
    record = Record(at, data.draw(structs(kind)))
    content = encode_record(record)

    assert decode_record(content) == record
    assert encode_record(decode_record(content)) == content


@given(event=any_event, at=times, data=st.data())
def test_a_record_with_a_changed_byte_is_damaged_or_another_record_and_nothing_else(
    event: ev.AnyEvent, at: float, data: st.DataObject
) -> None:
    content = bytearray(encode_record(Record(at, event)))
    index = data.draw(st.integers(0, len(content) - 1))
    content[index] ^= data.draw(st.integers(1, 255))
    try:
        record = decode_record(bytes(content))
    except Damaged:
        return
    assert isinstance(record, Record)


@given(value=json_values, limit=st.integers(0, 60))
def test_a_value_comes_back_from_the_journal_or_from_its_blob(value: object, limit: int) -> None:
    content = encode(value, what="it")
    stored, blob = value_of(content, limit)
    stored = msgspec.json.decode(msgspec.json.encode(stored), type=codec.Value)
    found = bytes(stored.raw) if blob is None else codec.check_blob(stored.blob, blob.content)

    assert decode(found) == value
    assert (blob is None) == (len(content) <= limit)


def shuffled(value: object, data: st.DataObject) -> object:
    """The same value in another guise: keys in another order, lists as tuples."""
    if isinstance(value, dict):
        items = list(cast("dict[str, object]", value).items())
        return {key: shuffled(item, data) for key, item in data.draw(st.permutations(items))}
    if isinstance(value, list):
        shuffled_items = [shuffled(item, data) for item in cast("list[object]", value)]
        return tuple(shuffled_items) if data.draw(st.booleans()) else shuffled_items
    return value


@given(value=json_values, data=st.data())
def test_the_spelling_of_arguments_does_not_depend_on_order_guise_or_a_way_through_the_journal(
    value: object, data: st.DataObject
) -> None:
    other = shuffled(value, data)

    assert canonical(other) == canonical(value)
    assert canonical(decode(encode(other, what="it"))) == canonical(value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.integers() | st.text(max_size=3) | st.booleans() | st.tuples(st.integers()), inner, max_size=3
        )
        | st.sets(st.integers() | st.text(max_size=2) | st.none(), max_size=4)
        | st.just(object())
    ),
    max_leaves=8,
)


@given(one=anything)
def test_whatever_the_arguments_are_they_have_one_spelling_and_a_preview(one: object) -> None:
    assert canonical(one) == canonical(one)
    msgspec.json.decode(canonical(one))
    assert len(preview(canonical({"password": one, "x": [one]}))) <= 400


@given(secret=st.text("abcdefgh123", min_size=8, max_size=20), value=json_values, nested=st.booleans())
def test_a_secret_under_a_telling_name_never_shows(secret: str, value: object, nested: bool) -> None:
    marked = f"zz{secret}zz"
    inner = {"api_key": marked, "value": value}

    assert marked not in preview(canonical({"kwargs": [inner]} if nested else inner))


@given(command=any_command)
def test_a_command_is_read_back_as_it_was_put(command: cmd.AnyCommand) -> None:
    cmd.check_command(command)

    assert cmd.decode_command(cmd.encode_command(command)) == command


@given(story=stories())
def test_a_snapshot_is_read_back_as_it_was_written(story: Story) -> None:
    snapshot = story.fold.snapshot()
    encoded = encode_snapshot(snapshot)
    back = story.read_back(encoded.content)

    assert encode_snapshot(back) == encoded
    assert back == replace(snapshot, outside=back.outside)
