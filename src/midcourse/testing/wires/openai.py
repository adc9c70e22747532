"""The common part of both APIs of OpenAI: the key, and the shape of an error."""

from collections.abc import Mapping

from midcourse.testing.wires.wire import Objection


class OpenAI:
    """An API of OpenAI."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key of a request."""
        kind, _, key = headers.get("authorization", "").partition(" ")
        return key if kind.lower() == "bearer" else None

    def wrong_key(self, key: str | None) -> Objection:
        """Return the error for a wrong key."""
        if not key:
            return Objection("You didn't provide an API key.", status=401)
        return Objection(f"Incorrect API key provided: {key[:4]}****.", status=401, code="invalid_api_key")

    def error(self, objection: Objection) -> Mapping[str, object]:
        """Return the body of an answer that is an error."""
        return error_body(objection)


def error_body(objection: Objection) -> dict[str, object]:
    return {
        "error": {
            "message": objection.message,
            "type": _kind(objection.status),
            "param": objection.param,
            "code": objection.code,
        }
    }


def _kind(status: int) -> str:
    if status == 429:
        return "requests"
    return "server_error" if status >= 500 else "invalid_request_error"
