"""The verbs of a session handle, over HTTP: what ``midcourse.connect`` gives."""

from midcourse.client.remote import RemoteMidcourse
from midcourse.client.session import RemoteHandle

__all__ = ["RemoteHandle", "RemoteMidcourse"]
