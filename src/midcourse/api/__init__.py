"""The public handle: open a store, start an agent, and pause, resume, redirect, cancel, answer or watch any session."""

from midcourse.api.connection import connect, open
from midcourse.api.local import addressed
from midcourse.api.midcourse import Midcourse
from midcourse.handle.session import SessionHandle
from midcourse.upkeep.bulk_erasure import erase_sessions

__all__ = ["Midcourse", "SessionHandle", "addressed", "connect", "erase_sessions", "open"]
