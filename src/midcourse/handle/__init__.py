"""The handle of a session, over any transport, and the verbs over all sessions."""

from midcourse.handle.session import SessionHandle
from midcourse.handle.sessions import Sessions, Switches
from midcourse.handle.transport import Transport

__all__ = ["SessionHandle", "Sessions", "Switches", "Transport"]
