"""The base of every event: a fact about one session, in the past tense, with a tag that never changes."""

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Event(msgspec.Struct, gc=False, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """A fact about one session."""
