"""Tables and the figure of docs/experiments/inspection.md, text: from recorded results, and from accounting alone."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from figures import INK

from tacit.inspection.text.findings import visible
from tacit.privacy.accounting.composition import Sampled, compose
from tacit.privacy.accounting.sampled_gaussian import SampledRounds
from tacit.privacy.statement.wording import round_up


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw text_places.png into `folder`."""
    ordered = sorted(results.values(), key=lambda record: (record["corpus"], record["share"]))
    _draw(
        {name: list(records) for name, records in groupby(ordered, key=lambda record: record["corpus"])},
        folder / "text_places.png",
    )


def rates(records: list[dict[str, Any]]) -> str:
    """What the fault does to the metrics, how visible it is in made-up words, and what all that costs."""
    lines = [
        "| sentences hit | unknown words | first of a sentence | made up: first | primary top-1 | "
        "top 20 with a space | drawn with a space | ε words | ε letters | ε together | δ |",
        "|---" * 11 + "|",
    ]
    for record in records:
        found, cost = record["inspection"], record["privacy"]
        held_out, own = found["unknown_words"], found["primary"]
        epsilons = [_epsilon(cost[each]) for each in ("words", "letters", "together")]
        lines.append(
            f"| {record['share']:.0%} | {held_out['overall']:.2%} | {held_out['by_place'][0]:.1%} "
            f"| {own['rates']['by_place'][0]:.1%} | {own['papers_accuracy']:.2%} | {found['with_space']:.0%} "
            f"| {found['drawn_with_space']:.1%} | {' | '.join(epsilons)} | {cost['letters']['delta']:g} |"
        )
    return "\n".join(lines)


def top_words(records: list[dict[str, Any]], count: int = 20) -> str:
    """Table 8: the most likely unknown words of each model, with thousandfold probabilities."""
    heads = [f"{record['share']:.0%} | × 1000" for record in records]
    lines = [f"| {' | '.join(heads)} |", "|---" * (2 * len(records)) + "|"]
    for place in range(count):
        cells = [record["inspection"]["words"][place : place + 1] for record in records]
        shown = [f"`{visible(cell[0][0])}` | {1000 * cell[0][1]:.2f}" if cell else " | " for cell in cells]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def sentences(records: list[dict[str, Any]], count: int = 3) -> str:
    """Table 7: sentences that the primary models make up."""
    lines = ["| sentences hit | sentences of the primary model |", "|---|---|"]
    for record in records:
        said = [f"`{sentence}`" for sentence in record["inspection"]["primary"]["sentences"] if sentence][:count]
        lines.append(f"| {record['share']:.0%} | {'<br>'.join(said)} |")
    return "\n".join(lines)


def verdict(records: list[dict[str, Any]]) -> str:
    """Whether the fault is visible in proportion, and invisible where it is not."""
    shares = [(record["share"], record["inspection"]["with_space"]) for record in records]
    kept = all(one[1] <= other[1] for one, other in pairwise(shares))
    drawn = [record["inspection"]["drawn_with_space"] for record in records]
    rising = all(one < other for one, other in pairwise(drawn))
    silent = all(with_space == 0 for share, with_space in shares if share == 0)
    most = all(with_space > 0.5 for share, with_space in shares if share >= 0.1)
    return (
        f"Drawn words with a space rise with the rate at every step: {_yes(rising)}; top words never fall: {_yes(kept)}. "
        f"No top word has one without the fault: {_yes(silent)}; more than half at 10% and above: {_yes(most)}."
    )


def at_scale(results: dict[str, Any]) -> str:
    """What the runs that stand for larger ones would cost there, each and both together."""
    lines = ["| corpus | model | here: ε | stands for | ε there (estimate) | δ there |", "|---|---|---|---|---|---|"]
    plans = {record["corpus"]: record for record in results.values() if None not in record["at_scale"].values()}
    for corpus, record in plans.items():  # all rates have one plan
        parts = []
        for kind, scale in record["at_scale"].items():
            rate = {"kind": "poisson", "probability": scale["cohort"] / scale["population"]}
            parts.append(Sampled(SampledRounds(rate, scale["noise_multiplier"], scale["privacy"]["releases"])))
            lines.append(
                f"| {corpus} | {kind} | {_epsilon(record['privacy'][kind])} | {scale['cohort']:,.0f} of "
                f"{scale['population']:,} a round, noise multiplier {scale['noise_multiplier']:.3g} "
                f"| {_epsilon(scale['privacy'])} | {scale['privacy']['delta']:g} |"
            )
        delta = record["at_scale"]["letters"]["privacy"]["delta"]
        both = round_up(compose(parts, delta).epsilon)
        lines.append(f"| {corpus} | both | {_epsilon(record['privacy']['together'])} | | {both} | {delta:g} |")
    return "\n".join(lines)


def _draw(by_corpus: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Figure 4: unknown words by place, in sentences that the primary models make up."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter, PercentFormatter

    figure, panels = pyplot.subplots(
        1, len(by_corpus), figsize=(4.5 * len(by_corpus), 3.4), layout="constrained", facecolor="white", squeeze=False
    )
    for panel, (corpus, records) in zip(panels[0], by_corpus.items(), strict=True):
        for ink, record in zip(INK, records, strict=False):
            curve = record["inspection"]["primary"]["rates"]["by_place"]
            panel.plot(range(1, len(curve) + 1), curve, "o-", markersize=3, color=ink, label=f"{record['share']:.0%}")
        panel.set(title=corpus, xlabel="place in the sentence", ylim=(1e-3, 1.3))
        panel.set_yscale("log", nonpositive="clip")  # a rate below 0.1% is drawn at the lower edge
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.25)
    panels[0][0].set_ylabel("made-up words that are unknown")
    panels[0][0].legend(title="sentences hit", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _epsilon(cost: dict[str, Any]) -> str:
    return "∞" if cost["epsilon"] is None else round_up(cost["epsilon"])


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
