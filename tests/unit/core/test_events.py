"""Events as journal rows: every version that was ever written stays readable, and nothing else is read."""

import copy
import math
import re
from typing import Any, Final, get_args

import msgspec
import pytest

from midcourse.core import events as ev
from midcourse.core.events import Record, decode_record, encode_record
from midcourse.core.ids import Position
from midcourse.errors import Damaged, Unencodable
from tests.unit.core.stories import FETCH, asked, value

EVERY: Final[tuple[type[ev.AnyEvent], ...]] = get_args(ev.AnyEvent)


def tag_of(kind: type[ev.AnyEvent]) -> str:
    return str(kind.__struct_config__.tag)


def test_every_event_type_is_domain_action_and_version() -> None:
    for kind in EVERY:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+@[1-9][0-9]*", tag_of(kind)), kind


def test_no_two_events_share_a_type() -> None:
    assert len({tag_of(kind).partition("@")[0] for kind in EVERY}) == len(EVERY)


def test_every_event_class_of_the_module_can_be_read() -> None:
    defined = {kind for kind in vars(ev).values() if isinstance(kind, type) and issubclass(kind, ev.Event)}

    assert defined - {ev.Event} == set(EVERY)


def test_an_event_names_its_type_without_the_version() -> None:
    assert ev.event_type(ev.SessionStarted()) == "session.started"
    assert ev.Recorded(Position(1), 1.0, asked()).type == "ask.opened"


def test_an_event_cannot_be_edited() -> None:
    with pytest.raises(AttributeError):
        ev.SessionFailed(code="a", message="b").code = "c"  # type: ignore[misc]


def test_a_record_says_when_and_what() -> None:
    content = encode_record(Record(12.5, ev.StepFinished(step=FETCH, attempt=1, value=value('{"rows":[1,2]}'))))

    assert msgspec.json.decode(content) == {
        "at": 12.5,
        "event": {"type": "step.finished@1", "step": FETCH, "attempt": 1, "value": {"raw": {"rows": [1, 2]}}},
    }


def test_a_field_added_with_a_default_needs_no_new_version() -> None:
    old = b'{"at":1.0,"event":{"type":"session.paused@1"}}'
    newer = b'{"at":1.0,"event":{"type":"session.paused@1","mood":"calm"}}'

    assert decode_record(old) == decode_record(newer) == Record(1.0, ev.SessionPaused())


# ---- what could not be read back is not written


@pytest.mark.parametrize(
    "event",
    [
        ev.StepFinished(step=FETCH, attempt=1, cost=math.nan),
        ev.ReportMade(progress=math.inf),
        ev.CancelRequested(by="ada", grace=math.inf),
        asked(expires_at=-math.inf),
    ],
    ids=ev.event_type,
)
def test_a_number_without_end_is_not_written(event: ev.AnyEvent) -> None:
    with pytest.raises(Unencodable, match="finite number"):
        encode_record(Record(1.0, event))


def test_text_that_is_not_unicode_is_not_written() -> None:
    with pytest.raises(Unencodable, match="errors='replace'"):
        encode_record(Record(1.0, ev.SessionFailed(code="agent_failed", message="\ud800")))


# ---- versions


def _from_1_to_2(event: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had only a ``length``."""
    return {**event, "type": "chapter.closed@2", "pages": event["length"]}


def _from_2_to_today(event: dict[str, Any]) -> dict[str, Any]:
    """Version 2 was called otherwise, and had no attempt."""
    return {
        "type": "step.finished@1",
        "step": event["step"],
        "attempt": 1,
        "tokens": event["pages"],
        "value": {"raw": event["text"]},
    }


CHAIN: Final = {"chapter.closed@1": _from_1_to_2, "chapter.closed@2": _from_2_to_today}
OLD: Final = (
    b'{"at":3.0,"event":{"type":"chapter.closed@1","step":"1/fetch#0","length":7,'
    b'"text":{"big":1180591620717411303424}}}'
)


def test_an_old_version_is_read_as_todays_through_every_version_between() -> None:
    record = decode_record(OLD, CHAIN)

    assert record == Record(
        3.0, ev.StepFinished(step=FETCH, attempt=1, tokens=7, value=value('{"big":1180591620717411303424}'))
    )
    assert decode_record(encode_record(record)) == record


def test_a_version_between_is_read_as_well() -> None:
    between = b'{"at":3.0,"event":{"type":"chapter.closed@2","step":"1/fetch#0","pages":7,"text":"t"}}'

    assert decode_record(between, CHAIN).event == ev.StepFinished(step=FETCH, attempt=1, tokens=7, value=value('"t"'))


def test_upcasting_is_pure() -> None:
    seen: list[dict[str, Any]] = []

    def watch(event: dict[str, Any]) -> dict[str, Any]:
        before = copy.deepcopy(event)
        result = _from_1_to_2(event)
        assert event == before
        seen.append(event)
        return result

    chain = {**CHAIN, "chapter.closed@1": watch}
    assert decode_record(OLD, chain) == decode_record(OLD, chain)
    assert seen[0] == seen[1]


def test_every_upcaster_starts_at_a_version_of_the_past() -> None:
    assert not set(ev.UPCASTERS) & {tag_of(kind) for kind in EVERY}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b'{"at":1.0,"event":{"type":"session.started@2"}}', "session.started@2"),
        (b'{"at":1.0,"event":{"type":"mood.changed@1"}}', "mood.changed@1"),
        (b'{"at":1.0,"event":{"type":"session.taken@1","epoch":"x","worker":"w"}}', "session.taken@1"),
        (b'{"at":1.0,"event":{"type":"chapter.closed@1"}}', "chapter.closed@1"),
        (b'{"at":1.0,"event":{"type":["x"]}}', "cannot be read"),
        (b'{"at":1.0,"event":[]}', "cannot be read"),
        (b'{"at":1.0}', "cannot be read"),
        (b'{"event":{"type":"session.started@1"}}', "cannot be read"),
        (b"[]", "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_what_no_known_version_wrote_is_refused_with_a_sentence_that_says_what_to_do(
    content: bytes, named: str
) -> None:
    with pytest.raises(Damaged, match="upgrade this program, or restore the store from a backup") as caught:
        decode_record(content, CHAIN)

    assert named in str(caught.value)
    assert caught.value.code == "damaged"


def test_upcasters_that_go_round_in_a_circle_are_refused_and_do_not_hang() -> None:
    def back(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "type": "chapter.closed@1"}

    with pytest.raises(Damaged, match="circle"):
        decode_record(OLD, {**CHAIN, "chapter.closed@2": back})
