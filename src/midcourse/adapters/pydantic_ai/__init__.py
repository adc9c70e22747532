"""Agents of Pydantic AI: ``wrap(agent)`` makes one pausable, redirectable, cancellable and durable."""

from midcourse.adapters.pydantic_ai.agent import wrap

__all__ = ["wrap"]
