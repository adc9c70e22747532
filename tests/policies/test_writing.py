"""What is written reads back the same, and says of each line what it means."""

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.errors import Damaged, InvalidInput
from midcourse.policy import load_policy, to_yaml
from midcourse.policy.descriptions import meaning
from midcourse.policy.document import Policy
from midcourse.policy.durations import Span
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.validation import parameters
from midcourse.policy.yaml_positions import read_page
from midcourse.policy.yaml_reader import fields_of, is_part
from midcourse.policy.yaml_writer import from_document, to_document, written
from tests.policies.strategies import TEXTS, policies

RELAXED = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_reads_back_the_same(name: str) -> None:
    assert load_policy(to_yaml(BUILT_IN[name])) == BUILT_IN[name]
    assert from_document(msgspec.json.decode(msgspec.json.encode(to_document(BUILT_IN[name])))) == BUILT_IN[name]


@RELAXED
@given(policies())
def test_every_policy_reads_back_the_same(policy: Policy) -> None:
    assert load_policy(to_yaml(policy)) == policy
    assert from_document(msgspec.json.decode(msgspec.json.encode(to_document(policy)))) == policy
    # JSON is YAML, but for some signs that nobody types; a document is a policy that leaves nothing out.
    document = msgspec.json.encode(to_document(policy)).decode()
    if document.isprintable():
        assert load_policy(document) == policy


@RELAXED
@given(policies())
def test_other_readers_of_yaml_see_the_same(policy: Policy) -> None:
    assert yaml.safe_load(to_yaml(policy)) == read_page(to_yaml(policy)).content


@given(TEXTS | st.floats(0, 1e300) | st.integers(0, 10**30) | st.booleans() | st.none() | st.lists(TEXTS).map(tuple))
def test_every_value_reads_back_the_same(value: object) -> None:
    content = read_page(f"x: {written(value)}").content  # pyright: ignore[reportArgumentType]

    assert content == {"x": list(value) if isinstance(value, tuple) else value}  # pyright: ignore[reportUnknownArgumentType]


def test_only_what_differs_is_written_with_what_it_means_and_what_it_was() -> None:
    signals = replace(STANDARD.signals, cost=replace(STANDARD.signals.cost, warn=5.0, milestones=()))
    policy = replace(STANDARD, name="mine", version=0, extends="standard", about="Mine.", signals=signals)

    assert to_yaml(policy).splitlines() == [
        "policy: mine",
        "extends: standard",
        'about: "Mine."',
        "",
        "# Every signal and its thresholds.",
        "signals:",
        "  # Dollars of a session. A milestone pauses and asks, and beats a warning at the same amount.",
        "  cost:",
        "    warn: 5  # People are notified. In standard: 10.",
        "    milestones: []  # Dollars at which it is paused, and a person is asked whether it may continue. "
        "In standard: [10, 25, 50].",
    ]


def test_a_base_that_is_not_known_is_said_to_be_so() -> None:
    with pytest.raises(InvalidInput, match="There is no policy 'team@3'"):
        to_yaml(replace(STANDARD, name="mine", extends="team@3"))


def test_a_document_of_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(Damaged, match="A later version of Midcourse may have written it"):
        from_document({**to_document(STANDARD), "telepathy": True})


def test_spans_in_documents_are_as_people_write_them() -> None:
    document = to_document(replace(STANDARD, response_target=Span(1 / 3)))

    assert document["signals"]["duration"]["warn"] == "10m"
    assert from_document(document).response_target == 1 / 3


def test_every_parameter_and_every_part_has_a_meaning_that_is_a_sentence() -> None:
    found = [one.path for one in parameters(STANDARD)]
    kinds = [("", Policy)]
    while kinds:
        under, kind = kinds.pop()
        for name, field in fields_of(kind).items():
            if is_part(field.type):
                found.append(f"{under}{name}")
                kinds.append((f"{under}{name}.", field.type))  # pyright: ignore[reportArgumentType]
    for path in found:
        assert meaning(path).endswith("."), path
        assert not meaning(path)[0].islower(), path
        assert "`" not in meaning(path), path
