"""Recorded experiments on what users pay and what models keep of them, for the board's page of papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papers_accuracy import NOTHING_CLAIMED, SCOTUS, XU, accuracy_chart
from papers_recorded import curve, epsilon_text, level, percent, read

from tacit.numbers import rounded_up
from tacit.web.papers import Experiment, PaperChart, PaperTable

THAKKAR = "Thakkar et al. 2020, Understanding Unintended Memorization in Language Models Under Federated Learning"
AUGENSTEIN = "Augenstein et al. 2020, Generative Models for Effective ML on Private, Decentralized Datasets"
# What Thakkar et al. found by rank, and by beam search from one word, as docs/experiments/memorization.md prints it.
FOUND_BY_THAKKAR = {
    "SGD, IID": "54, 42",
    "SGD, by user": "49, 36",
    "FedAvg, IID": "65, 58",
    "FedAvg, by user": "26, 2",
    "FedAvg + clip, IID": "58, 49",
    "FedAvg + clip, by user": "11, 0",
    "DP-FedAvg, IID": "48, 42",
    "DP-FedAvg, by user": "12, 0",
    "momentum, IID": "64, 50",
    "momentum, by user": "48, 36",
    "Adam, IID": "56, 42",
    "Adam, by user": "21, 13",
}
# The MinS that Xu et al. saw for Spanish with these timers (hours), as docs/experiments/gboard_privacy.md prints it.
SEEN_BY_XU = {24.0: "313", 144.0: "526"}


def gboard_privacy(results: Path) -> Experiment:
    recorded = read(results / "gboard_privacy" / "results.json")
    timers = read(results / "gboard_privacy" / "timers.json")["timers"]
    figure, models = recorded["figure_4"], recorded["rows"]
    panels = [
        PaperChart(
            title=title,
            x=x,
            y="ρ",
            log=True,
            log_x=axis != "rounds",
            curves=[curve(name, zip(figure[axis], rhos, strict=True)) for name, rhos in figure[part].items()],
        )
        for title, x, axis, part in (
            ("ρ by report goal, noise in proportion; 2,000 rounds, by population", "report goal", "goals", "by_goal"),
            ("ρ by rounds, noise in proportion; 3 million devices", "rounds", "rounds", "by_rounds"),
            ("ρ by MinS, report goal 6,500, noise 7", "MinS", "min_separation", "by_min_separation"),
        )
    ]
    ordered = sorted(models, key=lambda row: row["min_separation"])
    dots = curve(
        "models of Tables 1 and 2",
        [(row["min_separation"], row["rho"]) for row in ordered],
        dots=True,
        labels=[f"{row['model']}, {row['rounds']:,} rounds" for row in ordered],
    )
    panels[2] = panels[2].model_copy(update={"curves": [*panels[2].curves, dots]})
    rows = [
        [
            row["table"],
            row["model"],
            f"{row['rounds']:,}",
            f"{row['min_separation']}, {row['max_participation']}",
            f"{row['printed_rho']:.2f}",
            f"{row['rho']:.4f}",
            "" if row["printed_epsilon"] is None else f"{row['printed_epsilon']:.2f}",
            f"{row['epsilon_by_convention']:.2f}",
            rounded_up(row["epsilon"]),
        ]
        for row in models
    ]
    columns = [
        "table",
        "model",
        "rounds",
        "MinS, MaxP",
        "ρ: paper",
        "ρ: ours",
        "ε: paper",
        "ε: its convention",
        "ε: proven",
    ]
    waits = [
        [
            f"{each['timer_hours']:.0f} h",
            f"{each['simulated_days']:.0f}",
            SEEN_BY_XU.get(each["timer_hours"], ""),
            f"{each['min_separation']}",
            f"{each['max_participation']}",
        ]
        for each in timers
    ]
    return Experiment(
        name="gboard_privacy",
        title="What Gboard's models cost their users",
        papers=[f"{XU}: Tables 1 and 2, Figure 4"],
        what="Arithmetic: nothing is trained. One binary tree over all rounds, a report goal of 6,500, noise multiplier 7, "
        "δ = 1e-10. The timers are simulated devices.",
        page="docs/experiments/gboard_privacy.md",
        sources=["docs/experiments/gboard_privacy/results.json", "docs/experiments/gboard_privacy/timers.json"],
        commands=[
            "python experiments/gboard_privacy.py",
            "tacit population --devices 4210000 --report-goal 6500 --rounds 1900 --timer-hours 24 --timer-hours 48 "
            "--timer-hours 144 --json",
        ],
        charts=panels,
        tables=[
            PaperTable(title="Tables 1 and 2", columns=columns, rows=rows),
            PaperTable(
                title="MinS by timer, 4.21 million devices",
                columns=["timer", "days", "MinS: paper", "MinS: ours", "MaxP: ours"],
                rows=waits,
            ),
        ],
    )


def memorization(results: Path) -> Experiment:
    regimes = read(results / "memorization" / "regimes.json")
    small = read(results / "memorization" / "small.json")
    columns = [
        "regime",
        "by rank, from one word: paper",
        "by rank, from one word: ours",
        "exposure, bits",
        "top-1",
        "ε of the noise",
    ]
    rows = [
        [
            name,
            FOUND_BY_THAKKAR.get(name, ""),
            f"{run['random_sampling']}, {run['beam_search_from_one_word']}",
            f"{run['exposure']:.2f}",
            percent(run["papers_top1"]),
            epsilon_text(run["epsilon_of_noise"]),
        ]
        for name, run in regimes.items()
    ]
    few = [
        [
            name,
            f"{run['random_sampling']}",
            f"{run['beam_search']}",
            f"{run['exposure']:.2f}",
            percent(run["papers_top1"]),
        ]
        for name, run in small.items()
    ]
    return Experiment(
        name="memorization",
        title="What training memorises",
        papers=[f"{THAKKAR}: Tables 1, 2, 4, 5 and 6"],
        what="Canaries of five random words, planted in the text of some people: how many come out of the model. 90 of them on "
        f"real text, 27 on the keyboard world. 'IID': the same sentences dealt out to made-up people. {NOTHING_CLAIMED}",
        page="docs/experiments/memorization.md",
        sources=["docs/experiments/memorization/regimes.json", "docs/experiments/memorization/small.json"],
        commands=[
            "python experiments/memorization.py --minutes 8",
            "python experiments/memorization.py --table small --minutes 8",
            "python experiments/pages.py",
        ],
        charts=[
            _found(regimes, "Canaries of 90 that rank first, by what the model learned; real text"),
            _found(small, "Canaries of 27 that rank first; the keyboard world"),
        ],
        tables=[
            PaperTable(title="Real text, of 90 canaries", columns=columns, rows=rows),
            PaperTable(
                title="Keyboard world, of 27 canaries",
                columns=["regime", "by rank", "by beam search", "exposure, bits", "top-1"],
                rows=few,
            ),
        ],
    )


def _found(runs: dict[str, Any], title: str) -> PaperChart:
    lines = []
    for name, whose in (("users are people", "by user"), ("IID", "IID")):
        of = sorted(
            (run["papers_top1"], run["random_sampling"], each) for each, run in runs.items() if each.endswith(whose)
        )
        points = [(100 * top1, found) for top1, found, _ in of]
        lines.append(curve(name, points, dots=True, labels=[each.rsplit(",", 1)[0] for *_, each in of]))
    return PaperChart(title=title, x="top-1, %", y="canaries", curves=lines)


def secagg(results: Path) -> Experiment:
    runs = read(results / "secagg" / "results.json")
    corpora = {"keyboard": "the keyboard world", "scotus": "real text"}
    lines, bounds, rows = [], [], []
    for place, scheme in enumerate(("server", "device")):
        for corpus, name in corpora.items():
            of = [(run["secagg"]["bits"], run) for key, run in runs.items() if key.startswith(f"{corpus}, {scheme}")]
            of.sort(key=lambda pair: pair[0])
            points = [(bits, run["papers_top1"]) for bits, run in of]
            lines.append(curve(f"{name}, noise from the {scheme}", points, colour=2 * place + (corpus == "scotus")))
        plain = runs["keyboard, plain"]["bound"]
        bounds.append(curve(f"noise from the {scheme}", [(bits, run["bound"] / plain) for bits, run in of]))
    for place, (corpus, name) in enumerate(corpora.items()):
        plain = level(f"{name}, plain sums", runs[f"{corpus}, plain"]["papers_top1"], (8, 10, 12, 16))
        lines.append(plain.model_copy(update={"colour": 4 + place}))
    for key, run in runs.items():
        rows.append([key, f"{run['bound'] / runs['keyboard, plain']['bound']:.3f}", percent(run["papers_top1"])])
    return Experiment(
        name="secagg",
        title="Secure aggregation: what narrow numbers cost",
        papers=[],
        what=f"The tiny model, 50 people a round, 80 rounds; {SCOTUS[0].lower()}{SCOTUS[1:]}, and the keyboard world. One "
        "seed, and no privacy is claimed for any of these runs.",
        page="docs/experiments/secagg.md",
        sources=["docs/experiments/secagg/results.json"],
        commands=["python experiments/secagg.py --minutes 8", "python experiments/secagg.py --report"],
        charts=[
            accuracy_chart("Accuracy by the bits of a number", lines, x="bits"),
            PaperChart(title="Bound on one user's share, over the clip", x="bits", y="bound / clip", curves=bounds),
        ],
        tables=[PaperTable(title="Every run", columns=["run", "bound / clip", "top-1"], rows=rows)],
    )


def inspection(results: Path) -> Experiment:
    recorded = read(results / "inspection" / "text.json")
    rows, charts = [], []
    for corpus, title in (("keyboard", "the keyboard world"), ("scotus", "real text")):
        of = {key: run for key, run in recorded.items() if run["corpus"] == corpus}
        shown = [
            curve(
                f"{run['share']:.0%} of the sentences hit",
                enumerate(run["inspection"]["unknown_words"]["by_place"], 1),
            )
            for run in of.values()
        ]
        charts.append(
            PaperChart(
                title=f"Unknown words by place in the sentence, {title}",
                x="place",
                y="share of words",
                percent=True,
                curves=shown,
            )
        )
        for run in of.values():
            found = run["inspection"]
            rows.append(
                [
                    title,
                    f"{run['share']:.0%}",
                    percent(found["unknown_words"]["overall"]),
                    percent(found["with_space"], 0),
                    percent(found["drawn_with_space"], 1),
                    epsilon_text(run["privacy"]["together"]["epsilon"]),
                ]
            )
    columns = ["on", "sentences hit", "unknown words", "top 20 with a space", "drawn with a space", "ε"]
    return Experiment(
        name="inspection",
        title="Faults found without looking at data",
        papers=[AUGENSTEIN],
        what="A fault in some of the sentences, found by made-up words of a private model. On real text the vocabulary was "
        "counted on these people, so ε is infinite there.",
        page="docs/experiments/inspection.md",
        sources=["docs/experiments/inspection/text.json"],
        commands=[
            "python experiments/inspection_text.py --minutes 8",
            "python experiments/inspection_text.py --report",
        ],
        charts=charts,
        tables=[PaperTable(title="By the share of sentences that the fault hits", columns=columns, rows=rows)],
    )
