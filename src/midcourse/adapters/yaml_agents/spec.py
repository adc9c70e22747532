"""The fields of an agent file. The models are the documentation: the editors' JSON schema is made of them."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from midcourse.adapters.yaml_agents.yaml_positions import YamlPage
from midcourse.core.choices import suggestion
from midcourse.core.retries import MODEL_RETRY, MOST_ATTEMPTS
from midcourse.core.terms import LABEL, LONGEST_TTL, MOST_LABELS, CheckpointBackend, Expiry, TaskClass
from midcourse.errors import InvalidInput
from midcourse.runtime.agents import LONGEST_DESCRIPTION, LONGEST_GOAL, MOST_GOALS

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
IMPORT_PATH: Final = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
ImportPath: TypeAlias = Annotated[str, Field(pattern=IMPORT_PATH, description="module:name")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metadata(_Part):
    """Who the agent is."""

    name: Annotated[str, Field(pattern=NAME)] | None = Field(default=None, description="Default: the file's name.")
    description: str = Field(
        default="", max_length=LONGEST_DESCRIPTION, description="One sentence for people who choose an agent."
    )
    goals: tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_GOAL)], ...] = Field(
        default=(), max_length=MOST_GOALS, description="Examples of what to ask of it, the plainest first."
    )
    version: str | None = Field(default=None, max_length=100, description="Default: a digest of the document.")
    labels: dict[str, str] = Field(default_factory=dict[str, str])


class Model(_Part):
    """A model by its parts: an OpenAI-compatible server, a script, or a file of weights that runs here."""

    name: str | None = Field(default=None, description="What the server calls it, or a Pydantic AI model string.")
    base_url: str | None = Field(default=None, pattern=r"^https?://", description="An OpenAI-compatible server.")
    api_key_env: str | None = Field(
        default=None, pattern=r"^[A-Za-z_]\w*$", description="The environment variable that holds its key."
    )
    script: ImportPath | None = Field(default=None, description="A script, for tests and demos.")
    local: str | Literal[True] | None = Field(
        default=None, description="A .gguf file to run on this machine; true for the installed SmolLM2."
    )


class RetrySettings(_Part):
    """The retries of a call that fails temporarily, and the waits in between."""

    attempts: int = Field(default=MODEL_RETRY.attempts, ge=1, le=MOST_ATTEMPTS, description="In all; 1: no retry.")
    first_wait: float = Field(default=MODEL_RETRY.first_wait, ge=0, description="Seconds.")
    factor: float = Field(default=MODEL_RETRY.factor, ge=1, description="Each later wait is so many times as long.")
    max_wait: float = Field(
        default=MODEL_RETRY.max_wait, ge=0, description="Seconds; a Retry-After that is longer is a failure."
    )
    jitter: float = Field(default=MODEL_RETRY.jitter, ge=0, le=1, description="The share of a wait left to chance.")


class ToolUse(_Part):
    """A tool, and what it does to the world. What is not said here, the function says itself."""

    use: ImportPath = Field(description="A function, a tool, or a function that makes a set of tools.")
    given: dict[str, Any] | None = Field(
        default=None,
        alias="with",
        description="Arguments for what makes a set of tools: {root: ./work}. Paths count from where the program runs.",
    )
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    requires_approval: bool = Field(default=False, description="Ask a person before each call.")
    effect: Literal["read", "idempotent", "write"] | None = None
    undo: ImportPath | None = None
    probe: ImportPath | None = None
    settle: float | None = Field(default=None, ge=0)
    local: bool | None = None
    if_silent: Literal["go_on", "ask"] | None = None
    on_change: Literal["tell", "ask", "refuse", "go_on"] | None = None
    resources: tuple[str, ...] | None = None
    environment: str | None = None
    cost: float | None = Field(default=None, ge=0)
    timeout: float | None = Field(default=None, gt=0)
    run_in: Literal["thread", "process"] | None = None
    retry: RetrySettings | None = None


class DefaultAnswer(_Part):
    """The answer to an ask that is not answered in time."""

    answer: Any = Field(description="Any value. It never approves anything: only a person does.")


class Checkpoint(_Part):
    """Where people can read what a waiting agent waits for, and for how long it can be answered."""

    backend: CheckpointBackend = Field(default="store", description="The store alone, or also Redis.")
    ttl_seconds: float | None = Field(
        default=None, gt=0, le=LONGEST_TTL, description="How long what the agent asks can be answered."
    )
    on_expiry: Expiry | DefaultAnswer = Field(
        default="fail",
        description="The effect: the agent gets an error, the session is cancelled, or {answer: …} is the answer.",
    )


class InterruptSettings(_Part):
    """Switches the agent's asks on or off. People's own controls work in any case."""

    enabled: bool = True
    checkpoint: Checkpoint = Checkpoint()


class Budget(_Part):
    """The most that a session may cost."""

    usd: float = Field(gt=0, le=1e9)


class Settings(_Part):
    """The settings of the model's requests."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, gt=0)
    top_p: float | None = Field(default=None, ge=0, le=1)
    timeout: float | None = Field(default=None, gt=0)
    parallel_tool_calls: bool | None = None
    retry: RetrySettings | None = None


class Limits(_Part):
    """When a turn has gone too far."""

    requests: int | None = Field(default=None, gt=0, description="Model requests in one turn.")
    tool_calls: int | None = Field(default=None, gt=0, description="Tool calls in one turn.")
    total_tokens: int | None = Field(default=None, gt=0)


