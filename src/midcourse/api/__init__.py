"""The public handle: open a store, start an agent, and pause, resume, redirect, cancel, answer or watch any session."""

from midcourse.api.erasing import erase_sessions
from midcourse.api.local import addressed
from midcourse.api.midcourse import Midcourse
from midcourse.api.opening import connect, open
from midcourse.handle.session import SessionHandle

__all__ = ["Midcourse", "SessionHandle", "addressed", "connect", "erase_sessions", "open"]
