"""Measure the signals of one session for display, from its journal, by the same rules as a policy."""

from typing import Final

import msgspec

from midcourse.core import events as ev
from midcourse.core.signals import TITLES, Curve, Past, Signal
from midcourse.policy.signals.journal_reader import JournalReader
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.thresholds import Rule, threshold_state

_WITH_TIME: Final = frozenset({"duration", "hypothesis"})
"""Signals that grow by a second each second, although nothing happens."""


class Gauges:
    """Measure a journal from its first event on. The same events always make the same numbers.

    ``is_watched``: if a policy has thresholds for it. Memory is bounded, whatever the length of the journal.
    """

    def __init__(self, monitor: RunMonitor, *, is_watched: bool) -> None:
        self._oversight = monitor
        self._is_watched = is_watched
        self._reader = JournalReader()
        self._curves: dict[str, Curve] = {}
        self._past: dict[str, tuple[Past, float]] = {}
        self.position = 0
        self.at = 0.0

    @property
    def policy(self) -> str:
        """Whose thresholds they are; empty if it has none."""
        return self._oversight.policy.id if self._is_watched else ""

    @property
    def task_class(self) -> str:
        """The declared class, or the one that the agent's history predicts."""
        return self._oversight.task_class

    def read(self, record: ev.Recorded) -> None:
        """Add an event."""
        oversight = self._oversight
        if isinstance(record.event, ev.BudgetRaised):
            oversight.budget = record.event.budget
        acts = self._reader.read(record)
        for act in acts:
            oversight.see(act, past=True)
        self.position, self.at = record.position, record.at
        if acts:
            self._note(record.at)

    def _note(self, at: float) -> None:
        values = self._oversight.values
        for name, value in values.items():
            curve = self._curves.get(name)
            if curve is None:
                curve = self._curves[name] = Curve()
            curve.add(at, value)
        for rule in self._rules:
            self._past_since(rule, values.get(rule.signal), at)

    def _past_since(self, rule: Rule, value: float | None, at: float) -> None:
        past = None if value is None else threshold_state(rule, value).past
        known = self._past.get(rule.signal)
        if past is None:
            self._past.pop(rule.signal, None)
        elif known is None or known[0] != past:
            self._past[rule.signal] = (past, at)

    @property
    def _rules(self) -> tuple[Rule, ...]:
        return self._oversight.rules if self._is_watched else ()

    def shown(self, now: float | None = None) -> tuple[Signal, ...]:
        """Return every signal that has a value or a threshold; ``now`` for a session whose clock runs."""
        values = self._oversight.values if now is None else self._oversight.values_at(now)
        rules = {rule.signal: rule for rule in self._rules}
        unseen = {one.signal: one.why for one in self._oversight.unseen()}
        wanted = [name for name in TITLES if name in values or name in rules]
        return tuple(self._signal(name, values.get(name), rules.get(name), unseen.get(name), now) for name in wanted)

    def _signal(
        self, name: str, value: float | None, rule: Rule | None, unseen: str | None, now: float | None
    ) -> Signal:
        title, unit = TITLES[name]
        stands = threshold_state(rule or Rule(name, ()), value)
        curve = self._curves.get(name, _EMPTY)
        grows = now is not None and value is not None and name in _WITH_TIME
        made = Signal(
            name=name,
            title=title,
            unit=unit,
            value=value,
            warn=stands.warn,
            intervene=stands.intervene,
            stop=stands.stop,
            below=rule is not None and rule.below,
            past=stands.past,
            unseen=(unseen or _NOT_YET.get(name, "nothing has measured it so far"))
            if value is None
            else _but(name, unseen),
            history=curve.shown((now, value)) if grows else curve.shown(),  # pyright: ignore[reportArgumentType]
        )
        if stands.past is None or value is None:
            return made
        known = self._past.get(name)
        if known is not None and known[0] == stands.past:
            since = known[1]
        else:  # nothing has happened since: the seconds alone have brought it there
            since = (self.at if now is None else now) - (value - (stands.mark or 0.0))
        return msgspec.structs.replace(made, since=since)


def _but(name: str, unseen: str | None) -> str | None:
    """Return what is missing of a value that there is."""
    return unseen if name in ("cost", "duration") else None


_EMPTY: Final = Curve()
_NOT_YET: Final = {
    "budget": "the session has no budget, or nothing in it has a price",
    "cost.per_action": "nothing in it has a price",
    "cost.acceleration": "too few of its calls have a price",
    "own_artifacts": "it has used nothing that it made itself",
}
