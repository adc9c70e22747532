"""The public handle: start an agent, and pause, resume, redirect, cancel, answer or watch any session."""

from midcourse.handle.local import LocalTransport, addressed
from midcourse.handle.midcourse import Midcourse
from midcourse.handle.session import SessionHandle
from midcourse.handle.sessions import Sessions
from midcourse.handle.transport import Transport
from midcourse.runtime.agents import registered

__all__ = ["LocalTransport", "Midcourse", "SessionHandle", "Sessions", "Transport", "addressed", "registered"]
