"""Dollars from tokens: as somebody declared it, or by the price list that Pydantic AI keeps (genai-prices)."""

from contextlib import suppress
from typing import Any

from midcourse.runtime.calls import current_call, in_a_step

# Here and not where a price is wanted: that is in the middle of a stop.
try:
    import genai_prices as _list
except ModuleNotFoundError:  # then only what was declared has a price
    _list: Any = None


def dollars(
    *,
    model: str,
    heard: int,
    said: int,
    cached: int = 0,
    written_to_cache: int = 0,
    provider: str | None = None,
    url: str | None = None,
) -> float | None:
    """What a request has cost; None where nobody knows: nothing was declared, and the model is on no price list.

    ``heard`` counts all input tokens, those ``cached`` among them; ``said`` the output.
    """
    declared = current_call().prices.get(model) if in_a_step() else None
    if declared is not None and declared.is_free:
        return 0.0
    if not (heard or said):  # a stream that was cut before it told what it used
        return None
    if declared is not None:
        return declared.of(heard=heard, said=said, cached=cached)
    if _list is None:
        return None
    usage = _list.Usage(
        input_tokens=heard, output_tokens=said, cache_read_tokens=cached, cache_write_tokens=written_to_cache
    )
    if url is not None:
        with suppress(LookupError, ValueError):
            return float(_list.calc_price(usage, model, provider_api_url=url).total_price)
    if provider or url is None:  # behind a proxy, the address is nobody's
        with suppress(LookupError, ValueError):
            return float(_list.calc_price(usage, model, provider_id=provider).total_price)
    return None
