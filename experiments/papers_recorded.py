"""Recorded results as the curves, rows and numbers of the board's page of papers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.numbers import rounded_up
from tacit.web.papers import PaperCurve

# Enough digits to draw; results have seventeen.
DIGITS = 5


def read(path: Path) -> Any:
    """What a file of results holds; of lines, the last one of each name, by name."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    return {record["name"]: record for record in map(json.loads, text.splitlines())}


def read_lines(path: Path) -> list[Any]:
    """Every line of a file of results."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def curve(name: str, points: Iterable[Sequence[float]], **style: Any) -> PaperCurve:
    """A curve of the first two numbers of each point."""
    return PaperCurve(name=name, points=[(short(point[0]), short(point[1])) for point in points], **style)


def curves(results: Mapping[str, Any], named: Mapping[str, str]) -> list[PaperCurve]:
    """The curve of each result, under the name that the chart shows."""
    return [curve(label, results[name]["curve"]) for name, label in named.items()]


def level(name: str, y: float, xs: Sequence[float]) -> PaperCurve:
    """A height to compare with, at these places of the axis."""
    return curve(name, [(x, y) for x in xs], dashed=True)


def short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def percent(share: float, digits: int = 2) -> str:
    return f"{share:.{digits}%}"


def epsilon_text(epsilon: float | None) -> str:
    """Three digits, rounded up."""
    return "∞" if epsilon is None else rounded_up(epsilon, 3)
