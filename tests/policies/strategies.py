"""Policies that somebody could have meant, for hypothesis."""

import types
from typing import Any, Union, get_args, get_origin

from hypothesis import assume
from hypothesis import strategies as st
from msgspec import inspect

from midcourse.policy.document import Policy
from midcourse.policy.durations import Span
from midcourse.policy.profiles import BUILT_IN
from midcourse.policy.validation import IDENTITY, Parameter, contradictions, parameters
from midcourse.policy.yaml_reader import choices, policy_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True)
SPANS = st.one_of(
    st.sampled_from([0.1, 1, 30, 60, 90, 600, 2700, 86_400]), st.floats(1e-9, 1e9), st.integers(1, 100_000)
).map(Span)


def _is_removable(kind: object) -> bool:
    return type(None) in get_args(kind) if get_origin(kind) in (types.UnionType, Union) else False


def value_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """What a parameter may be set to."""
    removable = _is_removable(parameter.kind)
    kinds = [one for one in get_args(parameter.kind) if one is not type(None)] if removable else []
    info = inspect.type_info(kinds[0] if len(kinds) == 1 else parameter.kind)
    while isinstance(info, inspect.Metadata):
        info = info.type
    found: st.SearchStrategy[Any]
    match info:
        case inspect.CustomType():
            found = SPANS
        case inspect.FloatType(le=most):
            found = st.floats(0, 1 if most else 1e9) | st.integers(0, 1 if most else 100).map(float)
        case inspect.IntType():
            found = st.integers(0, 10**6)
        case inspect.BoolType():
            found = st.booleans()
        case inspect.LiteralType():
            found = st.sampled_from(choices(parameter.kind))
        case inspect.TupleType():
            found = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda pair: tuple(sorted(pair)))
        case inspect.VarTupleType(item_type=inspect.StrType()):
            found = st.lists(TEXTS, max_size=3).map(tuple)
        case inspect.VarTupleType():
            found = st.lists(st.floats(0.01, 60), max_size=3, unique=True).map(lambda some: tuple(sorted(some)))
        case _:
            found = TEXTS
    return found | st.none() if removable else found


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """One that was made from a built-in policy by changing a few parameters."""
    base = draw(st.sampled_from(sorted(BUILT_IN)))
    found = list(parameters(BUILT_IN[base]))
    settings = {one.path: one.value for one in found}
    may_change = [one for one in found if one.path not in IDENTITY]
    for one in draw(st.lists(st.sampled_from(may_change), max_size=8)):
        settings[one.path] = draw(value_of(one))
    settings["policy"] = draw(NAMES)
    settings["version"] = draw(st.integers(0, 10**6))
    settings["about"] = draw(TEXTS)
    settings["extends"] = draw(st.sampled_from([base, f"{base}@1", "standard", ""]))
    assume(settings["extends"] != settings["policy"])
    policy = policy_of(settings)
    assume(not contradictions(policy))
    return policy
