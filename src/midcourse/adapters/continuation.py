"""Continue a text that was cut: from its own end where the provider allows it, else by a request that quotes it.

``prefix``: the text is sent as the beginning of the model's own message, which the model continues. ``quote``: it is
sent as an earlier message of the model, and the model is asked to continue it. Where neither is possible, the answer
begins again.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from midcourse.models.script import CUT_OFF

Way = Literal["prefix", "quote", "again"]

_LLAMA_CPP: Final = re.compile(r"b\d+-")
"""The signature of llama.cpp's answers."""
_TAKES_A_PREFIX: Final = re.compile(
    r"claude-(?:instant|2|3|(?:opus|sonnet|haiku)-4(?:[-.](?:[0-5]|\d{8})(?!\d)|(?![-.]?\d)))"
)
"""Models of Anthropic up to 4.5; later ones refuse a conversation that does not end with the user."""
_FLAGGED: Final = {"api.mistral.ai": "/", "api.deepseek.com": "/beta"}
"""Who wants the message to be marked as a prefix, and under which path that is known."""
_NEAR: Final = 1_000
"""Characters at the end of a text that a model may say again before it continues."""
_FEWEST: Final = 5
"""Different words that a model must say again to have begun anew: fewer come twice in many a sentence or row."""
_WORD: Final = re.compile(r"\w+")
_UNIT_END: Final = re.compile(r"""\n|[.!?…]["')\]*_]*\s""")
"""Where a line or a sentence ends."""
_UNIT_END_LAST: Final = re.compile(rf"(?:{_UNIT_END.pattern})\s*\Z")
OBJECTS: Final = (400, 422)
"""The status codes with which a server refuses a request that it does not understand."""
GO_ON: Final = (
    f"{CUT_OFF} Go on with it from exactly where it stops: begin with the next word, repeat nothing of it, and say "
    "nothing about the interruption. It stops after: "
)
"""The request to continue, for a model that does not accept the beginning of its message."""
_QUOTED: Final = 80


def way_of_messages(request: Mapping[str, Any]) -> Way:
    """Return how to continue an answer of Anthropic's API."""
    if request.get("output_format") or request.get("output_config"):
        return "again"  # half an object cannot be quoted
    thinking: Mapping[str, Any] = request.get("thinking") or {"type": "disabled"}
    thinks = thinking.get("type") != "disabled"
    return "prefix" if takes_a_prefix(str(request.get("model", ""))) and not thinks else "quote"


def takes_a_prefix(model: str) -> bool:
    """Return True if this Anthropic model continues a message that was begun for it."""
    return _TAKES_A_PREFIX.search(model) is not None


def way_of_chat(request: Mapping[str, Any], url: str, fingerprint: str) -> Way:
    """Return how to continue an answer of a Chat Completions server; ``fingerprint`` signs its answers."""
    wanted: Any = request.get("response_format") or {"type": "text"}
    if not isinstance(wanted, Mapping) or cast("Mapping[str, Any]", wanted).get("type") != "text":
        return "again"
    return "prefix" if _LLAMA_CPP.match(fingerprint) or _is_flagged(url) else "quote"


def way_of_responses(request: Mapping[str, Any]) -> Way:
    """Return how to continue an answer of OpenAI's Responses API."""
    text = cast("Mapping[str, Any]", request.get("text") or {})
    return "again" if (text.get("format") or {"type": "text"}).get("type") != "text" else "quote"


def kept(said: str, way: str) -> str:
    """Return the part of a text to continue from: without a space at its end; if quoted, whole words."""
    if way == "prefix":
        return said.rstrip()
    if way != "quote" or not said.strip():
        return ""
    return said if said[-1].isspace() else said[: len(said) - len(said.rsplit(maxsplit=1)[-1])]


