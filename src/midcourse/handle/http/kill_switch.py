"""The kill switches of a server, over HTTP. The same calls as on a store; who throws one is whoever the token names."""

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from midcourse.core.ids import SwitchId
from midcourse.core.switches import (
    Reached,
    Released,
    Scope,
    Switch,
    SwitchPreview,
    SwitchReport,
    check_reason,
    worst_first,
)
from midcourse.handle.http.connection import HttpConnection


class _Shown(Switch, frozen=True, kw_only=True):
    durable: bool = True
    report: tuple[Reached, ...] = ()
    hint: str = ""

    def read(self) -> SwitchReport:
        switch = Switch(**{name: getattr(self, name) for name in Switch.__struct_fields__})
        return SwitchReport(switch, worst_first(self.report), self.durable, self.hint)


class _Outcomes(msgspec.Struct, frozen=True):
    outcomes: tuple[Released, ...]


class RemoteKillSwitch:
    """What a server knows of kill switches, and does with them."""

    def __init__(self, wire: HttpConnection) -> None:
        self._wire = wire

    async def preview(self, scope: Scope) -> SwitchPreview:
        """How many sessions a switch would halt now, by their status; and whether its name is known here."""
        content = await self._wire.send("POST", "kill-switches/preview", body={"scope": _scope(scope)})
        return self._wire.read(content, SwitchPreview)

    async def throw(self, scope: Scope, reason: str, *, by: str = "local", wait: float = 5.0) -> SwitchReport:
        """Halt everything in ``scope``, and keep it halted. It is by whoever the token names, and not ``by``.

        Raises:
            AccessDenied: the token's role is below ``operate``.
            InvalidInput: there is no reason.
        """
        del by
        body = {"scope": _scope(scope), "reason": check_reason(reason), "wait": wait}
        key = f"throw_{self._wire.clock.fresh_id()}"
        content = await self._wire.send("POST", "kill-switches", body=body, key=key, wait=wait)
        return self._wire.read(content, _Shown).read()

    async def reports(self, *, limit: int = 20) -> Sequence[SwitchReport]:
        """The switches, those that stand first, each with the sessions that it holds."""
        found = await self._wire.items("kill-switches", "switches", Switch, limit=limit)
        return [await self.report(one.id) for one in found]

    async def report(self, switch: str) -> SwitchReport:
        """A switch, and what is known now of every session that it holds, or should."""
        return (await self._wire.get(f"kill-switches/{quote(switch, safe='')}", _Shown)).read()

    async def lift(self, switch: str, why: str, *, by: str = "local") -> SwitchReport:
        """End a switch: what is started from here on runs. The sessions that it halted stay halted."""
        path = f"kill-switches/{quote(SwitchId(switch), safe='')}/lift"
        del by
        content = await self._wire.send("POST", path, body={"why": check_reason(why, "why")})
        return self._wire.read(content, _Shown).read()

    async def release(
        self, switch: str, sessions: Sequence[str] | None = None, *, by: str = "local", wait: float = 5.0
    ) -> Sequence[Released]:
        """Let the sessions that a lifted switch had halted go back to where they were: those, or all of them."""
        del by
        path = f"kill-switches/{quote(switch, safe='')}/release"
        body = {"sessions": None if sessions is None else list(sessions), "wait": wait}
        return self._wire.read(await self._wire.send("POST", path, body=body, wait=wait), _Outcomes).outcomes


def _scope(scope: Scope) -> dict[str, str]:
    return {"kind": scope.kind, "value": scope.value}
