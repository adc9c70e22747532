"""Describe each parameter of a policy in a sentence: for editors, for written policies, for the reference.

These are the document's own docstrings, where it has them; the texts here add what a name alone does not tell.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Final

from midcourse.policy import document
from midcourse.policy.document import Policy
from midcourse.policy.yaml_reader import fields_of, is_part

_LEVELS: Final[Mapping[str, str]] = {
    "warn": "People are notified.",
    "explain": "The agent is asked to explain its plan.",
    "intervene": "The agent is asked to explain its plan, and paused if that has been asked before.",
    "stop": "It is stopped at once, and a review is asked for.",
}
_OF_PATHS: Final[Mapping[str, str]] = {
    "policy": "Its name: small letters, digits and hyphens.",
    "version": "Given by a save; 0 is a draft. In a file: the version it was made from, still the newest when saved.",
    "extends": "What it was made from: a profile, a preset or a saved policy, also one version of it (team@3).",
    "about": "Its purpose, in a sentence for the people who choose one.",
    "signals": "Every signal and its thresholds.",
    "signals.cost.per_action": "One request that costs so many dollars is a reason to step in.",
    "signals.cost.milestones": "Dollars at which it is paused, and a person is asked whether it may continue.",
    "signals.errors.streak": "So many failures in a row stop it.",
    "signals.errors.at_least": "So many recent calls there must be before the share that failed counts.",
    "signals.scope_drift.domain": "What the agent works on: drift is calibrated for each domain.",
    "signals.resources": "Unique resources touched: files, addresses, tables.",
    "signals.api_calls": "Calls of tools and models in a session.",
    "signals.compute_seconds": "Seconds that calls took together.",
    "signals.bytes": "Bytes that calls moved.",
    "signals.token_rate.intervene": "Below this share of its own average it is a reason to step in.",
    "signals.hypothesis.required": "Whether its first call that is no read waits for a hypothesis.",
    "signals.scope.expansion": "So many times the domains it began in are a reason to step in.",
    "signals.scope.new_domain": "So many actions in a new domain, and it is asked to confirm.",
    "signals.loops.alike": "A call that differs in one argument counts as one over this.",
    "signals.risk.enabled": "Whether the combined risk counts at all.",
    "restraint.first_after_actions": "No automatic intervention before so many actions.",
    "restraint.first_after": "No automatic intervention before so much time.",
    "restraint.interventions_per_hour": "A person gets no more than so many an hour, of one run half; others wait.",
    "restraint.requests_per_intervention": "An agent is interrupted no more than once in so many requests.",
    "restraint.approvals_in_a_row": "After so many approvals in a row the screen says so.",
    "restraint.labels": "So many labels a signal needs before its share of false alarms counts.",
    "restraint.retries": "How often an interruption that failed is tried again.",
    "restraint.worth.per_kilobyte": "Dollars a kilobyte of state that is saved costs.",
    "restraint.worth.recovery": "Dollars that a recovery costs.",
    "restraint.worth.quality_for": "For so long quality is lower after an interruption.",
    "classes.*.automatic": "Whether a policy may interrupt it: never (a guess: stops), watched (stops), yes.",
    "classes.*.strategy": "How it is interrupted: when done, as it is, at checkpoints, in increments; protect: not.",
    "classes.*.checkpoint_calls": "Its session is saved whole at least every so many calls; every 1,000 without this.",
    "classes.*.checkpoint_tokens": "Its session is saved whole at least every so many tokens, also within a stream.",
    "classes.*.segment_tokens": "Its streams become durable in segments of so many tokens at most; 100 without this.",
    "classes.*.interruption_rate": "Target: the share of its sessions that is stopped at least once, by anyone.",
    "classes.*.completion_rate": "Target: the share of its sessions that is completed.",
    "classes.short": "Tasks of up to half a minute.",
    "classes.medium": "Tasks of up to five minutes.",
    "classes.long": "Tasks of up to an hour.",
    "classes.very_long": "Tasks without an end in sight.",
    "classes.protected": "Tasks that nothing interrupts: a stop waits for the end.",
    "targets.response_p50": "Half of all stops take effect within this time.",
    "targets.response_p99": "99 of 100 stops take effect within this time.",
    "targets.completion": "The share of all sessions that is completed, in the checklist. A class has its own target.",
    "targets.satisfaction": "The share of ratings that is 4 or 5.",
    "targets.quality": "How much of their plan turns that were interrupted come to, in the checklist.",
    "environments.require_tag": "Whether resources must be tagged; an untagged one then counts as prod.",
    "environments.approve": "Environments in which a call that changes something needs an approval.",
    "environments.approve_paid": "Whether a call of a paid API needs an approval.",
    "environments.audit": "How long the audit log keeps what touched prod or a paid API, reads too, at least.",
    "artifacts.documented": "Whether what the agent made must be documented.",
    "artifacts.review": "After this time what the agent made comes up for review.",
    "agent_asks.ambiguous": "When instructions are ambiguous.",
    "agent_asks.credentials": "When credentials are missing.",
    "agent_asks.drift": "When drift is near its threshold.",
    "agent_asks.limits": "When a limit is near.",
    "agent_asks.unknown_errors": "When an error is of an unknown kind.",
    "agent_asks.near": "From this share of a threshold on it is near.",
}


def meaning(path: str) -> str:
    """Return the description of the parameter, or the part, at ``path``."""
    parts = path.split(".")
    general = ".".join([parts[0], "*", *parts[2:]]) if parts[0] == "classes" and len(parts) > 2 else path
    return _OF_PATHS.get(general) or _documented(path) or _LEVELS.get(parts[-1], "")


def _documented(path: str) -> str:
    kind: object = Policy
    words = ""
    for name in path.split("."):
        if not is_part(kind):
            return ""
        field = fields_of(kind)[name]
        words = _docstrings().get(f"{kind.__name__}.{field.name}", "")
        kind = field.type
    return words or (_line(kind.__doc__ or "") if is_part(kind) else "")


@cache
def _docstrings() -> Mapping[str, str]:
    """Return the text below each field of the document, by class and field. Empty without the source."""
    try:
        tree = ast.parse(inspect.getsource(document))
    except OSError:
        return {}
    found: dict[str, str] = {}
    for kind in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        for above, below in zip(kind.body, kind.body[1:], strict=False):
            match above, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[f"{kind.name}.{name}"] = _line(words)
                case _:
                    pass
    return found


def _line(words: str) -> str:
    return " ".join(words.replace("``", "").split())
