"""The asks of an agent: opened once, waited for however long it takes, found again after a resume."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from midcourse.core import events as ev
from midcourse.core.asks import with_deadline
from midcourse.core.codec import Value, decode, encode, inline, without_credentials
from midcourse.core.ids import StepId, ask_id
from midcourse.core.session import ENDED, Session, Status
from midcourse.core.steps import AskRecord, check_same_question, interrupt_id
from midcourse.errors import AskExpired, Diverged, InterruptRequested, Redirected
from midcourse.ports.store import Store
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_loader import content_of

OnRedirect = Literal["again", "raise"]


@dataclass(slots=True, eq=False, kw_only=True)
class Question:
    """An ask the agent made with ``run.ask``."""

    id: StepId
    reason: str
    prompt: str
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None
    on_redirect: OnRedirect = "again"

    def __post_init__(self) -> None:
        # Here, so that it is the same question after a resume.
        self.reason, self.prompt = without_credentials(self.reason), without_credentials(self.prompt)


class AgentAsks:
    """The open questions of one session, on the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        store: Store,
        *,
        moved: Callable[[], None],
        diverged: Callable[[Diverged], None],
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._store = store
        self._moved = moved
        self._diverged = diverged

    async def answer(self, question: Question) -> object:
        """Return the answer to ``question``, which is opened if it is not open yet."""
        log = self._journal.log
        known = log.asks.get(question.id)
        if known is not None and known.end in ("", "answered"):
            try:
                check_same_question(question.id, known, question.prompt)
            except Diverged as error:
                self._diverged(error)
                raise InterruptRequested from error
        while True:
            record = log.asks.get(question.id)
            told = self._message_told(question, record)
            if record is None or (record.end == "superseded" and told is None):
                await self._gate.wait()
                with self._journal.lock:
                    if self._gate.is_open:
                        self.open(question)
                        self._moved()
                continue
            match record.end:
                case "":
                    await self._gate.wait_for_answer(question.id)
                case "answered":
                    await self._gate.wait()  # given while paused, it is used after the resume
                    return decode(await content_of(self._store, record.value))
                case "expired" if not self._is_cancelling:
                    sentence = f"'{question.prompt}' was not answered before its deadline."
                    raise AskExpired(sentence, ask=record.ask, step=question.id)
                case "superseded":
                    assert told is not None
                    raise redirected(self._journal.session, told, "")
                case _:
                    await self._gate.wait()  # withdrawn by a cancel, or its deadline is one: the stop comes

    @property
    def _is_cancelling(self) -> bool:
        return self._journal.session.status is Status.CANCELLING

    def _message_told(self, question: Question, record: AskRecord | None) -> int | None:
        """Return the message that the agent gets instead of an answer, journaled for replays."""
        if record is None or record.end != "superseded" or question.on_redirect == "again":
            return None
        with self._journal.lock:
            name = f"told {question.id}"
            if drawn := self._journal.log.drawn.get(name):
                return decode(drawn[0].raw)
            message = last_redirect(self._journal, since=record.redirects)
            if message is not None:
                self._journal.note(ev.ValueDrawn(name=name, value=inline(encode(message, what=name))))
                mark_seen(self._journal, message + 1, self._journal.note)
            return message

    async def answers_to_interrupts(self, step: StepId, name: str) -> tuple[Value, ...]:
        """Return people's answers to each ``Interrupt`` of the call so far, once they are there; none without one.

        A last one that was superseded has no answer, and the earlier ones are for another course.
        """
        log = self._journal.log
        record = log.steps.get(step)
        if record is None:
            return ()
        # Attempts that were lost or aborted since have not used the answers up.
        raised = [interrupt_id(step, attempt) for attempt in range(1, record.attempt + 1)]
        raised = [one for one in raised if one in log.asks and not log.asks[one].spent]
        if not raised:
            return ()
        waiting_for = raised[-1]
        while (ask := log.asks.get(waiting_for)) is not None and not ask.end:
            await self._gate.wait_for_answer(waiting_for)
        if ask is not None and ask.end == "expired" and not self._is_cancelling:
            raise AskExpired(f"Step '{name}' was not answered before the deadline.", ask=ask.ask, step=waiting_for)
        if ask is None or ask.end != "answered":
            return ()
        return tuple(log.asks[one].value for one in raised if log.asks[one].end == "answered")

    def open(self, question: Question) -> None:
        """Journal the ask, unless a cancel is under way. Under the journal's lock."""
        session = self._journal.session
        if self._is_cancelling:
            return
        opened = ev.AskOpened(
            ask=ask_id(session.asks_opened + 1),
            step=question.id,
            reason=question.reason,
            prompt=question.prompt,
            options=question.options,
            expires_at=question.expires_at,
            default=question.default,
        )
        self._journal.note(with_deadline(opened, session.terms, self._journal.now))


def last_redirect(journal: Journal, *, since: int) -> int | None:
    """Return the place of the last redirect in force, after the first ``since`` of this scope. Under the lock."""
    later = journal.log.redirects - since
    return journal.session.last_said(len(journal.session.messages) - later) if later else None


def mark_seen(journal: Journal, count: int, note: Callable[[ev.MessagesSeen], None]) -> None:
    """Note that the agent knows the first ``count`` messages: they cannot be withdrawn. Under the journal's lock."""
    session = journal.session
    if count > session.seen and session.status not in ENDED and not journal.leaving:
        note(ev.MessagesSeen(count=count))


def redirected(session: Session, message: int, partial: str, truth: str = "") -> Redirected:
    """Return the error for an agent that wants to be notified of a redirect."""
    said = session.messages[message]
    sentence = f"A person changed the course ({said.level}): {said.text}"
    return Redirected(sentence, instruction=said.text, level=said.level, partial=partial, truth=truth)
