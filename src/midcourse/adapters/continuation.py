"""Continue a text that was cut: from its own end where the provider allows it, else by a request that quotes it.

``prefix``: the text is sent as the beginning of the model's own message, which the model continues. ``quote``: it is
sent as an earlier message of the model, and the model is asked to continue it. Where neither is possible, the answer
begins again.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeVar

from midcourse.adapters.prices import PriceMeter
from midcourse.models.script import CUT_OFF
from midcourse.runtime.calls import current_call

Way = Literal["prefix", "quote", "again"]
M = TypeVar("M")

_TAKES_A_PREFIX: Final = re.compile(
    r"claude-(?:instant|2|3|(?:opus|sonnet|haiku)-4(?:[-.](?:[0-5]|\d{8})(?!\d)|(?![-.]?\d)))"
)
"""Models of Anthropic up to 4.5; later ones refuse a conversation that does not end with the user."""
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


def takes_a_prefix(model: str) -> bool:
    """Return True if this Anthropic model continues a message that was begun for it."""
    return _TAKES_A_PREFIX.search(model) is not None


def kept(said: str, way: str) -> str:
    """Return the part of a text to continue from: without a space at its end; if quoted, whole words."""
    if way == "prefix":
        return said.rstrip()
    if way != "quote" or not said.strip():
        return ""
    return said if said[-1].isspace() else said[: len(said) - len(said.rsplit(maxsplit=1)[-1])]


def go_on(said: str) -> str:
    """Return the user's message that asks a model to continue its cut message."""
    return f"{GO_ON}{said.rstrip()[-_QUOTED:]!r}"


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


class ModelAnswer:
    """The text of one attempt. ``said`` is the text that it continues, empty if the answer begins anew."""

    def __init__(self, way: Way = "again") -> None:
        """``way``: how the answer would be continued if it were cut now."""
        self._call = current_call()
        self.way: Way = way
        self._new = ""
        self.pieces = 0
        self._call.can_continue("")
        self.said = kept(self._call.prefix, self._call.way)
        self.is_quoted = bool(self.said) and self._call.way == "quote"
        self._call.continue_at(len(self.said))
        self._joint = Joint(self.said if self.is_quoted else "")

    @property
    def text(self) -> str:
        """The whole text, from the beginning."""
        return self.said + self._new

    def continued(self, messages: Iterable[M], begun: Callable[[str], M], wish: Callable[[str], M]) -> list[M]:
        """Return the messages with what was said before, as ``begun`` makes it; if it is quoted, with a ``wish``."""
        more = [begun(self.said.rstrip())] if self.said else []
        return [*messages, *more, *([wish(go_on(self.said))] if self.is_quoted else [])]

    def begin_again(self) -> None:
        """Drop the earlier text, which the provider did not accept. Call it before any new text."""
        self.said, self._joint = "", Joint("")
        self._call.continue_at(0)

    def take(self, text: str, meter: PriceMeter, model: str, *, said: int = 0, heard: int = 0) -> str:
        """Add a piece and return what is new in it. ``said`` and ``heard`` are tokens, if the provider reports them."""
        self.pieces += 1
        self.can_continue()
        meter.count(model, max(said, self.pieces), heard)
        return self.say(text)

    def can_continue(self) -> None:
        """Note that the answer could be continued, if it were cut now."""
        self._call.can_continue("" if self.way == "again" else self.way)

    def say(self, text: str) -> str:
        """Add a piece and return what is new in it."""
        return self._keep(self._joint.take(text))

    def used(self, cost: float | None, tokens: int | None) -> None:
        """Count the provider's own figures, at the end or after a cut, if they are higher than what was counted."""
        counted = self._call.spent.cost
        if not self.pieces or counted is None or (cost is not None and cost > counted):
            self._call.spend(cost, tokens or self._call.spent.tokens)

    def rest(self) -> str:
        """Return the text that was held back as a possible repetition, now that the stream has ended."""
        return self._keep(self._joint.rest())

    def _keep(self, text: str) -> str:
        self._new += text
        return text
