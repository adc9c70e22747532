"""Run trials in a process of their own, at a lower priority, so that long computations delay no stop.

The process reads its job from stdin, writes a line for each part of it that is done, and then the result. It is killed
when the caller stops waiting, or when it takes too long.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from midcourse.analysis.reports.recorded_runs import Going, Runs
from midcourse.analysis.reports.trials import Proposed, Trial, propose, tried
from midcourse.errors import InvalidInput, Refused
from midcourse.policy.document import Policy
from midcourse.policy.yaml_writer import from_document, to_document

COMMAND: Final = (sys.executable, "-m", "midcourse.analysis.reports.trial_process")
SECONDS: Final = 60.0
"""After which it is given up."""
_LOWER: Final = 10
"""The number by which its priority is lower."""
_TOLD: Final = 50
"""Lines about each part."""
_LONGEST: Final = 64 * 1024 * 1024
"""Bytes of the longest line."""
T = TypeVar("T")


class _Job(msgspec.Struct):
    """Policies to try on runs; or, with ``false_stops``, the first of them to calibrate."""

    runs: Runs
    policies: list[Any]
    false_stops: float | None = None


class _Told(msgspec.Struct, tag="told"):
    phase: str
    done: int
    of: int | None


class _Refused(msgspec.Struct, tag="refused"):
    message: str
    code: str
    field: str = ""


class _Done(msgspec.Struct, tag="done"):
    result: msgspec.Raw


_lines = msgspec.json.Decoder(_Told | _Refused | _Done)


# ---- the waiting process


async def try_policies(runs: Runs, policies: Sequence[Policy], going: Going, *, seconds: float = SECONDS) -> Trial:
    """Try these policies on recorded runs. The proposed one is the first.

    Raises:
        InvalidInput: two different policies have one name and version; or there is no run.
        Refused: ``too_many_runs``: it takes too long.
    """
    return await _computed(_Job(runs, [to_document(one) for one in policies]), Trial, going, seconds)


async def calibrate(
    runs: Runs, policy: Policy, going: Going, *, false_stops: float, seconds: float = SECONDS
) -> Proposed:
    """Thresholds that are as early as these runs allow.

    Raises:
        InvalidInput: ``too_few_runs``.
        Refused: ``too_many_runs``: it takes too long.
    """
    return await _computed(_Job(runs, [to_document(policy)], false_stops), Proposed, going, seconds)


async def _computed(job: _Job, kind: type[T], going: Going, seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return msgspec.json.decode(await _result(msgspec.json.encode(job), going), type=kind)
    except TimeoutError as error:
        raise Refused(
            f"These runs take longer than {seconds:g} s to try. Nothing was changed; take fewer with `limit`, or those "
            "since a later time.",
            code="too_many_runs",
        ) from error


async def _result(content: bytes, going: Going) -> msgspec.Raw:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it ended before it had read all: its exit says so
            process.stdin.write(content)
            await process.stdin.drain()
            process.stdin.close()
        while line := await process.stdout.readline():
            told = _lines.decode(line)
            if isinstance(told, _Done):
                return told.result
            if isinstance(told, _Refused):
                raise InvalidInput(told.message, code=told.code, **({"field": told.field} if told.field else {}))
            going.phase, going.done, going.of = told.phase, told.done, told.of
        raise RuntimeError(f"the process for trials ended without a result ({await process.wait()})")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


# ---- the process itself


class _Telling(Going):
    """Tells of some of its steps, and always of the first."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out

    def step(self) -> None:
        super().step()
        if (self.done - 1) % max(1, (self.of or 0) // _TOLD) == 0:
            _tell(self._out, _Told(self.phase, self.done, self.of))


def _tell(out: BinaryIO, line: "_Told | _Refused | _Done") -> None:
    out.write(msgspec.json.encode(line) + b"\n")
    out.flush()


def work(job: bytes, out: BinaryIO) -> None:
    going, wanted = _Telling(out), msgspec.json.decode(job, type=_Job)
    policies = [from_document(one) for one in wanted.policies]
    try:
        if wanted.false_stops is None:
            result: Trial | Proposed = tried(wanted.runs, policies, going)
        else:
            result = propose(wanted.runs, policies[0], going, wanted.false_stops)
    except InvalidInput as error:
        _tell(out, _Refused(error.message, error.code, str(error.fields.get("field", ""))))
    else:
        _tell(out, _Done(msgspec.Raw(msgspec.json.encode(result))))


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(_LOWER)
    with contextlib.suppress(BrokenPipeError):  # no process waits any more
        work(sys.stdin.buffer.read(), sys.stdout.buffer)
