"""What a test hears of a sample agent while it runs."""

from collections.abc import AsyncGenerator, Callable
from types import ModuleType
from typing import Any, Final

import pytest

import midcourse
from midcourse.models.script import Text

SLOWLY = "0.05"
"""Seconds for a word, where a test speaks in between: its long texts take longer than any test waits for them."""


_HESITANTLY: Final = 0.4


def hesitating(monkeypatch: pytest.MonkeyPatch, sample: ModuleType, where: Callable[[str], bool]) -> None:
    """Have a sample say everything at once, except some texts: those take longer than any test waits for them."""

    def words(text: str, *, slowly: float = 1.0) -> Text:
        del slowly
        return Text(text, every=_HESITANTLY if where(text) else 0.0)

    monkeypatch.setattr(sample, "words", words)


async def until_it_says(session: midcourse.SessionHandle[Any], words: str) -> None:
    """Until these words were streamed, as a preview or as a segment."""
    heard: dict[tuple[str, int], str] = {}
    watching = session.watch(deltas=True)
    assert isinstance(watching, AsyncGenerator)
    try:
        async for seen in watching:
            event: Any = seen if isinstance(seen, midcourse.Delta) else seen.event
            if not isinstance(seen, midcourse.Delta) and seen.type != "segment.written":
                continue
            so_far = heard.get((event.step, event.attempt), "")
            if event.offset <= len(so_far):
                heard[event.step, event.attempt] = so_far[: event.offset] + event.text
            if words in heard.get((event.step, event.attempt), ""):
                return
    finally:
        await watching.aclose()
    raise AssertionError(f"It ended without saying: {words}")


async def plan_of(session: midcourse.SessionHandle[Any]) -> list[tuple[str, str]]:
    """The plan as people see it."""
    return [(item.title, item.status) for item in (await session.state()).plan]
