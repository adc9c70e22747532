"""Journals told wish by wish: the core decides and folds them, so that they can only be what a session could be."""

from typing import Any, Literal

from msgspec.structs import replace

from midcourse.analysis.reports.facts import SessionFacts
from midcourse.analysis.reports.reader import facts_of
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import inline
from midcourse.core.decisions import decide
from midcourse.core.evolution import created, evolve
from midcourse.core.ids import AskId, CommandId, Position, SessionId, StepId
from midcourse.core.policy_decision import Decision, Level, Reason, Unseen, Worth
from midcourse.core.session import Session
from midcourse.core.terms import Terms
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD

BEGAN = 1_000.0
WORTH = Worth(2.0, 4.0, 0.01, 0.5, 0.05, "worth: it is")


class Journal:
    """One session. ``at`` is the clock of the test, in seconds after the session began."""

    def __init__(
        self,
        name: str = "sess_1",
        *,
        agent: str = "worker",
        by: str = "ada",
        terms: Terms | None = None,
        began: float = BEGAN,
    ) -> None:
        self.id = SessionId(name)
        self.began = began
        self.at = 0.0
        self._steps = 0
        self._commands = 0
        first = ev.SessionCreated(
            agent=agent, agent_version="1", mode="replay", origin="m:a", resumable=True, goal="Do it", by=by,
            terms=Terms(policy="standard@1") if terms is None else terms,
        )  # fmt: skip
        self.records = [ev.Recorded(Position(1), began, first)]
        self.session: Session = created(self.id, self.records[0])

    def happens(self, *events: ev.AnyEvent, at: float | None = None) -> "Journal":
        """Events, as a driver writes them."""
        self.at = self.at if at is None else at
        for event in events:
            record = ev.Recorded(Position(self.session.position + 1), self.began + self.at, event)
            self.session = evolve(self.session, record)
            self.records.append(record)
        return self

    def wished(
        self,
        command: type[cmd.AnyCommand],
        at: float,
        *,
        by: str = "ada",
        put: float | None = None,
        **fields: Any,
    ) -> "Journal":
        """Somebody's command, decided; a stop that was ``put`` earlier says so, as the owner's inbox does."""
        self.at = at
        self._commands += 1
        wish: Any = command(id=CommandId(f"c{self._commands}"), by=by, **fields)
        events = decide(self.session, wish)
        if put is not None:
            stops = (ev.PauseRequested, ev.CancelRequested, ev.SessionHalted)
            events = tuple(
                replace(one, wished_at=self.began + put) if isinstance(one, stops) else one for one in events
            )
        return self.happens(*events)

    def started(self, at: float = 1.0) -> "Journal":
        return self.happens(ev.SessionStarted(), at=at)

    def planned(self, *statuses: ev.PlanStatus) -> "Journal":
        return self.happens(
            ev.PlanChanged(items=tuple(ev.PlanItem(f"part {n}", one) for n, one in enumerate(statuses)))
        )

    def begun(
        self, at: float, *, kind: Literal["tool", "model"] = "tool", again: StepId | None = None, **fields: Any
    ) -> StepId:
        """A call begins, or (``again``) another attempt at one."""
        if again is None:
            self._steps += 1
        step = again or StepId(f"1/call#{self._steps}")
        given: dict[str, Any] = {"name": "call", "attempt": 1 if again is None else 2, "digest": "d", **fields}
        self.happens(ev.StepBegun(step=step, kind=kind, **given), at=at)
        return step

    def finished(self, step: StepId, at: float, *, attempt: int = 1, cost: float = 0.0) -> "Journal":
        return self.happens(ev.StepFinished(step=step, attempt=attempt, cost=cost), at=at)

    def called(self, at: float, seconds: float = 0.5, **fields: Any) -> "Journal":
        """A call that ends well."""
        cost = fields.pop("cost", 0.0)
        return self.finished(self.begun(at, **fields), at + seconds, cost=cost)

    def stepped_in(
        self,
        level: Level,
        at: float,
        *,
        signal: str = "loops",
        value: float = 6.0,
        threshold: float = 5.0,
        stage: Any = "intervene",
        late: float = 0.05,
        policy: str = "standard@1",
        wanted: Level | None = None,
        unseen: tuple[str, ...] = (),
    ) -> "Journal":
        """A policy decides, and its decision is written ``late`` seconds after; ``wanted``: it was held back."""
        decision = Decision(
            level=level,
            wanted=wanted or level,
            policy=policy,
            at=self.began + at,
            reasons=(Reason(signal, stage, value, threshold, f"{signal} is {value:g}."),),
            unseen=tuple(Unseen(one, "nobody knows") for one in unseen),
            worth=WORTH if level != "notify" else None,
        )
        return self.wished(cmd.Intervene, at + late, by=f"policy:{policy}", decision=decision)

    def answered(self, ask: str, text: str, at: float, *, by: str = "ada") -> "Journal":
        value = inline(f'"{text}"'.encode())
        return self.wished(cmd.Answer, at, by=by, role="approve", ask=AskId(ask), value=value)

    def labelled(self, about: str, verdict: ev.Verdict) -> "Journal":
        return self.wished(cmd.Label, self.at, about=about, verdict=verdict)

    def facts(self, policy: Policy = STANDARD) -> SessionFacts:
        return facts_of(self.id, self.records, policy)
