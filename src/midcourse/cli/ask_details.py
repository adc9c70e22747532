"""Show an ask on a terminal: the call that waits for a yes, its arguments, the reason, and what changed since."""

from collections.abc import Iterable, Sequence

from midcourse.cli.printer import plain, shortened
from midcourse.core.asks import NEED_APPROVAL, REVIEW, wanted_by
from midcourse.core.budget import BUDGET, needed
from midcourse.core.events import Change
from midcourse.core.inspection import StepView
from midcourse.core.session import Session
from midcourse.people.inbox_rules import InboxAsk


def title(reason: str, prompt: str) -> str:
    """Return the question; of an approval only its subject, as the rest is shown below it."""
    wanted = wanted_by(prompt) if reason == NEED_APPROVAL else None
    return f"Allow {wanted.tool}?" if wanted else prompt


def summary(ask: InboxAsk) -> str:
    """Return an ask as one line of a list, the decisive part first: a line is cut at its end."""
    if not ask.arguments:
        about = f"{ask.tool}: " if ask.tool else ""
        return f"{ask.reason}: {about}{ask.prompt}"
    why = f" ({ask.why})" if ask.why else ""
    return f"{ask.reason}: {ask.tool}{why} {ask.arguments}"


def details(
    reason: str, prompt: str, *, call: StepView | None = None, said: str = "", changes: Sequence[Change] = ()
) -> list[str]:
    """Return the facts that a person decides by, a line for each, cut to the terminal's width."""
    wanted = wanted_by(prompt) if reason == NEED_APPROVAL else None
    tool, arguments = (wanted.tool, wanted.arguments) if wanted else (call.name, call.arguments) if call else ("", "")
    facts = [
        ("Wants to call", tool),
        ("With", arguments if tool else ""),
        ("Asked because", f"it {wanted.why}" if wanted and wanted.why else ""),
        ("It said", f"“{said}”" if tool and said else ""),
        ("Changed since", "; ".join(map(change_words, changes))),
    ]
    return [shortened(f"  {name}: {plain(value, lines=False)}") for name, value in facts if value]


def how_to_answer(session: Session, ask: str) -> str:
    """Return the command that answers an ask. At its cap a session takes no answer, only a larger budget."""
    enough = needed(session)
    if enough is not None and any(one.id == ask and is_at_cap(one.step) for one in session.asks):
        return (
            f"Raise the budget with: midcourse resume {session.id} --budget {enough:g}\n"
            f"Or end it: midcourse cancel {session.id}"
        )
    return f"Answer with: midcourse answer {session.id} --ask {ask} TEXT"


def is_at_cap(step: str) -> bool:
    """Return whether an ask with this step is what a session asks at its cap."""
    return f"{REVIEW}#{BUDGET}" in step


def last_words(steps: Iterable[StepView]) -> str:
    """Return the model's last text."""
    texts = [" ".join(step.text.split()) for step in steps if step.text.strip()]
    return texts[-1] if texts else ""


def change_words(change: Change) -> str:
    """Return what was observed, before and now."""
    before, now = (one if one is not None else "not there" for one in (change.before, change.now))
    return f"{change.resource}: {change.why or f'{before} → {now}'}"
