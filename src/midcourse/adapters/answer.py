"""A model's answer as it comes, in the body of a step: joined to what was said before a cut, and counted by words."""

from midcourse.adapters.continuation import Joint, Way, kept
from midcourse.adapters.prices import PriceMeter
from midcourse.runtime.calls import current_call


class ModelAnswer:
    """The text of one attempt. ``said`` is what it goes on from; empty, if it begins at the beginning."""

    def __init__(self, way: Way) -> None:
        """``way``: how it would go on if it were cut now."""
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
        """All of it, from the beginning."""
        return self.said + self._new

    def begin_again(self) -> None:
        """The provider does not take what was said. Before anything new is."""
        self.said, self._joint = "", Joint("")
        self._call.continue_at(0)

    def take(self, text: str, meter: PriceMeter, model: str, *, said: int = 0, heard: int = 0) -> str:
        """A piece of it: what is new of that. ``said`` and ``heard`` are tokens, as far as the provider tells."""
        self.pieces += 1
        self._call.can_continue("" if self._way == "again" else self._way)
        meter.count(model, max(said, self.pieces), heard)
        return self._keep(self._joint.take(text))

    def used(self, cost: float | None, tokens: int | None) -> None:
        """What the provider says of it in the end, or of a cut: that counts, if it is more than was counted."""
        counted = self._call.spent.cost
        if not self.pieces or counted is None or (cost is not None and cost > counted):
            self._call.spend(cost, tokens or self._call.spent.tokens)

    def rest(self) -> str:
        """What was held back, now that it has ended: it might have been a repetition."""
        return self._keep(self._joint.rest())

    def _keep(self, text: str) -> str:
        self._new += text
        return text
