"""One command to many: all are reached before anybody who is silent is waited for."""

import pytest
from msgspec.structs import replace

from midcourse.core.ids import SessionId
from midcourse.core.replies import Reply
from midcourse.errors import StoreFull
from midcourse.handle.bulk import AT_ONCE, LONGEST, PATIENCE, send_to_each
from tests.server.manual_clock import StillClock

SILENT = [f"silent_{number}" for number in range(AT_ONCE + 8)]


def reply(session: str, level: str) -> Reply:
    return Reply(level=level, status="running", session=SessionId(session), durability="nothing")  # pyright: ignore[reportArgumentType]


async def test_a_silent_worker_is_waited_for_after_everybody_was_reached() -> None:
    sent: list[tuple[str, float]] = []

    async def send(session: str, wait: float) -> Reply:
        sent.append((session, wait))
        return reply(session, "accepted" if session in SILENT else "decided")

    told = await send_to_each([*SILENT, "own"], send, StillClock())
    assert [one.session for one in told] == [*SILENT, "own"]
    assert sent[: len(SILENT) + 1] == [(one, 0.0) for one in [*SILENT, "own"]]
    assert sent[len(SILENT) + 1 :] == [(one, PATIENCE) for one in SILENT]
    assert {one.code for one in told} == {"not_reachable", ""}


async def test_nobody_is_waited_for_when_the_time_for_all_is_over() -> None:
    clock = StillClock()
    waits: list[float] = []

    async def send(session: str, wait: float) -> Reply:
        clock.seconds += LONGEST / 2
        waits.append(wait)
        return reply(session, "accepted")

    await send_to_each(SILENT[:3], send, clock)
    assert waits == [0.0] * 6


async def test_a_store_that_fails_for_all_is_an_error_and_for_one_an_outcome() -> None:
    async def send(session: str, wait: float) -> Reply:
        if session == "lost":
            raise StoreFull("No space is left. Make some.")
        return reply(session, "decided")

    told = await send_to_each(["lost", "own"], send, StillClock())
    assert [(one.ok, one.code) for one in told] == [(False, "store_full"), (True, "")]
    with pytest.raises(StoreFull):
        await send_to_each(["lost"], send, StillClock())


async def test_a_stop_that_could_not_be_written_says_so() -> None:
    """It was stopped all the same, and the answer is that of a single pause."""

    async def send(session: str, wait: float) -> Reply:
        return replace(reply(session, "stopped"), durable=session != "lost")

    lost, own = await send_to_each(["lost", "own"], send, StillClock())
    assert (lost.ok, lost.code) == (True, "not_durable")
    assert lost.problem.startswith("Stopped, not durable: the store refused the write.")
    assert (own.ok, own.code, own.problem) == (True, "", "")


async def test_one_that_answers_when_it_is_asked_again_is_told_of_so() -> None:
    async def send(session: str, wait: float) -> Reply:
        return reply(session, "decided" if wait else "accepted")

    [told] = await send_to_each(["slow"], send, StillClock())
    assert (told.ok, told.code) == (True, "")
