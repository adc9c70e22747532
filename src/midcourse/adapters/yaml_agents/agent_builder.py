"""An agent file made an agent: its model found, its tools imported, its terms recorded."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pydantic_ai
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from midcourse.adapters.pydantic_ai.agent import wrap
from midcourse.adapters.yaml_agents.import_paths import imported
from midcourse.adapters.yaml_agents.model_choice import MakeModel, choose_model
from midcourse.adapters.yaml_agents.spec import AgentFile, Budget, RetrySettings, Settings, Spec, ToolUse, read_spec
from midcourse.adapters.yaml_agents.yaml_positions import YamlPage, read_pages
from midcourse.core.retries import Retry
from midcourse.core.terms import DefaultAnswer, Terms, check_terms
from midcourse.errors import InvalidInput
from midcourse.runtime.agents import Agent
from midcourse.runtime.tools import Tool, declared_tool, register, tool_of

_DECLARED = (
    *("effect", "settle", "local", "if_silent", "on_change", "resources", "environment", "cost", "timeout", "run_in"),
)


def load_agents(path: str | Path) -> tuple[Agent[Any], ...]:
    """Register the agents of a YAML file, or of every ``.yaml`` file in a folder: all of them, or none.

    Modules that lie beside a file can be imported by it.

    Raises:
        InvalidInput: a file has a mistake; the sentence says file, line and field.
    """
    where = Path(path)
    files = sorted([*where.glob("*.yaml"), *where.glob("*.yml")]) if where.is_dir() else [where]
    if not files:
        raise InvalidInput(f"There is no .yaml file in {where}.", field="path", path=str(where))
    read = [(page, read_spec(page)) for file in files for page in read_pages(file)]
    if not read:
        raise InvalidInput(f"{where} holds no agent: it is empty.", field="path", path=str(where))
    names: dict[str, YamlPage] = {}
    for page, spec in read:
        name = _name(page, spec)
        if name in names:
            page.refuse(("metadata", "name"), f"'{name}' is also the name of an agent in {names[name].path}.")
        names[name] = page
    prepared = [
        (page, spec, _built(page, spec), choose_model(page, spec.spec.model), _terms(page, spec.spec))
        for page, spec in read
    ]
    return tuple(_register(*one) for one in prepared)


def _name(page: YamlPage, spec: AgentFile) -> str:
    return spec.metadata.name or page.path.stem


def _built(page: YamlPage, spec: AgentFile) -> pydantic_ai.Agent[Any, str]:
    said = spec.spec
    tools = [made for index, use in enumerate(said.tools) for made in _tools(page, ("spec", "tools", index), use)]
    names = [tool.name for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            page.refuse(("spec", "tools"), f"two tools are called '{name}'. Give one another name: name: …")
    return pydantic_ai.Agent(
        name=_name(page, spec),
        instructions=said.instructions or None,
        tools=tools,
        retries=said.retries,
        model_settings=_settings(said.settings),
    )


def _register(
    page: YamlPage, spec: AgentFile, built: pydantic_ai.Agent[Any, str], model: MakeModel, terms: Terms
) -> Agent[Any]:
    said = spec.spec
    spelled = msgspec.json.encode(page.content, enc_hook=str)
    return wrap(
        built,
        name=_name(page, spec),
        model=model,
        origin=str(page.path),
        version=spec.metadata.version or hashlib.blake2b(spelled, digest_size=6).hexdigest(),
        asks=said.interrupt.enabled,
        usage_limits=UsageLimits(
            request_limit=said.limits.requests,
            tool_calls_limit=said.limits.tool_calls,
            total_tokens_limit=said.limits.total_tokens,
        ),
        terms=terms,
        retry=_retry(said.settings.retry),
        description=spec.metadata.description,
        goals=spec.metadata.goals,
    )


def _terms(page: YamlPage, said: Spec) -> Terms:
    checkpoint = said.interrupt.checkpoint
    then = checkpoint.on_expiry
    terms = Terms(
        task_class=said.task_class,
        policy=said.policy,
        budget=said.budget.usd if isinstance(said.budget, Budget) else said.budget,
        backend=checkpoint.backend,
        ttl_seconds=checkpoint.ttl_seconds,
        on_expiry=then if isinstance(then, str) else DefaultAnswer(then.answer),
        labels=said.labels,
    )
    try:
        return check_terms(terms)
    except InvalidInput as error:  # each field is as it may be; on_expiry must also fit
        page.refuse(("spec", "interrupt", "checkpoint", "on_expiry"), error.message)


def _settings(said: Settings) -> ModelSettings | None:
    given = said.model_dump(exclude_none=True, exclude={"retry"})
    return cast("ModelSettings", given) if given else None


def _retry(said: RetrySettings | None) -> Retry | None:
    return None if said is None else Retry(**said.model_dump())


# ---- tools


def _tools(page: YamlPage, place: tuple[str | int, ...], use: str | ToolUse) -> Iterator[pydantic_ai.Tool[Any]]:
    said = ToolUse.model_validate({"use": use}) if isinstance(use, str) else use
    at = place if isinstance(use, str) else (*place, "use")
    found = imported(page, at, said.use)
    if said.given is not None:
        yield from _made_set(page, place, said, found)
        return
    if not callable(found):
        page.refuse(at, f"'{said.use}' is a {type(found).__name__}, not a function.")
    yield _tool(said, _declared(page, place, said, found))


def _made_set(
    page: YamlPage, place: tuple[str | int, ...], said: ToolUse, maker: Any
) -> Iterator[pydantic_ai.Tool[Any]]:
    if said.name or any(getattr(said, field) is not None for field in (*_DECLARED, "undo", "probe", "retry")):
        page.refuse(place, "a set of tools declares itself; only 'use', 'with' and 'requires_approval' go together.")
    try:
        made = maker(**(said.given or {}))
    except (Exception, SystemExit) as error:  # the maker is not ours
        words = error.message if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
        raise InvalidInput(page.sentence((*place, "with"), words), field="with", path=str(page.path)) from error
    parts = cast("Mapping[str, object]", getattr(made, "__dict__", {}))
    found = [cast("Tool[..., Any]", value) for value in parts.values() if isinstance(value, Tool)]
    if not found:
        page.refuse((*place, "use"), f"'{said.use}' makes no set of tools.")
    for tool in found:
        yield _tool(said, tool)


def _declared(
    page: YamlPage, place: tuple[str | int, ...], said: ToolUse, function: Callable[..., Any]
) -> Tool[..., Any]:
    """Return the tool: the file's declaration over its own."""
    given = {field: getattr(said, field) for field in _DECLARED if getattr(said, field) is not None}
    for field in ("undo", "probe"):
        path = getattr(said, field)
        if path is not None:
            given[field] = imported(page, (*place, field), path)
    if said.retry is not None:
        given["retry"] = _retry(said.retry)
    own = tool_of(function)
    if not given:
        return own
    # Two files may declare one function differently: each has a tool of its own, distinguished by its place.
    origin = f"{own.origin}@{page.path.stem}.{page.line(place)}"
    own_fields = (*_DECLARED, "undo", "probe", "observes", "retry")
    before = {field: getattr(own, field) for field in own_fields} if own.declared else {}
    try:
        made = declared_tool(own.function, name=own.name, origin=origin, **{**before, **given})
    except InvalidInput as error:
        field = str(error.fields.get("field", ""))
        raise InvalidInput(
            page.sentence((*place, field), error.message),
            field=field,
            path=str(page.path),
            line=page.line((*place, field)),
        ) from error
    register(made)
    return made


def _tool(said: ToolUse, made: Tool[..., Any]) -> pydantic_ai.Tool[Any]:
    return pydantic_ai.Tool(made, name=said.name or made.name, requires_approval=said.requires_approval)
