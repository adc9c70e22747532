"""Values to bytes and back, digests and checksums: one encoding for the journal, snapshots and argument digests."""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final, TypeAlias, cast

import msgspec

from midcourse.errors import Damaged, Unencodable

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"
"""The values of people's and programs' answers, and of the answers to agents."""

BLOB_LIMIT: Final = 32 * 1024
"""Values above this many bytes live outside the journal, addressed by their content."""

GENESIS: Final = bytes(16)
"""The running digest of an empty journal."""

ERASED: Final = "erased"
"""The replacement of an erased text."""
_TOMBSTONE: Final = b"\x00"
"""The first byte of a tombstone, which no record, being JSON, has."""

NESTING_LIMIT: Final = 200
"""The deepest nesting allowed: what is written from a shallow stack must be readable from a deep one."""

_PREVIEW: Final = 400
_SECRET_HINTS: Final = (
    *("passw", "pwd", "passphrase", "secret", "token", "key", "authorization", "bearer", "credential", "cookie"),
    *("://", "sk-", "sk_", "pk_", "rk_", "gho_", "ghp_", "ghs_", "ghu_", "_pat", "glpat", "mct_", "xox"),
    *("akia", "eyj"),
)
REDACTED: Final = "[redacted]"
"""The replacement of a secret."""
_SECRET_WORDS: Final = (
    r"(?:passw|pwd|passphrase|secret|token|(?:api|access|private).?key|authorization|bearer|credential|cookie)"
)
_SECRET_KEY: Final = re.compile(_SECRET_WORDS, re.IGNORECASE)
_SECRET_PAIR: Final = re.compile(
    rf'''("[^"\\]{{0,100}}{_SECRET_WORDS}[^"\\]{{0,100}}"\s*:\s*)"(?:[^"\\]|\\.)*"''', re.IGNORECASE
)
"""A secret in a piece of JSON that stands in a text."""
_CREDENTIALS: Final = {
    ("://",): r"(?<=://)[^\s/:@\"\\]+:[^\s/@\"\\]+(?=@)",
    ("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "gho", "ghp", "ghs", "ghu", "_pat", "glpat", "mct", "xox"): (
        r"\b(?:sk|pk|rk|gh[opsu]|github_pat|glpat|mct|xox[a-z])[-_][\w-]{12,}"
    ),
    ("akia",): r"\bAKIA[0-9A-Z]{16}\b",
    ("eyj",): r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    ("private key",): r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"]*",
}
"""Patterns that are secrets by their form alone, as no program text or plain words look so; each with a quick test."""
_CREDENTIAL: Final = tuple(
    (hints, re.compile(pattern))
    for hints, pattern in {**_CREDENTIALS, ("bearer",): r"(?i:bearer)\s+[\w.~+/=-]{16,}"}.items()
)
_DOCUMENT: Final = 10_000
"""Characters from which on a text is a document, and no place where a credential is passed on."""
_SECRET_TEXT: Final = re.compile(
    r"(?i:bearer)\s+[\w.~+/=-]{6,}"
    r"|(?i:authorization)\W{1,4}(?:\w+ )?[\w.~+/=-]+"
    r"|(?i:passw|pwd|secret|token|api[_-]?key)[\w-]{0,30}\s?[=:]\s?[^\s&\"'\\]+"
    rf"|{'|'.join(_CREDENTIALS.values())}",
)


