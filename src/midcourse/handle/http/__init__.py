"""Midcourse over HTTP."""

from midcourse.handle.http.remote import RemoteMidcourse
from midcourse.handle.http.transport import HttpTransport

__all__ = ["HttpTransport", "RemoteMidcourse"]
