"""The names of all stored fields, as paths that do not depend on the names of classes and attributes.

A record leaves out defaults and ignores unknown fields: a field that was renamed would silently be read as its default.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import inspect

from midcourse.core.audit import AuditEntry
from midcourse.core.commands import AnyCommand
from midcourse.core.events import Record
from midcourse.core.policy_decision import Alarm
from midcourse.core.snapshot import Snapshot
from midcourse.core.switches import Switch
from midcourse.people.webhooks import Delivery, Webhook
from midcourse.policy.artifacts import ArtifactReported, Reviewed
from midcourse.policy.intervention_shelf import LabelRecord
from midcourse.ports.store import Head
from midcourse.runtime.command_outcome import CommandOutcome
from midcourse.server.tokens import KeptToken

PINNED: Final = Path(__file__).parent / "names.txt"
ROOTS: Final[Mapping[str, Any]] = {
    "journal": Record,
    "inbox": AnyCommand,
    "outcome": CommandOutcome,
    "snapshot": Snapshot,
    "head": Head,
    "audit": AuditEntry,
    "kill switch": Switch,
    "token": KeptToken,
    "webhook": Webhook,
    "delivery": Delivery,
    "alarm": Alarm,
    "label": LabelRecord,
    "artifact": ArtifactReported,
    "review": Reviewed,
}


def stored_names() -> list[str]:
    """Return the path of every stored field, sorted: ``journal.event<step.begun@1>.attempt``."""
    return sorted({path for name, kind in ROOTS.items() for path in _paths(name, inspect.type_info(kind), ())})


def _paths(path: str, kind: inspect.Type, above: tuple[type, ...]) -> Iterator[str]:
    match kind:
        case inspect.StructType(cls=cls, tag=tag, tag_field=tag_field, fields=fields):
            if cls in above:
                return
            here = f"{path}<{tag_field}={tag}>" if tag is not None else path
            yield here
            for field in fields:
                yield from _paths(f"{here}.{field.encode_name}", field.type, (*above, cls))
        case inspect.Metadata(type=bare):
            yield from _paths(path, bare, above)
        case inspect.UnionType(types=types):
            for one in types:
                yield from _paths(path, one, above)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) | inspect.SetType(item_type=item):
            yield from _paths(f"{path}[]", item, above)
        case inspect.FrozenSetType(item_type=item):
            yield from _paths(f"{path}[]", item, above)
        case inspect.TupleType(item_types=items):
            for number, item in enumerate(items):
                yield from _paths(f"{path}[{number}]", item, above)
        case inspect.DictType(value_type=value):
            yield from _paths(f"{path}{{}}", value, above)
        case _:
            yield path


if __name__ == "__main__":
    PINNED.write_text("\n".join(stored_names()) + "\n")
