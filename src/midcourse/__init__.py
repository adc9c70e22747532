"""Midcourse, the interrupt handle for AI agents: pause, resume, redirect, cancel or answer any of them, durably."""

from midcourse._version import __version__
from midcourse.api import Midcourse, SessionHandle, open
from midcourse.core import events
from midcourse.core.events import Recorded
from midcourse.core.receipt import Receipt
from midcourse.core.session import Message, Session, Status
from midcourse.errors import (
    AgentUnavailable,
    AskExpired,
    Damaged,
    Diverged,
    Interrupt,
    InvalidInput,
    MidcourseError,
    MisusedRun,
    Redirected,
    Refused,
    SessionEnded,
    SessionNotFound,
    StepError,
    StoreError,
    Unencodable,
)
from midcourse.ports.bus import Delta
from midcourse.runtime.agents import Agent, agent
from midcourse.runtime.calls import RunningCall, current_call
from midcourse.runtime.history import Inspection
from midcourse.runtime.outcomes import Reply
from midcourse.runtime.run import Run
from midcourse.runtime.settings import Settings
from midcourse.runtime.streaming import StreamEnd

__all__ = [
    "Agent",
    "AgentUnavailable",
    "AskExpired",
    "Damaged",
    "Delta",
    "Diverged",
    "Inspection",
    "Interrupt",
    "InvalidInput",
    "Message",
    "Midcourse",
    "MidcourseError",
    "MisusedRun",
    "Receipt",
    "Recorded",
    "Redirected",
    "Refused",
    "Reply",
    "Run",
    "RunningCall",
    "Session",
    "SessionEnded",
    "SessionHandle",
    "SessionNotFound",
    "Settings",
    "Status",
    "StepError",
    "StoreError",
    "StreamEnd",
    "Unencodable",
    "__version__",
    "agent",
    "current_call",
    "events",
    "open",
]
