"""Erase the texts of a session's journal: its shape remains, and nothing that was written by hand. Pure.

By the types of the fields: numbers, times, states and ids stay, a text is removed unless ``KEPT`` names it, and so is
any field that is added later. Every record becomes a tombstone (see ``codec``): the digest of the record, with which
the running digest of the journal still verifies, and remains that fold to the same status, cost and receipt.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NewType, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from midcourse.core import events as ev
from midcourse.core.asks import AMBIGUOUS, NEED_APPROVAL
from midcourse.core.codec import ERASED, GENESIS, NOTHING, Value, chain, entomb, inline, is_tombstone, remains_of
from midcourse.core.fold import Row
from midcourse.core.ids import REVIEW, SessionId, StepId
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.policy_decision import Decision, Reason, Unseen
from midcourse.core.steps import WORLD_CHANGED
from midcourse.core.terms import Terms
from midcourse.errors import Damaged

KEPT: Final[Mapping[type, frozenset[str]]] = {
    ev.SessionCreated: frozenset({"agent", "agent_version", "origin", "forked_from", "restarts", "by"}),
    ev.SessionTaken: frozenset({"worker"}),
    ev.SessionForked: frozenset({"source"}),
    ev.SessionHalted: frozenset({"switch"}),
    ev.HoldTaken: frozenset({"release"}),
    ev.SessionFailed: frozenset({"code"}),
    ev.AgentChanged: frozenset({"before", "now"}),
    ev.AgentSilent: frozenset({"advice"}),
    ev.LoopBlocked: frozenset({"advice"}),
    ev.ToolsNeeded: frozenset({"tools"}),
    ev.CheckpointTaken: frozenset({"scope"}),
    ev.StepBegun: frozenset({"name", "key", "tool"}),
    ev.UndoBegun: frozenset({"name", "key"}),
    ev.UndoEnded: frozenset({"key"}),
    ev.StepFinished: frozenset({"told_by"}),
    ev.StepFailed: frozenset({"kind"}),
    ev.StepRetrying: frozenset({"kind"}),
    ev.InterventionLabelled: frozenset({"about"}),
    ev.SessionErased: frozenset({"reason", "kept"}),
    ev.ReceiptLine: frozenset({"name"}),
    ev.Change: frozenset({"policy"}),
    Terms: frozenset({"policy", "labels"}),
    Decision: frozenset({"policy"}),
    Reason: frozenset({"signal"}),
    Unseen: frozenset({"signal"}),
}
"""The texts that stay: names of agents, tools, steps, policies, workers; versions; codes. ``by`` stays everywhere."""
REASONS: Final = frozenset({NEED_APPROVAL, REVIEW, AMBIGUOUS, DID_IT_HAPPEN, WORLD_CHANGED, "agent_changed"})
"""The reasons of Midcourse's own asks. Any other reason was written by an agent."""
ERASED_VALUE: Final = inline(b'"erased"')

_ORDINALS: Final = re.compile(r"(?:[~?]\d+)*$")


class Eraser:
    """Erases the records of one journal. The same key of a step, or name of a hold, becomes the same everywhere."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def record(self, record: ev.Record) -> ev.Record:
        """Return the same fact, without its texts."""
        return ev.Record(record.at, self.struct(record.event))

    def struct(self, struct: Any) -> Any:
        """Return an event, or a part of one, without its texts."""
        kind = cast("type[msgspec.Struct]", type(struct))
        changes = {name: erase(self, getattr(struct, name)) for name, erase in _plan(kind).items()}
        match struct:
            case ev.SegmentWritten(text=text):
                changes["text"] = (f"{ERASED} " * (len(text) // 7 + 1))[: len(text)]  # what comes behind has its offset
            case ev.AskOpened(reason=reason) if reason in REASONS:
                changes["reason"] = reason
            case ev.HoldTaken(name=name) | ev.HoldReleased(name=name) | ev.ReceiptLine(name=name, effect="hold"):
                changes["name"] = self.name(name)
            case _:
                pass
        return msgspec.structs.replace(struct, **changes)

    def step(self, step: str) -> StepId:
        """Return a step's id with the texts among its keys replaced; numbers, scopes and names stay."""
        scope, slash, path = step.partition("/")
        if not slash:
            return StepId(step and self.name(step))
        return StepId(f"{scope}/{'>'.join(map(self._part, path.split('>')))}")

    def _part(self, part: str) -> str:
        name, sharp, key = part.partition("#")
        ordinals = _ORDINALS.search(key)
        end = ordinals[0] if ordinals else ""
        plain = key.removesuffix(end)
        if not sharp:
            return self.name(part)
        return f"{name}#{plain if plain.isdigit() else self.name(plain)}{end}"

    def name(self, name: str) -> str:
        """Return the replacement of a name that a person chose."""
        return self._names.setdefault(name, f"{ERASED}-{len(self._names) + 1}")


