"""The HTTP API: sessions, their events and their controls, for clients and the console."""

from midcourse.server.app import CallerLimits, Server

__all__ = ["CallerLimits", "Server"]
