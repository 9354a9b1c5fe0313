"""Suggestions of a run's model. JAX is imported when the first are asked for, in a thread of its own."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from tacit.web.reading import in_one_sentence

if TYPE_CHECKING:
    from tacit.api.run import Run

# How many models are kept.
KEPT = 2


class Suggestion(BaseModel):
    word: str
    probability: float


class Suggester:
    """Answers one question at a time, with the models that were asked last kept loaded."""

    def __init__(self) -> None:
        self._one = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tacit suggestions")
        self._runs: OrderedDict[tuple[Path, int], Run] = OrderedDict()

    def suggest(self, path: Path, text: str, count: int) -> list[Suggestion]:
        """The most likely next words; RunError, in one sentence, if the run has no model of words yet."""
        return self._one.submit(self._suggest, path, text, count).result()

    def close(self) -> None:
        self._one.shutdown(wait=False, cancel_futures=True)

    def _suggest(self, path: Path, text: str, count: int) -> list[Suggestion]:
        from tacit.api.run import open_run

        with in_one_sentence(path):
            saved = max((each.stat().st_mtime_ns for each in (path / "checkpoints").glob("*.safetensors")), default=0)
            run = self._runs.pop((path, saved), None) or open_run(path)
            found = run.predict(text, count)
        self._runs[path, saved] = run
        while len(self._runs) > KEPT:
            self._runs.popitem(last=False)
        return [Suggestion(word=word, probability=float(probability)) for word, probability in found]
