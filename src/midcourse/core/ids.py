"""The names of things, as types, so that one kind of id cannot be passed for another."""

import hashlib
from typing import NewType

SessionId = NewType("SessionId", str)
CommandId = NewType("CommandId", str)
WorkerId = NewType("WorkerId", str)
StepId = NewType("StepId", str)
AskId = NewType("AskId", str)
PauseId = NewType("PauseId", str)
Epoch = NewType("Epoch", int)
Position = NewType("Position", int)


def pause_id(ordinal: int) -> PauseId:
    """The name of a session's ``ordinal``-th pause."""
    return PauseId(f"pause_{ordinal}")


def ask_id(ordinal: int) -> AskId:
    """The name of a session's ``ordinal``-th ask."""
    return AskId(f"ask_{ordinal}")


def child_id(parent: SessionId, step: StepId) -> SessionId:
    """The id of the child a step of ``parent`` spawns: made of the two, so that a retry finds the same child."""
    return SessionId(f"{parent}.{hashlib.blake2b(step.encode(), digest_size=5).hexdigest()}")


def call_key(session: SessionId, step: StepId, generation: int) -> str:
    """What the other side knows a call by: the same for every attempt, until the call was undone or raised."""
    return hashlib.blake2b(f"{session}/{step}/{generation}".encode(), digest_size=16).hexdigest()


def ordinal_of(name: str) -> int | None:
    """The ordinal in a pause's or ask's name, or None if it is not such a name.

    Counting ids lets a session tell "was already lifted" from "never existed" without remembering every one of them.
    """
    _, _, digits = name.partition("_")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
