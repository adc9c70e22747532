"""The clients of OpenAI and Anthropic in an agent that is a plain function: a stop closes the model's stream.

``streamed(client.chat.completions.create, model=…, messages=…)`` is what ``run.stream`` takes; so are
``client.responses.create`` and ``client.messages.create``. ``model_reply`` is for loops of your own with tools.
Neither library is imported here.
"""

from midcourse.adapters.plain.model_requests import Create, Streamed, model_reply, streamed
from midcourse.adapters.plain.replies import Api, ModelReply, ToolCall
from midcourse.adapters.plain.stream_readers import ModelError

__all__ = ["Api", "Create", "ModelError", "ModelReply", "Streamed", "ToolCall", "model_reply", "streamed"]
