"""Every exception of Midcourse: a sentence for people, a stable code for programs.

::

    MidcourseError                    has .code and .fields; str() says what happened and what to do
    ├── Refused                       a command that is not allowed now (.allowed says what is)
    ├── InvalidInput                  an argument that cannot be used as it is
    ├── AccessDenied                  a request the server does not let in: from whom, from where, how often
    ├── ServerUnreachable             no answer at a server's address, or not one of a Midcourse server
    ├── SessionNotFound               no such session in this store
    ├── AgentUnavailable              this process cannot run the session's agent
    ├── ToolUnavailable               this process does not have a tool whose call must be undone
    ├── Unencodable                   a value that cannot be journaled
    ├── MisusedRun                    run.* was called in a way that cannot be resumed
    ├── Diverged                      a resumed agent took another path than the journal
    ├── Damaged                       a checksum does not match: a record, a snapshot, a blob
    │   └── ImpossibleEvent           an event that contradicts the session it would happen to
    ├── StoreError                    the store could not do it
    │   ├── StoreUnavailable          it cannot be opened, or another program holds it
    │   ├── StoreFull                 no space is left
    │   ├── StaleEpoch                another owner has acquired the session
    │   ├── OwnerAlive                the session has a live owner and cannot be acquired
    │   ├── InboxNotEmpty             a session cannot be released while a command is undecided
    │   └── ShelfChanged              a shelf's item is not the one that the writer had read
    ├── StepError                     a step failed; the same live and after a resume
    ├── Redirected                    a step was closed by a redirect (only with on_redirect="raise")
    ├── AskExpired                    an ask was not answered in time
    └── SessionEnded                  result() of a session that was cancelled or failed

    Interrupt(Exception)              raised BY an agent or step: "ask a person, then try me again"
    InterruptRequested(BaseException) raised INTO an agent at a safe point; never catch it
"""

from collections.abc import Sequence


class MidcourseError(Exception):
    """Something Midcourse can explain. ``code`` is stable; ``fields`` are the facts of the sentence."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, **fields: object) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.fields = fields


class Refused(MidcourseError):
    """A command that cannot be applied in the session's present status. Nothing was changed."""

    code = "refused"

    def __init__(self, message: str, *, code: str, allowed: Sequence[str] = (), **fields: object) -> None:
        super().__init__(message, code=code, allowed=tuple(allowed), **fields)
        self.allowed = tuple(allowed)


class InvalidInput(MidcourseError):
    """An argument that cannot be used as it is; the sentence names it and says what would do."""

    code = "invalid_input"


class AccessDenied(MidcourseError):
    """A request the server does not let in. Nothing was read or changed.

    ``unauthorized``: no token or browser session, or none that is valid. ``forbidden``: the token's role is too low.
    ``login_refused``, ``identity_would_change``: a browser that would log in.
    ``origin_not_allowed``: it may come from another site's page. ``too_many_streams``: its caller has too many open.
    """

    code = "forbidden"


class ServerUnreachable(MidcourseError):
    """No answer at a server's address, the connection was lost for too long, or it is no server of Midcourse."""

    code = "server_unreachable"


class SessionNotFound(MidcourseError):
    """No such session in this store."""

    code = "session_not_found"


class AgentUnavailable(MidcourseError):
    """This process cannot run the session's agent: not registered here, or a closure of a process that is gone."""

    code = "agent_unavailable"


class ToolUnavailable(MidcourseError):
    """This process does not have the tool whose call must be undone, probed or released."""

    code = "tool_unavailable"


class Unencodable(MidcourseError):
    """A value that cannot be written to the journal."""

    code = "unencodable"


class MisusedRun(MidcourseError):
    """``run.*`` was called in a way that could not be told apart, or found again, on a resume."""

    code = "misused_run"


class Diverged(MidcourseError):
    """A resumed agent asked for another thing than the journal holds under the same identity."""

    code = "diverged"


class Damaged(MidcourseError):
    """A checksum does not match what it covers. What is damaged is never followed."""

    code = "damaged"


class ImpossibleEvent(Damaged):
    """An event that cannot happen to the session as it stands: a journal that holds it is damaged."""

    code = "impossible_event"


class StoreError(MidcourseError):
    """The store could not do what was asked."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store cannot be opened, or another program holds it for too long."""

    code = "store_unavailable"


class StoreFull(StoreError):
    """No space is left where the store lives."""

    code = "store_full"


class StaleEpoch(StoreError):
    """Another owner has acquired the session; this one has stopped its calls and has nothing left to do."""

    code = "stale_epoch"


class OwnerAlive(StoreError):
    """The session has a live owner; only a session with a dead owner, or none, can be acquired."""

    code = "owner_alive"


class InboxNotEmpty(StoreError):
    """A session cannot be released while a command to it is undecided."""

    code = "inbox_not_empty"


class ShelfChanged(StoreError):
    """A shelf's item is not the one that the writer had read: another writer was quicker. Nothing was written."""

    code = "shelf_changed"


class StepError(MidcourseError):
    """A step failed. ``kind`` names the exception's class; the exception itself is ``__cause__`` while it is live."""

    code = "step_failed"

    def __init__(self, message: str, *, step: str, kind: str, detail: str) -> None:
        super().__init__(message, step=step, kind=kind, detail=detail)
        self.step = step
        self.kind = kind
        self.detail = detail


class Redirected(MidcourseError):
    """A person changed the course while this step ran, so it was closed. Raised only with ``on_redirect="raise"``."""

    code = "redirected"

    def __init__(self, message: str, *, instruction: str, level: str, partial: str = "", truth: str = "") -> None:
        super().__init__(message, instruction=instruction, level=level)
        self.instruction = instruction
        self.level = level
        self.partial = partial
        self.truth = truth
        """The known outcome of the closed call: undone, no effect, may have happened."""


class AskExpired(MidcourseError):
    """An ask was not answered before its deadline."""

    code = "ask_expired"


class SessionEnded(MidcourseError):
    """The result was asked of a session that ended without one: cancelled or failed."""

    code = "session_ended"


class Interrupt(Exception):
    """Raise this in an agent or a step to ask a person; it is tried again once the answer is there.

    In a step the answer is ``current_call().answer``; in the agent itself it is ``run.answer``.
    """

    def __init__(self, reason: str, prompt: str) -> None:
        super().__init__(f"{reason}: {prompt}")
        self.reason = encodable_text(reason)
        self.prompt = encodable_text(prompt)


class InterruptRequested(BaseException):
    """Leaves the agent at a safe point. Private to the runtime.

    Seeing this in your own traceback? A bare ``except:`` caught it. Catch ``Exception`` instead.
    """


def without_path(error: MidcourseError) -> str:
    """Return an error's text without the path of the store's file: for a journal, which not only operators read."""
    path = str(error.fields.get("path", ""))
    return error.message.replace(path, "the store") if path else error.message


def describe(error: BaseException) -> str:
    """Return the text of any exception in a form that can be journaled, and not endless."""
    try:
        text = str(error)
    except BaseException as another:  # noqa: BLE001 - a user's class may fail even at this, and end no more than itself
        text = f"(its text cannot be made: {type(another).__name__})"
    return encodable_text(text[:10_000])


def encodable_text(text: str) -> str:
    """Return ``text`` as a journal can hold it. A file name that is not UTF-8 has lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()
