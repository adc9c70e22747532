"""Dollars from tokens, by the price list that Pydantic AI keeps (genai-prices)."""

from contextlib import suppress

from genai_prices import Usage, calc_price


def dollars(
    *,
    model: str,
    heard: int,
    said: int,
    cached: int = 0,
    written_to_cache: int = 0,
    provider: str | None = None,
    url: str | None = None,
) -> float:
    """What a request has cost; 0 where the model is on no price list, such as one that runs on this machine.

    ``heard`` counts all input tokens, those ``cached`` among them; ``said`` the output.
    """
    usage = Usage(input_tokens=heard, output_tokens=said, cache_read_tokens=cached, cache_write_tokens=written_to_cache)
    if url is not None:
        with suppress(LookupError, ValueError):
            return float(calc_price(usage, model, provider_api_url=url).total_price)
    with suppress(LookupError, ValueError):  # behind a proxy, the address is nobody's
        return float(calc_price(usage, model, provider_id=provider).total_price) if provider or url is None else 0.0
    return 0.0