class Spec(_Part):
    """The parts of the agent."""

    type: Literal["chat_model_agent"]
    model: str | Model | None = Field(
        default=None,
        description="A Pydantic AI model string ('openai:gpt-5-mini'), or a model by its parts. "
        "Default: the environment variable MIDCOURSE_MODEL.",
    )
    instructions: str = ""
    tools: tuple[ImportPath | ToolUse, ...] = ()
    interrupt: InterruptSettings = InterruptSettings()
    policy: str = Field(default="", max_length=100, description="The name of a policy.")
    task_class: TaskClass | None = None
    labels: tuple[Annotated[str, Field(pattern=LABEL)], ...] = Field(
        default=(), max_length=MOST_LABELS, description="What operators find its sessions by, and stop them."
    )
    budget: Budget | Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="Dollars a session."
    )
    settings: Settings = Settings()
    limits: Limits = Limits()
    retries: int | None = Field(default=None, ge=0, le=100, description="How often a tool may be tried again.")


class AgentFile(_Part):
    """An agent."""

    kind: Literal["Agent"] = "Agent"
    api_version: Literal["midcourse/v1"] = Field(default="midcourse/v1", alias="apiVersion")
    metadata: Metadata = Metadata()
    spec: Spec


def schema() -> dict[str, Any]:
    """Return the JSON schema of an agent file, for editors."""
    made = AgentFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "A Midcourse agent"}


def read_spec(page: YamlPage) -> AgentFile:
    """Read the document as an agent.

    Raises:
        InvalidInput: it has mistakes; each is a line that says file, line and field.
    """
    if not isinstance(page.content, Mapping):
        page.refuse((), "an agent is a mapping with 'spec'.")
    try:
        return AgentFile.model_validate(cast("Any", page.content))
    except ValidationError as error:
        mistakes = _mistakes(page, error)
        place = mistakes[0][0]
        sentences = "\n".join(page.sentence(place, why) for place, why in mistakes)
        raise InvalidInput(
            sentences, field=".".join(map(str, place)), path=str(page.path), line=page.line(place)
        ) from error


_UNIONS: Final = frozenset(
    {"str", "Model", "ToolUse", "Budget", "DefaultAnswer", "float", "constrained-str", "constrained-float"}
)


def _mistakes(page: YamlPage, error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Yield each place with its mistake, once: a union complains once for each of its members."""
    found: dict[tuple[str | int, ...], str] = {}
    for one in error.errors():
        given = [part for part in one["loc"] if not (isinstance(part, str) and _is_member(part))]
        place = tuple(given)
        why = _why(one, page, place)
        # That it is no member of a union at all gives way to what a member has to say.
        if place not in found or one["type"] not in {"model_type", "string_type", "float_type"}:
            found[place] = why
    # What is said of a field counts more than what is said of what is around it.
    precise = [place for place in found if not any(other != place and other[: len(place)] == place for other in found)]
    return [(place, found[place]) for place in sorted(precise, key=page.line)]


def _is_member(part: str) -> bool:
    return part in _UNIONS or "[" in part or part.startswith("literal")


def _why(error: Any, page: YamlPage, place: tuple[str | int, ...]) -> str:
    match error["type"]:
        case "extra_forbidden" if place and place[-1] == "api_key":
            return "a key does not belong in a file. Put it into an environment variable and name that: api_key_env."
        case "extra_forbidden":
            return f"there is no such field. {suggestion(place[-1] if place else '', _known(place[:-1]))}"
        case "missing":
            return "it is missing."
        case "literal_error":
            expected = str(error["ctx"]["expected"])
            return f"it is {error['input']!r}. {suggestion(error['input'], _words(expected))}"
        case "string_pattern_mismatch" if error["ctx"]["pattern"] == IMPORT_PATH:
            return f"{error['input']!r} is no import path. Write 'module:name', such as 'shop.tools:send_mail'."
        case "model_type" | "string_type" | "float_type" | "float_parsing" if model := _BELOW.get(_of(place)):
            wanted = f"{_OR.get(model, '')}a mapping with: {', '.join(_names(model))}"
            return f"it is {wanted}; here it is {_shown(error['input'])}."
        case kind if kind in _KINDS:
            return f"it is {_KINDS[kind]}; here it is {_shown(error['input'])}."
        case _:
            return f"{error['msg'][0].lower()}{error['msg'][1:]}; it is {error['input']!r}."


def _shown(given: object) -> str:
    """Return a value as the file has it."""
    return "empty" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)


def _words(expected: str) -> list[str]:
    return [word.strip(" '") for word in expected.replace(" or ", ",").split(",") if word.strip()]


def _known(place: tuple[str | int, ...]) -> list[str]:
    """Return the known fields of a place, as they are written."""
    around, last = _of(place)
    return sorted(_names(_BELOW.get((around, last), around)))


def _of(place: tuple[str | int, ...]) -> tuple[type[BaseModel], str]:
    """Return the model that a place belongs to, and its name there. Of an item of a list, the list's name."""
    current: type[BaseModel] = AgentFile
    names = [part for part in place if isinstance(part, str)]
    for name in names[:-1]:
        current = _BELOW.get((current, name), current)
    return current, names[-1] if names else ""


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


_KINDS: Final[Mapping[str, str]] = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}
"""The kinds of fields in plain words, where Pydantic would speak of Python."""
_OR: Final[Mapping[type[BaseModel], str]] = {
    Model: "the name of a model, or ",
    ToolUse: "an import path ('module:name'), or ",
    Budget: "a number, or ",
    DefaultAnswer: "fail, cancel, or ",
}


def _parts(model: type[BaseModel]) -> Iterator[tuple[tuple[type[BaseModel], str], type[BaseModel]]]:
    """Yield the model of each field that has fields of its own, by the model around it and its name there."""
    for name, field in model.model_fields.items():
        for inner in _models_in(field.annotation):
            yield (model, field.alias or name), inner
            yield from _parts(inner)


def _models_in(kind: object) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _models_in(inner)


_BELOW: Final = dict(_parts(AgentFile))
