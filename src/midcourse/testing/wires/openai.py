"""The common part of both APIs of OpenAI: the key, the shape of an error, and the text of a message."""

from collections.abc import Mapping, Sequence

import msgspec

from midcourse.testing.wires.wire import Objection


class Part(msgspec.Struct):
    type: str
    text: str = ""


def text_of(content: str | Sequence[Part] | None) -> str:
    return content or "" if content is None or isinstance(content, str) else "\n".join(part.text for part in content)


class OpenAI:
    def key(self, headers: Mapping[str, str]) -> str | None:
        kind, _, key = headers.get("authorization", "").partition(" ")
        return key if kind.lower() == "bearer" else None

    def wrong_key(self, key: str | None) -> Objection:
        if not key:
            return Objection("You didn't provide an API key.", status=401)
        return Objection(f"Incorrect API key provided: {key[:4]}****.", status=401, code="invalid_api_key")

    def error(self, objection: Objection) -> dict[str, object]:
        return error(objection)


def error(objection: Objection) -> dict[str, object]:
    """Return an error as OpenAI spells it."""
    kind = "server_error" if objection.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": objection.message,
            "type": "requests" if objection.status == 429 else kind,
            "param": objection.param,
            "code": objection.code,
        }
    }