def prefixed_chat(request: Mapping[str, Any], said: str, url: str) -> dict[str, Any]:
    """Return the request of a Chat Completions server with the beginning of its answer."""
    if _is_flagged(url):
        return _with(request, "messages", {"role": "assistant", "content": said, "prefix": True})
    # llama.cpp and vLLM; a server that knows neither continues all the same, or objects.
    flags = {"continue_final_message": True, "add_generation_prompt": False}
    extra: dict[str, Any] = {**(request.get("extra_body") or {}), **flags}
    return {**prefixed(request, said), "extra_body": extra}


def prefixed(request: Mapping[str, Any], said: str) -> dict[str, Any]:
    """Return the request of Anthropic's API with the beginning of its answer."""
    return _with(request, "messages", {"role": "assistant", "content": said})


def quoted(request: Mapping[str, Any], said: str, *, at: str = "messages") -> dict[str, Any]:
    """Return the request with the text quoted, and the request to continue it."""
    return _with(request, at, {"role": "assistant", "content": said.rstrip()}, {"role": "user", "content": go_on(said)})


def go_on(said: str) -> str:
    """Return the user's message that asks a model to continue its cut message."""
    return f"{GO_ON}{said.rstrip()[-_QUOTED:]!r}"


def _with(request: Mapping[str, Any], at: str, *more: Mapping[str, Any]) -> dict[str, Any]:
    before = request[at]
    said: list[Any] = [{"role": "user", "content": before}] if isinstance(before, str) else list(before)
    return {**request, at: [*said, *more]}


def _is_flagged(url: str) -> bool:
    address = urlsplit(url)
    return address.path.startswith(_FLAGGED.get(address.hostname or "", "\0"))


class Joint:
    """Join a text and its continuation by the model, without what the model repeats.

    A word that is left out by mistake is lost for good and unnoticed; one that stays by mistake is seen twice. So
    only what cannot well be meant is left out: the model goes back to the beginning of a line or sentence and says it
    again, up to the cut, in the middle of another, or in more than one. A word, a row or a sentence that is said twice
    stays, and so does anything that was said more than once before.
    """

    def __init__(self, said: str) -> None:
        self._said = said
        self._held = ""
        self._is_over = not said

    def take(self, text: str) -> str:
        """More of what it says: what of it is new, as far as that is known by now."""
        if self._is_over:
            return text
        self._held += text
        return "" if self._may_repeat() else self.rest()

    def rest(self) -> str:
        """End the text and return what is new in the part that was held back."""
        self._is_over = True
        held, self._held = self._held, ""
        bare, ends = held.lstrip(), (self._said, self._said.rstrip())
        lengths = range(min(len(bare), len(self._said)), 0, -1)
        again = next((bare[:length] for length in lengths if any(end.endswith(bare[:length]) for end in ends)), "")
        new = bare[len(again) :] if self._begins_anew(again.rstrip()) else held
        return new.lstrip(" ") if self._said.endswith(" ") else new

    def _may_repeat(self) -> bool:
        """Return whether all of it so far begins the text, or stands near its end: then more of that may follow."""
        bare = self._held.lstrip()
        if len(bare) >= len(self._said):
            return False
        return self._said.startswith(bare) or bare in self._said[-_NEAR:]

    def _begins_anew(self, again: str) -> bool:
        """Return whether the end of the text, said ``again`` by the model, cannot well be meant to come twice."""
        if len(set(_WORD.findall(again.casefold()))) < _FEWEST or self._said.count(_UNIT_END.split(again)[0]) > 1:
            return False
        before = self._said.rstrip()[: -len(again)]
        # Behind a whole line or sentence an equal one may follow: a row of a table, a verse.
        is_whole = _ends_a_unit(self._said)
        return (not before or _ends_a_unit(before)) and (not is_whole or _UNIT_END.search(again) is not None)


def _ends_a_unit(text: str) -> bool:
    """Return whether a line or a sentence ends with the text."""
    return _UNIT_END_LAST.search(text) is not None
