"""How the rates are counted over many sessions: for reports and for ``/metrics`` alike. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from midcourse.core.rates import Stopper
from midcourse.reports.facts import SessionFacts


@dataclass(slots=True)
class Shares:
    """Takes in one session's facts after the other. What each share means is said in ``core/rates.py``."""

    sessions: int = 0
    stopped: int = 0
    stopped_by: "Counter[Stopper]" = field(default_factory=Counter[Stopper])
    ended: int = 0
    completed: int = 0
    right: int = 0
    wrong: int = 0

    def count(self, facts: SessionFacts) -> None:
        """One session more."""
        self.sessions += 1
        self.stopped += facts.was_stopped
        self.stopped_by.update(facts.stopped_by)
        self.ended += bool(facts.outcome)
        self.completed += facts.outcome == "completed"
        for one in facts.judged:
            self.right += one.label == "right"
            self.wrong += one.label == "wrong"

    @property
    def interruption(self) -> float | None:
        """None while there is no session."""
        return _share(self.stopped, self.sessions)

    @property
    def interruption_by(self) -> Mapping[str, float]:
        """By whom; those who stopped nothing are left out."""
        return {one: count / self.sessions for one, count in self.stopped_by.items() if self.sessions}

    @property
    def completion(self) -> float | None:
        """None while none has ended."""
        return _share(self.completed, self.ended)

    @property
    def false_positives(self) -> float | None:
        """None while nobody has called any right or wrong."""
        return _share(self.wrong, self.right + self.wrong)


def _share(part: int, of: int) -> float | None:
    return part / of if of else None
