"""The asks of an agent: opened once, waited for however long it takes, found again after a resume."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from midcourse.core import events as ev
from midcourse.core.codec import Value, decode, encode, inline
from midcourse.core.ids import StepId, ask_id
from midcourse.core.session import Session, Status
from midcourse.core.steps import check_same_question, interrupt_id
from midcourse.errors import AskExpired, Diverged, InterruptRequested, Redirected
from midcourse.ports.store import Store
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of

OnRedirect = Literal["again", "raise"]
_YES: Final = ("yes", "y", "approve", "approved", "true")


def is_yes(answer: Value) -> bool:
    """Whether a person's answer approves of what was asked."""
    said = decode(answer.raw)
    return said is True or (isinstance(said, str) and said.strip().lower() in _YES)


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


class Asking:
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
        """The answer to ``question``, which is opened if it is not open yet."""
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
            if record is None or (record.end == "superseded" and question.on_redirect == "again"):
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
                case "expired":
                    sentence = f"Nobody answered '{question.prompt}' before its deadline."
                    raise AskExpired(sentence, ask=record.ask, step=question.id)
                case "superseded":
                    raise redirected(self._journal.session, self._message_told(question.id), "")
                case _:
                    await self._gate.wait()  # withdrawn by a cancel: the stop comes

    def _message_told(self, step: StepId) -> int:
        """The message the agent is told of instead of an answer, journaled: a replay may come after another message."""
        with self._journal.lock:
            name = f"told {step}"
            if drawn := self._journal.log.drawn.get(name):
                return decode(drawn[0].raw)
            message = len(self._journal.session.messages) - 1
            self._journal.note(ev.ValueDrawn(name=name, value=inline(encode(message, what=name))))
            return message

    async def answers_to_interrupts(self, step: StepId, name: str) -> tuple[Value, ...]:
        """What people answered to each ``Interrupt`` of the call so far, once they have; nothing if it raised none.

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
        if ask is not None and ask.end == "expired":
            raise AskExpired(f"Nobody answered step '{name}' before the deadline.", ask=ask.ask, step=waiting_for)
        if ask is None or ask.end != "answered":
            return ()
        return tuple(log.asks[one].value for one in raised if log.asks[one].end == "answered")

    def open(self, question: Question) -> None:
        """Journal the ask, unless a cancel is under way. Under the journal's lock."""
        session = self._journal.session
        if session.status is Status.CANCELLING:
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
        self._journal.note(opened)


def redirected(session: Session, message: int, partial: str, truth: str = "") -> Redirected:
    """What an agent that wants to be told of a redirect is told."""
    said = session.messages[message]
    sentence = f"A person changed the course ({said.level}): {said.text}"
    return Redirected(sentence, instruction=said.text, level=said.level, partial=partial, truth=truth)
