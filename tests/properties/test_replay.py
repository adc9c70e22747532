"""Replay equals live: the journal alone, or any snapshot and what follows it, gives the session as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midcourse.core import events as ev
from midcourse.core import steps
from midcourse.core.fold import Fold, fold
from midcourse.core.ids import StepId
from midcourse.core.receipt import EffectLedger, line_of
from midcourse.core.session import ENDED
from midcourse.core.snapshot import encode_snapshot
from midcourse.core.steps import SHORT
from tests.properties.histories import stories
from tests.unit.core.stories import SESSION, Story


def assert_same(state: Fold, live: Fold) -> None:
    assert state.session == live.session
    assert state.log == live.log
    assert state.digest == live.digest
    # Equal dicts may still differ in order, and calls are listed in the order they began.
    assert list(state.session.calls) == list(live.session.calls)
    assert list(state.log.steps) == list(live.log.steps)
    assert list(state.log.asks) == list(live.log.asks)


@given(story=stories())
def test_the_journal_alone_gives_the_live_session_back(story: Story) -> None:
    ends = (story.session.position, story.fold.digest)

    assert_same(fold(SESSION, None, story.rows, ends=ends), story.fold)


@settings(max_examples=40)
@given(story=stories(), short=st.sampled_from((SHORT, 8, -1)))
def test_every_snapshot_and_what_follows_it_gives_the_live_session_back(story: Story, short: int) -> None:
    """However long a result must be to be left to the journal."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(steps, "SHORT", short)
        live = fold(SESSION, None, story.rows)
        for number in range(1, len(story.rows) + 1):
            content = encode_snapshot(fold(SESSION, None, story.rows[:number]).snapshot()).content

            assert_same(fold(SESSION, story.read_back(content), story.rows[number:]), live)


@given(story=stories(min_size=2), data=st.data())
def test_a_session_that_was_folded_again_goes_on_as_if_it_had_never_been_away(
    story: Story, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(story.rows)))
    again = Story()
    again.fold, again.rows = fold(SESSION, None, story.rows[:cut]), story.rows[:cut]
    again.happen(*story.events[cut:])

    assert again.rows == story.rows
    assert_same(again.fold, story.fold)


@given(story=stories())
def test_a_receipt_claims_nothing_that_the_journal_does_not_say(story: Story) -> None:
    ledger = ledger_of(story)
    undone = {
        event.key for event in story.events if isinstance(event, ev.UndoEnded) and not (event.error or event.lost)
    }
    finished = {event.step for event in story.events if isinstance(event, ev.StepFinished)}

    for entry in ledger.entries.values():
        match entry.line.outcome:
            case "undone":
                assert entry.call.key in undone
            case "kept" | "cannot be undone":
                assert entry.call.step in finished
            case _:
                assert entry.call.key not in undone


@given(story=stories())
def test_a_receipt_and_the_session_tell_the_same_of_every_open_call(story: Story) -> None:
    ledger = ledger_of(story)

    for call in story.session.calls.values():
        if call.effect != "read" and call.told != "no":
            assert ledger.entries[call.key].line.outcome == line_of(call).outcome
    under_way = story.session.undo is not None and not story.session.undo.done
    assert ledger.is_final == (story.session.status in ENDED and not under_way)


def ledger_of(story: Story) -> EffectLedger:
    """The ledger of its whole journal."""
    ledger = EffectLedger()
    for position, content, _ in story.rows:
        record = ev.decode_record(content)
        ledger.apply(ev.Recorded(position, record.at, record.event))
    return ledger


@given(story=stories())
def test_a_finished_step_keeps_its_first_result(story: Story) -> None:
    results: dict[StepId, bytes] = {}
    for row_count in range(1, len(story.rows) + 1, 7):
        log = fold(SESSION, None, story.rows[:row_count]).log
        finished = {step: bytes(one.value.raw) for step, one in log.steps.items() if one.outcome == "finished"}
        assert all(results[step] == finished[step] for step in results.keys() & finished.keys())
        results |= finished
