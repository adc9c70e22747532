"""Listen to LangChain's callbacks for models and tools that a graph uses and that are not held."""

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from midcourse.adapters.langgraph.functions import held_call, running
from midcourse.adapters.langgraph.held_run import HeldGraphRun
from midcourse.adapters.langgraph.model import is_held_request
from midcourse.runtime.calls import in_a_step


class HoldWatch(BaseCallbackHandler):
    """Says so, once for each node or tool. What a tool asks is part of its call, which declares what it does."""

    run_inline = True

    def __init__(self, held: HeldGraphRun) -> None:
        self._held = held

    @property
    def ignore_chain(self) -> bool:
        """Nodes and chains as such are of no interest."""
        return True

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._look(metadata, kwargs)

    def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], *, metadata: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Report a model that completes texts: there is no way to hold one."""
        self._look(metadata, kwargs)

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
        """Report a tool call, unless a held node of tools makes it."""
        name = str(serialized.get("name", ""))
        if name != held_call.get() and not in_a_step():
            self._held.warn(
                f"Tool '{name}' is called by a graph or a function that a node calls, so it is "
                "no step: a stop does not wait for it, and after a crash it is called again. Make that graph a node, "
                "await it (graph.ainvoke), or make what calls it a task or a tool."
            )

    def _look(self, metadata: dict[str, Any] | None, about: dict[str, Any]) -> None:
        model = str(about.get("invocation_params", {}).get("_type", "model"))
        if is_held_request(model) or (in_a_step() and not running()):
            return
        node = running() or str((metadata or {}).get("langgraph_node", ""))
        self._held.warn(
            f"Node '{node}' asks a model that is not held ({model}): a stop does not cut its answer, a redirect does "
            "not reach it, and what it costs is not counted. Ask held(model) in its place."
        )
