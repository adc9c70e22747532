"""The checklist's inputs beside the sessions: the policy, the store, the encoder, a backtest's result."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from midcourse.core.replies import Durability
from midcourse.errors import InvalidInput
from midcourse.policy.document import Policy
from midcourse.policy.signals.drift import shipped
from midcourse.policy.signals.encoders import find_encoder, why_none

_LARGEST: Final = 50_000_000
"""Bytes of a backtest's result that is read."""


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The facts beside the sessions. ``encoder`` None: there is none, and ``no_encoder`` says why.

    ``backtested``: the policies in a backtest's result; None if none was given.
    """

    policy: Policy
    durability: Durability
    encoder: str | None = None
    no_encoder: str = ""
    domains: frozenset[str] = frozenset()
    backtested: Mapping[str, int] | None = None


async def grounds_of(policy: Policy, durability: Durability, backtest: Path | None = None) -> Grounds:
    """Return the facts found here: the encoder, and a backtest's result if one is given.

    Raises:
        InvalidInput: that file is no result of a backtest.
    """
    encoder = await asyncio.to_thread(find_encoder)  # it takes half a second, the first time
    scales = shipped().encoders.get(encoder.name, {}) if encoder is not None else {}
    return Grounds(
        policy=policy,
        durability=durability,
        encoder=encoder.name if encoder is not None else None,
        no_encoder=why_none(),
        domains=frozenset(domain for each in scales.values() for domain in each),
        backtested=None if backtest is None else await asyncio.to_thread(read_backtest, backtest),
    )


def read_backtest(path: Path) -> dict[str, int]:
    """Return the policies that ``midcourse policy backtest --format json`` tried, and on how many runs each.

    Raises:
        InvalidInput: the file cannot be read, or is none of those.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        found: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        tried = cast("dict[str, Any]", found["policies"])
        return {name: int(scores["all"]["runs"]) for name, scores in tried.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(
            f"{path} is not the result of a backtest ({why}). Make one with: "
            "midcourse policy backtest --format json … > FILE",
            field="backtest",
        ) from error