class Value(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A user's value as it stands in an event: inline, or a reference to a blob. Neither set means ``None``."""

    raw: msgspec.Raw = msgspec.Raw(b"null")
    blob: str = ""
    size: int = 0


class Blob(msgspec.Struct, gc=False, frozen=True):
    """Bytes addressed by their digest."""

    digest: str
    content: bytes


NOTHING: Final = Value()
_NAMED_BLOB: Final = re.compile(rb'"blob":"([0-9a-f]{32})"')


def named_blobs(record: bytes) -> list[str]:
    """Return the blobs that a record may name: at least those that it does."""
    return [found.decode() for found in _NAMED_BLOB.findall(record)] if b'"blob":"' in record else []


def digest_of(content: bytes) -> str:
    """Return the content address of ``content``."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def chain(previous: bytes, position: int, record: bytes) -> bytes:
    """Return the running digest after ``record``: it covers the record, its position and all that came before.

    It covers the digest of the record and not the record, so that a tombstone can take its place.
    """
    return hashlib.blake2b(previous + position.to_bytes(8, "big") + content_digest(record), digest_size=16).digest()


def follows(previous: bytes, position: int, record: bytes, digest: bytes) -> bool:
    """Return True if ``digest`` is the running digest after ``record``, also in the form before there were tombstones.

    Then the digest was over the record itself.
    """
    if chain(previous, position, record) == digest:
        return True
    before = hashlib.blake2b(previous + position.to_bytes(8, "big") + record, digest_size=16).digest()
    return before == digest and not is_tombstone(record)


def content_digest(record: bytes) -> bytes:
    """Return the digest of a record as it was written, also if a tombstone has taken its place."""
    if record[:1] == _TOMBSTONE:
        return record[1:17]
    return hashlib.blake2b(record, digest_size=16).digest()


def is_tombstone(record: bytes) -> bool:
    """Return True if this record has been erased."""
    return record[:1] == _TOMBSTONE


def entomb(record: bytes, remains: bytes) -> bytes:
    """Return the tombstone of ``record`` after its texts were erased: its digest, and the ``remains``, sealed."""
    if is_tombstone(record):
        return record
    digest = content_digest(record)
    return _TOMBSTONE + digest + checksum(digest, remains) + remains


def remains_of(record: bytes) -> bytes:
    """Return what can be read of a record: all of it, or its tombstone's remains.

    Raises:
        Damaged: the tombstone does not match its checksum.
    """
    if not is_tombstone(record):
        return record
    digest, seal, remains = record[1:17], record[17:33], record[33:]
    if checksum(digest, remains) != seal:
        raise Damaged("A tombstone does not match its checksum. Restore the store from a backup.")
    return remains


def checksum(*parts: bytes) -> bytes:
    """Return a checksum over ``parts`` and their borders."""
    summing = hashlib.blake2b(digest_size=16)
    for part in parts:
        summing.update(len(part).to_bytes(8, "big"))
        summing.update(part)
    return summing.digest()


def _plain(value: object) -> object:
    """Convert a value that msgspec cannot encode by itself: models that can dump themselves."""
    dump: Callable[[], object] | None = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    raise NotImplementedError


def _typed(kind: type, value: Any) -> object:
    if kind is object:
        return value
    validate: Callable[[object], object] | None = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError
    return validate(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(value: object, *, what: str) -> bytes:
    """Encode ``value`` as JSON bytes.

    Raises:
        Unencodable: it holds something JSON has no form for; ``what`` names it in the sentence.
    """
    try:
        content = _encoder.encode(value)
    except Exception as error:
        raise _unencodable(what, _first_bad(value, "") or str(error) or type(error).__name__) from error
    if _is_too_deep(content):
        raise _unencodable(what, f"it is nested deeper than {NESTING_LIMIT} levels")
    if b"null" in content:  # JSON has no other word for nan and infinity, and would give None back
        plain = msgspec.to_builtins(value, enc_hook=_plain)
        if not _is_finite(plain):
            raise _unencodable(what, _first_not_finite(plain, ""))
    # JSON spells the keys 1 and "1" alike, a UUID and its text, an enum and its value, and gives one of them back.
    if b'":' in content and len(_encoder.encode(msgspec.json.decode(content))) != len(content):
        double = _first_double(json.loads(content, object_pairs_hook=_Pairs), "")
        if double:  # not a number or a raw piece that was only spelled differently
            raise _unencodable(what, double)
    return content


class _Pairs(list[tuple[str, object]]):
    """A JSON object with all that is written in it."""


def _first_double(value: object, path: str) -> str:
    """Return the place in ``value`` where a key is written twice."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, _Pairs):
        items = value
        double = next((key for key, often in Counter(key for key, _ in value).items() if often > 1), None)
        if double is not None:
            return f'{path or "the value"} has two keys that are both written "{double}" in JSON'
    elif isinstance(value, list):
        items = enumerate(cast("list[object]", value))
    return next((found for key, item in items if (found := _first_double(item, f"{path}[{key!r}]"))), "")


def _unencodable(what: str, why: str) -> Unencodable:
    return Unencodable(
        f"{what} cannot be journaled: {why}. "
        "Use finite, JSON-like values, dataclasses, msgspec structs or Pydantic models.",
        what=what,
    )


_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NOT_BRACKETS: Final = re.compile(rb"[^\[\]{}]+")


def _is_too_deep(content: bytes) -> bool:
    if content.count(b"[") + content.count(b"{") <= NESTING_LIMIT:
        return False
    brackets = _NOT_BRACKETS.sub(b"", _STRINGS.sub(b"", content))
    for _ in range(NESTING_LIMIT):  # each round takes the innermost level away
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return False
    return True


def _is_finite(value: Any) -> bool:
    """Return True if no number in it is nan or infinite, without the place: most values hold a null and are fine."""
    if isinstance(value, float):
        return isfinite(value)
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = cast("dict[object, object]", value).values()
    elif isinstance(value, list | tuple):
        inner = cast("list[object]", value)
    for one in inner:  # noqa: SIM110 - a generator costs twice as much, and every message of a model comes by here
        if type(one) in _FLOATING and not _is_finite(one):
            return False
    return True


_FLOATING: Final = frozenset({dict, list, tuple, float})


def _first_not_finite(value: Any, path: str) -> str:
    if isinstance(value, float):
        return "" if isfinite(value) else f"{path or 'the value'} is {value}"
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
    elif isinstance(value, list | tuple):
        items = enumerate(cast("list[object]", value))
    for key, item in items:
        found = _first_not_finite(item, f"{path}[{key!r}]")
        if found:
            return found
    return ""


def _first_bad(value: Any, path: str, depth: int = 0) -> str:
    """Return the place in ``value`` of the first thing without a JSON form."""
    if depth < 20 and isinstance(value, dict):  # deeper nesting is named by its container
        for key, item in cast("dict[object, object]", value).items():
            if not _can_encode({key: None}):
                return f"the key {key!r} of {path or 'the value'} is of type {type(key).__name__}"
            found = _first_bad(item, f"{path}[{key!r}]", depth + 1)
            if found:
                return found
        return ""
    if depth < 20 and isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            found = _first_bad(item, f"{path}[{index}]", depth + 1)
            if found:
                return found
        return ""
    if _can_encode(value):
        return ""
    if isinstance(value, str):
        return f"{path or 'the value'} is text that is not Unicode"
    return f"{path or 'the value'} is of type {type(value).__name__}"


def _can_encode(value: object) -> bool:
    try:
        _encoder.encode(value)
    except Exception:  # noqa: BLE001 - a user's model may raise anything when it dumps itself
        return False
    return True


def decode(raw: bytes | msgspec.Raw, kind: Any = Any) -> Any:
    """JSON bytes back to a value, of type ``kind`` where one is known."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=_typed)
    except (msgspec.MsgspecError, TypeError, NotImplementedError) as error:
        # An annotation msgspec cannot build (a protocol, a framework's own class) gives what JSON gives.
        if kind is not Any and not isinstance(error, msgspec.DecodeError):
            return msgspec.json.decode(raw)
        raise


def value_of(content: bytes, limit: int = BLOB_LIMIT) -> tuple[Value, Blob | None]:
    """Return ``content`` as a journal value, and the blob to store with it if it is above ``limit``."""
    if len(content) <= limit:
        return Value(raw=msgspec.Raw(content)), None
    digest = digest_of(content)
    return Value(blob=digest, size=len(content)), Blob(digest, content)


def inline(content: bytes) -> Value:
    """Return ``content`` as a journal value that is always small: an answer, a drawn number."""
    return Value(raw=msgspec.Raw(content))


def check_blob(digest: str, content: bytes | None) -> bytes:
    """Return ``content`` if ``digest`` names it.

    Raises:
        Damaged: it is missing or was changed.
    """
    if content is None or digest_of(content) != digest:
        state = "is missing" if content is None else "does not match its digest"
        raise Damaged(f"Blob {digest} {state}. Restore the store from a backup; nothing was followed.", blob=digest)
    return content


def _opaque(value: object) -> object:
    try:
        return _plain(value)
    except Exception:  # noqa: BLE001 - a user's model may raise anything when it dumps itself
        kind = type(value)
        return f"<{kind.__module__}.{kind.__qualname__}>"


_canonical = msgspec.json.Encoder(enc_hook=_opaque, order="deterministic")


def canonical(arguments: object) -> bytes:
    """Return a call's arguments as JSON in one fixed form. A value without JSON form counts by its type alone.

    Tuples become lists, sets are sorted, keys are text: a value from a journal counts as the one that was put in.
    """
    try:
        return _canonical.encode(arguments)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _canonical.encode(_plain_value(arguments))


def _plain_value(value: object, depth: int = 0) -> object:
    """Return ``value`` as plain lists and dictionaries: the slow way, for what the encoder refuses as a whole."""
    if depth > NESTING_LIMIT:
        return "…"
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {_plain_key(key, depth): _plain_value(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_plain_value(item, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, set | frozenset):
        return sorted((_plain_value(item, depth + 1) for item in cast("set[object]", value)), key=_canonical.encode)
    if isinstance(value, msgspec.Struct):
        return {name: _plain_value(getattr(value, name), depth + 1) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain_value(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    try:
        return msgspec.Raw(_canonical.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _plain_value(_opaque(value), depth + 1)


def _plain_key(key: object, depth: int) -> str:
    spelled = _plain_value(key, depth + 1)
    return spelled if isinstance(spelled, str) else _canonical.encode(spelled).decode()


def preview(arguments: bytes) -> str:
    """Canonical arguments for people's eyes: short, and with what looks like a secret left out."""
    text = arguments[: 4 * _PREVIEW].decode("utf-8", "replace")
    if _may_hold_a_secret(text.lower()):
        shown = msgspec.json.encode(_redacted(msgspec.json.decode(arguments)))
        text = _SECRET_TEXT.sub(REDACTED, shown[: 4 * _PREVIEW].decode("utf-8", "replace"))
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"


def _may_hold_a_secret(lowered: str) -> bool:
    for hint in _SECRET_HINTS:  # noqa: SIM110 - every step's arguments come by here: a generator costs twice as much
        if hint in lowered:
            return True
    return False


def _redacted(value: Any) -> object:
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: REDACTED if _is_secret(key, item) else _redacted(item) for key, item in items}
    if isinstance(value, list):
        return [_redacted(item) for item in cast("list[object]", value)]
    return value


