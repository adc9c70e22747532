"""The public names, for ``midcourse`` to give when one is used: a command that needs none imports none."""

from midcourse._version import __version__
from midcourse.core import events
from midcourse.core.audit import Audited, AuditEntry
from midcourse.core.events import ReceiptLine, Recorded
from midcourse.core.inspection import Inspection
from midcourse.core.prices import Price
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Reply, RunningCall
from midcourse.core.retries import Retry, is_transient
from midcourse.core.session import Message, Session, Status
from midcourse.core.switches import Scope
from midcourse.core.terms import DefaultAnswer, Terms
from midcourse.errors import (
    AccessDenied,
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
    ServerUnreachable,
    SessionEnded,
    SessionNotFound,
    StepError,
    StoreError,
    ToolUnavailable,
    Unencodable,
)
from midcourse.handle import Midcourse, SessionHandle
from midcourse.ports.bus import Delta
from midcourse.runtime.agents import Agent, agent
from midcourse.runtime.calls import current_call
from midcourse.runtime.model_streams import StreamEnd
from midcourse.runtime.run import Run
from midcourse.runtime.settings import Settings
from midcourse.runtime.tools import Happened, Tool, Unchanged, tool
from midcourse.wiring import connect, open

__all__ = [
    "AccessDenied",
    "Agent",
    "AgentUnavailable",
    "AskExpired",
    "AuditEntry",
    "Audited",
    "Damaged",
    "DefaultAnswer",
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
    "Price",
    "Receipt",
    "ReceiptLine",
    "Recorded",
    "Redirected",
    "Refused",
    "Reply",
    "Retry",
    "Run",
    "RunningCall",
    "Scope",
    "ServerUnreachable",
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
    "connect",
    "current_call",
    "events",
    "is_transient",
    "open",
    "tool",
]
