"""What the API shows of policies."""

from typing import Any

from midcourse.core.policy.checking import difference
from midcourse.core.policy.document import Policy
from midcourse.core.spelling import spelled
from midcourse.policies.kept import KeptPolicy, summary_of
from midcourse.policies.writing import spelled_setting, to_document
from midcourse.reports.trials import Proposed


def policy_view(kept: KeptPolicy, yaml: str) -> dict[str, Any]:
    """A version of a policy, whole."""
    return {**spelled(summary_of(kept)), "document": to_document(kept.policy), "yaml": yaml}


def etag_of(policy: Policy) -> str:
    """The ETag of a policy: its version, quoted."""
    return f'"{policy.version}"'


def difference_view(old: Policy, new: Policy) -> dict[str, Any]:
    """How two policies differ."""
    return {"from": old.id, "to": new.id, "changes": _changes(old, new)}


def check_view(base: Policy, policy: Policy) -> dict[str, Any]:
    """A text that is a policy."""
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
            "before": spelled_setting(one.before),
            "after": spelled_setting(one.after),
            "tightens": one.tightens,
            "words": one.words,
        }
        for one in difference(old, new)
    ]
