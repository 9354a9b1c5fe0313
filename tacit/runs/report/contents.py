"""The sections every report has, from what the run folder holds. A section with nothing to show is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.privacy.statement.assumptions import SAMPLED
from tacit.privacy.statement.wording import round_up, times
from tacit.runs.accuracy import PAPERS, papers_sentence, vocabulary_sentence
from tacit.runs.metrics import EPSILON_SO_FAR
from tacit.runs.report.blocks import Bars, Block, Code, Level, Lines, Paragraph, Section, Series, Table
from tacit.runs.report.reading import Reading, finite

# The names of curves, by the keys of the metrics.
_MEASURES = {"top1": "first guess", "top3": "one of three", "accuracy": "right"}
# The same by the papers' metric, in the table.
_PAPERS = {"papers_top1": f"first guess, {PAPERS}", "papers_top3": f"one of three, {PAPERS}"}
# The same for a generative model's images.
_MADE_UP = {"inverted": "bright background", "brightness": "mean intensity"}
_HELD_OUT = "Measured on held-out users, who are not trained on and are outside the guarantee."
# Further numbers that the evaluation of a word model has, and that are shown elsewhere or not at all.
_OF_WORDS = ("perplexity", "words", "in_vocabulary_top1", "out_of_vocabulary")
_MOST_OTHERS = 6
_MOST_POINTS = 300
_MOST_BARS = 20
# If the largest value is this many times the smallest, the axis is logarithmic.
_FAR = 30


def own_sections(run: Reading) -> list[Section]:
    """Training, privacy over the rounds, examples, the recipe; diagnostics and participation where they were read."""
    makers = (_training, _spending, _examples, _diagnostics, _participation, _recipe)
    return [section for make in makers if (section := make(run)) is not None]


def _training(run: Reading) -> Section | None:
    curves = _curves(run, _MEASURES)
    if not run.metrics:
        return None
    blocks: list[Block] = []
    if curves:
        blocks.append(Lines(x="round", y="guessed right", series=curves[:2], levels=_levels(run), percent=True))
    if points := _curve(run, "perplexity"):
        perplexity = [Series(name="perplexity", points=points)]
        blocks.append(Lines(x="round", y="perplexity", series=perplexity, log=_far_apart(perplexity)))
    if made_up := _curves(run, _MADE_UP):
        blocks.append(Lines(x="round", y="of images it makes up", series=made_up, percent=True))
    others = _other_measures(run)
    for name in others:
        series = [Series(name=name, points=_curve(run, name))]
        blocks.append(Lines(x="round", y=name, series=series, log=_far_apart(series)))
    where = "Counted on what the model makes up, which costs nothing more." if made_up else _HELD_OUT
    metrics = run.summary.get("metrics") or run.metrics[-1]
    if isinstance(metrics, dict):
        said = (papers_sentence(metrics), vocabulary_sentence(metrics.get("out_of_vocabulary")))
        blocks += [Paragraph(text=sentence) for sentence in said if sentence is not None]
    blocks.append(Paragraph(text=where, note=True))
    shown = (*_MEASURES, *_PAPERS, *_MADE_UP, "perplexity", *others)
    names = [name for name in shown if any(name in record for record in run.metrics)]
    rows = [
        [
            str(record["round"]),
            *(_cell(name, record.get(name)) for name in names),
            _cell("epsilon", record.get(EPSILON_SO_FAR)),
        ]
        for record in _thinned(run.metrics)
    ]
    labels = _MEASURES | _PAPERS | _MADE_UP
    blocks.append(
        Table(
            columns=["round", *(labels.get(name, name) for name in names), "ε if planned to end here"],
            rows=rows,
            folded=True,
            caption="All evaluations" if len(rows) == len(run.metrics) else "Evaluations",
        ),
    )
    return Section(name="training", title="What it learned", order=10, blocks=blocks)


def _other_measures(run: Reading) -> list[str]:
    """The metrics of a task of somebody's own, and its loss where there is no perplexity; at most so many."""
    known = {*_MEASURES, *_PAPERS, *_MADE_UP, *_OF_WORDS, "round", EPSILON_SO_FAR}
    names = dict.fromkeys(name for record in run.metrics for name in record if name not in known)
    return [name for name in names if _curve(run, name)][:_MOST_OTHERS]


def _levels(run: Reading) -> list[Level]:
    baselines = run.summary.get("baselines")
    if not isinstance(baselines, dict):
        return []
    best = baselines.get("best_possible")
    heights = {
        "always the same word": finite(baselines.get("unigram_top1")),
        "best possible first guess": finite(best.get("top1")) if isinstance(best, dict) else None,
    }
    return [Level(name=name, y=height) for name, height in heights.items() if height is not None]


def _spending(run: Reading) -> Section | None:
    if run.guarantee is None or not run.guarantee.private or not (points := _curve(run, EPSILON_SO_FAR)):
        return None
    spent = Lines(
        x="round",
        y=f"ε at δ = {run.guarantee.delta:g}, had the run been planned to end here",
        series=[Series(name="ε", points=points)],
    )
    text = (
        "The curve shows what the rounds up to each evaluation would have cost if the run had been planned to end there. It is "
        "not what the run cost: whoever ends a run after looking at it is charged for the planned rounds. The number that "
        f"counts is that of the guarantee, computed from the ledger: ε = {round_up(run.guarantee.epsilon)}, for "
        f"{run.guarantee.rounds_in_words}."
    )
    return Section(name="spending", title="How the cost grew", order=20, blocks=[Paragraph(text=text), spent])


