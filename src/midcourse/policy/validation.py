"""Check that a policy makes sense, and compare two policies. Pure.

A contradiction is a value of the wrong kind, thresholds in the wrong order, thresholds that are always or never
reached, targets that the rest of the document rules out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import inspect

from midcourse.errors import InvalidInput, encodable_text
from midcourse.policy.document import CLASSES, TIMED, Part, Policy
from midcourse.policy.durations import Span, parse_duration

Setting: TypeAlias = "str | float | bool | tuple[str | float, ...] | None"
"""The possible values of a parameter. A Span is a float."""
IDENTITY: Final = ("policy", "version", "extends", "about")
"""The parameters that identify a policy, and change nothing that it does. Never inherited."""
_SHOWN: Final = 60
_FEW: Final = 10


class Parameter(NamedTuple):
    """One value of a policy, by its path, with its Python type."""

    path: str
    value: Setting
    kind: object


class Contradiction(NamedTuple):
    """A contradiction: the parameters it is about, the one to blame first, and what to change."""

    fields: tuple[str, ...]
    sentence: str


class ParameterChange(msgspec.Struct, gc=False, frozen=True):
    """A parameter that two policies set differently. ``tightens``: does the second step in earlier? None: neither."""

    path: str
    before: Setting
    after: Setting
    tightens: bool | None

    @property
    def is_taken_away(self) -> bool:
        """True if the second policy does not step in, or warn, by it any more."""
        return self.tightens is False and (self.after is None or self.after == "never")

    @property
    def words(self) -> str:
        """The effect: ``steps in earlier``, ``steps in later``, ``no longer steps in``; empty if neither."""
        if self.is_taken_away:
            return "no longer warns" if self.path.endswith(".warn") else "no longer steps in"
        return {True: "steps in earlier", False: "steps in later", None: ""}[self.tightens]


# ---- every parameter


def parameters(part: Part, under: str = "") -> Iterator[Parameter]:
    """Yield every parameter of a document or a part of one, in its order."""
    for field in msgspec.structs.fields(part):
        path = f"{under}{field.encode_name}"
        value = getattr(part, field.name)
        if isinstance(value, Part):
            yield from parameters(value, f"{path}.")
        else:
            yield Parameter(path, value, field.type)


def shown(value: object) -> str:
    """Return a setting as a policy's author writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        text = "".join(sign if sign.isprintable() else " " for sign in encodable_text(value[: 2 * _SHOWN]))
        return f"'{text if len(text) <= _SHOWN else f'{text[: _SHOWN - 1]}…'}'"
    if isinstance(value, Span):
        return str(format_duration(value))
    if isinstance(value, int | float):
        text = f"{value:.12g}" if isinstance(value, float) or abs(value) < 10**20 else "a very large number"
        return text.removesuffix(".0")
    if isinstance(value, list | tuple):
        several = cast("Sequence[object]", value)
        return f"[{', '.join(map(shown, several[:_FEW]))}{', …' if len(several) > _FEW else ''}]"
    return "a mapping" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def format_duration(span: Span) -> str | float:
    """Return a span in the exact short form, ``15m``; else its seconds."""
    if not isfinite(span):
        return float(span)
    for text in (str(span), f"{float(span)!r}s", f"{float(span) * 1000!r}ms"):
        try:
            if parse_duration(text) == span:
                return text
        except ValueError:  # 1e-7, say
            continue
    return float(span)


# ---- values


def read_setting(value: object, kind: object) -> Setting:
    """Read ``value``, as JSON or YAML has it, as the setting of a parameter of that kind.

    Raises:
        ValueError: it is none; the text tells what it must be.
    """
    try:
        made: Setting = msgspec.convert(value, kind, dec_hook=read_span)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise ValueError(f"is {shown(value)}; it must be {expected_kind(kind)}") from error
    if not all(_is_sound(one) for one in (made if isinstance(made, tuple) else (made,))):
        raise ValueError(f"is {shown(value)}; it must be {expected_kind(kind)}")
    return made


