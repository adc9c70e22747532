"""The sessions of a server, and what only a server has."""

import msgspec

from midcourse.handle.http.connection import HttpConnection
from midcourse.handle.http.transport import HttpTransport
from midcourse.handle.sessions import Sessions


class _Login(msgspec.Struct):
    link: str


class RemoteMidcourse(Sessions):
    """A server. Made by :func:`midcourse.connect`."""

    def __init__(self, wire: HttpConnection) -> None:
        super().__init__(HttpTransport(wire))
        self._wire = wire

    def __repr__(self) -> str:
        return f"<RemoteMidcourse at {self.url}>"

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._wire.url

    async def login_link(self) -> str:
        """Return a new link that lets one browser in, once, within a minute, as the holder of this token."""
        return self._wire.read(await self._wire.send("POST", "login/codes"), _Login).link

    async def close(self) -> None:
        """Close the connections. Nothing on the server is stopped by it."""
        await self._wire.close()
