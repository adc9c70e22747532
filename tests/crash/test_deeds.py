"""The judge itself: it finds each thing that must not be, and nothing where all is well."""

import pytest

from tests.crash.deeds import Claim, Finding, Judge

WALL = Judge(left=("wall",))
NOTHING = Judge(left=())


def found(judge: Judge, story: str, *claims: Claim) -> list[Finding]:
    """What the judge says of a ledger whose lines are parted by semicolons."""
    return list(judge.at_the_end([line.split() for line in story.split(";")], claims))


def wall(outcome: str, key: str = "k1") -> Claim:
    """What a receipt says of the wall."""
    return Claim("wall", key, "reversible", outcome)


def test_what_is_as_it_should_be_is_not_found() -> None:
    """Made, undone, made again under a new key; an undo that ran twice; a request that was sent twice."""
    story = (
        "tried wall k1; made reversible wall k1; unmade wall k1; unmade wall k1; tried wall k2; made reversible wall k2"
    )
    assert found(WALL, story, wall("undone"), wall("kept", "k2")) == []
    twice = "tried mail k1; made idempotent mail k1; tried mail k1; made idempotent mail k1"
    assert found(Judge(left=("mail",)), twice, Claim("mail", "k1", "idempotent", "cannot be undone")) == []
    assert found(NOTHING, "held lock; freed lock; freed lock", Claim("lock", "", "hold", "undone")) == []


@pytest.mark.parametrize(
    ("story", "repeated"),
    [
        ("made reversible wall k1; made reversible wall k1; unmade wall k1", "wall exists twice"),
        ("made reversible wall k1; made reversible wall k2; unmade wall k1; unmade wall k2", "wall exists twice"),
        ("tried wall k1; tried wall k2", "wall began under a second key, and the first was not undone"),
        ("tried wall k1; unmade wall k1; tried wall k1", "wall began again under the key that was undone"),
        ("held lock; freed lock; used lock", "lock was used again after it had been let go"),
    ],
)
def test_what_was_done_too_often_is_found(story: str, repeated: str) -> None:
    """Whatever the receipts say."""
    assert ("repeated", repeated) in found(NOTHING, story)


@pytest.mark.parametrize(
    ("story", "claims", "false"),
    [
        ("made reversible wall k1", [wall("undone")], "wall is called 'undone', and exists"),
        ("made reversible wall k1", [wall("kept"), wall("undone", "")], "wall is called 'undone', and exists"),
        ("made reversible wall k1; unmade wall k1", [wall("kept")], "wall is called 'kept', and does not exist"),
        ("made reversible wall k1", [wall("kept", "k2")], "wall exists, and no receipt has a line for it"),
        ("held lock", [Claim("lock", "", "hold", "undone")], "lock is called 'undone', and exists"),
    ],
)
def test_what_is_told_and_is_not_so_is_found(story: str, claims: list[Claim], false: str) -> None:
    """At a death as well, when a receipt is only provisional."""
    assert ("claimed", false) in found(NOTHING, story, *claims)
    assert ("claimed", false) in list(NOTHING.at_death([line.split() for line in story.split(";")], claims))


@pytest.mark.parametrize(
    ("judge", "story", "claims", "lost"),
    [
        (NOTHING, "made reversible wall k1", [wall("kept")], "wall is left, and was to be taken back"),
        (WALL, "made reversible wall k1; unmade wall k1", [wall("undone")], "wall is gone"),
        (NOTHING, "tried wall k1", [wall("unknown")], "wall is called 'unknown' at the end"),
        (NOTHING, "held lock", [], "lock is still held"),
        (
            Judge(left=(), order=("roof", "wall")),
            "unmade wall k1; unmade roof k2",
            [],
            "taken back in the order wall, roof, not roof, wall",
        ),
    ],
)
def test_what_is_left_as_it_should_not_be_is_found(judge: Judge, story: str, claims: list[Claim], lost: str) -> None:
    """At the end only: at a death there is still somebody to do it."""
    assert ("lost", lost) in found(judge, story, *claims)
    assert ("lost", lost) not in list(judge.at_death([line.split() for line in story.split(";")], claims))