def read_span(kind: type, value: object) -> Span:
    """Read the one kind of parameter that msgspec does not know."""
    assert kind is Span
    return parse_duration(value)


def _is_sound(value: object) -> bool:
    return not isinstance(value, float) or (isfinite(value) and value >= 0)


def expected_kind(kind: object) -> str:
    """Describe a parameter of that kind."""
    return _words(inspect.type_info(kind))


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return _words(kind.type)
        case inspect.UnionType(types=several):
            return " or ".join(_words(one) for one in several)
        case inspect.IntType(ge=least):
            return f"a whole number from {least:g} on" if least is not None else "a whole number"
        case inspect.FloatType(ge=least, le=most) if most is not None:
            return f"a number from {least or 0:g} to {most:g}"
        case inspect.FloatType(ge=least):
            return f"a number from {least or 0:g} on"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=item):
            return "a list of texts" if isinstance(item, inspect.StrType) else "a list of numbers from 0 on"
        case inspect.StrType(pattern=pattern) if pattern:
            return "a name of up to 64 small letters, digits and hyphens"
        case _:
            return _WORDS.get(type(kind), "a text")


_WORDS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.CustomType: "a span of time (500ms, 30s, 15m, 1h, 7d; or seconds)",
    inspect.TupleType: "a list of two numbers from 0 to 1, the lower one first",
}


# ---- what cannot be meant


def check_policy(policy: Policy) -> Policy:
    """Return the same policy, if it has no contradiction.

    Raises:
        InvalidInput: it has one; the sentence names the numbers and what to change, ``field`` and ``fields`` where.
    """
    found = contradictions(policy)
    if found:
        raise InvalidInput(
            " ".join(one.sentence for one in found), field=found[0].fields[0], fields=[one.fields for one in found]
        )
    return policy


def contradictions(policy: Policy) -> tuple[Contradiction, ...]:
    """Return all contradictions in ``policy``. Values of the wrong kind hide the rest."""
    settings: dict[str, Setting] = {}
    wrong: list[Contradiction] = []
    for path, value, kind in parameters(policy):
        try:
            settings[path] = read_setting(value, kind)
        except ValueError as error:
            wrong.append(Contradiction((path,), f"{path} {error}."))
    if wrong:
        return tuple(wrong)
    checks = (_out_of_order, _never_or_always, _hypothesis, _milestones, _restraint, _classes)
    return tuple(one for check in checks for one in check(settings))


Settings: TypeAlias = Mapping[str, Setting]
_LEVELS: Final = ("warn", "intervene", "stop")
_ASCENDING: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("signals.duration", ("warn", "explain", "intervene", "stop")),
    ("signals.cost", ("warn", "stop")),
    ("signals.cost", ("per_action", "stop")),
    ("signals.budget", ("warn", "stop")),
    ("signals.errors", ("warn", "intervene")),
    ("signals.scope_drift", ("warn", "intervene")),
    ("signals.resources", _LEVELS),
    ("signals.calls_left", ("finish", "intervene")),
    ("signals.hypothesis", ("warn", "intervene")),
    ("signals.loops", ("warn", "intervene")),
    ("signals.api_calls", _LEVELS),
    ("signals.compute_seconds", _LEVELS),
    ("signals.bytes", _LEVELS),
    ("signals.risk", ("warn", "intervene")),
    ("targets", ("response_p50", "response_p99")),
)
"""The thresholds in their order: each is reached no later than the next one."""
_BELOW_IS_WORSE: Final = "signals.token_rate.intervene"
_ABOVE_ONE: Final = {
    "signals.cost.acceleration": "costs as much as the ones before it",
    "signals.scope.expansion": "has not spread at all",
}
_MAY_BE_ZERO: Final = frozenset(
    {
        "signals.calls_left.intervene",
        "signals.calls_left.finish",
        "signals.errors.at_least",
        "signals.risk.first_after",
        _BELOW_IS_WORSE,
        *_ABOVE_ONE,
    }
)


