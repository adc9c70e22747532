"""The transport to a server over HTTP: commands go to the addresses that the table of commands gives them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from midcourse.core import commands as cmd
from midcourse.core.codec import Value
from midcourse.core.commands import AnyCommand, check_command
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Recorded
from midcourse.core.ids import Position, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention
from midcourse.core.missing_results import without_result
from midcourse.core.parameters import parameters
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.request_checks import check_new_id, check_reason
from midcourse.core.session import Session, Status
from midcourse.core.signals import Signals
from midcourse.handle.http.connection import HttpConnection
from midcourse.handle.http.event_stream import watch
from midcourse.handle.http.response_bodies import (
    WireId,
    WireResult,
    inspection_of,
    previews_of,
    session_of,
)
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Clock

LONGEST_WAIT: Final = 60.0
"""The most seconds that a server waits with one answer. Who wants to wait longer asks again."""


class HttpTransport:
    """The sessions of a server."""

    def __init__(self, wire: HttpConnection) -> None:
        self._wire = wire

    def __str__(self) -> str:
        return self._wire.url

    @property
    def clock(self) -> Clock:
        """The clock by which callers wait."""
        return self._wire.clock

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command, and again under the same id, as long as the caller waits for more than is known."""
        check_command(command)
        # A server lifts a halt with the same word as a pause.
        sendable = cmd.Resume(id=command.id) if isinstance(command, cmd.Lift) else command
        deadline = self.clock.monotonic() + wait
        while True:
            left = max(0.0, deadline - self.clock.monotonic())
            reply = await self._post(session_id, sendable, until, min(left, LONGEST_WAIT))
            if left <= LONGEST_WAIT or reply.level == "stopped" or until != "stopped":
                return reply

    async def _post(self, session_id: SessionId, command: AnyCommand, until: Level, wait: float) -> Reply:
        sent = command.sent
        assert sent is not None, f"people do not send a {cmd.verb(command)}"
        own = {
            name: getattr(command, name)
            for name in parameters(type(command))
            if name not in cmd.Command.__struct_fields__
        }
        place = sent.place.format(**{name: quote(str(value), safe="") for name, value in own.items()})
        body: dict[str, object] = {
            name: value.raw if isinstance(value, Value) else value
            for name, value in own.items()
            if f"{{{name}}}" not in sent.place
        }
        if sent.is_stop:
            body["until"] = until
        content = await self._wire.send(
            sent.method,
            f"{_path(session_id)}/{place or cmd.verb(command)}",
            body=None if sent.method == "DELETE" else {**body, "wait": wait},
            key=command.id,
            wait=wait,
        )
        return self._wire.read(content, Reply)

    async def undo(self, session_id: SessionId, command: cmd.Undo, *, wait: float) -> Receipt:
        """Send an undo, and again under the same id, until the receipt is final or ``wait`` seconds are over."""
        deadline = self.clock.monotonic() + wait
        while True:
            left = max(0.0, deadline - self.clock.monotonic())
            await self.send(session_id, command, until="decided", wait=min(left, LONGEST_WAIT))
            receipt = await self.receipt(session_id)
            if receipt.final or left <= LONGEST_WAIT:
                return receipt

    async def preview(self, session_id: SessionId, *, force: bool, restart: bool) -> Mapping[UndoChoice, Receipt]:
        """Return what a cancel would make of each effect, by its ``undo``."""
        given = {name: "true" for name, wanted in (("force", force), ("restart", restart)) if wanted}
        path = f"{_path(session_id)}/cancel/preview"
        return previews_of(await self._wire.get(path, dict[UndoChoice, Receipt], given or None))

    async def receipt(self, session_id: SessionId) -> Receipt:
        """Return what became of each effect."""
        return await self._wire.get(f"{_path(session_id)}/receipt", Receipt)

    async def state(self, session_id: SessionId) -> Session:
        """Return the session as its journal tells it."""
        return self._wire.reading(session_of, await self._wire.send("GET", _path(session_id)))

    async def status(self, session_id: SessionId) -> Status:
        """Return the session's status."""
        return (await self.state(session_id)).status

    async def inspect(self, session_id: SessionId, at: int | None) -> Inspection:
        """Return the session as it was at a journal position."""
        parameters = {} if at is None else {"at": at}
        content = await self._wire.send("GET", f"{_path(session_id)}/inspect", parameters=parameters)
        return self._wire.reading(inspection_of, content)

    async def interventions(self, session_id: SessionId) -> Sequence[Intervention]:
        """Return what policies, and the agent itself, have stepped in with."""
        return await self._wire.items(f"{_path(session_id)}/interventions", "interventions", Intervention)

    async def signals(self, session_id: SessionId) -> Signals:
        """Return each signal with its thresholds and its history."""
        return await self._wire.get(f"{_path(session_id)}/signals", Signals)

    def watch(
        self, session_id: SessionId, *, after: Position, deltas: bool, follow: bool
    ) -> AsyncGenerator[Recorded | Delta]:
        """Yield every event after a position, once and in order, until the session ends.

        A lost connection is made again, also to a server that was started anew.
        """
        return watch(self._wire, _path(session_id), session_id, after=after, deltas=deltas, follow=follow)

    async def result(self, session_id: SessionId) -> Any:
        """Wait for the session's end and return what its agent returned, as JSON has it."""
        while True:
            wait = LONGEST_WAIT / 2
            found = await self._wire.get(f"{_path(session_id)}/result", WireResult, {"wait": wait}, wait=wait)
            if found.ended:
                break
        if found.status == Status.COMPLETED:
            return found.result
        raise without_result(await self.state(session_id))

    async def fork(self, session_id: SessionId, at: int | None, *, new: str | None, paused: bool, by: str) -> SessionId:
        """Begin a new session at a point of this one and return its id."""
        body: dict[str, object] = {"at": at, "paused": paused}
        if new is not None:
            body["session_id"] = check_new_id(new)
        key = f"cmd_{self.clock.fresh_id()}" if new is None else None
        content = await self._wire.send("POST", f"{_path(session_id)}/fork", body=body, key=key)
        return self._wire.read(content, WireId).id

    async def erase(self, session_id: SessionId, reason: str, *, children: bool, by: str) -> Session:
        """Erase what was written in a session that has ended."""
        given = {"reason": check_reason(reason), "children": children}
        content = await self._wire.send("DELETE", f"{_path(session_id)}/payloads", parameters=given)
        return self._wire.reading(session_of, content)


def _path(session_id: SessionId) -> str:
    return f"sessions/{quote(session_id, safe='')}"