def _examples(run: Reading) -> Section | None:
    examples = run.summary.get("examples")
    if not isinstance(examples, dict) or not examples:
        return None
    rows = [
        [f"{context} …", ", ".join(f"{word} ({probability:.0%})" for word, probability in words)]
        for context, words in examples.items()
    ]
    text = "What the model would suggest after these words. Functions of the released model: they cost nothing more."
    table = Table(columns=["after", "it suggests"], rows=rows)
    return Section(name="examples", title="What it says", order=40, blocks=[Paragraph(text=text), table])


def _diagnostics(run: Reading) -> Section | None:
    if not run.diagnostics:
        return None
    blocks: list[Block] = [
        Paragraph(
            text="Read off single users in the simulation, without noise: outside the guarantee, and for the owner alone.",
            note=True,
        )
    ]
    if clipped := _points(run.diagnostics, lambda record: record.get("clipped")):
        blocks.append(
            Lines(x="round", y="users clipped", series=[Series(name="clipped", points=clipped)], percent=True)
        )
    norms = []
    for quantile in ("0.1", "0.5", "0.9"):
        points = _points(run.diagnostics, lambda record, q=quantile: (record.get("norm_quantiles") or {}).get(q))
        if points:
            norms.append(Series(name=f"{float(quantile):.0%}", points=points))
    plan = run.ledger.opened.plan if run.ledger is not None else {}
    clip = None if plan.get("clip_schedule") else finite(plan.get("clip_norm"))
    levels = [] if clip is None else [Level(name="clip", y=clip)]
    if norms:
        blocks.append(
            Lines(x="round", y="norm of an update, quantiles", series=norms, levels=levels, log=_far_apart(norms))
        )
    return Section(name="diagnostics", title="Updates and clipping", order=50, private=True, blocks=blocks)


def _participation(run: Reading) -> Section | None:
    if run.participation_problem is not None:
        text = (
            "The run is not at rest, and its participation record does not fit the ledger as it stands: "
            f"{run.participation_problem} A run that is resumed puts this right."
        )
        blocks: list[Block] = [Paragraph(text=text, note=True)]
        return Section(name="participation", title="Who took part", order=55, private=True, blocks=blocks)
    counts = run.participations
    if counts is None or run.ledger is None or not counts.any():
        return None
    seen = counts[counts > 0]
    population = run.ledger.opened.population
    text = (
        f"{len(seen):,} users took part at least once; the plan states a population of {population:,}. Nobody took part "
        f"more than {times(int(seen.max()))}, rounds that ran again counted."
    )
    if run.ledger.opened.plan.get("sampling") in SAMPLED and not run.ledger.opened.reads_everybody:
        text += " Who was drawn must stay secret: the amplification by sampling rests on it."
    chart = Bars(x="times a user took part", y="users", bars=_histogram(seen))
    note = Paragraph(text=text)
    return Section(name="participation", title="Who took part", order=55, private=True, blocks=[note, chart])


def _histogram(seen: np.ndarray) -> list[tuple[str, float]]:
    """Users by how often they took part, in at most so many steps of equal width."""
    most = int(seen.max())
    width = -(-most // _MOST_BARS)
    bars = []
    for low in range(1, most + 1, width):
        high = min(low + width - 1, most)
        label = str(low) if high == low else f"{low}–{high}"
        bars.append((label, float(((seen >= low) & (seen <= high)).sum())))
    return bars


def _recipe(run: Reading) -> Section:
    text = "Everything the run was told. Its digest is in the ledger's first record."
    recipe = run.recipe_text.strip("\n")
    if run.share and (shown := _without_paths(recipe)) != recipe:
        recipe, text = shown, f"{text} Paths on the owner's machine are left out here."
    code = Code(text=recipe, caption="recipe.toml", folded=True)
    return Section(name="recipe", title="The recipe", order=90, blocks=[Paragraph(text=text), code])


def _without_paths(recipe: str) -> str:
    """The recipe without paths on the owner's machine, which may show who the owner is."""
    return re.sub(r'(= )"[^"\n]*/[^"\n]*"', r'\1"(a path on the owner\'s machine)"', recipe)


def _curves(run: Reading, names: Mapping[str, str]) -> list[Series]:
    """The curves of these metrics, by their labels; those that the run does not have are left out."""
    return [Series(name=label, points=points) for name, label in names.items() if (points := _curve(run, name))]


def _curve(run: Reading, name: str) -> list[tuple[float, float]]:
    return _points(run.metrics, lambda record: record.get(name))


def _points(records: Sequence[dict[str, Any]], value: Any) -> list[tuple[float, float]]:
    found = [(float(record["round"]), finite(value(record))) for record in records]
    return [(x, y) for x, y in _thinned(found) if y is not None]


def _far_apart(series: Sequence[Series]) -> bool:
    heights = [y for each in series for _, y in each.points if y > 0]
    return bool(heights) and max(heights) > _FAR * min(heights)


def _thinned(items: Sequence[Any]) -> Sequence[Any]:
    """At most so many of the values, evenly spaced, including the last."""
    step = -(-len(items) // _MOST_POINTS)
    return items if step <= 1 else [*items[: len(items) - 1 : step], items[-1]]


def _cell(name: str, value: Any) -> str:
    number = finite(value)
    if number is None:
        return "∞" if name == "epsilon" else "–"
    if name == "epsilon":
        return round_up(number)
    return f"{number:,.2f}" if name == "perplexity" else f"{number:.1%}"
