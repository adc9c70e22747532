"""What is left of a journal whose texts were erased: its shape, and nothing that anybody wrote."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args, get_origin

import msgspec
import pytest

from midcourse.core import events as ev
from midcourse.core.codec import ERASED, GENESIS, Value, chain, content_digest, entomb, follows, remains_of
from midcourse.core.erasure import ERASED_VALUE, KEPT, Eraser, entombed, kept_digest
from midcourse.core.fold import Row, fold
from midcourse.core.ids import AskId, PauseId, Position, SessionId, StepId
from midcourse.core.policy_decision import Decision, Reason
from midcourse.core.terms import DefaultAnswer, Terms
from midcourse.errors import Damaged

SESSION = SessionId("sess_1")
SECRET = "hunter2"
RAW = Value(raw=msgspec.Raw(b'"hunter2"'))
STEP = StepId("1/search#hunter2")

EVENTS: tuple[ev.AnyEvent, ...] = (
    ev.SessionCreated(
        agent="finder",
        agent_version="1",
        mode="replay",
        origin="app:finder",
        resumable=True,
        goal=SECRET,
        terms=Terms(policy="standard@1", ttl_seconds=60.0, on_expiry=DefaultAnswer(SECRET), labels=("team-a",)),
        by="ann",
    ),
    ev.SessionStarted(),
    ev.PlanChanged(items=(ev.PlanItem(SECRET, "running"),)),
    ev.ReportMade(progress=0.5, hypothesis=SECRET, artifact=SECRET, message=SECRET, documentation=SECRET),
    ev.StepBegun(
        step=STEP,
        name="search",
        kind="tool",
        attempt=1,
        digest="d1",
        arguments=SECRET,
        key="k1",
        effect="irreversible",
        tool="app:search",
        given=RAW,
    ),
    ev.StepFinished(
        step=STEP, attempt=1, value=RAW, cost=0.25, tokens=12, observed={SECRET: ev.Observation(SECRET, SECRET, RAW)}
    ),
    ev.StepBegun(step=StepId("1/say#1"), name="say", kind="model", attempt=1, digest="d2"),
    ev.SegmentWritten(step=StepId("1/say#1"), attempt=1, offset=0, text=f"{SECRET} and so on"),
    ev.SegmentWritten(step=StepId("1/say#1"), attempt=1, offset=17, text=SECRET),
    ev.StepFinished(step=StepId("1/say#1"), attempt=1, streamed=True),
    ev.HoldTaken(name=SECRET, release="app:let_go", given=RAW),
    ev.AskOpened(
        ask=AskId("ask_1"),
        step=StepId("1/ask#1"),
        reason=SECRET,
        prompt=SECRET,
        options=(SECRET,),
        default=RAW,
        covers="d",
    ),
    ev.AskAnswered(ask=AskId("ask_1"), step=StepId("1/ask#1"), value=RAW, by="bo"),
    ev.InterventionMade(
        intervention=ev.InterventionId("int_1"),
        by="policy:standard@1",
        decision=Decision(
            level="notify", wanted="notify", policy="standard@1", reasons=(Reason("cost", "warn", 11.0, 10.0, SECRET),)
        ),
    ),
    ev.PauseRequested(pause=PauseId("pause_1"), by="ann", reason=SECRET, grace=1.0),
    ev.SessionPaused(),
    ev.SessionRedirected(text=SECRET, level="goal", by="ann"),
    ev.CancelRequested(by="ann", grace=0.0, reason=SECRET),
    ev.HoldReleased(name=SECRET, error=SECRET),
    ev.SessionCancelled(receipt=(ev.ReceiptLine(STEP, "search", "kept", "irreversible", 1, SECRET, SECRET),)),
    ev.InterventionLabelled(about="int_1", verdict="right", by="ann", note=SECRET),
    ev.SessionRated(score=4, by="ann", note=SECRET),
)


def journal(events: tuple[ev.AnyEvent, ...] = EVENTS) -> list[Row]:
    rows: list[Row] = []
    digest = GENESIS
    for number, event in enumerate(events, 1):
        content = ev.encode_record(ev.Record(1000.0 + number, event))
        digest = chain(digest, number, content)
        rows.append((Position(number), content, digest))
    return rows


def test_nothing_that_was_written_is_left_and_the_digests_still_follow() -> None:
    before = journal()
    assert all(b"hunter2" in record for _, record, _ in before[2:4])
    after = entombed(before)
    assert b"hunter2" not in b"".join(record for _, record, _ in after)
    assert [digest for *_, digest in after] == [digest for *_, digest in before]
    assert all(follows(earlier[2], position, record, digest) for earlier, (position, record, digest) in pairwise(after))


def test_the_fold_of_what_is_left_has_the_same_shape() -> None:
    before, after = (fold(SESSION, None, rows).session for rows in (journal(), entombed(journal())))
    for field in ("status", "cost", "tokens", "finished_steps", "turn", "score", "labels", "interventions", "position"):
        assert getattr(after, field) == getattr(before, field)
    assert [(line.name, line.outcome, line.effect) for line in after.receipt] == [("search", "kept", "irreversible")]
    assert after.goal == ERASED
    assert [message.by for message in after.messages] == ["ann", "ann"]
    assert after.terms.labels == ("team-a",)
    assert after.plan == (ev.PlanItem(ERASED, "running"),)


def test_times_types_and_positions_stay() -> None:
    for (_, before, _), (_, after, _) in zip(journal(), entombed(journal()), strict=True):
        one, other = ev.decode_record(before), ev.decode_record(remains_of(after))
        assert (one.at, type(one.event)) == (other.at, type(other.event))


def test_what_was_erased_stays_as_it_is_when_it_is_erased_again() -> None:
    once = entombed(journal())
    assert entombed(once) == once


def test_a_text_among_the_keys_of_steps_is_the_same_everywhere_and_numbers_stay() -> None:
    eraser = Eraser()
    assert eraser.step("1.2/find#7") == "1.2/find#7"
    assert eraser.step("1/a#ann@example.org>b#3") == "1/a#erased-1>b#3"
    assert eraser.step("1/a#ann@example.org~2?1") == "1/a#erased-1~2?1"
    assert eraser.step("1/a#bo") == "1/a#erased-2"


@pytest.mark.parametrize("place", [20, 40, -1])
def test_a_tombstone_that_was_changed_is_noticed(place: int) -> None:
    rows = entombed(journal())
    position, record, digest = rows[3]
    changed = bytearray(record)
    changed[place] ^= 1
    rows[3] = (position, bytes(changed), digest)
    with pytest.raises(Damaged):
        fold(SESSION, None, rows)


def test_a_record_that_is_passed_off_as_erased_does_not_fit_what_the_erasing_told() -> None:
    rows = entombed(journal())
    told = kept_digest(rows)
    position, _, digest = rows[0]
    original = journal()[0][1]
    forged = entomb(original, original.replace(b"finder", b"forger"))
    assert content_digest(forged) == content_digest(original)
    rows[0] = (position, forged, digest)
    assert kept_digest(rows) != told


def test_words_of_midcourse_itself_stay_and_an_agents_own_go() -> None:
    ask = ev.AskOpened(ask=AskId("ask_1"), step=STEP, reason="need_approval", prompt=SECRET)
    assert Eraser().struct(ask).reason == "need_approval"
    assert Eraser().struct(msgspec.structs.replace(ask, reason=SECRET)).reason == ERASED


def _texts(kind: type[msgspec.Struct], seen: set[type]) -> Iterator[tuple[type[msgspec.Struct], str]]:
    """Every field that is a plain text, of an event and of what is in it."""
    if kind in seen:
        return
    seen.add(kind)
    for field in msgspec.structs.fields(kind):
        for hint in _parts(field.type):
            if hint is str:
                yield kind, field.name
            elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
                yield from _texts(hint, seen)


def _parts(hint: Any) -> Iterator[Any]:
    inside = get_args(hint)
    if not inside:
        yield hint
    for one in inside:
        yield from _parts(one)


def test_every_text_of_every_event_is_erased_or_known_to_stay() -> None:
    """A new field is erased; whoever wants it to stay says so in KEPT. No entry there is about a field that is gone."""
    found = {pair for kind in get_args(ev.AnyEvent) for pair in _texts(kind, set())}
    for kind, names in KEPT.items():
        assert names <= {field.name for field in msgspec.structs.fields(kind)}
    for kind, name in found:
        if name == "by" or name in KEPT.get(kind, ()) or kind in (Value, ev.Observation, DefaultAnswer):
            continue
        values: dict[str, Any] = {
            field.name: _example(field.type, field.default) for field in msgspec.structs.fields(kind)
        }
        erased = Eraser().struct(
            kind(**(values | {name: _example(msgspec.structs.fields(kind)[_index(kind, name)].type)}))
        )
        assert SECRET not in str(getattr(erased, name)), (kind, name)


def _index(kind: type[msgspec.Struct], name: str) -> int:
    return kind.__struct_fields__.index(name)


def _example(hint: Any, default: Any = msgspec.NODEFAULT) -> Any:
    if default is not msgspec.NODEFAULT:
        return default
    if hint is str:
        return SECRET
    if hint is Value:
        return RAW
    if hint in (int, float, bool):
        return hint(1)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint(**{field.name: _example(field.type, field.default) for field in msgspec.structs.fields(hint)})
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is tuple:
        return (_example(arguments[0]),)
    if arguments and isinstance(arguments[0], str):
        return arguments[0]
    return _example(arguments[0]) if arguments else SECRET


def test_a_value_becomes_a_word_and_no_value_stays_none() -> None:
    finished = ev.StepFinished(step=STEP, attempt=1, value=RAW)
    assert Eraser().struct(finished).value == ERASED_VALUE
    assert Eraser().struct(ev.StepFinished(step=STEP, attempt=1)) == ev.StepFinished(
        step=StepId("1/search#erased-1"), attempt=1
    )
