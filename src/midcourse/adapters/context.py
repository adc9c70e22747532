"""Journal the changes of a run to the object that its tools share: restored for a Pydantic model, else reported."""

import dataclasses
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator, to_jsonable_python

from midcourse.adapters.held_agent import check_factory
from midcourse.core.codec import encode, secret_free
from midcourse.runtime.run import Run

log = logging.getLogger("midcourse")


class ContextMaker:
    """Makes the context of a run with the user's function, and notices if all runs share one object."""

    def __init__(self, word: str, function: Callable[[Run], Any] | None) -> None:
        """``word`` is the framework's name for it.

        Raises:
            InvalidInput: it is no function.
        """
        check_factory(word, function)
        self._word = word
        self._function = function
        self._last: Any = None

    async def make(self, run: Run) -> "Context":
        """Make the context of a run, with what the session had changed in it before."""
        made = None if self._function is None else self._function(run)
        ready: Any = await made if inspect.isawaitable(made) else made
        # What several runs share is not the session's to put back, nor is the run itself.
        is_shared = ready is None or ready is self._last or isinstance(ready, Run)
        self._last = ready
        context = Context(run, self._word, ready, is_shared=is_shared)
        await context.restore()
        return context


class Context:
    """The context or the dependencies of a session: made by a function in every process, and changed by its run.

    Of a Pydantic model, the fields that the run has changed are journaled, with each checkpoint and with the result of
    each call, and put back where it is made again. What it was made with is not journaled: it may be secret.
    """

    def __init__(self, run: Run, word: str, made: Any, *, is_shared: bool) -> None:
        self.value = made
        self._run = run
        self._word = word
        self._is_shared = is_shared
        self._first = self._fields()
        self._kept: object = None
        self._restorable: dict[str, tuple[object, bool]] = {}

    async def restore(self) -> None:
        """Put back what the run had changed before, and say what of it is lost."""
        kept: dict[str, Any] | None = await self._run.kept(self._word)
        before = self._run.state.get(self._word) if kept is None else kept
        if not before or self._is_shared:
            return
        lost: list[str] = list(before.get("lost", ()))
        for name, value in before.get("fields", {}).items():
            if not (isinstance(self.value, BaseModel) and _assign(self.value, name, value)):
                lost.append(name)
        if before.get("digest") not in (None, _digest(self._first)):
            lost.append("it is no Pydantic model")
        if lost:
            what = f"What the run had changed in its {self._word} could not be journaled and is lost"
            self._run.report(f"{what}: {', '.join(lost)}.")
            log.warning("session %s: %s", self._run.session_id, what)
        self._kept = self._changes()

    def save(self) -> None:
        """Have ``run.state`` hold what the run has changed."""
        self._kept = self._changes()
        if self._kept is None:
            self._run.state.pop(self._word, None)
        else:
            self._run.state[self._word] = self._kept

    def note(self) -> None:
        """Journal what the run has changed, beside the call that ends now."""
        changes = self._changes()
        if changes != self._kept:
            self._kept = changes
            self._run.keep(self._word, changes or {})

    def _changes(self) -> dict[str, Any] | None:
        now = self._fields()
        if now == self._first:
            return None
        if not isinstance(self.value, BaseModel):
            return {"digest": _digest(now)}
        changed = {name: value for name, value in now.items() if value != self._first.get(name)}
        lost = [name for name, value in changed.items() if not self._can_restore(name, value)]
        return {"fields": {name: value for name, value in changed.items() if name not in lost}, "lost": lost}

    def _fields(self) -> dict[str, Any]:
        """Return the fields as JSON; of an object that is no model, those that are JSON."""
        made = self.value
        if self._is_shared:
            return {}
        if isinstance(made, BaseModel):
            return {name: _jsonable(getattr(made, name)) for name in type(made).model_fields}
        if isinstance(made, Mapping):
            return {str(name): _jsonable(value) for name, value in dict(cast("Mapping[object, Any]", made)).items()}
        if dataclasses.is_dataclass(made):
            return {field.name: _jsonable(getattr(made, field.name)) for field in dataclasses.fields(made)}
        return {name: _jsonable(value) for name, value in dict(getattr(made, "__dict__", {})).items()}

    def _can_restore(self, name: str, value: object) -> bool:
        """Return True if a changed field can be restored from the journal. Secrets are not journaled."""
        known = self._restorable.get(name)
        if known is None or known[0] != value:
            known = self._restorable[name] = (value, self._comes_back(name, value))
        return known[1]

    def _comes_back(self, name: str, value: object) -> bool:
        try:
            spelled = encode({name: value}, what=name)
            probe: BaseModel = self.value.model_copy()
            return (
                secret_free(spelled) is spelled
                and _assign(probe, name, value)
                and bool(getattr(probe, name) == getattr(self.value, name))
            )
        except Exception:  # noqa: BLE001 - classes of the user's compare as they like, and the call that ends here is done
            return False


def _assign(model: BaseModel, name: str, value: object) -> bool:
    validator = cast("SchemaValidator", model.__pydantic_validator__)
    try:
        validator.validate_assignment(model, name, value)
    except ValidationError:
        return False
    return True


def _jsonable(value: Any) -> object:
    """Return the value as JSON, or its class. Nothing that reading would use up is read."""
    if hasattr(value, "__next__"):
        return type(value).__name__
    try:
        return cast("object", to_jsonable_python(value))
    except Exception:  # noqa: BLE001 - what JSON does not know, a circle, or a thread that changes it meanwhile
        return type(value).__name__


def _digest(fields: object) -> str:
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=12).hexdigest()
