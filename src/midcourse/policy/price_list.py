"""Read a price list from YAML, for models whose price is not known, by the names with which they answer.

A model is given a price for a million tokens (``{input: 0.4, output: 1.6}``), or 0 if it costs nothing.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final, cast

from midcourse.core.choices import suggestion
from midcourse.core.prices import DEAREST, FREE, LONGEST_NAME, MOST_MODELS, Price, check_prices
from midcourse.policy.validation import shown
from midcourse.policy.yaml_positions import Mistake, PolicyPage, read_page, refusal
from midcourse.policy.yaml_reader import read_text

_AFTER: Final = "No price was read."
_PARTS: Final = tuple(Price.__struct_fields__)
_ANY: Final = f"dollars for a million tokens, from 0 to {DEAREST:,.0f}"


def read_prices(path: str | Path) -> dict[str, Price]:
    """Return the prices in a file.

    Raises:
        InvalidInput: it cannot be read, or has mistakes; each is reported with its line.
    """
    return load_prices(read_text(path, what="price list", after=_AFTER), source=str(path))


def load_prices(text: str, *, source: str = "") -> dict[str, Price]:
    """Return the prices that YAML text declares. ``source`` is the text's name in errors.

    Raises:
        InvalidInput: it has mistakes; each is reported with its line.
    """
    page = read_page(text, source, after=_AFTER)
    if not isinstance(page.content, Mapping):
        wanted = (
            f"the name of each model with its price: my-model: {{input: 0.4, output: 1.6}}, {_ANY}; 0 if it is free"
        )
        found = "nothing is here" if page.content is None else f"this is {shown(page.content)}"
        raise refusal([Mistake(1, "prices", f"{found}. Write {wanted}.")], source, after=_AFTER)
    models = cast("Mapping[str, object]", page.content)
    mistakes = list(_mistakes(models, page))
    if mistakes:
        raise refusal(mistakes, source, after=_AFTER)
    prices = {name: _price(value) for name, value in models.items()}
    check_prices(prices)
    return prices


def _price(value: object) -> Price:
    return Price(**cast("Mapping[str, float]", value)) if isinstance(value, Mapping) else FREE


def _mistakes(models: Mapping[str, object], page: PolicyPage) -> Iterator[Mistake]:
    if len(models) > MOST_MODELS:
        yield Mistake(1, "prices", f"these are the prices of {len(models):,} models; at most {MOST_MODELS:,}.")
    for name, value in models.items():
        line = page.line((name,))
        if not 0 < len(name) <= LONGEST_NAME:
            yield Mistake(line, name[:20], f"a model's name has 1 to {LONGEST_NAME} characters, not {len(name):,}.")
        elif isinstance(value, Mapping):
            yield from _of_parts(name, cast("Mapping[str, object]", value), page)
        elif value != 0 or isinstance(value, bool):
            yield Mistake(
                line,
                name,
                f"the price of {shown(name)} is {shown(value)}. Write {{input: …, output: …}}, {_ANY}; 0: it is free.",
            )


def _of_parts(name: str, parts: Mapping[str, object], page: PolicyPage) -> Iterator[Mistake]:
    for part in ("input", "output"):
        if part not in parts:
            yield Mistake(
                page.line((name,)),
                f"{name}.{part}",
                f"the {part} price of {shown(name)} is missing. Write it; 0 costs nothing.",
            )
    for part, amount in parts.items():
        line, field = page.line((name, part)), f"{name}.{part}"
        if part not in _PARTS:
            yield Mistake(line, field, f"there is no price {shown(part)} of {shown(name)}. {suggestion(part, _PARTS)}")
        elif (
            isinstance(amount, bool)
            or not isinstance(amount, int | float)
            or not (isfinite(amount) and 0 <= amount <= DEAREST)
        ):
            yield Mistake(line, field, f"the {part} price of {shown(name)} is {shown(amount)}; it is {_ANY}.")