def _number(settings: Settings, path: str) -> float | None:
    value = settings.get(path)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _out_of_order(settings: Settings) -> Iterator[Contradiction]:
    for part, names in _ASCENDING:
        there = [(path, value) for name in names if (value := _number(settings, path := f"{part}.{name}")) is not None]
        for (first, low), (second, high) in pairwise(there):
            if low > high:
                name, other = first.rpartition(".")[2], second.rpartition(".")[2]
                yield Contradiction(
                    (first, second),
                    f"{first} is {shown(low)}, above {second}, which is {shown(high)}: it would never come first. "
                    f"Lower {name} to {shown(high)} or less, or raise {other} to {shown(low)} or more.",
                )


def _never_or_always(settings: Settings) -> Iterator[Contradiction]:
    for path in settings:
        value = _number(settings, path)
        if value is None or not path.startswith("signals."):
            continue
        if value == 0 and path not in _MAY_BE_ZERO:
            yield Contradiction(
                (path,),
                f"{path} is 0, which every run reaches before it has done anything. "
                "Write a number above 0; null takes the threshold away.",
            )
        if path in _ABOVE_ONE and value <= 1:
            yield Contradiction(
                (path,),
                f"{path} is {shown(value)}, which is reached when a run {_ABOVE_ONE[path]}. "
                "Write a number above 1; null takes the threshold away.",
            )
        if path == _BELOW_IS_WORSE and not 0 < value < 1:
            always = "every run falls below its own average" if value else "no rate is below 0"
            yield Contradiction(
                (path,),
                f"{path} is {shown(value)}, and {always}. "
                "Write a share between 0 and 1; null takes the threshold away.",
            )


def _hypothesis(settings: Settings) -> Iterator[Contradiction]:
    required, path = "signals.hypothesis.required", "signals.hypothesis.intervene"
    if settings[required] and settings[path] is None:
        yield Contradiction(
            (path, required),
            f"{required} is true, and {path} is missing: an agent that states none would be held for ever, without "
            f"an ask. Write {path}: 15m, or let required be false.",
        )


def _milestones(settings: Settings) -> Iterator[Contradiction]:
    path, stop = "signals.cost.milestones", _number(settings, "signals.cost.stop")
    found = settings.get(path)
    amounts = [one for one in found if not isinstance(one, str)] if isinstance(found, tuple) else []
    for first, second in pairwise(amounts):
        if second <= first:
            yield Contradiction(
                (path,),
                f"{path} has {shown(second)} behind {shown(first)}. "
                "Write them from the smallest to the largest, each once.",
            )
            return
    if 0 in amounts:
        yield Contradiction((path,), f"{path} has 0, which every run reaches before it has done anything. Take it out.")
    above = [one for one in amounts if stop is not None and one > stop]
    if above and stop is not None:
        yield Contradiction(
            (path, "signals.cost.stop"),
            f"{path} has {shown(above[0])}, above signals.cost.stop, which is {shown(stop)}: it is never reached. "
            f"Keep those up to {shown(stop)}, or raise stop to {shown(above[-1])} or more.",
        )


def _restraint(settings: Settings) -> Iterator[Contradiction]:
    first, stop = _number(settings, "restraint.first_after"), _number(settings, "signals.duration.stop")
    if first is not None and stop is not None and first > stop:
        yield Contradiction(
            ("restraint.first_after", "signals.duration.stop"),
            f"restraint.first_after is {shown(first)}, longer than signals.duration.stop, which is {shown(stop)}: "
            f"nothing would step in before the stop. Lower first_after to {shown(stop)} or less, or raise stop to "
            f"{shown(first)} or more.",
        )
    for path, why in _AT_LEAST_ONE.items():
        if settings.get(path) == 0:
            yield Contradiction((path,), f"{path} is 0: {why}. Write 1 or more.")


