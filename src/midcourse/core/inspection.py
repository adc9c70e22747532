"""A session at a point of its journal, as a person sees it."""

from typing import Any

import msgspec

from midcourse.core.ids import StepId
from midcourse.core.session import Session


class StepView(msgspec.Struct, frozen=True):
    """A step of the current scope: how it stands, and its result or its text."""

    id: StepId
    name: str
    arguments: str
    attempt: int
    outcome: str
    text: str
    value: Any


class Inspection(msgspec.Struct, frozen=True):
    """A session at a position: the fold, the steps of its scope, what its agent would start from: state and history."""

    session: Session
    steps: tuple[StepView, ...]
    state: Any
    history: tuple[Any, ...] = ()
