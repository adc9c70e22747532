"""Note which asks were delivered on which chat stream, durably: for answers without an ask's id."""

import hashlib
from math import inf
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core.codec import canonical
from midcourse.core.events import AskAnswered, AskClosed
from midcourse.core.ids import AskId, CommandId, SessionId, ask_id
from midcourse.core.replies import Reply
from midcourse.core.request_checks import answer_value
from midcourse.core.session import Session
from midcourse.errors import Refused
from midcourse.handle import LocalTransport
from midcourse.people.inbox import open_ask
from midcourse.ports.clock import Clock
from midcourse.ports.store import AskHead, Store
from midcourse.server.approval_counts import note_answer
from midcourse.server.caller import Caller

TOO_LATE: Final = frozenset({"already_answered", "ask_not_found", "not_allowed", "session_ended"})
"""The refusals of an answer that a chat tells of by how its ask ended."""
_WAIT = 10.0


class Delivered:
    """The asks that each caller was shown, on the session's shelf. Another server process reads the same."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note(self, session_id: SessionId, ask: str, caller: str) -> None:
        """Note that the ask is about to be sent on a stream of ``caller``."""
        await self._store.shelve(_shelf(session_id), {f"{caller}\n{ask}": f"{self._clock.now():.6f}".encode()})

    async def to(self, session_id: SessionId, caller: str) -> dict[str, float]:
        """Return the asks that ``caller`` was shown, in the order they were, and when."""
        rows = await self._store.shelved(_shelf(session_id), first=f"{caller}\n", last=f"{caller}\n\U0010ffff")
        shown = sorted((float(at), key.partition("\n")[2]) for key, at in rows)
        return {ask: at for at, ask in shown}


class Answering:
    """One caller's answer to one session, and the ask it is for."""

    def __init__(self, caller: Caller, session: Session, answer: object, arrived: float) -> None:
        """``arrived`` is when the server got it."""
        self._caller = caller
        self._session = session
        self._answer = answer
        self._arrived = arrived
        self._asked: dict[str, AskHead | None] = {}
        self._delivered = Delivered(caller.store, caller.clock)

    async def named(self, ask: str) -> str:
        """Return the ask of that id.

        Raises:
            Refused: ``already_resumed``: it was answered before; ``checkpoint_not_found``: it cannot be answered.
        """
        if ask in open_asks(self._session) or await self._was_given(ask):
            return ask
        raise await self._too_late(ask)

    async def meant(self) -> str:
        """Return the ask for an answer without an id.

        Raises:
            Refused: ``ask_id_required``: several are open, or the open one was not delivered to this caller;
                ``already_resumed``, ``checkpoint_not_found``: none is open.
        """
        shown = await self._delivered.to(self._session.id, self._caller.principal.full_name)
        standing = open_asks(self._session)
        # A key is of one command for ever: sent again, it means the ask that it meant then.
        if self._caller.key is not None:
            for ask in shown:
                if await self._was_given(ask):
                    return ask
        # One that was shown after the answer had arrived is not what it answers: that is the ask before, sent again.
        if len(standing) == 1 and shown.get(only := next(iter(standing)), inf) <= self._arrived:
            return only
        for ask in reversed(shown):
            if ask not in standing and await self._was_given(ask):
                return ask
        if standing:
            listed = [{"ask_id": ask, "reason": reason, "prompt": prompt} for ask, (reason, prompt) in standing.items()]
            names = ", ".join(f"{ask} ({prompt})" for ask, (_, prompt) in standing.items())
            raise Refused(
                f"Say which ask this answers, with ask_id (ask_id_required). Open: {names}.",
                code="ask_id_required",
                session_id=self._session.id,
                asks=listed,
            )
        if shown:
            raise await self._too_late(list(shown)[-1])
        if self._session.asks_opened:
            raise await self._too_late(ask_id(self._session.asks_opened))
        raise checkpoint_gone(f"Session '{self._session.id}' has asked nothing.", self._session.id)

    async def give(self, ask: str) -> Reply:
        """Answer the ask; the same answer of the same caller counts once."""
        child, _, name = ask.rpartition("/")
        holder, value = SessionId(child or self._session.id), answer_value(self._answer)
        command = self._caller.make_command(
            cmd.Answer,
            id=self._command_id(ask),
            value=value,
            ask=AskId(name),
        )
        if ask not in self._asked:  # as it was before the first try
            self._asked[ask] = await open_ask(self._caller.store, holder, name)
        try:
            reply = await self._caller.send(holder, command, wait=_WAIT)
        except Refused as error:
            if error.code in TOO_LATE:
                raise await self._too_late(ask) from error
            raise
        await note_answer(self._caller, self._asked[ask], value, reply)
        return reply

    def _command_id(self, ask: str) -> CommandId:
        if self._caller.key is not None:
            return self._caller.command_id
        words = f"{self._caller.principal.full_name}\n{self._session.id}\n{ask}\n".encode() + canonical(self._answer)
        return CommandId(f"chat_{hashlib.blake2b(words, digest_size=16).hexdigest()}")

    async def _was_given(self, ask: str) -> bool:
        """Return True if this caller has given this very answer to it before."""
        child, _, name = ask.rpartition("/")
        if child and not child.startswith(f"{self._session.id}."):
            return False
        row = await self._caller.store.row(SessionId(child or self._session.id), self._command_id(ask))
        if row is None:
            return False
        sent = cmd.decode_command(row.content) if row.content else None
        return sent is None or (isinstance(sent, cmd.Answer) and sent.ask == name)

    async def _too_late(self, ask: str) -> Refused:
        child, _, name = ask.rpartition("/")
        holder = SessionId(child or self._session.id)
        is_here = not child or child.startswith(f"{self._session.id}.")
        end = await self._caller.read(_end_of_ask(self._caller.local, holder, name)) if is_here else ""
        if end == "answered":
            return Refused(
                f"Cannot resume session '{self._session.id}': '{ask}' was answered before (already_resumed).",
                code="already_resumed",
                session_id=self._session.id,
            )
        why = {
            "": f"there is no ask '{ask}'",
            "expired": f"'{ask}' was not answered in time",
            "superseded": f"a message changed the course, which closed '{ask}'",
            "withdrawn": f"'{ask}' ended with the session",
        }.get(end, f"'{ask}' is {end}")
        return checkpoint_gone(f"Cannot resume session '{self._session.id}': {why}.", self._session.id)


