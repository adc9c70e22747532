"""Continue a cut answer of a LangChain model: the request to send, and the message made of both parts."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from midcourse.adapters.answer import ModelAnswer
from midcourse.adapters.continuation import Way, go_on, takes_a_prefix


def name_of(model: BaseChatModel) -> str:
    """Return the name of a model, as far as its class tells it."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")


def way_of(model: BaseChatModel, asked: Mapping[str, Any]) -> Way:
    """Return how an answer of this model would be continued if it were cut."""
    package = type(model).__module__
    if not package.startswith("langchain_") or package.startswith("langchain_core"):
        return "again"  # a user's own class, that knows nothing of this
    if any(asked.get(name) for name in ("response_format", "output_format", "output_config", "format")):
        return "again"  # half an object cannot be quoted
    thinks = bool(getattr(model, "thinking", None))
    is_anthropic = package.startswith("langchain_anthropic")
    return "prefix" if is_anthropic and takes_a_prefix(name_of(model)) and not thinks else "quote"


def continued(messages: list[BaseMessage], answer: ModelAnswer) -> list[BaseMessage]:
    """Return the messages as they are, or with what an earlier attempt said, to be continued."""
    if not answer.said:
        return messages
    begun = AIMessage(answer.said.rstrip())
    return [*messages, begun, HumanMessage(go_on(answer.said))] if answer.is_quoted else [*messages, begun]


def whole_content(content: str | Sequence[str | dict[Any, Any]], text: str) -> Any:
    """Return the content of a message that continues another, with the text of both."""
    if isinstance(content, str):
        return text
    others = [one for one in content if not isinstance(one, str) and cast("dict[str, Any]", one).get("type") != "text"]
    return [{"type": "text", "text": text}, *others]
