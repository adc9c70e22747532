"""Midcourse, the interrupt handle for AI agents: pause, resume, redirect, cancel or answer any of them, durably."""

from midcourse._version import __version__
from midcourse.api import Midcourse, SessionHandle, open
from midcourse.core import events
from midcourse.core.audit import Audited, AuditEntry
from midcourse.core.events import ReceiptLine, Recorded
from midcourse.core.receipt import Receipt
from midcourse.core.session import Message, Session, Status
from midcourse.core.terms import Terms
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
    ToolUnavailable,
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
from midcourse.runtime.tools import Happened, Tool, Unchanged, tool

__all__ = [
    "Agent",
    "AgentUnavailable",
    "AskExpired",
    "AuditEntry",
    "Audited",
    "Damaged",
    "Delta",
    "Diverged",
    "Happened",
    "Inspection",
    "Interrupt",
    "InvalidInput",
    "Message",
    "Midcourse",
    "MidcourseError",
    "MisusedRun",
    "Receipt",
    "ReceiptLine",
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
    "Terms",
    "Tool",
    "ToolUnavailable",
    "Unchanged",
    "Unencodable",
    "__version__",
    "agent",
    "current_call",
    "events",
    "open",
    "tool",
]
