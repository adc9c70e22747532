"""The HTTP API: sessions, their events and their controls, for clients and the console."""

from midcourse.server.app import Limits, Server

__all__ = ["Limits", "Server"]
