"""Calls: each attempt at a step, from its start to what became of it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import Effect
from midcourse.core.events.event import Event
from midcourse.core.ids import AskId, StepId

StepKind = Literal["tool", "model", "child"]
Continues = Literal["", "prefix", "quote"]
"""The way a cut text is continued: from its own end, or by a request that quotes it. Empty: it begins again."""


class Observation(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The version something had (None: it did not exist), and the call that can check it again."""

    version: str | None
    tool: str
    given: Value = NOTHING


class StepBegun(Event, tag="step.begun@1"):
    """An attempt at a step is about to run. ``digest`` stands for its arguments, ``arguments`` shows them.

    For a call that is no ``read``: ``key`` is what the other side knows it by, ``tool`` the import path of the tool,
    ``given`` its arguments by name (if it can be undone or probed), ``settle`` how long a lost request may still land.
    """

    step: StepId
    name: str
    kind: StepKind
    attempt: int
    digest: str
    arguments: str = ""
    effect: Effect = "read"
    key: str = ""
    tool: str = ""
    given: Value = NOTHING
    settle: float = 0.0
    can_undo: bool = False
    can_probe: bool = False
    asks_if_silent: bool = False
    approval: AskId | None = None


class StepNotBegun(Event, tag="step.not_begun@1"):
    """The gate shut before this attempt ran; what earlier attempts did stays as it was."""

    step: StepId
    attempt: int


class StepFinished(Event, tag="step.finished@1"):
    """The step has a result and is never executed again. ``streamed``: the result is the text of its segments.

    A model's ``cost`` of 0 is an unknown price, unless it is ``free``: then it is known to cost nothing.

    ``told_by`` names the probe or the person who confirmed that it had happened, when its end was not seen.
    ``observed`` is what the call read, with its versions. ``nothing_done``: it reports that it changed nothing.
    """

    step: StepId
    attempt: int
    value: Value = NOTHING
    streamed: bool = False
    cost: float = 0.0
    tokens: int = 0
    told_by: str = ""
    observed: Mapping[str, Observation] = {}
    nothing_done: bool = False
    free: bool = False


class StepFailed(Event, tag="step.failed@1"):
    """The step raised; the agent sees that as its outcome. ``cut``: it did not end by itself, so it must settle.

    ``nothing_done``: it refused what it was given, before it did anything.
    """

    step: StepId
    attempt: int
    kind: str
    detail: str
    cost: float = 0.0
    tokens: int = 0
    cut: bool = False
    nothing_done: bool = False
    free: bool = False


class StepRetrying(Event, tag="step.retrying@1"):
    """The attempt raised what may pass, and the step is tried again ``wait`` seconds later, at ``again_at``.

    It is one of ``attempts`` that its retry allows. ``retry_after`` is what the other side asked for; ``unanswered``:
    no answer came, so what it sent must settle. ``left``: seconds of the step's timeout that the next one has.
    """

    step: StepId
    attempt: int
    kind: str
    detail: str
    wait: float
    again_at: float
    attempts: int
    retry_after: float | None = None
    unanswered: bool = False
    left: float | None = None
    cost: float = 0.0
    tokens: int = 0
    free: bool = False


class StepAborted(Event, tag="step.aborted@1"):
    """A stop ended this attempt, which may have happened all the same. ``asked``: it ended itself, to ask a person."""

    step: StepId
    attempt: int
    asked: bool = False


class StepSettled(Event, tag="step.settled@1"):
    """A probe or a person told whether a lost call happened: no, or (None) they cannot say. A yes finishes the step."""

    step: StepId
    attempt: int
    by: str
    happened: bool | None = None


class StepCut(Event, tag="step.cut@1"):
    """A stop or a redirect cut this model stream; its text stays, marked as cut.

    ``continues``: how the next attempt continues from that; empty, if the answer begins again.
    """

    step: StepId
    attempt: int
    length: int
    cost: float = 0.0
    tokens: int = 0
    free: bool = False
    continues: Continues = ""


class StepClosed(Event, tag="step.closed@1"):
    """A redirect closed the step for good; ``truth`` says what is known of it."""

    step: StepId
    attempt: int
    message: int
    truth: str


class SegmentWritten(Event, tag="segment.written@1"):
    """A piece of streamed output, durable while its step still runs. It supersedes the text from ``offset`` on.

    ``cost`` is what the attempt has cost by then, in all, as far as that is known (``free``: nothing, which is known),
    and ``tokens`` what it has written. Both are counted as they come, and its end repeats them. ``continues``: how the
    next attempt would continue if the process died now.
    """

    step: StepId
    attempt: int
    offset: int
    text: str
    cost: float = 0.0
    tokens: int = 0
    free: bool = False
    continues: Continues = ""


CallEvent = (
    StepBegun
    | StepNotBegun
    | StepFinished
    | StepFailed
    | StepRetrying
    | StepAborted
    | StepSettled
    | StepCut
    | StepClosed
    | SegmentWritten
)
