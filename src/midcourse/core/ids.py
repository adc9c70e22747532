"""The names of things, as types, so that one kind of id cannot be passed for another."""

import hashlib
import re
from collections.abc import Callable
from typing import Final, NewType

SessionId = NewType("SessionId", str)
CommandId = NewType("CommandId", str)
WorkerId = NewType("WorkerId", str)
StepId = NewType("StepId", str)
AskId = NewType("AskId", str)
PauseId = NewType("PauseId", str)
InterventionId = NewType("InterventionId", str)
MessageId = NewType("MessageId", str)
SwitchId = NewType("SwitchId", str)
Epoch = NewType("Epoch", int)
Position = NewType("Position", int)
REVIEW: Final = "review"
"""The reason of an ask that a policy opened with its pause: the answer decides if the agent continues.

It is also the name of its step.
"""


def pause_id(ordinal: int) -> PauseId:
    """Return the name of a session's ``ordinal``-th pause."""
    return PauseId(f"pause_{ordinal}")


def ask_id(ordinal: int) -> AskId:
    """Return the name of a session's ``ordinal``-th ask."""
    return AskId(f"ask_{ordinal}")


def intervention_id(ordinal: int) -> InterventionId:
    """Return the name of the ``ordinal``-th time a policy, or the agent itself, stepped in."""
    return InterventionId(f"int_{ordinal}")


def checkpoint_id(session: SessionId, position: int) -> str:
    """Return the name of a session as it was at a journal position."""
    return f"{session}@{position}"


def message_id(ordinal: int) -> MessageId:
    """Return the name of the ``ordinal``-th message to a session, its goal being the first."""
    return MessageId(f"msg_{ordinal}")


def queued_id(ordinal: int) -> MessageId:
    """Return the name of the ``ordinal``-th message that was queued for a later turn."""
    return MessageId(f"queued_{ordinal}")


def child_id(parent: SessionId, step: StepId) -> SessionId:
    """Return the id of the child a step of ``parent`` spawns: made of the two, so that a retry finds the same child."""
    return SessionId(f"{parent}.{hashlib.blake2b(step.encode(), digest_size=5).hexdigest()}")


def again_id(session: str, number: int) -> SessionId:
    """Return the name of the session that begins anew the work of ``session``: the first that is free."""
    base = re.sub(r"-again(-\d+)?$", "", session)[:100]
    return SessionId(f"{base}-again" if number == 1 else f"{base}-again-{number}")


def depth_of(session: str) -> int:
    """Return how many parents a session has above it."""
    return session.count(".")


def root_of(session: str) -> str:
    """Return the common beginning of the ids of all sessions of one tree."""
    return session.partition(".")[0]


def call_key(session: SessionId, step: StepId, generation: int) -> str:
    """Return the key that identifies a call outside: one for all attempts, until it was undone or raised."""
    return hashlib.blake2b(f"{session}/{step}/{generation}".encode(), digest_size=16).hexdigest()


def was_given(name: str, named: Callable[[int], str], count: int) -> bool:
    """Return whether ``name`` is one of the first ``count`` names that ``named`` makes.

    Counting ids lets a session tell "was already lifted" from "never existed" without remembering every one of them.
    """
    digits = name.rpartition("_")[2]
    is_ordinal = digits.isascii() and digits.isdigit() and len(digits) < 10
    return is_ordinal and 0 < int(digits) <= count and name == named(int(digits))


def review_id(scope: str, name: str) -> StepId:
    """Return the step of a policy's review, for which no agent waits."""
    return StepId(f"{scope}/{REVIEW}#{name}")


def is_review_step(step: str) -> bool:
    """Return whether an ask stands at a policy's pause, so that no path of the agent waits for it."""
    return step.partition("/")[2].startswith(f"{REVIEW}#")
