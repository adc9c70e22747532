"""The kill switch's halt of a session."""

from midcourse.core.events.event import Event


class SessionHalted(Event, tag="session.halted@1"):
    """The kill switch stopped the session. ``switch``: the standing record it comes from, if it comes from one."""

    by: str
    reason: str = ""
    switch: str = ""
    wished_at: float | None = None
    """When it was put into the inbox."""


class HaltLifted(Event, tag="session.halt_lifted@1"):
    """An operator lifted the halt; the session is back where it was."""

    by: str


HaltEvent = SessionHalted | HaltLifted
