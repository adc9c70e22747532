"""Policies as documents: read from YAML, written, checked by editors, kept in a store with their history."""

from midcourse.policy.schema import schema
from midcourse.policy.versions import KeptPolicy, history, load, names, save
from midcourse.policy.yaml_reader import load_policy, read_policy
from midcourse.policy.yaml_writer import to_yaml

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