_AT_LEAST_ONE: Final = {
    "correction": "no message would be allowed",
    "signals.errors.at_least": "there is no share of no calls",
}


_UNINTERRUPTED: Final = {"protect": "may interrupt", "finish": "interrupts before its end"}


def _classes(settings: Settings) -> Iterator[Contradiction]:
    for name in CLASSES:
        under = f"classes.{name}"
        for rate in ("interruption_rate", "completion_rate"):
            low, high = _pair(settings[f"{under}.{rate}"])
            if low > high:
                yield Contradiction(
                    (f"{under}.{rate}",),
                    f"{under}.{rate} is from {shown(low)} to {shown(high)}. Write the lower one first: "
                    f"[{shown(high)}, {shown(low)}].",
                )
        automatic, strategy = settings[f"{under}.automatic"], settings[f"{under}.strategy"]
        most = _pair(settings[f"{under}.interruption_rate"])[1]
        if automatic == "never" and most > 0:
            yield Contradiction(
                (f"{under}.interruption_rate", f"{under}.automatic"),
                f"{under}.interruption_rate goes up to {shown(most)}, and {under}.automatic is 'never', which is 0. "
                "Write [0, 0], or let automatic be 'watched' or 'yes'.",
            )
        if strategy in _UNINTERRUPTED and automatic != "never":
            yield Contradiction(
                (f"{under}.automatic", f"{under}.strategy"),
                f"{under}.automatic is {shown(automatic)}, and {under}.strategy is '{strategy}', which nothing "
                f"{_UNINTERRUPTED[strategy]}. Let automatic be 'never', or choose another strategy.",
            )
        yield from _how_often(under, settings)
    yield from _limits(settings)


def _how_often(under: str, settings: Settings) -> Iterator[Contradiction]:
    """Check the numbers of a strategy: one that is missing, or 0, cannot be carried out."""
    strategy = settings[f"{under}.strategy"]
    keys = _NEEDS.get(str(strategy), ())
    if keys and not any(settings[f"{under}.{key}"] for key in keys):
        yield Contradiction(
            (f"{under}.strategy", *(f"{under}.{key}" for key in keys)),
            f"{under}.strategy is '{strategy}', and nothing says how often: {' and '.join(keys)} "
            f"{'is' if len(keys) == 1 else 'are'} missing or 0. Write one above 0, or choose another strategy.",
        )
        return
    for key in _HOW_OFTEN:
        if settings[f"{under}.{key}"] == 0:
            yield Contradiction(
                (f"{under}.{key}",), f"{under}.{key} is 0: that is never. Write 1 or more; null takes it away."
            )


_NEEDS: Final = {"checkpoint": ("checkpoint_calls", "checkpoint_tokens"), "incremental": ("segment_tokens",)}
_HOW_OFTEN: Final = ("checkpoint_calls", "checkpoint_tokens", "segment_tokens")


def _limits(settings: Settings) -> Iterator[Contradiction]:
    """Longer classes begin where shorter ones end."""
    for name in CLASSES:
        path = f"classes.{name}.up_to"
        if name not in TIMED and (value := _number(settings, path)) is not None:
            why = "has no end in sight" if name == "very_long" else "must be declared"
            yield Contradiction((path,), f"{path} is {shown(value)}, and {name} is the class that {why}. Leave it out.")
    there = [
        (path, value) for name in TIMED if (value := _number(settings, path := f"classes.{name}.up_to")) is not None
    ]
    for (first, low), (second, high) in pairwise(there):
        if low >= high:
            yield Contradiction(
                (second, first),
                f"{second} is {shown(high)}, and {first} is {shown(low)} already: no task would be of the longer "
                f"class. Raise {second} above {shown(low)}, or lower {first}.",
            )


