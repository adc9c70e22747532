"""How often a session is written down: what policy and program say, and what a snapshot may cost at that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.codec import BLOB_LIMIT
from midcourse.core.snapshot import SIZE_LIMIT, TOOL_CALLS_LIMIT, is_due
from midcourse.policy.document import ClassRule
from midcourse.policy.pace import SEGMENT_TOKENS, USUAL, Pace, pace_of
from midcourse.policy.profiles import PRESETS, STANDARD

COUNTS = st.none() | st.integers(1, 10**6)


def test_where_nobody_says_anything_it_is_as_usual() -> None:
    assert pace_of(None) == pace_of(STANDARD.classes.medium) == USUAL == Pace(calls=1000, tokens=None, segment=100)


def test_the_designs_classes_are_kept() -> None:
    assert pace_of(STANDARD.classes.long).calls == 1000
    assert pace_of(STANDARD.classes.very_long).segment == 100
    assert pace_of(PRESETS["code-generation"].classes.long) == Pace(calls=1000, tokens=1000, segment=100)


@given(calls=COUNTS, tokens=COUNTS, segment=COUNTS, program=COUNTS)
def test_a_policy_makes_nothing_coarser_than_the_program_or_the_promise(
    calls: int | None, tokens: int | None, segment: int | None, program: int | None
) -> None:
    rule = ClassRule(checkpoint_calls=calls, checkpoint_tokens=tokens, segment_tokens=segment)
    pace = pace_of(rule, program)
    assert pace.calls == min(calls or TOOL_CALLS_LIMIT, TOOL_CALLS_LIMIT)
    assert pace.tokens == tokens
    assert pace.segment == min([one for one in (segment, program) if one], default=SEGMENT_TOKENS)
    assert pace_of(None, program).segment == (program or SEGMENT_TOKENS)


# ---- when a snapshot is due by that


@pytest.mark.parametrize("most", [1, 20, 1000])
def test_a_snapshot_is_due_after_so_many_calls_or_tokens_of_its_class(most: int) -> None:
    size = BLOB_LIMIT
    assert not is_due(grown=0, last_size=size, steps_since=most - 1, most_steps=most)
    assert is_due(grown=0, last_size=size, steps_since=most, most_steps=most)
    assert not is_due(grown=0, last_size=size, steps_since=0, tokens_since=most - 1, most_tokens=most)
    assert is_due(grown=0, last_size=size, steps_since=0, tokens_since=most, most_tokens=most)
    assert not is_due(grown=0, last_size=size, steps_since=0, tokens_since=10**9)


def test_a_snapshot_that_is_large_for_the_few_calls_is_written_when_there_are_more() -> None:
    size = 100 * 1024
    assert not is_due(grown=0, last_size=size, steps_since=20, most_steps=20)
    assert is_due(grown=0, last_size=size, steps_since=100, most_steps=20)
    assert not is_due(grown=0, last_size=SIZE_LIMIT + 1, steps_since=10**6, most_steps=20)


STEPS = st.lists(st.tuples(st.integers(50, 5_000), st.integers(0, 300)), min_size=50, max_size=400)


@given(steps=STEPS, calls=st.integers(1, 1500), tokens=COUNTS)
def test_whatever_a_class_says_a_snapshot_costs_little_for_each_call_and_token(
    steps: list[tuple[int, int]], calls: int, tokens: int | None
) -> None:
    """The worst case, of which nothing can be left out: what it has written grows with the journal, and no faster."""
    written = journal = size = grown = steps_since = tokens_since = snapshots = 0
    said = 0
    for content, pieces in steps:
        journal, grown = journal + content, grown + content
        steps_since, tokens_since, said = steps_since + 1, tokens_since + pieces, said + pieces
        if is_due(
            grown=grown,
            last_size=size,
            steps_since=steps_since,
            tokens_since=tokens_since,
            most_steps=calls,
            most_tokens=tokens,
        ):
            size, grown, steps_since, tokens_since = journal, 0, 0, 0
            written += size
            snapshots += 1
        if size <= BLOB_LIMIT:  # small enough for any distance
            assert steps_since < calls
            assert tokens is None or tokens_since < tokens
    per_one = SIZE_LIMIT / TOOL_CALLS_LIMIT
    assert written <= 3 * journal + per_one * (len(steps) + said) + BLOB_LIMIT * snapshots
