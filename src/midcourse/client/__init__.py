"""Midcourse over HTTP."""

from midcourse.client.remote import RemoteMidcourse
from midcourse.client.transport import HttpTransport

__all__ = ["HttpTransport", "RemoteMidcourse"]
