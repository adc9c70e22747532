"""Policies written down: as YAML for people, with what each line means, and as JSON for programs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from midcourse.errors import Damaged
from midcourse.policy.descriptions import meaning
from midcourse.policy.document import Policy
from midcourse.policy.durations import Span
from midcourse.policy.profiles import BUILT_IN
from midcourse.policy.validation import (
    IDENTITY,
    ParameterChange,
    Setting,
    format_duration,
    parameters,
    read_span,
    shown,
)
from midcourse.policy.yaml_reader import DRAFT, look_up, not_found

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_@")


# ---- for programs


def to_document(policy: Policy) -> dict[str, Any]:
    """Return the whole document as JSON has it, with spans as people write them."""
    return msgspec.json.decode(msgspec.json.encode(policy, enc_hook=_spelled))


def from_document(document: object) -> Policy:
    """Return the policy in a document that ``to_document`` made.

    Raises:
        Damaged: it is none that this version of Midcourse can read.
    """
    try:
        return msgspec.convert(document, Policy, dec_hook=read_span)
    except msgspec.ValidationError as error:
        raise Damaged(
            f"A kept policy cannot be read ({error}). A later version of Midcourse may have written it: use that one."
        ) from error


def changes_to_json(changes: Iterable[ParameterChange]) -> list[dict[str, object]]:
    """Return the changes between two policies, with each setting as a file has it."""
    return [
        {
            "path": one.path,
            "before": _setting(one.before),
            "after": _setting(one.after),
            "tightens": one.tightens,
            "words": one.words,
        }
        for one in changes
    ]


def _setting(value: Setting) -> object:
    return format_duration(value) if isinstance(value, Span) else list(value) if isinstance(value, tuple) else value


def _spelled(value: object) -> object:
    if isinstance(value, Span):
        return format_duration(value)
    raise NotImplementedError(type(value))  # a new kind of parameter: teach it here


# ---- for people


def to_yaml(policy: Policy, known: Mapping[str, Policy] = BUILT_IN) -> str:
    """Write the policy as YAML that reads back the same: its name, and its differences from its base, described.

    A policy that extends nothing is written whole.

    Raises:
        InvalidInput: its base is not among ``known``.
    """
    base = look_up(policy.extends, known) if policy.extends else None
    if policy.extends and base is None:
        raise not_found(policy.extends, known)
    lines = [f"policy: {written(policy.name)}"]
    if policy.version != DRAFT:
        lines.append(f"version: {policy.version}")
    lines.append(f"extends: {written(policy.extends or None)}")
    if policy.about:
        lines.append(f"about: {written(policy.about)}")
    return "\n".join([*lines, *_body(policy, base), ""])


def _body(policy: Policy, base: Policy | None) -> Iterator[str]:
    before = {} if base is None else {one.path: one.value for one in parameters(base)}
    open_parts: list[str] = []
    for path, value, _ in parameters(policy):
        if path in IDENTITY or (base is not None and value == before[path]):
            continue
        *parts, name = path.split(".")
        shared = _shared(open_parts, parts)
        for depth, part in enumerate(parts[shared:], start=shared):
            under = ".".join(parts[: depth + 1])
            if depth == 0:
                yield ""
            if words := meaning(under):
                yield f"{'  ' * depth}# {words}"
            yield f"{'  ' * depth}{part}:"
        if not parts and open_parts != [""]:
            yield ""
        open_parts = parts or [""]
        was = f" In {base.name}: {shown(before[path])}." if base is not None else ""
        comment = f"{meaning(path)}{was}".strip()
        yield f"{'  ' * len(parts)}{name}: {written(value)}" + (f"  # {comment}" if comment else "")


def _shared(first: list[str], second: list[str]) -> int:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


def written(value: Setting) -> str:
    """Write a setting for any version of YAML."""
    if isinstance(value, Span):
        spelled = format_duration(value)
        return spelled if isinstance(spelled, str) else _number(spelled)
    if isinstance(value, bool) or value is None:
        return shown(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(written, value))}]"
    return value if _is_plain(value) else f'"{"".join(map(_escaped, value))}"'


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = repr(value)
    return text if "e" not in text or "." in text else text.replace("e", ".0e")


def _is_plain(text: str) -> bool:
    """Return True if every version of YAML reads it as text."""
    words = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    return bool(text) and text[0].isalpha() and _PLAIN.issuperset(text) and text not in words


def _escaped(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
