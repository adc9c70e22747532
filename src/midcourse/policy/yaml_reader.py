"""Policies from YAML: what a file says, over what it extends.

A file names the policy (``policy:``) and only what differs from its base (``extends:``, the profile ``standard`` unless
it says another). Keys are the names of the document's fields; null takes a threshold away.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeGuard, TypeVar, cast, get_args, get_origin

import msgspec

from midcourse.core.choices import did_you_mean, suggestion
from midcourse.errors import InvalidInput
from midcourse.policy.document import Part, Policy
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.validation import IDENTITY, Setting, contradictions, parameters, read_setting, shown
from midcourse.policy.yaml_positions import NOTHING_SAVED, SIZE_LIMIT, Mistake, Place, path_text, read_page, refusal

DEFAULT_BASE: Final = STANDARD.name
DRAFT: Final = 0
"""The version of a policy that has not been saved."""
LONGEST_VERSION: Final = 6
"""Digits of a version."""
SUFFIXES: Final = (".yaml", ".yml", ".json")
P = TypeVar("P", bound=Part)


def load_policy(text: str, known: Mapping[str, Policy] = BUILT_IN, *, source: str = "") -> Policy:
    """Return the policy that YAML text describes, over one of ``known``. ``source`` is the text's name in errors.

    Without a version of its own it is version 0: a draft.

    Raises:
        InvalidInput: it has mistakes; each is reported with its line.
    """
    draft = Draft(text, source=source)
    base = look_up(draft.extends, known) if draft.extends else bare()
    if base is None:
        raise draft.unknown_base(known)
    return draft.over(base)


def read_policy(name_or_path: str | Path) -> Policy:
    """Return the built-in policy of that name, or the one in a file: with a /, .yaml, .yml or .json."""
    if is_path(name_or_path):
        return load_policy(read_text(name_or_path), source=str(name_or_path))
    found = look_up(str(name_or_path), BUILT_IN)
    if found is None:
        raise not_found(str(name_or_path), BUILT_IN)
    return found


def look_up(reference: str, known: Mapping[str, Policy]) -> Policy | None:
    """Return the policy among ``known`` for ``standard`` or ``standard@1``."""
    name, version = split(reference)
    found = known.get(reference) or known.get(name)
    return found if found is not None and version in (None, found.version) else None


def split(reference: str) -> tuple[str, int | None]:
    """Split ``team@3`` into the name and the version; None: the newest."""
    name, sign, version = reference.partition("@")
    is_number = version.isascii() and version.isdigit() and len(version) <= LONGEST_VERSION
    return (name, int(version)) if sign and is_number else (reference, None)


def bare() -> Policy:
    """Return the policy from which one that extends nothing is made."""
    return Policy(name="nothing")


def is_path(name_or_path: str | Path) -> bool:
    """Return True if that is a file's path, and not a policy's name."""
    return isinstance(name_or_path, Path) or name_or_path.endswith(SUFFIXES) or "/" in name_or_path


def read_text(path: str | Path, *, what: str = "policy", after: str = NOTHING_SAVED) -> str:
    """Return the text of a file, if it may be ``what`` is expected; ``after`` tells what follows if not.

    Raises:
        InvalidInput: it cannot be read, is no text, or is too large.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}. Check the path.",
            field="path",
            path=str(path),
        ) from error
    return decoded(content, str(path), what=what, after=after)


def decoded(content: bytes, source: str, *, what: str = "policy", after: str = NOTHING_SAVED) -> str:
    """Decode the content of a file.

    Raises:
        InvalidInput: it is no text, or too large.
    """
    if len(content) > SIZE_LIMIT:
        large = f"this has more than {SIZE_LIMIT:,} bytes, which no {what} has."
        raise refusal([Mistake(0, "path", large)], source, after=after)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refusal([Mistake(line, "path", "this is not UTF-8. Save it as UTF-8.")], source, after=after) from error


def not_found(name: str, known: Iterable[str]) -> InvalidInput:
    """Return the error for an unknown policy."""
    hint = suggestion(name, [one for one in known if "@" not in one or "@" in name])
    return InvalidInput(f"There is no policy {shown(name)}. {hint}", code="policy_not_found", field="policy")


