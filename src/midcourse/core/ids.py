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
"""The reason of an ask that a policy opened with its pause: who answers it decides whether the agent goes on.

It is also the name of the step that it stands at.
"""


def pause_id(ordinal: int) -> PauseId:
    """The name of a session's ``ordinal``-th pause."""
    return PauseId(f"pause_{ordinal}")


def ask_id(ordinal: int) -> AskId:
    """The name of a session's ``ordinal``-th ask."""
    return AskId(f"ask_{ordinal}")


def intervention_id(ordinal: int) -> InterventionId:
    """The name of the ``ordinal``-th time a policy, or the agent itself, stepped in."""
    return InterventionId(f"int_{ordinal}")


def checkpoint_id(session: SessionId, position: int) -> str:
    """The name of a session as it was at a journal position."""
    return f"{session}@{position}"


def message_id(ordinal: int) -> MessageId:
    """The name of the ``ordinal``-th message to a session, its goal being the first."""
    return MessageId(f"msg_{ordinal}")


def queued_id(ordinal: int) -> MessageId:
    """The name of the ``ordinal``-th message that was queued for a later turn."""
    return MessageId(f"queued_{ordinal}")


def child_id(parent: SessionId, step: StepId) -> SessionId:
    """The id of the child a step of ``parent`` spawns: made of the two, so that a retry finds the same child."""
    return SessionId(f"{parent}.{hashlib.blake2b(step.encode(), digest_size=5).hexdigest()}")


def again_id(session: str, number: int) -> SessionId:
    """The name of the session that begins anew what ``session`` was at: the first that nobody else has."""
    base = re.sub(r"-again(-\d+)?$", "", session)[:100]
    return SessionId(f"{base}-again" if number == 1 else f"{base}-again-{number}")


def depth_of(session: str) -> int:
    """How many parents a session has above it."""
    return session.count(".")


def root_of(session: str) -> str:
    """The beginning that the ids of all sessions of one tree have in common."""
    return session.partition(".")[0]


def call_key(session: SessionId, step: StepId, generation: int) -> str:
    """What the other side knows a call by: the same for every attempt, until the call was undone or raised."""
    return hashlib.blake2b(f"{session}/{step}/{generation}".encode(), digest_size=16).hexdigest()


def was_given(name: str, named: Callable[[int], str], count: int) -> bool:
    """Return whether ``name`` is one of the first ``count`` names that ``named`` makes.

    Counting ids lets a session tell "was already lifted" from "never existed" without remembering every one of them.
    """
    digits = name.rpartition("_")[2]
    is_ordinal = digits.isascii() and digits.isdigit() and len(digits) < 10
    return is_ordinal and 0 < int(digits) <= count and name == named(int(digits))


def review_id(scope: str, name: str) -> StepId:
    """The step that a review of a policy stands at, which no agent waits for."""
    return StepId(f"{scope}/{REVIEW}#{name}")


def is_review_step(step: str) -> bool:
    """Return whether an ask stands at a policy's pause, so that no path of the agent waits for it."""
    return step.partition("/")[2].startswith(f"{REVIEW}#")
