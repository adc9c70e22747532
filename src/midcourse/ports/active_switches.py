"""The kill switches in force, as the store has them.

Two rules together leave no gap, for any agent that starts while a switch is thrown. The thrower first makes the record
durable, and then halts every session that is there. A starting agent first makes it durable that it runs, and then
reads the records. Of the two, the later one sees the other.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from midcourse.core.audit import AuditEntry
from midcourse.core.commands import Halt
from midcourse.core.ids import SwitchId
from midcourse.core.session import LIVE, Session, Status
from midcourse.core.switches import Scope, Switch, halt_id
from midcourse.errors import Damaged, InvalidInput, ShelfChanged
from midcourse.ports.shelves import below
from midcourse.ports.store import Head, Store

SHELF: Final = "kill-switches"
PREFIX: Final = "ks_"
_STANDING: Final = "standing/"
_LIFTED: Final = "lifted/"


class ActiveSwitches:
    """Reads and writes the records. On any loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failed_writes: dict[SwitchId, tuple[Switch, AuditEntry]] = {}
        self._reads: dict[asyncio.AbstractEventLoop, asyncio.Task[tuple[Switch, ...]]] = {}

    async def switches(self) -> tuple[Switch, ...]:
        """Return the switches in force. Concurrent callers share a read that had not begun by then.

        Raises:
            Damaged: a record cannot be read: its scope is unknown.
            StoreError: the store cannot be read.
        """
        loop = asyncio.get_running_loop()
        read = self._reads.get(loop)
        if read is None:
            read = self._reads[loop] = loop.create_task(self._read(loop))
        return await asyncio.shield(read)

    async def _read(self, loop: asyncio.AbstractEventLoop) -> tuple[Switch, ...]:
        await asyncio.sleep(0)  # tasks that are ready now share it
        del self._reads[loop]  # whoever comes from here on may have become durable after what is read
        # Nothing, behind what was written before somebody asked: that is durable when the answer comes.
        await self._store.shelve(SHELF, {})
        return tuple(await self.recent())

    async def switch_over(self, session: Session) -> Switch | None:
        """Return a switch in force over a session, if there is one."""
        return next((one for one in await self.switches() if covers(one.scope, session)), None)

    async def recent(self) -> Sequence[Switch]:
        """Return the switches in force a moment ago: for display, or for callers that check again soon."""
        return [*await self._between(_STANDING), *(switch for switch, _ in self._failed_writes.values())]

    def hold_unwritten(self, switch: Switch, entry: AuditEntry) -> None:
        """A switch that could not be written stands in this process, which writes it when it can."""
        self._failed_writes[switch.id] = (switch, entry)

    def is_durable(self, switch_id: SwitchId) -> bool:
        """Return whether a switch survives the end of this process."""
        return switch_id not in self._failed_writes

    async def flush(self) -> None:
        """Write the switches that could not be written.

        Raises:
            StoreError: they still cannot.
        """
        for switch, entry in list(self._failed_writes.values()):
            try:
                await self.keep(switch, entry)
            except ShelfChanged:  # thrown again while it could not be seen that it had been lifted
                del self._failed_writes[switch.id]

    async def lifted(self) -> Sequence[Switch]:
        """Return the lifted switches, the last one first. There are few: they are rare."""
        return sorted(await self._between(_LIFTED), key=lambda one: one.lifted_at or 0.0, reverse=True)

    async def find(self, switch_id: str, tenant: str | None = None) -> Switch:
        """Find a switch, in force or lifted, by its id or enough of its beginning.

        ``tenant``: one that concerns it. Others are not visible, and make no beginning ambiguous.

        Raises:
            InvalidInput: there is none of that id.
        """
        exact = [held[0]] if (held := self._failed_writes.get(SwitchId(switch_id))) else []
        for place in (_STANDING, _LIFTED):
            key = place + switch_id[:200]
            exact += [_decoded(content) for _, content in await self._store.shelved(SHELF, first=key, last=key)]
        for one in exact:
            if one.scope.concerns(tenant):
                return one
        seen = [one for one in [*await self.recent(), *await self.lifted()] if one.scope.concerns(tenant)]
        alike = [one for one in seen if one.id.startswith(switch_id)]
        if len(alike) == 1 and len(switch_id) > len(PREFIX):
            return alike[0]
        raise InvalidInput(
            f"There is no kill switch '{switch_id[:100]}'. List the kill switches.",
            code="kill_switch_not_found",
            field="switch",
        )

    async def keep(self, switch: Switch, entry: AuditEntry) -> None:
        """Make a switch durable as it is now, and who did that.

        Raises:
            ShelfChanged: it is to stand, and was lifted before.
        """
        content = msgspec.json.encode(switch)
        standing, lifted = (content, None) if switch.stands else (None, content)
        items = {_STANDING + switch.id: standing, _LIFTED + switch.id: lifted}
        expecting = {_LIFTED + switch.id: None} if switch.stands else None
        await self._store.shelve(SHELF, items, expecting=expecting, audit=[entry])
        self._failed_writes.pop(switch.id, None)

    async def _between(self, place: str) -> list[Switch]:
        rows = await self._store.shelved(SHELF, **below(place))
        return [_decoded(content) for _, content in rows]


def covers(scope: Scope, session: Session) -> bool:
    return scope.covers(session.id, session.agent, session.terms.labels)


def must_halt(switch: Switch, session: Session) -> bool:
    """Return True if a switch must halt a session. What an operator cancelled since then is being undone."""
    if session.status not in LIVE or session.status is Status.HALTED or not covers(switch.scope, session):
        return False
    return session.cancel is None or session.cancel.since < switch.at


def halt_of(switch: Switch, session: "Head | Session") -> Halt:
    """Return the command with which a switch halts a session."""
    identity = halt_id(switch.id, session.position)
    return Halt(id=identity, by=switch.by, role="operate", reason=switch.reason, switch=switch.id)


def switch_id(fresh: str) -> SwitchId:
    """Return the id of a new switch: later ones sort later."""
    return SwitchId(f"{PREFIX}{fresh}")


def _decoded(content: bytes) -> Switch:
    try:
        return msgspec.json.decode(content, type=Switch)
    except msgspec.MsgspecError as error:
        raise Damaged(
            f"The record of a kill switch cannot be read ({error}). Restore the store from a backup."
        ) from error