class Draft:
    """The settings of a text, before they are put over a base.

    Raises:
        InvalidInput: it is no YAML, or no mapping.
    """

    def __init__(self, text: str, *, source: str = "") -> None:
        self._page = page = read_page(text, source)
        self._mistakes: list[Mistake] = []
        self._settings: dict[str, Setting] = {}
        if not isinstance(page.content, dict):
            empty = "empty" if page.content is None else shown(page.content)
            sentence = f"this is {empty}; a policy is a mapping that begins with 'policy: NAME'."
            raise refusal([Mistake(page.line(()), "policy", sentence)], source)
        content = cast("dict[str, object]", page.content)
        self._look(content, Policy, ())
        if "policy" not in content:
            self._blame(("policy",), "the policy has no name. Begin it with 'policy: NAME'.")
        self.name = str(self._settings.setdefault("policy", ""))
        self.version = int(cast("int", self._settings.setdefault("version", DRAFT)))
        self.extends = str(self._settings.setdefault("extends", DEFAULT_BASE))
        """The policy it is put over; empty: none, and what it does not say is as the document's fields have it."""
        if self.extends and self.extends == self.name:
            self._blame(
                ("extends",),
                f"'{self.name}' extends itself. Name another base, or a saved version of it, such as {self.name}@1.",
            )

    def over(self, base: Policy) -> Policy:
        """Return the policy: the text's settings, and those of ``base`` for everything else.

        Raises:
            InvalidInput: the text has mistakes, or contradicts itself or what it inherits.
        """
        self._complain()
        inherited = {one.path: one.value for one in parameters(base) if one.path not in IDENTITY}
        policy = policy_of({**inherited, **self._settings})
        for one in contradictions(policy):
            # Of two that do not fit, the text may have set only one.
            lines = [line for path in one.fields if (line := self._page.lines.get(tuple(path.split("."))))]
            self._mistakes.append(Mistake(lines[0] if lines else 0, one.fields[0], one.sentence))
        self._complain()
        return policy

    def unknown_base(self, known: Iterable[str]) -> InvalidInput:
        """Return the error for an unknown base, with all other mistakes."""
        names = [one for one in known if one != self.name and ("@" not in one or "@" in self.extends)]
        if self.extends != self.name:
            hint = suggestion(self.extends, names)
            self._blame(("extends",), f"there is no policy {shown(self.extends)} to extend. {hint}")
        return refusal(self._mistakes, self._page.source)

    def _blame(self, place: Place, sentence: str) -> None:
        self._mistakes.append(Mistake(self._page.line(place), path_text(place), sentence))

    def _complain(self) -> None:
        if self._mistakes:
            raise refusal(self._mistakes, self._page.source)

    def _look(self, content: Mapping[str, object], kind: type[Part], place: Place) -> None:
        """Take every setting of a part, and note what is wrong with it."""
        fields = fields_of(kind)
        for name, value in content.items():
            below = (*place, name)
            path = path_text(below)
            field = fields.get(name)
            if field is None:
                self._blame(below, _unknown(name, place, fields))
            elif is_part(field.type):
                if isinstance(value, dict):
                    self._look(cast("dict[str, object]", value), field.type, below)
                else:
                    inside = ", ".join(fields_of(field.type))
                    empty = "empty" if value is None else shown(value)
                    self._blame(below, f"{path} is {empty}; below it there may be: {inside}.")
            else:
                try:
                    given = "" if path == "extends" and value is None else value
                    self._settings[path] = read_setting(given, field.type)
                except ValueError as error:
                    self._blame(below, f"{path} {error}.{did_you_mean(value, choices(field.type))}")


# ---- the document's fields


def is_part(kind: object) -> TypeGuard[type[Part]]:
    """Return True if a field is a part of the document, with fields of its own."""
    return isinstance(kind, type) and issubclass(kind, Part)


@cache
def fields_of(kind: type[Part]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a part by their written names."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def policy_of(settings: Mapping[str, Setting]) -> Policy:
    """Return the policy with these parameters, by their paths. A missing one has its field's default."""
    return _part_of(Policy, settings, "")


def _part_of(kind: type[P], settings: Mapping[str, Setting], under: str) -> P:
    given: dict[str, object] = {}
    for name, field in fields_of(kind).items():
        path = f"{under}{name}"
        if is_part(field.type):
            given[field.name] = _part_of(field.type, settings, f"{path}.")
        elif path in settings:
            given[field.name] = settings[path]
    return kind(**given)


# ---- what was probably meant

_NOUNS: Final[Mapping[Place, str]] = {(): "key", ("signals",): "signal", ("classes",): "task class"}


def _unknown(name: str, place: Place, fields: Iterable[str]) -> str:
    noun = _NOUNS.get(place)
    what = f"unknown {noun} {shown(name)}" if noun else f"unknown key {shown(name)} in {path_text(place)}"
    elsewhere = [path for path in _PATHS if path.rpartition(".")[2] == name]
    if elsewhere and not did_you_mean(name, fields):
        return f"{what}. It belongs under {elsewhere[0].rpartition('.')[0] or 'nothing, at the top'}."
    return f"{what}. {suggestion(name, list(fields))}"


def _paths(kind: type[Part], under: str = "") -> Iterator[str]:
    for name, field in fields_of(kind).items():
        yield f"{under}{name}"
        if is_part(field.type):
            yield from _paths(field.type, f"{under}{name}.")


_PATHS: Final = tuple(_paths(Policy))


def choices(kind: object) -> list[str]:
    """Return the possible words of a parameter, if it is one of a few."""
    return [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else []
