"""The policies of a server, over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from midcourse.handle.http.connection import HttpConnection, Parameters
from midcourse.policy.document import Policy
from midcourse.policy.versions import KeptPolicy, Summary
from midcourse.policy.yaml_reader import not_found, split
from midcourse.policy.yaml_writer import from_document

_TRIAL_SECONDS: Final = 90.0
"""The time a server has to read its runs, and to try policies on them."""


class _Whole(Summary, frozen=True, kw_only=True):
    document: Any
    yaml: str


class _Check(msgspec.Struct, frozen=True):
    document: Any


class Calibration(msgspec.Struct, frozen=True):
    """Thresholds that a server's own recorded runs propose: ``yaml`` is the next version of ``policy``."""

    policy: str
    yaml: str
    failures: int
    successes: int
    stopped: int
    stopped_wrongly: int
    sentence: str
    notes: tuple[str, ...]


class RemotePolicies:
    """The policies of a server. Files are read here and parsed there: it knows their bases."""

    def __init__(self, wire: HttpConnection) -> None:
        self._wire = wire

    async def newest(self) -> tuple[Summary, ...]:
        """Every policy in its newest version."""
        return tuple(await self._wire.items("policies", "policies", Summary))

    async def history(self, name: str) -> tuple[Summary, ...]:
        """Every version of a policy, the newest first."""
        return tuple(await self._wire.items(f"{_path(name)}/history", "versions", Summary))

    async def find(self, reference: str) -> tuple[KeptPolicy, str]:
        """Return a policy (``team``), or one version of it (``team@3``); and the same as YAML."""
        name, version = split(reference)
        parameters: Parameters = {} if version is None else {"version": version}
        found = await self._wire.get(_path(name), _Whole, parameters)
        return _kept(found), found.yaml

    async def load_text(self, text: str) -> Policy:
        """Return the policy that YAML text describes, over a policy of the server."""
        content = await self._wire.send("POST", "policies/check", body={"document": text})
        return from_document(self._wire.read(content, _Check).document)

    async def save(self, name: str, text: str, why: str) -> KeptPolicy:
        """Keep what YAML text describes as the next version of ``name``. The server knows by the token who saves it."""
        key = f"policy_{self._wire.clock.fresh_id()}"
        body = {"document": text, "why": why}
        return _kept(self._wire.read(await self._wire.send("PUT", _path(name), body=body, key=key), _Whole))

    async def backtest(
        self,
        policy: str = "",
        *,
        document: str = "",
        against: Sequence[str] = (),
        since: float | None = None,
        limit: int | None = None,
    ) -> Mapping[str, Any]:
        """Try a saved policy, or the text of one, on the server's own runs; return the API's result."""
        body = {"policy": policy, "document": document, "since": since, "limit": limit}
        wish = {**_given(body), "against": list(against)}
        content = await self._wire.send("POST", "policies/backtest", body=wish, wait=_TRIAL_SECONDS)
        return self._wire.read(content, dict[str, Any])

    async def calibrate(
        self, policy: str, *, false_stops: float | None = None, since: float | None = None, limit: int | None = None
    ) -> Calibration:
        """Thresholds that are as early as the server's own runs allow. Nothing is saved.

        Raises:
            InvalidInput: ``too_few_runs``.
        """
        wish = _given({"policy": policy, "false_stops": false_stops, "since": since, "limit": limit})
        content = await self._wire.send("POST", "policies/calibrate", body=wish, wait=_TRIAL_SECONDS)
        return self._wire.read(content, Calibration)


def _given(wish: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in wish.items() if value is not None and value != ""}


def _path(name: str) -> str:
    if not name or "@" in name:
        raise not_found(name, ())
    return f"policies/{quote(name, safe='')}"


def _kept(found: _Whole) -> KeptPolicy:
    return KeptPolicy(policy=from_document(found.document), by=found.by, why=found.why, at=found.at)
