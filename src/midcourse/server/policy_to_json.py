"""The API's JSON of policies."""

from typing import Any

from midcourse.analysis.reports.trials import Proposed
from midcourse.core.to_json import to_json
from midcourse.policy.document import Policy
from midcourse.policy.validation import difference
from midcourse.policy.versions import KeptPolicy, summary_of
from midcourse.policy.yaml_writer import setting_text, to_document


def policy_view(kept: KeptPolicy, yaml: str) -> dict[str, Any]:
    """Return a version of a policy, whole."""
    return {**to_json(summary_of(kept)), "document": to_document(kept.policy), "yaml": yaml}


def etag_of(policy: Policy) -> str:
    """Return the ETag of a policy: its version, quoted."""
    return f'"{policy.version}"'


def difference_view(old: Policy, new: Policy) -> dict[str, Any]:
    """Return how two policies differ."""
    return {"from": old.id, "to": new.id, "changes": _changes(old, new)}


def check_view(base: Policy, policy: Policy) -> dict[str, Any]:
    """Return the result of checking a valid text."""
    return {
        "name": policy.name,
        "extends": policy.extends,
        "document": to_document(policy),
        "changes": _changes(base, policy),
    }


def proposed_view(base: Policy, proposed: Proposed, yaml: str) -> dict[str, Any]:
    """Thresholds that recorded runs propose."""
    return {
        "policy": base.id,
        "yaml": yaml,
        "changes": _changes(base, proposed.policy),
        "failures": proposed.failures,
        "successes": proposed.successes,
        "stopped": proposed.stopped,
        "stopped_wrongly": proposed.stopped_wrongly,
        "sentence": proposed.sentence,
        "notes": list(proposed.notes),
    }


def _changes(old: Policy, new: Policy) -> list[dict[str, Any]]:
    return [
        {
            "path": one.path,
            "before": setting_text(one.before),
            "after": setting_text(one.after),
            "tightens": one.tightens,
            "words": one.words,
        }
        for one in difference(old, new)
    ]
