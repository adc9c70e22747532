"""The encoder comes out of its wheel: without a network, once per process, and nothing else changes."""

import importlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midcourse.policy.signals import encoders
from midcourse.policy.signals.encoders import NOT_INSTALLED, Encoder, find_encoder, why_none


@pytest.fixture
def encoder() -> Encoder:
    found = find_encoder()
    assert found is not None, why_none()
    return found


def run(program: str) -> str:
    """What a fresh process prints that runs this."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cosine(encoder: Encoder, one: str, other: str) -> float:
    left, right = np.asarray(encoder.encode(one)), np.asarray(encoder.encode(other))
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_words_that_mean_the_same_are_closer_than_words_that_do_not(encoder: Encoder) -> None:
    assert cosine(encoder, "fix the login session", "authentication bug") > 0.2
    assert cosine(encoder, "fix the login session", "green curry recipe") < 0.1


def test_the_vectors_are_those_that_wordllama_itself_makes(encoder: Encoder) -> None:
    wordllama: Any = importlib.import_module("wordllama")
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    for text in ("read the session check", "修复登录错误", "x"):
        assert np.allclose(encoder.encode(text), model.embed(text)[0], atol=1e-5)


def test_a_text_without_a_token_is_a_vector_of_zeros(encoder: Encoder) -> None:
    assert not np.any(encoder.encode(""))


def test_its_name_says_all_that_vectors_depend_on(encoder: Encoder) -> None:
    assert encoder.name == "wordllama-l2_supercat-256"


def test_it_is_loaded_once_however_many_ask_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    at_once = threading.Barrier(8)

    def load() -> str:
        loads.append("loaded")
        time.sleep(0.05)
        return "no"

    def ask() -> None:
        at_once.wait()
        find_encoder()

    monkeypatch.setattr(encoders, "_kept", [])
    monkeypatch.setattr(encoders, "_load_wordllama", load)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["loaded"]


def test_without_the_extra_everything_imports_and_the_sentence_says_what_to_install() -> None:
    """Neither numpy nor wordllama can be imported in that process."""
    said = run(
        "import sys\n"
        "sys.modules['numpy'] = sys.modules['wordllama'] = None\n"
        "from midcourse.errors import InvalidInput\n"
        "from midcourse.policy.signals import drift, encoders\n"
        "print(encoders.find_encoder(), encoders.why_none())\n"
        "class Own:\n"
        "    name = 'own'\n"
        "    def encode(self, text): return [1.0]\n"
        "try:\n"
        "    drift.Drift(Own())\n"
        "except InvalidInput as error:\n"
        "    print(error.code, error)\n"
    )
    assert said.startswith(f"None {NOT_INSTALLED}")
    assert "pip install 'midcourse[drift]'" in NOT_INSTALLED
    assert "drift_not_installed Drift needs numpy" in said


def test_nothing_heavy_is_imported_before_somebody_asks() -> None:
    said = run(
        "import sys\n"
        "from midcourse.policy.signals import drift, encoders\n"
        "print([name for name in ('numpy', 'wordllama', 'tokenizers') if name in sys.modules])\n"
    )
    assert said.strip() == "[]"


def test_finding_it_reaches_for_no_network_and_leaves_logging_alone() -> None:
    """Sockets raise in that process, and the root logger is as it was: WordLlama would set it up otherwise."""
    said = run(
        "import logging, socket\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from midcourse.policy.signals.encoders import find_encoder\n"
        "encoder = find_encoder()\n"
        "print(len(encoder.encode('hello')), logging.getLogger().handlers, logging.getLogger().level)\n"
    )
    assert said.strip() == f"256 [] {30}"


def test_a_wheel_without_its_weights_is_none_with_the_reason_and_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wordllama: Any = importlib.import_module("wordllama")

    def load(*, cache_dir: Path, disable_download: bool) -> None:
        assert disable_download
        raise FileNotFoundError(f"weights not found in {cache_dir.name}")

    monkeypatch.setattr(encoders, "_kept", [])
    monkeypatch.setattr(wordllama.WordLlama, "load", load)
    assert find_encoder() is None
    assert "weights not found in wordllama" in why_none()
    assert "pip install 'midcourse[drift]'" in why_none()
