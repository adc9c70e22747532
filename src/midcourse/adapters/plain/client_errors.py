"""Turn a client's exception into a sentence that says what to do and holds no key."""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

_SHORTEST_SECRET: Final = 8
"""A shorter key, as servers without keys are given, may be a word of any sentence."""


def explain_error(error: Exception, client: object, address: str) -> None:
    """Give a client's error a sentence that says what to do, and no key. It keeps its class: the step's ``kind``."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    where = host(address)
    if "APITimeoutError" in kinds or "TimeoutException" in kinds:
        words = f"{where} did not answer in time. Is it busy? The client's timeout may be too short."
    elif "APIConnectionError" in kinds or "TransportError" in kinds:
        cause = str(error.__cause__ or error).strip().rstrip(".") or "no reason given"
        words = f"No connection to {where}, or it was lost: {cause}. Check base_url, and whether that can be reached."
    elif "APIError" in kinds:
        status: int | None = getattr(error, "status_code", None)
        words = f"{where} said{f' ({status})' if status else ''}: {_reason(error).rstrip('.')}.{_what_to_do(status)}"
    elif "authentication method" in str(error) or "Missing credentials" in str(error):
        words = f"The client has no key for {where}. Give it an api_key, or set its environment variable."
    else:
        return
    for name in ("api_key", "auth_token"):
        secret = getattr(client, name, None)
        if isinstance(secret, str) and len(secret) >= _SHORTEST_SECRET:
            words = words.replace(secret, "(the key)")
    error.args = (words,)


def _reason(error: Exception) -> str:
    """Return the provider's own sentence."""
    body: object = getattr(error, "body", None)
    while isinstance(body, Mapping):
        told = cast("Mapping[str, object]", body)
        if isinstance(message := told.get("message"), str) and message:
            return message
        body = told.get("error")
    return str(error)


def _what_to_do(status: int | None) -> str:
    match status:
        case 401 | 403:
            return " Check the client's api_key."
        case 404:
            return " Check the model's name and the client's base_url."
        case 429:
            return " Wait a while before the next request."
        case _:
            return ""


def host(address: str) -> str:
    """Return the address without anything secret: a password, a key in its query."""
    parts = urlsplit(address)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the provider"
