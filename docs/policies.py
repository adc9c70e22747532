"""The page of the policies: every parameter with what it means, and the built-in policies side by side."""

from collections.abc import Callable, Iterable, Iterator

from midcourse.policy.descriptions import meaning
from midcourse.policy.document import CLASSES, Policy
from midcourse.policy.profiles import PRESETS, PROFILES, STANDARD
from midcourse.policy.validation import IDENTITY, Parameter, expected_kind, parameters, shown

Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]
LISTED = "signals", "restraint", "classes", "targets", "environments", "artifacts", "agent_asks"


def parts(table: Table) -> Iterator[str]:
    """Everything below the title."""
    yield (
        "When a policy interrupts: the three profiles, the presets, and every parameter. "
        "[How to write one](../how-to/write-a-policy.md). For editors there is a JSON schema, "
        "[policy.schema.json](policy.schema.json): begin a file with `# yaml-language-server: $schema=<where it lies>`."
    )
    yield (
        "These numbers are starting points, and weak ones on real runs: calibrate them from your own, and let "
        "`midcourse policy backtest` say what a policy would have done before it is switched on. "
        "`null` is no threshold. "
        "A span of time is written 500ms, 30s, 15m, 1h or 7d; a number alone is seconds."
    )
    yield "## The document"
    own = [one for one in parameters(STANDARD) if "." not in one.path]
    rows = ([f"`{one.path}`", _kind(one), meaning(one.path)] for one in own)
    yield table(["parameter", "is", ""], [*rows, *([f"`{name}`", "below", meaning(name)] for name in LISTED)])
    yield "## Profiles"
    yield "What they differ in. All else is as below."
    yield _beside(table, PROFILES.values(), _differing(PROFILES.values()))
    yield "## Presets"
    yield "What they change of the profile `standard`."
    yield _beside(table, (STANDARD, *PRESETS.values()), _differing((STANDARD, *PRESETS.values())))
    for name in LISTED:
        yield f"## {name.replace('_', ' ').capitalize()}"
        yield meaning(name)
        yield from _section(table, name)


def _differing(policies: Iterable[Policy]) -> list[str]:
    settings = [{one.path: one.value for one in parameters(policy)} for policy in policies]
    return [path for path in settings[0] if path not in IDENTITY and len({one[path] for one in settings}) > 1]


def _beside(table: Table, policies: Iterable[Policy], paths: Iterable[str]) -> str:
    chosen = list(policies)
    settings = [{one.path: one.value for one in parameters(policy)} for policy in chosen]
    rows = ([f"`{path}`", *(_shown(one[path]) for one in settings)] for path in paths)
    return table(["", *(f"`{policy.name}`" for policy in chosen)], rows)


def _section(table: Table, name: str) -> Iterator[str]:
    """The parameters of a part: classes beside each other, all else below each other."""
    found = [one for one in parameters(STANDARD) if one.path.startswith(f"{name}.")]
    if name == "classes":
        settings = {one.path: one.value for one in found}
        first = [one for one in found if one.path.startswith(f"classes.{CLASSES[0]}.")]
        names = [one.path.rpartition(".")[2] for one in first]
        yield table(
            ["parameter", *(f"`{one}`" for one in CLASSES), ""],
            (
                [
                    f"`{key}`",
                    *(_shown(settings[f"classes.{one}.{key}"]) for one in CLASSES),
                    meaning(f"classes.long.{key}"),
                ]
                for key in names
            ),
        )
        return
    settings = [{one.path: one.value for one in parameters(policy)} for policy in PROFILES.values()]
    yield table(
        ["parameter", "is", *(f"`{one}`" for one in PROFILES), ""],
        (_row(one, [each[one.path] for each in settings]) for one in found),
    )


def _row(parameter: Parameter, values: Iterable[object]) -> list[str]:
    return [
        f"`{parameter.path.partition('.')[2]}`",
        _kind(parameter),
        *(_shown(one) for one in values),
        meaning(parameter.path),
    ]


def _kind(parameter: Parameter) -> str:
    return expected_kind(parameter.kind).removesuffix(" or null").partition(" (")[0]


def _shown(value: object) -> str:
    text = shown(value)
    return "–" if text in ("null", "''", "[]") else text.strip("'")
