"""Policies as documents: read from YAML, written, checked by editors, kept in a store with their history."""

from midcourse.policies.kept import KeptPolicy, history, load, names, save
from midcourse.policies.loading import load_policy, read_policy
from midcourse.policies.schema import schema
from midcourse.policies.writing import to_yaml

__all__ = [
    "KeptPolicy",
    "history",
    "load",
    "load_policy",
    "names",
    "read_policy",
    "save",
    "schema",
    "to_yaml",
]