_Erase = Callable[[Eraser, Any], Any]


@cache
def _plan(kind: type[msgspec.Struct]) -> Mapping[str, _Erase]:
    """Return how each field of a struct that can hold a text is erased; the others stay."""
    hints = get_type_hints(kind)
    stays = KEPT.get(kind, frozenset[str]()) | {"by"}
    plans = {name: _of(hint) for name, hint in hints.items() if name in kind.__struct_fields__ and name not in stays}
    return {name: plan for name, plan in plans.items() if plan is not None}


def _of(hint: Any) -> _Erase | None:
    """Return how a value of that type is erased. None: it holds no text."""
    origin = get_origin(hint)
    if isinstance(hint, NewType):
        return _erase_step if hint == cast("object", StepId) else None
    if hint in (int, float, bool, NoneType) or origin is Literal:
        return None
    if origin in (Union, UnionType):
        return _of_union(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint is not Value:
        return _erase_any if _plan(hint) else None
    if origin is tuple and _of(get_args(hint)[0]) is None:
        return None
    return _erase_step_tuple if origin is tuple and get_args(hint)[0] is StepId else _erase_any


def _of_union(hints: tuple[Any, ...]) -> _Erase | None:
    if all(_of(one) is None for one in hints):
        return None
    if StepId in hints:
        return _erase_step
    words = {word for one in hints if get_origin(one) is Literal for word in get_args(one)}
    return lambda eraser, value: value if isinstance(value, str) and value in words else _erase_any(eraser, value)


def _erase_step(eraser: Eraser, step: str | None) -> StepId | None:
    return None if step is None else eraser.step(step)


def _erase_step_tuple(eraser: Eraser, steps: Iterable[str]) -> tuple[StepId, ...]:
    return tuple(map(eraser.step, steps))


def _erase_any(eraser: Eraser, value: Any) -> Any:
    match value:
        case Value():
            return NOTHING if value == NOTHING else ERASED_VALUE
        case str():
            return ERASED if value else ""
        case None | bool() | int() | float():
            return value
        case tuple():
            return tuple(_erase_any(eraser, one) for one in cast("tuple[object, ...]", value))
        case msgspec.Struct():
            return eraser.struct(value)
        case Mapping():
            return {}
        case _:
            return ERASED


def entombed(rows: Iterable[Row]) -> list[Row]:
    """Return a journal whose digests were checked, without its texts. What was erased before stays the same."""
    eraser = Eraser()
    erased: list[Row] = []
    digest = GENESIS
    for position, record, _ in rows:
        if not is_tombstone(record):
            remains = ev.encode_record(eraser.record(ev.decode_record(record)))
            record = entomb(record, remains)  # noqa: PLW2901
        digest = chain(digest, position, record)
        erased.append((position, record, digest))
    return erased


def is_erased(session_id: SessionId, rows: Iterable[Row]) -> bool:
    """Return True if a journal, of which these are all rows, was erased.

    Raises:
        Damaged: there are tombstones among them that are not from the erasing: they were made by hand.
    """
    rows = list(rows)
    if not any(is_tombstone(record) for _, record, _ in rows):
        return False
    told = (ev.decode_record(record).event for _, record, _ in reversed(rows) if not is_tombstone(record))
    last = next((event for event in told if isinstance(event, ev.SessionErased)), None)
    if last is None or last.kept != kept_digest(rows):
        raise Damaged(
            f"Records of session '{session_id}' look erased, and are not what was left when it was. "
            "The session is stopped and nothing is followed; restore the store from a backup.",
            session_id=session_id,
        )
    return True


def kept_digest(rows: Iterable[Row]) -> str:
    """Return the digest of the tombstones among ``rows``: the event that reports the erasing carries it.

    So a row that was replaced by a tombstone by hand, or a tombstone that was changed, does not fit.
    """
    digest = GENESIS
    for position, record, _ in rows:
        if is_tombstone(record):
            digest = chain(digest, position, remains_of(record))
    return digest.hex()
