"""What an editor takes is what the loader takes, as far as a schema can say it."""

import json
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from midcourse.policy import load_policy, schema, to_yaml
from midcourse.policy.descriptions import meaning
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.schema import schema_json
from midcourse.policy.yaml_positions import read_page
from midcourse.policy.yaml_writer import to_document
from tests.policies.strategies import policies
from tests.policies.test_loading import MISTAKES

CHECK: Any = jsonschema.Draft202012Validator(schema())


def test_it_is_a_schema_and_printed_as_it_is() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert json.loads(schema_json()) == schema()
    assert schema()["required"] == ["policy"]


def test_every_parameter_is_there_with_its_meaning_its_default_and_nothing_else() -> None:
    def look(part: Any, standard: Any, under: str) -> int:
        assert part["additionalProperties"] is False
        assert part["properties"].keys() == standard.keys()
        count = 0
        for name, field in part["properties"].items():
            assert field["description"] == meaning(f"{under}{name}")
            if "properties" in field:
                count += look(field, standard[name], f"{under}{name}.")
                continue
            count += 1
            if under or name not in ("policy", "version", "extends", "about"):
                assert json.loads(json.dumps(field["default"])) == json.loads(json.dumps(standard[name]))
                CHECK.evolve(schema=field).validate(json.loads(json.dumps(standard[name])))
        return count

    assert look(schema(), to_document(STANDARD), "") > 100


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_is_taken(name: str) -> None:
    CHECK.validate(yaml.safe_load(to_yaml(BUILT_IN[name])))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(policies())
def test_every_policy_is_taken(policy: Policy) -> None:
    CHECK.validate(read_page(to_yaml(policy)).content)


@pytest.mark.parametrize(
    "case",
    [
        *("a typo", "a typo in a key", "a typo at the top", "a typo in a class", "in the wrong place"),
        *("a typo in a word", "a text for a number", "a number for a text", "a half for a whole", "no span"),
        *("a span below zero", "minutes and seconds", "a truth that is a word", "above one", "a list for a number"),
        *(
            "a number for a part",
            "an empty part",
            "what cannot be taken away",
            "three for a pair",
            "no name",
            "a bad name",
        ),
    ],
)
def test_a_mistake_is_underlined(case: str) -> None:
    assert not CHECK.is_valid(read_page(MISTAKES[case][0]).content)


@pytest.mark.parametrize("text", ["policy: a\nextends: team@3", "policy: a\nextends: null", "policy: a\nversion: 2"])
def test_what_only_a_store_knows_is_taken(text: str) -> None:
    CHECK.validate(read_page(text).content)
    assert load_policy("policy: a\nresponse_target: 30 s").response_target == 30
    CHECK.validate({"policy": "a", "response_target": "30 s"})
