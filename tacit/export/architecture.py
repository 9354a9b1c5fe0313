"""What a reader needs beside the arrays to run a model: its kind, and the choices that no array's shape shows."""

from __future__ import annotations

from typing import Any

from tacit.models.transformer import Transformer
from tacit.models.word_lm import WordLM


def architecture_of(model: Any, *, longest: int | None = None) -> dict[str, Any] | None:
    """The architecture of a model of Tacit's own, as docs/export.md describes it; None for any other model.

    `longest` is how many tokens the model reads at most, None if there is no limit. Adapters are to be merged first.
    """
    if isinstance(model, WordLM):
        cell = model.cell
        about: dict[str, Any] = {
            "kind": "word_lm",
            "cell": cell.kind,
            "fed_back": cell.fed_back,
            "unit_norm": model.unit_norm,
        }
    elif isinstance(model, Transformer):
        about = {"kind": "transformer", "heads": model.blocks[0].heads}
    else:
        return None
    return {**about, "longest": longest}
