"""Graphs of LangGraph: ``wrap(graph)`` makes one pausable, redirectable, cancellable and durable."""

from midcourse.adapters.langgraph.agent import wrap
from midcourse.adapters.langgraph.model import held
from midcourse.adapters.langgraph.saver import MidcourseSaver

__all__ = ["MidcourseSaver", "held", "wrap"]