async def _end_of_ask(local: LocalTransport, session_id: SessionId, ask: str) -> str:
    """Return how an ask ended: ``answered``, or as it was closed; empty if it is open, or was never asked.

    Read from the journal: only the asks of the current scope are in the fold. For answers that come too late.
    """
    async for record in local.every_event(session_id):
        match record.event:
            case AskAnswered(ask=named) if named == ask:
                return "answered"
            case AskClosed(ask=named, end=end) if named == ask:
                return end
            case _:
                pass
    return ""


def open_asks(session: Session) -> dict[str, tuple[str, str]]:
    """Return the open asks of a session, those of its children too: id to reason and prompt."""
    own = {str(ask.id): (ask.reason, ask.prompt) for ask in session.asks}
    return own | {f"{one.child}/{one.ask}": (one.reason, one.prompt) for one in session.child_asks}


class BegunSessions:
    """The Idempotency-Keys of sessions whose ids their clients chose: a retry is no second message."""

    def __init__(self, caller: Caller, session_id: SessionId) -> None:
        self._store = caller.store
        self._shelf = f"chat:{session_id}:begun"
        self._key = None if caller.key is None else caller.command_id

    async def note(self) -> None:
        """Note that the session is about to be created with this key."""
        if self._key is not None:
            await self._store.shelve(self._shelf, {self._key: b"1"})

    async def forget(self) -> None:
        """Forget the key: the session was created by another caller."""
        if self._key is not None:
            await self._store.shelve(self._shelf, {self._key: None})

    async def was_by_this(self) -> bool:
        """Return True if this key began it."""
        if self._key is None:
            return False
        return bool(await self._store.shelf_keys(self._shelf, first=self._key, last=self._key))


def checkpoint_gone(sentence: str, session_id: SessionId) -> Refused:
    """Return the error for an answer that nothing waits for any more."""
    words = f"{sentence.rstrip('.')} (checkpoint_not_found)."
    return Refused(words, code="checkpoint_not_found", session_id=session_id)


def _shelf(session_id: SessionId) -> str:
    # Not "<kind>:<id>": those are copied by a fork, and a fork's asks were never shown.
    return f"chat:{session_id}:shown"
