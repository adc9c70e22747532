"""What models cost that are on no price list: as a file declares it, and as calls are charged."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.core.events import StepCut, StepFinished
from midcourse.core.prices import FREE, MOST_MODELS, Price, check_prices
from midcourse.errors import InvalidInput
from midcourse.models.script import Text, replies
from midcourse.policy.price_list import load_prices, read_prices
from tests.promises.harness import history

WORDS = wrap(Agent(scripted(replies(Text("It is a fine day.")), "house"), name="priced-words"))


async def spent(prices: dict[str, Price]) -> tuple[float, int, StepFinished]:
    """What one call of a model that is on no list has cost, how many have no price, and the call."""
    async with midcourse.open("memory://", settings=midcourse.Settings(prices=prices)) as mc:
        session = await mc.start(WORDS, "How is it?")
        await session.result()
        state = await session.state()
        [finished] = [one.event for one in await history(session) if isinstance(one.event, StepFinished)]
        return state.cost, state.unpriced, finished


async def test_a_price_that_nobody_knows_is_unknown() -> None:
    cost, unpriced, finished = await spent({"another": FREE})
    assert (cost, unpriced, finished.free) == (0.0, 1, False)


async def test_a_model_that_is_declared_free_is_known_to_cost_nothing() -> None:
    cost, unpriced, finished = await spent({"house": FREE})
    assert (cost, unpriced, finished.free) == (0.0, 0, True)


async def test_tokens_are_charged_as_declared() -> None:
    _, _, counted = await spent({})
    cost, unpriced, finished = await spent({"house": Price(input=0.0, output=200_000.0)})
    assert (cost, unpriced) == (pytest.approx(0.2 * counted.tokens), 0)
    assert not finished.free


async def test_a_free_call_that_fails_has_cost_nothing() -> None:
    async def words() -> AsyncIterator[str | midcourse.StreamEnd]:
        yield "a word"
        yield midcourse.StreamEnd(value=object(), cost=0.0)  # which cannot be written down

    @midcourse.agent
    async def fails_for_free(run: midcourse.Run) -> None:
        await run.stream("think", words)

    async with midcourse.open("memory://") as mc:
        session = await mc.start(fails_for_free, "x")
        with pytest.raises(midcourse.SessionEnded):
            await session.result()
        assert (await session.state()).unpriced == 0


@pytest.mark.parametrize("price", [FREE, Price(input=0, output=0, cached=0)])
def test_what_costs_nothing_is_free_however_it_is_written(price: Price) -> None:
    assert price.is_free
    assert not Price(cached=0.1).is_free


def test_more_cached_than_heard_gives_nobody_money_back() -> None:
    assert Price(input=10, output=0, cached=0).of(heard=100, said=0, cached=5_000) == 0


@pytest.mark.parametrize(
    ("prices", "sentence"),
    [
        ({"m": 0}, "The price of 'm' is 0. Give a midcourse.Price"),
        ({"m": {"input": 1}}, "Give a midcourse.Price"),
        ({"m": Price(input="0.4")}, "The input price of 'm' is '0.4'; it is dollars"),  # pyright: ignore[reportArgumentType]
        ({"m": Price(output=None)}, "The output price of 'm' is None"),  # pyright: ignore[reportArgumentType]
        ({4: FREE}, "A model's name is text"),
        (None, "prices is a dict"),
    ],
)
def test_prices_that_are_none_are_told(prices: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(sentence)):
        midcourse.Settings(prices=prices)


def test_a_price_list_that_is_too_large_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text("# " + "x" * 200_000)
    with pytest.raises(InvalidInput, match=r"which no price list has\. No price was read\."):
        read_prices(tmp_path / "big.yaml")


async def test_a_free_model_that_is_cut_has_cost_nothing() -> None:
    slow = wrap(Agent(scripted(replies(Text("word " * 500, every=0.01)), "house"), name="priced-slowly"))
    async with midcourse.open("memory://", settings=midcourse.Settings(prices={"house": FREE})) as mc:
        session = await mc.start(slow, "Go on.")
        async for seen in session.watch(deltas=True):
            if isinstance(seen, midcourse.Delta):
                break
        await session.pause(until="stopped")
        [cut] = [one.event for one in await history(session) if isinstance(one.event, StepCut)]
        assert (cut.cost, cut.free) == (0.0, True)
        assert (await session.state()).unpriced == 0


def test_what_is_read_from_a_cache_has_a_price_of_its_own_if_it_is_given() -> None:
    assert Price(input=2.0, output=6.0).of(heard=1_000_000, said=500_000, cached=400_000) == pytest.approx(5.0)
    assert Price(input=2.0, output=6.0, cached=0.5).of(heard=1_000_000, said=0, cached=400_000) == pytest.approx(1.4)


def test_a_file_says_it_in_dollars_for_a_million_tokens(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("house: {input: 0.4, output: 1.6, cached: 0.1}\nllama: 0\n")
    assert read_prices(file) == {"house": Price(input=0.4, output=1.6, cached=0.1), "llama": FREE}
    assert load_prices("{}") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("house: {inptu: 1, output: 2}", "line 1: there is no price 'inptu' of 'house'. Did you mean 'input'?"),
        ("house: {input: 1}", "line 1: the output price of 'house' is missing. Write it; 0 costs nothing."),
        ("a: 0\nhouse: 3", "line 2: the price of 'house' is 3. Write {input: …, output: …}"),
        ("house: true", "the price of 'house' is true."),
        (
            "house: {input: -1, output: 0}",
            "the input price of 'house' is -1; it is dollars for a million tokens, from 0",
        ),
        ("house: {input: .nan, output: 0}", "the input price of 'house' is"),
        ("house: {input: 2000000, output: 0}", "the input price of 'house' is 2000000; it is dollars"),
        ("- house", "line 1: this is ['house']. Write the name of each model with its price"),
        ("house: {", "this is no YAML"),
        (f"{'m' * 201}: 0", "a model's name has 1 to 200 characters, not 201."),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_line_and_nothing_is_taken(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_prices(text, source="prices.yaml")
    assert told in str(caught.value)
    assert str(caught.value).startswith("prices.yaml")
    assert str(caught.value).endswith("No price was read.")


def test_settings_take_no_price_that_is_none_and_not_any_number_of_them() -> None:
    with pytest.raises(InvalidInput, match="The output price of 'house' is inf"):
        midcourse.Settings(prices={"house": Price(output=float("inf"))})
    with pytest.raises(InvalidInput, match="1,001 models"):
        check_prices({f"m{number}": FREE for number in range(MOST_MODELS + 1)})
