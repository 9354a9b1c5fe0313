"""Which models a page offers for its runs, what each promises, and why others are left out.

Of each run: its own model, the one that it was pre-trained as, and n-grams of made-up people or of public text. The files
are made when the page asks for them, and kept for the next one that does.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tacit.api.run import Run, open_run
from tacit.errors import RunError, TacitError
from tacit.export.model_files import safetensors_of
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import round_up
from tacit.web.keyboard.ngrams import ngram_file, text_to_count
from tacit.web.keyboard.offers import OfferedModel
from tacit.web.keyboard.run_model import model_for_page, pretrained_for_page, pretraining_of, require_words_to_show
from tacit.web.reading import plain

# How many files are kept for the next page.
MOST_KEPT = 8
# Beyond this factor, the bound alone protects nobody.
_LARGE_FACTOR = 1_000


@dataclass
class _Offer:
    model: OfferedModel
    make: Callable[[], bytes]


@dataclass
class KeyboardModels:
    """The models of some runs, and the files that pages have asked for."""

    _offers: dict[str, _Offer] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, path: Path, prefix: str) -> list[OfferedModel]:
        """What this run offers; the models' keys begin with `prefix`. TacitError if the page cannot run its own model."""
        offers = _offers_of(open_run(plain(path)), prefix)
        with self._lock:
            for offer in offers:
                self._offers[offer.model.key] = offer
        return [offer.model for offer in offers]

    def file(self, key: str) -> bytes:
        """The file of this model; RunError if there is no such model."""
        with self._lock:  # one at a time: a model of some megabytes is made from a run once
            offer = self._offers.get(key)
            if offer is None or offer.model.problem is not None:
                raise RunError("There is no such model here: open the page again.")
            if key not in self._files:
                self._files[key] = offer.make()
            while len(self._files) > MOST_KEPT:
                del self._files[next(iter(self._files))]
            return self._files[key]


def refused(path: Path, prefix: str, problem: str) -> OfferedModel:
    """The entry of a run whose model the page cannot run."""
    about = {"run": path.name, "name": path.name, "badge": "not shown", "statement": "", "meaning": ""}
    return OfferedModel.model_validate(
        {**about, "key": f"{prefix}-trained", "kind": "trained", "is_private": False, "problem": problem}
    )


def _offers_of(run: Run, prefix: str) -> list[_Offer]:
    name, stated = run.path.name, run.guarantee()
    require_words_to_show(run)
    trained = model_for_page(run)
    own = OfferedModel(
        key=f"{prefix}-trained-{trained.card['checkpoint'][:12]}",
        run=name,
        name=name,
        kind="trained",
        badge=f"ε = {round_up(stated.epsilon)}" if stated.private else "not private",
        is_private=stated.private,
        statement=stated.headline,
        meaning=meaning_of(stated),
    )
    offers = [_Offer(own, lambda: safetensors_of(trained))]
    if (record := pretraining_of(run)) is not None:
        before = OfferedModel(
            key=f"{prefix}-pretrained",
            run=name,
            name=f"{name}, pre-trained only",
            kind="pretrained",
            badge="public text",
            is_private=True,
            statement=f"The model before its first round: it has read public text alone ({record.public}).",
            meaning="No user of the run has changed it. What the run's own model does better, it learned from its users.",
        )
        offers.append(_Offer(before, lambda: pretrained_for_page(trained, run) or b""))
    offers.append(_ngram(run, prefix))
    return offers


def _ngram(run: Run, prefix: str) -> _Offer:
    about = {"key": f"{prefix}-ngram", "run": run.path.name, "name": "n-gram", "kind": "ngram"}
    try:
        text = text_to_count(run)
    except TacitError as error:
        none = OfferedModel.model_validate(
            {
                **about,
                "badge": "left out",
                "is_private": False,
                "statement": "",
                "meaning": "",
                "problem": error.sentence,
            }
        )
        return _Offer(none, bytes)
    words = run.words
    counted = OfferedModel.model_validate(
        {
            **about,
            "badge": "made-up people" if "made-up" in text.name else "public text",
            "is_private": True,
            "statement": f"Counted on {text.name}, without noise.",
            "meaning": "It holds that text word for word. Counted on private people it would show their text, so here it is "
            "never counted on them.",
        }
    )
    return _Offer(counted, lambda: ngram_file(text, words))


def meaning_of(stated: Guarantee) -> str:
    """What epsilon and delta mean for one person, in a sentence."""
    if not stated.private:
        return (
            "Nothing limits what the model may have learned about any one person, and what it may repeat of their text."
        )
    factor = math.exp(stated.epsilon)
    limit = f"{_up(factor):,}" if factor < _LARGE_FACTOR else f"10^{math.ceil(math.log10(factor))}"
    weak = " By itself this limits little." if factor >= _LARGE_FACTOR else ""
    other = "with any other text in its place" if stated.adjacency.startswith("replace") else "without it"
    return (
        f"Whatever can be found out from this model is at most {limit} times as likely with all the text of any one "
        f"{stated.unit} as {other}, up to a probability of about {stated.delta:g}.{weak}"
    )


def _up(factor: float) -> float | int:
    """Rounded up: a bound stays one."""
    return math.ceil(factor * 10) / 10 if factor < 100 else math.ceil(factor)
