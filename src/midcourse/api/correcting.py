"""How long a correction may be: what a session's policy says of a redirect, before it is sent."""

from midcourse.core.ids import SessionId
from midcourse.core.session import ENDED
from midcourse.errors import Damaged, InvalidInput
from midcourse.policies import load as load_policy
from midcourse.runtime.control import Control
from midcourse.runtime.supervision import UNWATCHED


async def check_correction(control: Control, session_id: SessionId, text: str, level: str) -> None:
    """Refuse a correction that is longer than the session's policy takes. Another goal, or turn, is none.

    Raises:
        InvalidInput: it is too long.
        SessionNotFound: no such session.
    """
    if level == "goal" or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
        return
    try:
        session = await control.glance(session_id)
        if session.terms.policy in ("", UNWATCHED) or session.status in ENDED:
            return
        policy = await load_policy(control.worker.store, session.terms.policy)
    except (Damaged, InvalidInput):  # who decides the redirect says more; a policy that nobody knows wants nothing
        return
    if len(text) > policy.correction:
        raise InvalidInput(
            f"The correction has {len(text):,} characters; the policy '{policy.id}' takes at most {policy.correction}. "
            "Say it shorter, or give another goal (level 'goal').",
            field="text",
        )
