"""Turn texts into vectors, by a model inside a package: nothing is downloaded, and no text leaves the machine.

The default one is WordLlama: a table of token vectors in its own wheel, 16 MB, averaged over the tokens of a text. It
knows words and little more, and takes a tenth of a millisecond. You can pass a better one: an encoder is a name and
``encode``. Its drift has to be calibrated first, see ``drift``.
"""

import importlib
import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import numpy as np

NOT_INSTALLED: Final = "no encoder is installed. Install one with: pip install 'midcourse[drift]'"


class Encoder(Protocol):
    """Turns a text into a vector, the same one for the same text, in any thread."""

    @property
    def name(self) -> str:
        """Stands for the model and all that its vectors depend on: scales are kept by this name."""
        ...

    def encode(self, text: str) -> "Sequence[float] | np.ndarray[Any, Any]":
        """Return the vector of a text. All have one length; that of a text without a word may be zero."""
        ...


def find_encoder() -> Encoder | None:
    """Return the encoder, loaded once per process; None if not installed (see ``why_none``).

    Loading takes about half a second, most of it the import. It waits only for the disk.
    """
    found = _found()
    return None if isinstance(found, str) else found


def why_none() -> str:
    """Return why ``find_encoder`` returned None, and what to do, as the end of a sentence; empty if it did not."""
    found = _found()
    return found if isinstance(found, str) else ""


_lock: Final = threading.Lock()
_kept: Final[list[Encoder | str]] = []
"""The encoder, or why there is none, once it was looked for."""


def _found() -> Encoder | str:
    with _lock:
        if not _kept:
            _kept.append(_load_wordllama())
        return _kept[0]


# ---- WordLlama


class WordLlamaEncoder:
    """The token vectors of WordLlama's wheel, averaged."""

    def __init__(self, tokenizer: Any, vectors: "np.ndarray[Any, np.dtype[np.float32]]") -> None:
        self.name = f"wordllama-l2_supercat-{vectors.shape[1]}"
        self._tokenizer = tokenizer
        self._vectors = vectors
        self._nothing = vectors[0] * 0

    def encode(self, text: str) -> "np.ndarray[Any, np.dtype[np.float32]]":
        # WordLlama's own embed() does this for batches: it pads, and starts a pool of threads that no fork survives.
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return self._vectors[ids].mean(axis=0) if ids else self._nothing


def _load_wordllama() -> Encoder | str:
    try:
        with _logging_left_alone():
            wordllama: Any = importlib.import_module("wordllama")
    except ImportError as error:
        return NOT_INSTALLED if error.name == "wordllama" else f"wordllama cannot be imported ({error}). Reinstall it"
    try:
        model: Any = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
        return WordLlamaEncoder(model.tokenizer, model.embedding)
    except (AttributeError, OSError, TypeError, ValueError) as error:
        # Another version, or a wheel without its weights.
        return f"wordllama cannot be loaded ({error}). Install the one that fits: pip install 'midcourse[drift]'"


@contextmanager
def _logging_left_alone() -> Generator[None]:
    """WordLlama sets up the root logger when it is imported, unless that has a handler."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
