"""A recorded fleet, each session built by hand, so that every figure of its report can be worked out on paper.

| session | class | what happens |
|---|---|---|
| short_1, short_2 | short | complete after 10 s and 20 s; model calls of 10 and 40, and of 30 tokens a second |
| short_3 | short | paused from 5 s to 105 s, then continues; worked 40 s |
| medium_1 | medium | its process is lost at 10 s, another takes it at 50 s and completes it at 100 s; worked 60 s |
| medium_2 | medium | taken after a loss, fails before its next call ends |
| medium_3 | medium | paused, resumed, fails before its next call ends |
| medium_4 | medium | paused, resumed, paused again at once: the first resume says nothing |
| medium_5 | medium | paused, resumed, and nothing since: nobody knows yet |
| medium_6 | medium | cancelled |
| long_1 | long | a policy pauses it for a minute, rightly; completes after 400 s of work |
| long_2 | long | a policy pauses it for a minute, wrongly; completes after 200 s of work |
| long_3 | long | a policy pauses it, and nobody has answered |
| count_1 … count_7 | very long | one after the other, with 10, 12, 10, 14, 11, 12 and 8 calls, a second each |
"""

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import Epoch
from midcourse.core.terms import TaskClass, Terms
from tests.reports.journals import BEGAN, Journal

CALLS = (10, 12, 10, 14, 11, 12, 8)


def recorded_fleet(began: float = BEGAN) -> list[Journal]:
    """The sessions, those of the table; the first of them began then."""
    return [*_short(began), *_medium(began), *_long(began), *_counting(began)]


def _of(name: str, task_class: TaskClass, began: float, agent: str = "worker") -> Journal:
    terms = Terms(policy="standard@1", task_class=task_class, budget=5.0)
    return Journal(f"sess_{name}", agent=agent, terms=terms, began=began).started(0.0)


def _said(journal: Journal, at: float, seconds: float, tokens: int) -> None:
    step = journal.begun(at, kind="model")
    journal.happens(ev.StepFinished(step=step, attempt=1, tokens=tokens, cost=0.01), at=at + seconds)


def _paused(journal: Journal, at: float, until: float | None = None) -> Journal:
    journal.wished(cmd.Pause, at).happens(ev.SessionPaused(), at=at)
    return journal if until is None else journal.wished(cmd.Resume, until)


def _short(began: float) -> list[Journal]:
    first, second, third = (_of(f"short_{n}", "short", began) for n in (1, 2, 3))
    _said(first, 1.0, 2.0, 20)
    _said(first, 4.0, 1.0, 40)
    _said(second, 2.0, 2.0, 60)
    _said(second, 6.0, 1.0, 0)  # said no tokens
    _paused(third, 5.0, 105.0).called(106.0)
    ends = ((first, 10.0), (second, 20.0), (third, 140.0))
    return [journal.happens(ev.SessionCompleted(), at=at) for journal, at in ends]


def _medium(began: float) -> list[Journal]:
    one, two, three, four, five, six = (_of(f"medium_{n}", "medium", began) for n in range(1, 7))
    step = one.begun(10.0)
    one.happens(ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(step,)), at=50.0)
    one.begun(51.0, again=step)
    one.finished(step, 60.0, attempt=2).happens(ev.SessionCompleted(), at=100.0)
    two.happens(ev.SessionTaken(epoch=Epoch(2), worker="w2"), at=20.0)
    two.happens(ev.SessionFailed(code="agent_error", message="no"), at=30.0)
    _paused(three, 10.0, 20.0).happens(ev.SessionFailed(code="agent_error", message="no"), at=25.0)
    _paused(_paused(four, 10.0, 20.0), 21.0)
    _paused(five, 10.0, 20.0)
    six.wished(cmd.Cancel, 10.0).happens(ev.SessionCancelled(), at=10.0)
    return [one, two, three, four, five, six]


def _long(began: float) -> list[Journal]:
    """Worth of each intervention: $2 and 4 minutes at $0.05, so $2.20. A minute of standing still costs $0.05."""
    made: list[Journal] = []
    for number, (verdict, ends) in enumerate((("right", 460.0), ("wrong", 260.0), (None, 0.0)), 1):
        journal = _of(f"long_{number}", "long", began).stepped_in("pause", 20.0, late=0.0)
        journal.happens(ev.SessionPaused(), at=20.0)
        if verdict is not None:
            journal.answered("ask_1", "go on", 80.0).called(80.0)
            journal.happens(ev.SessionCompleted(), at=ends)
            journal.labelled("int_1", "right" if verdict == "right" else "wrong")
        made.append(journal)
    return made


def _counting(began: float) -> list[Journal]:
    made: list[Journal] = []
    for number, calls in enumerate(CALLS):
        journal = _of(f"count_{number + 1}", "very_long", began + 1000.0 * (number + 1), agent="counter")
        for call in range(calls):
            journal.called(float(call))
        made.append(journal.happens(ev.SessionCompleted(), at=float(calls)))
    return made