def without_secrets(value: Any) -> Any:
    """Return a JSON-like value without secrets: by their keys, or by their form."""
    if isinstance(value, str):
        if not _may_hold_a_secret(value.lower()):
            return value
        return _SECRET_TEXT.sub(REDACTED, _SECRET_PAIR.sub(rf'\1"{REDACTED}"', value))
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: REDACTED if _is_secret(key, item) else without_secrets(item) for key, item in items}
    if isinstance(value, list):
        return [without_secrets(item) for item in cast("list[object]", value)]
    return value


def without_credentials(text: str) -> str:
    """Return ``text`` for people to act on, without clear secrets. Mere suspects are kept."""
    if len(text) > _DOCUMENT:
        return text
    lowered = text.lower()
    for hints, pattern in _CREDENTIAL:
        if any(hint in lowered for hint in hints):
            text = pattern.sub(REDACTED, text)
    return text


def secret_free(arguments: bytes) -> bytes:
    """Return arguments as JSON, without secrets by name, and without credentials in the rest.

    A later reader must know what is missing, so a mere suspect within a text is kept.
    """
    if not _may_hold_a_secret(arguments.decode().lower()):
        return arguments
    plain = msgspec.json.decode(arguments)
    free = _free(plain)
    return arguments if free == plain else msgspec.json.encode(free)


def _free(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: REDACTED if item and _is_secret(key, item) else _free(item) for key, item in items}
    if isinstance(value, list):
        return [_free(item) for item in cast("list[object]", value)]
    return value


def is_secret_name(name: str) -> bool:
    """Return True if an argument of that name is a secret."""
    return _SECRET_KEY.search(name) is not None


def _is_secret(key: str, value: object) -> bool:
    found = _SECRET_KEY.search(key)
    # max_tokens=500 is no secret.
    counts = found is not None and found[0].lower() == "token" and isinstance(value, int | float)
    return found is not None and not counts
