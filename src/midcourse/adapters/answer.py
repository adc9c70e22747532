"""A model's answer as it comes, in the body of a step: joined to what was said before a cut, and counted by words."""

from midcourse.adapters.continuation import Joint, Way, kept
from midcourse.adapters.prices import PriceMeter
from midcourse.runtime.calls import current_call


class ModelAnswer:
    """The text of one attempt. ``said`` is the text that it continues, empty if the answer begins anew."""

    def __init__(self, way: Way) -> None:
        """``way``: how the answer would be continued if it were cut now."""
        self._call = current_call()
        self._way: Way = way
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

    def begin_again(self) -> None:
        """Drop the earlier text, which the provider did not accept. Call it before any new text."""
        self.said, self._joint = "", Joint("")
        self._call.continue_at(0)

    def take(self, text: str, meter: PriceMeter, model: str, *, said: int = 0, heard: int = 0) -> str:
        """Add a piece and return what is new in it. ``said`` and ``heard`` are tokens, if the provider reports them."""
        self.pieces += 1
        self._call.can_continue("" if self._way == "again" else self._way)
        meter.count(model, max(said, self.pieces), heard)
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
