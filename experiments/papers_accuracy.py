"""Recorded experiments on what models learn, for the board's page of papers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers_recorded import curve, curves, epsilon_text, level, percent, read, read_lines

from tacit.web.papers import Experiment, PaperChart, PaperCurve, PaperTable

MCMAHAN = "McMahan et al. 2018, Learning Differentially Private Recurrent Language Models"
XU = "Xu et al. 2023, Federated Learning of Gboard Language Models with Differential Privacy"
RAMASWAMY = "Ramaswamy et al. 2020, Training Production Language Models without Memorizing User Data"
SCOTUS = "Text of people who argued before the US Supreme Court"
NOTHING_CLAIMED = "The vocabulary was counted on these people, so no privacy is claimed for any of these runs."


def accuracy_chart(title: str, lines: Sequence[PaperCurve], *, x: str = "round", **style: Any) -> PaperChart:
    return PaperChart(title=title, x=x, y="top-1", curves=list(lines), percent=True, **style)


def dp_fedavg(results: Path) -> Experiment:
    runs = read(results / "dp_fedavg" / "results.json")
    clips = {"clip 0.2": "S = 0.2", "clip 0.4": "S = 0.4", "clip 0.8": "S = 0.8", "clip 1.6": "S = 1.6"}
    noises = {
        "clip 0.8": "σ = 0",
        **{f"clip 0.8, noise {level}": f"σ = {level}" for level in ("3.2e-4", "1e-3", "3.2e-3")},
    }
    norms = {
        "clip 0.8, server rate 2": "S = 0.8, server rate 2",
        "unclipped, server rate 0.7": "not clipped",
        "fedsgd, clip 0.8": "FedSGD, S = 0.8",
    }
    rows = [
        [name, percent(run["metrics"]["papers_top1"]), percent(run["metrics"]["papers_top3"])]
        for name, run in runs.items()
        if "metrics" in run
    ]
    return Experiment(
        name="dp_fedavg",
        title="DP-FedAvg on real text: clipping and noise",
        papers=[f"{MCMAHAN}: Figures 1 to 3"],
        what=f"{SCOTUS}: 8,849 people, 100 a round, 1,000 rounds, the benchmark model. {NOTHING_CLAIMED}",
        page="docs/experiments/dp_fedavg.md",
        sources=["docs/experiments/dp_fedavg/results.json"],
        commands=["python experiments/dp_fedavg.py --minutes 8", "python experiments/dp_fedavg.py --report"],
        charts=[
            accuracy_chart("Noise σ on the mean update, clipped at 0.8", curves(runs, noises)),
            accuracy_chart("Clipping at S, no noise", curves(runs, {**clips, "unclipped": "not clipped"})),
            PaperChart(
                title="Length of an update before clipping, the median person",
                x="round",
                y="norm",
                curves=[
                    curve(label, [(row[0], row[3]) for row in runs[name]["diagnostics"] if row[3] is not None])
                    for name, label in norms.items()
                ],
            ),
        ],
        tables=[PaperTable(title="Every run, after 1,000 rounds", columns=["run", "top-1", "top-3"], rows=rows)],
    )


def gboard(results: Path) -> Experiment:
    recorded = read(results / "gboard" / "results.json")
    world, strict, scotus = recorded["world"], recorded["world, strict"], recorded["scotus"]
    mechanisms = {
        "blt": "BLT",
        "banded": "banded",
        "DP-FedAvg, Poisson": "DP-FedAvg, Poisson",
        "tree": "tree (the paper's)",
        "fresh noise, check-in": "fresh noise, check-in",
    }
    clips = {
        "blt, adaptive clip": "BLT, adaptive",
        "blt": "BLT, fixed",
        "tree": "tree, fixed",
        "tree, adaptive clip": "tree, adaptive",
    }
    public = {
        "blt, pre-trained": "BLT, pre-trained",
        "tree, pre-trained": "tree, pre-trained",
        "blt, pre-trained, tied": "BLT, pre-trained, tied",
        "blt": "BLT",
        "blt, tied": "BLT, tied",
    }
    real = {"tree": "tree", "blt": "BLT", "DP-FedAvg, Poisson": "DP-FedAvg, Poisson"}
    rows = [
        [text, name, f"{run['noise_multiplier']:.4g}", epsilon_text(run["privacy"]["epsilon"])]
        + [percent(run["metrics"]["papers_top1"])]
        for text, variants in (("keyboard world, ε = 8", world), ("keyboard world, ε = 2", strict))
        for name, run in variants.items()
    ]
    return Experiment(
        name="gboard",
        title="Gboard's algorithm: tree, BLT, banded and sampled noise at one guarantee",
        papers=[f"{XU}: Figure 3"],
        what="The keyboard world: 100,000 made-up people, 500 a round, 200 rounds, the tiny model. Without sampling the "
        "neighbours are 'zero out one user', with Poisson sampling 'add or remove one user': not the same promise. On real "
        "text no privacy is claimed; its noise is what 6,500 of 4 million devices would have.",
        page="docs/experiments/gboard.md",
        sources=["docs/experiments/gboard/results.json"],
        commands=["python experiments/gboard.py --minutes 8", "python experiments/gboard.py --report"],
        charts=[
            accuracy_chart("At ε = 2", curves(strict, mechanisms)),
            accuracy_chart("At ε = 8", curves(world, {**mechanisms, "no noise": "no noise"})),
            accuracy_chart("Fixed and adaptive clip, ε = 8", curves(world, clips)),
            accuracy_chart("Pre-training on public text, ε = 8", curves(world, public)),
            accuracy_chart("Real text, with the noise of a large fleet", curves(scotus, real)),
        ],
        tables=[
            PaperTable(
                title="Every run, repeats included",
                columns=["on", "noise", "noise multiplier", "ε at δ = 1e-6", "top-1"],
                rows=rows,
            )
        ],
    )


def cohort_size(results: Path) -> Experiment:
    runs = read(results / "cohort_size" / "results.jsonl")
    charts = []
    for base, title in (
        ("world", "Keyboard world: 500 and 6,500 a round"),
        ("scotus", "Real text: 100 and 1,250 a round"),
    ):
        first = [run for name, run in runs.items() if name.startswith(base) and name.endswith(("-r1", "-s1"))]
        small = min(run["cohort"] for run in first)
        levels = sorted({f"{_on_the_mean(run):.2g}" for run in first}, key=float)
        lines = [
            curve(
                f"{_on_the_mean(run):.2g}, {run['cohort']:,.0f} a round",
                run["curve"],
                dashed=run["cohort"] == small,
                colour=levels.index(f"{_on_the_mean(run):.2g}"),
            )
            for run in sorted(first, key=lambda run: (_on_the_mean(run), run["cohort"]))
        ]
        charts.append(accuracy_chart(f"{title}, by noise on the mean", lines))
    rows = [
        [
            name.split("-")[0].replace("world", "keyboard world").replace("scotus", "real text"),
            f"{run['cohort']:,.0f}",
            f"{run['noise_multiplier']:g}",
            f"{_on_the_mean(run):.2g}",
            percent(run["curve"][-1][1]),
            epsilon_text(run["privacy"]["epsilon"]),
        ]
        for name, run in sorted(runs.items(), key=lambda item: (item[0].split("-")[0], _on_the_mean(item[1]), item[0]))
    ]
    columns = ["on", "people a round", "noise multiplier", "noise on the mean", "top-1", "ε"]
    return Experiment(
        name="cohort_size",
        title="Small rounds stand for large ones",
        papers=[f"{MCMAHAN}: Figure 7", f"{XU}: section 2.2"],
        what="Does accuracy depend on the noise on the mean update alone? The same noise on the mean, with small rounds and "
        "with rounds twelve or thirteen times as large. Runs on real text are seeded and claim nothing.",
        page="docs/experiments/cohort_size.md",
        sources=["docs/experiments/cohort_size/results.jsonl"],
        commands=["python experiments/cohort_size.py --minutes 8", "python experiments/cohort_size.py --report"],
        charts=charts,
        tables=[PaperTable(title="Every run", columns=columns, rows=rows)],
    )


def _on_the_mean(run: dict[str, Any]) -> float:
    """The standard deviation of the noise on the mean update, per coordinate."""
    return float(run["noise_multiplier"] * run["clip_norm"] / run["cohort"])


def real_epsilon(results: Path) -> Experiment:
    runs = read(results / "real_epsilon" / "results.jsonl")
    ngrams = {
        (record["name"], record["counted_on"], record["order"]): record["papers_top1"]
        for record in read_lines(results / "real_epsilon" / "ngrams.jsonl")
    }
    corpora = {
        "scotus": "SCOTUS, 8,800 people",
        "irc": "Ubuntu's IRC, 5,150 people",
        "spanish": "Spanish parliament, 780",
    }
    charts, rows = [], []
    for corpus, title in corpora.items():
        of = {name: run for name, run in runs.items() if name.startswith(f"{corpus}-") and "metrics" in run}
        private = sorted(
            (run["privacy"]["epsilon"], run) for run in of.values() if run["privacy"]["epsilon"] is not None
        )
        all_epsilons = [epsilon for epsilon, _ in private]
        heights = {
            "the same without noise": of[f"{corpus}-no-noise"]["metrics"]["papers_top1"],
            "5-grams of everybody, no privacy": ngrams[corpus, "everybody", 5],
            "3-grams of everybody, no privacy": ngrams[corpus, "everybody", 3],
            "pre-trained on public text alone": max(run["curve"][0][1] for run in of.values()),
            "5-grams of public text alone": ngrams[corpus, "public", 5],
        }
        with_privacy = curve("private", [(epsilon, run["metrics"]["papers_top1"]) for epsilon, run in private])
        lines = [with_privacy, *(level(name, height, all_epsilons) for name, height in heights.items())]
        charts.append(accuracy_chart(title, lines, x="ε, everything included", log_x=True))
        without = of[f"{corpus}-no-noise"]
        for run in [*(run for _, run in private), without]:
            shown = [f"{run['rounds']:,}", f"{run['noise_multiplier']:.4g}", percent(run["metrics"]["papers_top1"])]
            rows.append([title, epsilon_text(run["privacy"]["epsilon"]), *shown, percent(run["metrics"]["top1"])])
    over_rounds = {f"scotus-eps{epsilon}": f"ε = {epsilon}" for epsilon in (8, 4, 2, 1)}
    charts.insert(1, accuracy_chart("SCOTUS over rounds", curves(runs, over_rounds)))
    columns = ["people", "ε", "rounds", "noise multiplier", "top-1, papers' metric", "top-1 on a keyboard"]
    return Experiment(
        name="real_epsilon",
        title="Real people, a real epsilon",
        papers=[],
        what="Next words of real people at ε = 1, 2, 4 and 8 (δ = 1e-5), everything included in ε, the words too. The dashed "
        "lines are models without any private text, and models without any privacy. People on whom accuracy is measured are "
        "outside the guarantee.",
        page="docs/experiments/real_epsilon.md",
        sources=["docs/experiments/real_epsilon/results.jsonl", "docs/experiments/real_epsilon/ngrams.jsonl"],
        commands=[
            "python experiments/corpora.py --data DATA scotus",
            "python experiments/real_epsilon.py --only scotus --minutes 8",
            "python experiments/real_epsilon_ngrams.py scotus",
            "python experiments/real_epsilon.py --report",
        ],
        charts=charts,
        tables=[PaperTable(title="Every run", columns=columns, rows=rows)],
    )


def keyboard(results: Path) -> Experiment:
    recorded = read(results / "keyboard" / "results.json")
    names = {
        "ngram": "n-gram",
        "ngram+history": "n-gram and the user's history",
        "runs/keyboard/fedavg": "FedAvg",
        "runs/keyboard/fedavg_clipped": "FedAvg, clipped",
        "runs/keyboard/dp_fedavg": "DP-FedAvg",
        "runs/keyboard/dp_ftrl": "DP-FTRL",
    }
    models = [names[each["model"]] for each in recorded["against n-grams"]]
    shown = ("top-1 recall", "top-3 recall", "picked rate")
    places = range(1, len(models) + 1)
    chart = PaperChart(
        title="Words that each model guesses, on a replayed keyboard",
        x="model",
        y="share of the words",
        percent=True,
        note="; ".join(f"{place}: {name}" for place, name in enumerate(models, 1)),
        curves=[
            curve(
                name,
                [
                    (place, each["metrics"][name])
                    for place, each in zip(places, recorded["against n-grams"], strict=True)
                ],
                dots=True,
                labels=models,
            )
            for name in shown
        ],
    )
    rows = []
    for name in recorded["against n-grams"][0]["metrics"]:
        cells = []
        for each in recorded["against n-grams"]:
            change = each["changes"].get(name)
            more = f", {change['relative']:+.1%} ({change['low']:+.1%} to {change['high']:+.1%})" if change else ""
            value = each["metrics"][name]
            cells.append((f"{value:.2f}" if name == "words per minute" else percent(value)) + more)
        rows.append([name, *cells])
    return Experiment(
        name="keyboard",
        title="On the keyboard: n-grams, FedAvg, DP-FedAvg, DP-FTRL",
        papers=[f"{RAMASWAMY}: section III-C", f"{XU}: Tables 1 and 2"],
        what=f"{recorded['words']:,} words of {recorded['users']} held-out people, typed again with each model, of which the "
        f"neural ones have {recorded['runs']['fedavg']['parameters']:,} parameters. {NOTHING_CLAIMED}",
        page="docs/experiments/keyboard.md",
        sources=["docs/experiments/keyboard/results.json"],
        commands=["python experiments/keyboard.py --minutes 8", "python experiments/keyboard_replay.py"],
        charts=[chart],
        tables=[
            PaperTable(
                title="Change against the n-gram model, with its 95% interval over people",
                columns=["", *models],
                rows=rows,
            )
        ],
    )


def averaging(results: Path) -> Experiment:
    runs = read(results / "averaging" / "results.jsonl")
    charts, rows = [], []
    averages = list(next(iter(runs.values()))["metrics"])
    for schedule in ("constant", "linear"):
        levels = sorted({run["noise"] for run in runs.values()})
        means = {
            (average, noise): statistics.mean(
                run["metrics"][average]["top1"]
                for run in runs.values()
                if (run["noise"], run["schedule"]) == (noise, schedule)
            )
            for average in averages
            for noise in levels
        }
        charts.append(
            PaperChart(
                title=f"What an average adds to the last model, {schedule} server rate",
                x="noise multiplier",
                y="points of top-1",
                from_zero=False,
                curves=[
                    curve(
                        average,
                        [(noise, 100 * (means[average, noise] - means["last model", noise])) for noise in levels],
                    )
                    for average in averages
                ],
            )
        )
        for noise in levels:
            rows.append([schedule, f"{noise:g}", *(percent(means[average, noise]) for average in averages)])
    return Experiment(
        name="averaging",
        title="Averages of models",
        papers=[],
        what="The demo recipe with three amounts of noise. All averages of a run come from the same training, so they cost "
        "nothing. The runs are seeded and claim nothing.",
        page="docs/experiments/averaging.md",
        sources=["docs/experiments/averaging/results.jsonl"],
        commands=["python experiments/averaging.py", "python experiments/pages.py"],
        charts=charts,
        tables=[
            PaperTable(
                title="Top-1, the mean over seeds", columns=["server rate", "noise multiplier", *averages], rows=rows
            )
        ],
    )