def _pair(value: Setting) -> tuple[float, float]:
    low, high = value if isinstance(value, tuple) else (0.0, 0.0)
    return float(low), float(high)


# ---- how two differ


def difference(old: Policy, new: Policy) -> tuple[ParameterChange, ...]:
    """Return every parameter that ``new`` sets differently, in the order of the document, without the identity."""
    before = {one.path: one.value for one in parameters(old)}
    return tuple(
        ParameterChange(one.path, before[one.path], one.value, _tightens(one.path, before[one.path], one.value))
        for one in parameters(new)
        if one.path not in IDENTITY and one.value != before[one.path]
    )


HIGHER_IS_EARLIER: Final = frozenset(
    {
        "signals.token_rate.intervene",
        "restraint.interventions_per_hour",
        "restraint.false_positives",
        "restraint.labels",
        "restraint.worth.chance",
    }
)
LOWER_IS_EARLIER: Final = frozenset(
    {
        "restraint.first_after_actions",
        "restraint.first_after",
        "restraint.requests_per_intervention",
        "restraint.patience",
        "restraint.labels_for",
        "restraint.again",
        "restraint.again_after",
        "restraint.worth.per_kilobyte",
        "restraint.worth.recovery",
        "restraint.worth.quality",
        "restraint.worth.quality_for",
        "restraint.worth.attention",
        "agent_asks.near",
        "artifacts.review",
    }
)
"""And every threshold of a signal but those above."""
ON_IS_EARLIER: Final = frozenset(
    {
        "signals.hypothesis.required",
        "signals.risk.enabled",
        "environments.require_tag",
        "environments.approve_paid",
        "artifacts.documented",
        *(f"agent_asks.{name}" for name in ("ambiguous", "credentials", "drift", "limits", "unknown_errors")),
    }
)
OFF_IS_EARLIER: Final = frozenset({"signals.risk.alone"})
_MORE_IS_EARLIER: Final = {
    "signals.cost.milestones": True,
    "environments.approve": True,
    "agent_asks.known_errors": False,
}
_AUTOMATIC: Final = ("never", "watched", "yes")
_NONE_IS_ZERO: Final = frozenset({"signals.calls_left.finish"})
"""None lets nothing finish, as 0 would. Of other thresholds None is never reached."""
_NONE_IS_UNKNOWN: Final = frozenset({"signals.risk.warn", "signals.risk.intervene"})
"""None is what the model was calibrated to."""


def _tightens(path: str, before: Setting, after: Setting) -> bool | None:
    if path.endswith(".automatic") and path.startswith("classes."):
        return _AUTOMATIC.index(str(after)) > _AUTOMATIC.index(str(before))
    if path in _MORE_IS_EARLIER and isinstance(before, tuple) and isinstance(after, tuple):
        return _more(before, after, _MORE_IS_EARLIER[path])
    if path in ON_IS_EARLIER or path in OFF_IS_EARLIER:
        return bool(after) is (path in ON_IS_EARLIER)
    is_higher = path in HIGHER_IS_EARLIER
    is_threshold = path.startswith("signals.") and not isinstance(before, str | tuple | bool)
    if not (is_higher or is_threshold or path in LOWER_IS_EARLIER):
        return None
    if path in _NONE_IS_UNKNOWN and None in (before, after):
        return None
    first, second = (_rank(path, value, is_higher) for value in (before, after))
    return None if first == second else second < first


def _rank(path: str, value: Setting, is_higher: bool) -> float:
    """Return a rank: the lower, the earlier it steps in."""
    if value is None:
        return 0.0 if path in _NONE_IS_ZERO else float("inf")
    number = float(value) if isinstance(value, int | float) else 0.0
    return -number if is_higher else number


def _more(before: Iterable[object], after: Iterable[object], tightens: bool) -> bool | None:
    old, new = set(before), set(after)
    if old < new:
        return tightens
    return not tightens if new < old else None
