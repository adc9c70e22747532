"""Stores written by each release are read by today's code: the same pages, the same ends, the same stored names."""

import asyncio
from typing import Any, cast

import pytest

from tests.replay import sentences
from tests.replay.fixture_reader import STORES, ends_of, kept, lasting, pages_of
from tests.replay.names import PINNED, stored_names

RELEASES = sorted(place.name for place in STORES.iterdir())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Each release that has written a store."""
    return str(request.param)


def test_every_page_over_an_old_store_says_what_it_said_when_the_store_was_written(release: str) -> None:
    expected: dict[str, Any] = kept(release, "pages")
    found = pages_of(release)
    assert sorted(found) == sorted(expected)
    for address, kept_page in expected.items():
        page = lasting(address, kept_page)
        assert _known(found[address], page) == page, address


def _known(found: object, expected: object) -> object:
    """Return ``found`` without the fields that ``expected`` lacks: a later release may add some."""
    if isinstance(found, dict) and isinstance(expected, dict):
        fields, pinned = cast("dict[str, Any]", found), cast("dict[str, Any]", expected)
        return {name: _known(fields[name], value) for name, value in pinned.items() if name in fields}
    if isinstance(found, list) and isinstance(expected, list):
        ones, others = cast("list[Any]", found), cast("list[Any]", expected)
        return [_known(*pair) for pair in zip(ones, others, strict=True)] if len(ones) == len(others) else ones
    return cast("object", found)


def test_the_sessions_of_an_old_store_come_to_the_same_ends_with_the_same_effects(release: str) -> None:
    expected: dict[str, Any] = kept(release, "ends")
    found = asyncio.run(ends_of(release))
    assert found["sessions"] == expected["sessions"]
    assert found["effects"] == expected["effects"]


def test_every_stored_field_keeps_its_name() -> None:
    """What is missing here was renamed or removed: old records would be read as if it had its default."""
    assert set(PINNED.read_text().splitlines()) - set(stored_names()) == set()


def test_a_new_stored_field_is_pinned() -> None:
    """After adding one: ``python -m tests.replay.names``."""
    assert set(stored_names()) - set(PINNED.read_text().splitlines()) == set()


def test_every_sentence_of_an_error_is_pinned() -> None:
    """After changing one: ``python -m tests.replay.sentences``."""
    assert sentences.error_sentences() == sentences.PINNED.read_text(encoding="utf-8").splitlines()
