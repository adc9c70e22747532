"""Count the same call, repeated without reported progress.

A call with the same name that differs in a single argument is alike: it counts for less, and only in an unbroken row.
"""

from collections import Counter, deque

import msgspec

from midcourse.policy.run_activity import Called

_WINDOW = 20


class Loops:
    """Count how often the same tool call came, of the last few."""

    def __init__(self, alike: float) -> None:
        self._worth = 1 / alike
        self._recent: deque[tuple[str, str]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._name = ""
        self._arguments: dict[str, object] | None = None
        self._alike = 0
        self.last = ""

    def feed(self, call: Called) -> None:
        """Add a call of a tool: a model's request is always a new one."""
        if call.kind != "tool":
            return
        same = call.same
        if len(self._recent) == _WINDOW:
            oldest = self._recent.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        self._recent.append(same)
        self._counts[same] += 1
        self._count_alike(call)
        self.last = call.name

    def _count_alike(self, call: Called) -> None:
        if call.name != self._name:
            self._alike = 0
            self._name = call.name
            self._arguments = None
            return
        before, self._arguments = self._arguments, _arguments(call.arguments)
        if before is None or self._arguments is None or before.keys() != self._arguments.keys() or len(before) < 2:
            self._alike = 0
        elif sum(before[key] != value for key, value in self._arguments.items()) <= 1:
            self._alike += 1
        else:
            self._alike = 0

    def progress(self) -> None:
        """Note progress or a person's message: earlier calls are no loop."""
        self._recent.clear()
        self._counts.clear()
        self._alike = 0

    @property
    def value(self) -> float:
        """The higher count: of the same call, or of calls alike in a row, weighted.

        Other calls in between end no loop.
        """
        again = max(self._counts.values(), default=0)
        return max(float(again), self._alike * self._worth)

    @property
    def words(self) -> str:
        """The facts that the number hides."""
        most = max(self._counts, key=self._counts.__getitem__, default=None)
        if most is not None and self._counts[most] >= self._alike * self._worth:
            return f"The call is {most[0]}."
        return f"{self._alike + 1} calls of {self.last} in a row differ in one argument alone."


def _arguments(shown: str) -> dict[str, object] | None:
    """Return the arguments, if they are JSON with names; cut ones are not."""
    if not shown.startswith("{"):
        return None
    try:
        found = msgspec.json.decode(shown)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]
