"""``midcourse artifact list``: what agents made, what of it is due, and that somebody has looked."""

import asyncio
from pathlib import Path

import pytest

from midcourse.clock import SystemClock
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items
from midcourse.policy.artifacts import ArtifactReported
from midcourse.wiring import open_store
from tests.cli.conftest import Command


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two things that an agent made, one of them documented."""
    where = f"sqlite:///{tmp_path}/runs.db"
    now = SystemClock().now()
    bare = ArtifactReported(name="notes.md", session="sess_1", agent="writer", position=3, made_at=now - 60)
    told = ArtifactReported(
        name="report.md", session="sess_2", agent="writer", position=3, made_at=now, documentation="of May"
    )

    async def fill() -> None:
        opened = await open_store(where)
        await opened.shelve(ARTIFACTS, artifact_items(bare, told))
        await opened.close()

    asyncio.run(fill())
    return where


def test_artifacts_lists_what_is_due_first_and_who_looked_sees_it_later_again(midcourse: Command, store: str) -> None:
    everything = midcourse("artifact", "list", "--store", store).out
    assert everything.index("notes.md") < everything.index("report.md")
    assert "nothing says what it is" in everything
    assert [
        one["name"] for one in midcourse("artifact", "list", "--store", store, "--due", "--json").json()["artifacts"]
    ] == ["notes.md"]
    assert "1" in midcourse("inbox", "list", "--store", store).out.partition("due for review: ")[2]
    done = midcourse("artifact", "reviewed", "--store", store, "sess_1", "notes.md", "--says", "what was tried")
    assert done.out == "'notes.md' comes up again in 7 d.\n"
    assert midcourse("artifact", "list", "--store", store, "--due", "--json").json() == {"artifacts": []}
    [kept] = midcourse("artifact", "list", "--store", store, "--session", "sess_1", "--json").json()["artifacts"]
    assert kept["documentation"] == "what was tried"


def test_what_was_never_made_cannot_be_reviewed(midcourse: Command, store: str) -> None:
    done = midcourse("artifact", "reviewed", "--store", store, "sess_1", "x.md")
    assert (done.code, "has reported no artifact 'x.md'" in done.err) == (1, True)
