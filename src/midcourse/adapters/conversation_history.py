"""Keep a conversation for any framework: each message is written once, and no call id is repeated."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from midcourse.runtime.run import Run

T = TypeVar("T")

_CUT: Final = "cut"
"""An item of the history that is no message: what stands from that place on is replaced by what follows."""
_CUT_BEGINS: Final = b'{"cut":'


class SavedHistory(Generic[T]):
    """The messages of a conversation in ``run.history``, read back as they were."""

    def __init__(self, run: Run, read: Callable[[bytes], list[T]], spell: Callable[[list[T]], Sequence[Any]]) -> None:
        """``read`` makes messages of a JSON list, ``spell`` makes JSON of messages."""
        self._run = run
        self._spell = spell
        self._messages = read(b"[" + b",".join(_standing(run.history.spelled)) + b"]")

    @property
    def messages(self) -> list[T]:
        """The conversation as it was last kept."""
        return list(self._messages)

    def keep(self, messages: Sequence[T]) -> None:
        """Have ``run.history`` hold these messages: new ones are appended, changed ones replaced."""
        same = 0
        for mine, theirs in zip(self._messages, messages, strict=False):
            # The same object, most of the time: a comparison by value would cost more with every message.
            if mine is not theirs and mine != theirs:
                break
            same += 1
        if same < len(self._messages):
            self._run.history.append({_CUT: same})
        new = list(messages[same:])
        self._run.history.extend(self._spell(new))
        self._messages[same:] = new

    def add(self, *messages: T) -> None:
        """Keep these after the others."""
        self.keep([*self._messages, *messages])


def _standing(items: Iterable[bytes]) -> list[bytes]:
    standing: list[bytes] = []
    for item in items:
        if item.startswith(_CUT_BEGINS):
            del standing[msgspec.json.decode(item)[_CUT] :]
        else:
            standing.append(item)
    return standing


class OwnIds:
    """The ids of the calls that a model has made: providers refuse a conversation that repeats one."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, ids: Iterable[str]) -> None:
        self._taken.update(ids)

    def own(self, id: str) -> str:
        """Return the id, or a similar one that no call of the conversation has. Journal it."""
        fresh, ordinal = id or "call", 1
        while fresh in self._taken:
            ordinal += 1
            fresh = f"{id or 'call'}_{ordinal}"
        self._taken.add(fresh)
        return fresh
