"""Choose an agent file's model: a provider's, an OpenAI-compatible server's, a script's, or one that runs here."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model, parse_model_id
from pydantic_ai.providers import infer_provider_class

from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.adapters.yaml_agents.import_paths import imported
from midcourse.adapters.yaml_agents.spec import Model as Parts
from midcourse.adapters.yaml_agents.yaml_positions import YamlPage
from midcourse.errors import AgentUnavailable, InvalidInput
from midcourse.models.local import LocalModel, find_weights

MakeModel: TypeAlias = Callable[[], Awaitable[Model]]
ENVIRONMENT: Final = "MIDCOURSE_MODEL"
_PLACE: Final = ("spec", "model")


def choose_model(page: YamlPage, said: str | Parts | None) -> MakeModel:  # noqa: RET503 - what does not return refuses
    """Return a function that makes the model when a run needs it: a missing key fails the session, not the file.

    Raises:
        InvalidInput: the file names no model, or an impossible one.
    """
    match said:
        case None:
            named = os.environ.get(ENVIRONMENT)
            if not named:
                page.refuse(
                    _PLACE,
                    f"it is missing. Name a model, such as 'openai:gpt-5-mini', or set {ENVIRONMENT} for all agents "
                    "that name none.",
                )
            return _of_provider(page, named)
        case str():
            return _of_provider(page, said)
        case Parts(script=str(path), name=None, base_url=None, local=None, api_key_env=None):
            return _of_script(page, path)
        case Parts(local=str() | True, name=None, script=None, base_url=None, api_key_env=None):
            return _here(page, None if said.local is True else cast("str", said.local))
        case Parts(base_url=str(url), script=None, local=None):
            if not said.name:
                page.refuse((*_PLACE, "name"), "it is missing: what does the server call the model?")
            return _of_server(said.name, url, said.api_key_env)
        case Parts(name=str(name), script=None, base_url=None, local=None, api_key_env=None):
            return _of_provider(page, name)
        case _:
            pass
    page.refuse(_PLACE, "give one of name, script, local; base_url and api_key_env go with name and with each other.")


def _of_provider(page: YamlPage, named: str) -> MakeModel:
    if named == "local":
        return _here(page, None)
    if named.startswith("scripted:"):
        return _of_script(page, named.removeprefix("scripted:"))
    if named == "test":
        return _made(named, lambda: infer_model("test"))
    provider, _ = parse_model_id(named)
    if provider is None:
        page.refuse(_PLACE, f"'{named}' names no provider. Write 'provider:model', such as 'openai:{named}'.")
    try:
        infer_provider_class(provider)
    except ValueError:
        page.refuse(_PLACE, f"there is no provider '{provider}'. Pydantic AI's list of models has them all.")
    except ImportError:
        pass  # said when a run needs it, together with what to install
    return _made(named, lambda: infer_model(named))


def _of_server(name: str, url: str, key_from: str | None) -> MakeModel:
    def make() -> Model:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        key = "none" if key_from is None else os.environ.get(key_from)
        if not key:
            raise UserError(f"the environment variable {key_from} is not set")
        return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key=key))

    return _made(f"{name} at {url}", make)


def _of_script(page: YamlPage, path: str) -> MakeModel:
    script = imported(page, _PLACE, path)
    if not callable(script):
        page.refuse(_PLACE, f"'{path}' is a {type(script).__name__}, not a script.")
    return _made(path, lambda: scripted(cast("Any", script), name=f"scripted:{path}"))


def _made(named: str, make: Callable[[], Model]) -> MakeModel:
    made: list[Model] = []

    async def once() -> Model:
        try:
            if not made:
                # Most of it is the import of a client library, which must not hold up everybody else.
                made.append(await asyncio.to_thread(make))
        except (UserError, ImportError, ValueError) as error:
            raise AgentUnavailable(
                f"Its model '{named}' cannot be used: {error}. Mend that and resume the session.",
                agent=named,
                code="model_unavailable",
            ) from error
        return made[0]

    return once


# ---- models that run here

_running: Final[dict[tuple[int, str], asyncio.Future[LocalModel]]] = {}


def _here(page: YamlPage, weights: str | None) -> MakeModel:
    try:
        found = str(find_weights(weights))
    except InvalidInput as error:
        raise InvalidInput(page.sentence(_PLACE, error.message), field="spec.model", path=str(page.path)) from error

    async def model() -> Model:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        key = (id(asyncio.get_running_loop()), found)
        if key not in _running:
            # Entered once for the process, whose end it does not survive; who comes meanwhile waits for the same.
            _running[key] = asyncio.ensure_future(LocalModel(found).__aenter__())
        try:
            server = await asyncio.shield(_running[key])
        except Exception:
            _running.pop(key, None)
            raise
        made = OpenAIChatModel(server.name, provider=OpenAIProvider(base_url=server.base_url, api_key="none"))
        made.goes_on = "prefix"  # pyright: ignore[reportAttributeAccessIssue] - it is llama.cpp
        return made

    return model


async def stop_local_models() -> None:
    """End the models that agents of this loop have started."""
    here = id(asyncio.get_running_loop())
    for key in [key for key in _running if key[0] == here]:
        await (await _running.pop(key)).__aexit__(None, None, None)
