"""Declared prices of models that no price list has, in dollars for a million tokens. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Final

import msgspec

from midcourse.errors import InvalidInput

MILLION: Final = 1_000_000
DEAREST: Final = 1_000_000.0
"""Dollars for a million tokens, at most: a higher number must be a mistake."""
MOST_MODELS: Final = 1_000
LONGEST_NAME: Final = 200
_SHOWN: Final = 40


class Price(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """Dollars for a million tokens. ``cached`` is for input that was read from a cache; None: what ``input`` is."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None

    @property
    def is_free(self) -> bool:
        """True if a request costs nothing, however many tokens it has."""
        return not (self.input or self.output or self.cached)

    def of(self, *, heard: int, said: int, cached: int = 0) -> float:
        """Return the cost of a request; ``heard`` counts the ``cached`` tokens, too."""
        again = self.input if self.cached is None else self.cached
        return (max(0, heard - cached) * self.input + cached * again + said * self.output) / MILLION


FREE: Final = Price()
"""A model that costs nothing, such as one that runs on a machine of one's own."""
Prices = Mapping[str, Price]
"""By the name with which a model answers."""


def check_prices(prices: Prices) -> None:
    """Check declared prices.

    Raises:
        InvalidInput: there are too many, a name is empty or too long, or a price is no amount of dollars.
    """
    if len(prices) > MOST_MODELS:
        raise InvalidInput(f"There are prices of {len(prices):,} models; at most {MOST_MODELS:,}.", field="prices")
    for model, price in prices.items():
        if not isinstance(price, Price):  # pyright: ignore[reportUnnecessaryIsInstance] - people write 0, or a dict
            raise InvalidInput(
                f"The price of {model!r} is {price!r}. Give a midcourse.Price(input=…, output=…); Price() is free.",
                field="prices",
            )
        if not isinstance(model, str) or not 0 < len(model) <= LONGEST_NAME:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                f"A model's name is text of 1 to {LONGEST_NAME} characters, not {str(model)[:_SHOWN]!r}.",
                field="prices",
            )
        for name in Price.__struct_fields__:
            amount: object = getattr(price, name)
            if amount is None and name == "cached":
                continue
            if not (isinstance(amount, int | float) and isfinite(amount) and 0 <= amount <= DEAREST):
                raise InvalidInput(
                    f"The {name} price of '{model}' is {amount!r}; it is dollars for a million tokens, from 0 to "
                    f"{DEAREST:,.0f}.",
                    field="prices",
                )
