"""The API's JSON of policies."""

from typing import Any

from midcourse.analysis.reports.trials import Proposed
from midcourse.core.to_json import to_json
from midcourse.policy.document import Policy
from midcourse.policy.validation import difference
from midcourse.policy.versions import KeptPolicy, summary_of
from midcourse.policy.yaml_writer import changes_to_json, to_document


def policy_view(kept: KeptPolicy, yaml: str) -> dict[str, Any]:
    """Return a version of a policy, whole."""
    return {**to_json(summary_of(kept)), "document": to_document(kept.policy), "yaml": yaml}


def etag_of(policy: Policy) -> str:
    """Return the ETag of a policy: its version, quoted."""
    return f'"{policy.version}"'


def difference_view(old: Policy, new: Policy) -> dict[str, Any]:
    """Return how two policies differ."""
    return {"from": old.id, "to": new.id, "changes": changes_to_json(difference(old, new))}


def check_view(base: Policy, policy: Policy) -> dict[str, Any]:
    """Return the result of checking a valid text."""
    return {
        "name": policy.name,
        "extends": policy.extends,
        "document": to_document(policy),
        "changes": changes_to_json(difference(base, policy)),
    }


def proposed_view(base: Policy, proposed: Proposed, yaml: str) -> dict[str, Any]:
    """Thresholds that recorded runs propose."""
    return {
        "policy": base.id,
        "yaml": yaml,
        "changes": changes_to_json(difference(base, proposed.policy)),
        "failures": proposed.failures,
        "successes": proposed.successes,
        "stopped": proposed.stopped,
        "stopped_wrongly": proposed.stopped_wrongly,
        "sentence": proposed.sentence,
        "notes": list(proposed.notes),
    }
