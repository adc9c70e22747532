"""Turn tokens into dollars: by a declared price, or by the price list that Pydantic AI keeps (genai-prices)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from midcourse.runtime.calls import current_call, in_a_step

# Here and not where a price is wanted: that is in the middle of a stop.
try:
    import genai_prices as _list

    # The first look reads the list, which takes its time.
    with suppress(LookupError, ValueError):
        _list.calc_price(_list.Usage(input_tokens=1), "gpt-4o")
except ModuleNotFoundError:  # then only what was declared has a price
    _list: Any = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of a request: ``heard`` counts all of the input, those ``cached`` among them; ``said`` the output."""

    heard: int = 0
    said: int = 0
    cached: int = 0
    written_to_cache: int = 0


def dollars(model: str, used: TokenUsage, *, provider: str | None = None, url: str | None = None) -> float | None:
    """Return the cost of a request; None if it is unknown: nothing was declared, and the model is on no price list."""
    declared = current_call().prices.get(model) if in_a_step() else None
    if declared is not None and declared.is_free:
        return 0.0
    if not (used.heard or used.said):  # a stream that was cut before it reported its usage
        return None
    if declared is not None:
        return declared.of(heard=used.heard, said=used.said, cached=used.cached)
    if _list is None:
        return None
    usage = _list.Usage(
        input_tokens=used.heard,
        output_tokens=used.said,
        cache_read_tokens=used.cached,
        cache_write_tokens=used.written_to_cache,
    )
    if url is not None:
        with suppress(LookupError, ValueError):
            return float(_list.calc_price(usage, model, provider_api_url=url).total_price)
    if provider or url is None:  # behind a proxy, the address tells nothing
        with suppress(LookupError, ValueError):
            return float(_list.calc_price(usage, model, provider_id=provider).total_price)
    return None


F = TypeVar("F", bound=Callable[..., Any])


def priced(body: F) -> F:
    """Mark a body that prices its request itself, before it makes it, with a ``PriceMeter``."""
    body.foresees = True  # pyright: ignore[reportFunctionMemberAccess]
    return body


_BYTES: Final = 4
"""Bytes of a token, on average: a guess, for as long as a provider has not told."""
_PICTURE: Final = 1_000
"""Tokens of a picture or a file that is sent along."""
_DEEPEST: Final = 12
_MANY: Final = 1_000


def tokens_in(prompt: object, depth: int = 0) -> int:
    """About how many tokens the texts of a request have, whatever objects a library makes of it."""
    if isinstance(prompt, str):
        is_file = prompt.startswith("data:") or (len(prompt) > 4_000 and " " not in prompt[:1_000])
        return _PICTURE if is_file else -(-len(prompt.encode("utf-8", "replace")) // _BYTES)
    if isinstance(prompt, bytes):
        return _PICTURE
    if prompt is None or isinstance(prompt, int | float) or callable(prompt) or depth > _DEEPEST:
        return 0
    if isinstance(prompt, Mapping):
        items: list[object] = list(cast("Mapping[object, object]", prompt).values())
    elif isinstance(prompt, list | tuple):
        items = list(cast("list[object]", prompt))
    elif is_dataclass(prompt):
        items = [getattr(prompt, field.name, None) for field in fields(prompt)]
    else:
        items = list(getattr(prompt, "__dict__", {}).values())
    return sum(tokens_in(item, depth + 1) for item in items)


class PriceMeter:
    """The price of one request: foreseen before it is made, counted while it is answered. In the body of a step."""

    def __init__(
        self, prompt: object, *, at_most: int | None = None, provider: str | None = None, url: str | None = None
    ) -> None:
        """Return ``at_most``: the most tokens that the answer may have."""
        self.prompt = tokens_in(prompt)
        self._at_most = at_most
        self._dollars = partial(dollars, provider=provider, url=url)
        self._known: tuple[str, TokenUsage] | None = None
        self._rates: tuple[float, float] | None = None

    def begin(self, model: str) -> None:
        """Check the budget before the request is made.

        Raises:
            InterruptRequested: it would cost more than is left of the session's budget.
        """
        call = current_call()
        usual = call.usual_output if self._at_most is None else min(call.usual_output, self._at_most)
        price = self.price(model, TokenUsage(said=usual))
        if price is not None:
            call.foresee(price)

    def count(self, model: str, said: int, heard: int = 0) -> None:
        """More of the answer has come."""
        current_call().spend(self.price(model, TokenUsage(heard, said)), said)

    def price(self, model: str, used: TokenUsage) -> float | None:
        """Dollars; None where that is not known. As long as nothing was ``heard`` of the prompt, it is a guess."""
        prompt = replace(used, heard=used.heard or self.prompt, said=0)
        if (model, prompt) != self._known:  # to search the list takes longer than a word does
            self._known = (model, prompt)
            heard, more = self._dollars(model, prompt), self._dollars(model, replace(prompt, said=_MANY))
            self._rates = None if heard is None or more is None else (heard, (more - heard) / _MANY)
        return None if self._rates is None else self._rates[0] + used.said * self._rates[1]
