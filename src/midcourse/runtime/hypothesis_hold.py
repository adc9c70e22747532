"""Holds an agent's actions until it has stated the hypothesis that its policy requires, and reads it from its model."""

from collections.abc import Callable
from typing import Final

from midcourse.core import events as ev
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import decode, encode, inline
from midcourse.core.commands import BY_POLICY
from midcourse.core.hypothesis import WANTED, ask, is_held, stated_in
from midcourse.core.ids import StepId
from midcourse.core.interrupted_calls import DID_NOT_HAPPEN
from midcourse.core.session import Session
from midcourse.errors import Redirected
from midcourse.runtime.asks import mark_seen, redirected
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.step_request import StepRequest

_TOLD: Final = "told"
"""The prefix of a drawn value: the message that a step got instead of being begun."""


class HypothesisHold:
    """The held actions of one session, on the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, ctx: RuntimeContext, moved: Callable[[], None]) -> None:
        self._journal = journal
        self._gate = gate
        self._ctx = ctx
        self._moved = moved

    async def wait(self, step: StepRequest) -> None:
        """Wait until ``step`` may begin: it is no action, a hypothesis was stated, or a person allows it without.

        Raises:
            Redirected: the agent was asked for its hypothesis, for a step that wants to be told.
        """
        journal = self._journal
        if step.kind != "tool" or step.effect == "read" or step.id in journal.log.steps:
            return
        self._tell_again(step)
        heard = step.heard
        while True:
            await self._gate.wait()
            with journal.lock:
                if not self._is_held:
                    return
                heard = len(journal.session.said) if heard is None else heard
                if asked := ask(journal.session, journal.now):
                    by = f"{BY_POLICY}{journal.session.terms.policy}"
                    entry = AuditEntry(session=journal.session.id, by=by, role="", action="intervene", detail=WANTED)
                    journal.append(*asked, audit=(entry,))
                    self._moved()
                known = len(journal.session.said)
                if step.on_redirect == "raise" and known > heard:
                    raise self._told(step)
            await self._gate.wait_for(None, unless=lambda known=known: self._has_news(known))

    def hear(self, step: StepId, text: str) -> None:
        """Take in what a model said: a line that states the hypothesis. Under the journal's lock."""
        if self._is_required and (stated := stated_in(text)) and stated != self._session.hypothesis:
            self._journal.note(ev.ReportMade(hypothesis=stated, step=step))

    @property
    def _session(self) -> Session:
        return self._journal.session

    @property
    def _is_required(self) -> bool:
        return self._ctx.requires_hypothesis(self._session.terms)

    @property
    def _is_held(self) -> bool:
        return self._is_required and is_held(self._session)

    def _has_news(self, known: int) -> bool:
        """Return True if there is a reason to stop waiting: to act, to be notified, or to ask the agent now."""
        session = self._session
        return not self._is_held or len(session.said) > known or not (session.unstated or session.asks)

    def _told(self, step: StepRequest) -> Redirected:
        session = self._session
        message = session.last_said() or 0
        mark_seen(self._journal, message + 1, self._journal.note)
        if step.heard is None:  # by its own count of messages it would know the next time
            name = f"{_TOLD} {step.id}"
            self._journal.note(ev.ValueDrawn(name=name, value=inline(encode(message, what=name))))
        return redirected(session, message, "", DID_NOT_HAPPEN)

    def _tell_again(self, step: StepRequest) -> None:
        """Give a replay the message of that time, although the hypothesis has been stated since."""
        if drawn := self._journal.log.drawn.get(f"{_TOLD} {step.id}"):
            raise redirected(self._session, decode(drawn[0].raw), "", DID_NOT_HAPPEN)
