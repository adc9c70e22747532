"""Drives sessions: read, decide, append, act."""
