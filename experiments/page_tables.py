"""The tables of the pages on what models learn, as Markdown, from recorded results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from papers_recorded import read, read_lines

from tacit.privacy.statement.wording import round_up

Cells = Sequence[str]


def table(heads: Cells, rows: Iterable[Cells]) -> str:
    """As Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def share(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}%}"


def listed(values: Sequence[float], digits: int = 1) -> str:
    """Shares of repeated runs beside each other, with one percent sign."""
    return ", ".join(f"{100 * value:.{digits}f}" for value in values) + "%"


def epsilon(value: float | None) -> str:
    return "∞" if value is None else round_up(value)


# DP-FedAvg on real text


def _dp_fedavg(results: Path) -> dict[str, Any]:
    runs: dict[str, Any] = read(results / "dp_fedavg" / "results.json")
    return runs


def _top1(runs: dict[str, Any], *names: str) -> str:
    return ", ".join(share(runs[name]["metrics"]["papers_top1"]) for name in names)


def dp_fedavg_reached(results: Path) -> str:
    runs, noisy = _dp_fedavg(results), "clip 0.8, noise 3.2e-4, server rate"
    rows = [
        ("not clipped", "0.7", _top1(runs, "unclipped, server rate 0.7")),
        ("not clipped", "0.5", _top1(runs, "unclipped")),
        ("clipped at 0.8", "2.0", _top1(runs, "clip 0.8, server rate 2")),
        ("clipped at 0.8", "1.0", _top1(runs, "clip 0.8")),
        ("clipped at 0.8, σ = 3.2e-4 on the mean", "2.5", _top1(runs, f"{noisy} 2.5")),
        ("", "2.0; three seeds", _top1(runs, f"{noisy} 2", f"{noisy} 2, seed 2", f"{noisy} 2, seed 3")),
        ("", "1.5; two seeds", _top1(runs, f"{noisy} 1.5", f"{noisy} 1.5, seed 2")),
        ("", "1.0", _top1(runs, "clip 0.8, noise 3.2e-4")),
    ]
    return table(["", "server rate", "top-1"], rows)


def dp_fedavg_clipping(results: Path) -> str:
    runs = _dp_fedavg(results)
    levels = {"0.2": "clip 0.2", "0.4": "clip 0.4", "0.8": "clip 0.8", "1.6": "clip 1.6"}
    names = {**levels, "none (server rate 0.5)": "unclipped"}
    return table(["S", *names], [["top-1", *(_top1(runs, name) for name in names.values())]])


def dp_fedavg_noise(results: Path) -> str:
    runs = _dp_fedavg(results)
    names = {level: f"clip 0.8, noise {level}" for level in ("3.2e-4", "1e-3", "3.2e-3")}
    rows = [
        ["z for 100 people", "0", *(f"{float(level) * 100 / 0.8:g}" for level in names)],
        ["top-1", *(_top1(runs, name) for name in ("clip 0.8", *names.values()))],
    ]
    return table(["σ on the mean, S = 0.8", "0", *names], rows)


def dp_fedavg_layers(results: Path) -> str:
    runs = _dp_fedavg(results)
    rows = [
        ["flat", _top1(runs, "clip 0.8"), _top1(runs, "clip 0.8, noise 1e-3")],
        ["per layer, S/√9 each", _top1(runs, "per layer 0.8"), _top1(runs, "per layer 0.8, noise 1e-3")],
    ]
    return table(["clipping at S = 0.8", "no noise", "σ = 1e-3"], rows)


def dp_fedavg_fedsgd(results: Path) -> str:
    runs = _dp_fedavg(results)
    rows = [
        ["FedAvg, S = 0.8", _top1(runs, "clip 0.8"), _top1(runs, "clip 0.8, noise 1e-3")],
        ["FedAvg, S = 0.8, server rate 2", _top1(runs, "clip 0.8, server rate 2"), ""],
        ["FedSGD, S = 0.8, rate 6", _top1(runs, "fedsgd, clip 0.8"), _top1(runs, "fedsgd, clip 0.8, noise 1e-3")],
    ]
    return table(["after 1,000 rounds", "no noise", "σ = 1e-3"], rows)


def dp_fedavg_head_words(results: Path) -> str:
    runs, parts = _dp_fedavg(results), []
    names = {
        "not clipped": "unclipped, server rate 0.7",
        "S = 0.8, σ = 3.2e-4": "clip 0.8, noise 3.2e-4",
        "S = 0.8, σ = 1e-3": "clip 0.8, noise 1e-3",
        "S = 0.8, σ = 3.2e-3": "clip 0.8, noise 3.2e-3",
    }
    for frequent in ("10", "50", "100"):
        rows = []
        for label, name in names.items():
            counts = runs[name]["head_words"][frequent]
            rows.append([f"{label}, {_top1(runs, name)}", *(f"{count / sum(counts):.0%}" for count in counts)])
        parts.append(table([f"n = {frequent}", *map(str, range(11))], rows))
    return "\n\n".join(parts)


# Cohort sizes


def _cohorts(results: Path, base: str, levels: dict[str, tuple[str, str]]) -> str:
    runs = read(results / "cohort_size" / "results.jsonl")
    small, large = (f"{base}-{size}" for size in (("100", "1250") if base == "scotus" else ("500", "6500")))
    rows = []
    for noise, names in levels.items():
        cells = [
            _of_a_size(runs, f"{size}-{name}") if name else "" for size, name in zip((small, large), names, strict=True)
        ]
        rows.append([noise, *cells])
    heads = ("noise on the mean", *(f"{int(size.split('-')[1]):,} a round" for size in (small, large)))
    return table(heads, rows)


def _of_a_size(runs: dict[str, Any], prefix: str) -> str:
    found = [run for name, run in runs.items() if name.rsplit("-", 1)[0] == prefix]
    ends = [run["curve"][-1][1] for run in found]
    z, cost = found[0]["noise_multiplier"], found[0]["privacy"]["epsilon"]
    told = [*([f"z = {z:g}"] if z else []), *([f"ε = {round_up(cost)}"] if cost is not None else [])]
    return listed(ends, 2) + (f" ({', '.join(told)})" if told else "")


def cohorts_of_text(results: Path) -> str:
    levels = {"none": ("z0", "z0"), "0.00064": ("z0.08", "z1"), "0.008": ("z1", "")}
    return _cohorts(results, "scotus", levels)


def cohorts_of_the_world(results: Path) -> str:
    levels = {"none": ("z0", "z0"), "0.0022": ("z0.54", "z7"), "0.011": ("z2.7", "z35"), "0.028": ("z7", "")}
    return _cohorts(results, "world", levels)


# Gboard's algorithm

MECHANISMS = {
    "tree": "tree (the paper's)",
    "blt": "**BLT**",
    "banded": "banded, as wide as the gap",
    "fresh noise, check-in": "fresh noise every round, check-in",
    "DP-FedAvg, Poisson": "DP-FedAvg, Poisson sampling",
}


def _repeats(runs: dict[str, Any], name: str) -> list[float]:
    found = (runs.get(f"{name}{again}") for again in ("", ", again", ", once more"))
    return [each["metrics"]["papers_top1"] for each in found if each is not None]


def gboard_mechanisms(results: Path) -> str:
    recorded, rows = read(results / "gboard" / "results.json"), []
    for name, label in MECHANISMS.items():
        cells = [label]
        for base in ("world", "world, strict"):
            runs = recorded[base]
            cells += [f"{runs[name]['noise_multiplier']:.4g}", listed(_repeats(runs, name))]
        rows.append(cells)
    rows.append(["no noise", "0", listed(_repeats(recorded["world"], "no noise")), "", ""])
    heads = ["", "noise multiplier, ε = 8", "top-1, ε = 8", "noise multiplier, ε = 2", "top-1, ε = 2"]
    return table(heads, rows)


def gboard_clips(results: Path) -> str:
    runs, rows = read(results / "gboard" / "results.json")["world"], []
    for name, label in (("blt", "BLT"), ("tree", "tree")):
        rows.append(
            [f"{label}, fixed at {runs[name]['clip'][0]:g}", listed(_repeats(runs, name)), f"{runs[name]['clip'][0]:g}"]
        )
        adaptive = runs[f"{name}, adaptive clip"]
        clips = list(dict.fromkeys(adaptive["clip"]))
        shown = ", ".join(f"{clip:.2f}" for clip in clips)
        rows.append([f"{label}, adaptive", listed([adaptive["metrics"]["papers_top1"]]), shown])
    return table(["", "top-1", "clip in rounds 0, 32, 128"], rows)


def gboard_pretraining(results: Path) -> str:
    runs, rows = read(results / "gboard" / "results.json")["world"], []
    shown = {
        "blt, pre-trained": "BLT, separate tables",
        "tree, pre-trained": "tree, separate tables",
        "blt, pre-trained, tied": "BLT, tied",
    }
    for name, label in shown.items():
        rows.append([label, listed([runs[name]["curve"][0][1]]), listed(_repeats(runs, name))])
    rows += [
        ["BLT without pre-training", "", listed(_repeats(runs, "blt"))],
        ["BLT without pre-training, tied", "", listed(_repeats(runs, "blt, tied"))],
    ]
    return table(["", "before the first round", "after 200 rounds"], rows)


def gboard_real_text(results: Path) -> str:
    runs, rows = read(results / "gboard" / "results.json")["scotus"], []
    for name, label in {"tree": "tree", "blt": "BLT", "DP-FedAvg, Poisson": "DP-FedAvg, Poisson"}.items():
        run = runs[name]
        noise = [f"{run['at_scale']['noise_multiplier']:.3g}", f"{run['noise_multiplier']:.3g}"]
        rows.append([label, *noise, share(run["metrics"]["papers_top1"])])
    clipped = share(_dp_fedavg(results)["clip 0.8"]["metrics"]["papers_top1"])
    rows.append(["clipped at 0.8, no noise ([DP-FedAvg](dp_fedavg.md))", "0", "0", clipped])
    return table(["", "noise multiplier at scale", "in the run", "top-1"], rows)


# Real people


def _real(results: Path) -> tuple[dict[str, Any], dict[tuple[str, str, int], dict[str, Any]]]:
    ngrams = {
        (line["name"], line["counted_on"], line["order"]): line
        for line in read_lines(results / "real_epsilon" / "ngrams.jsonl")
    }
    return read(results / "real_epsilon" / "results.jsonl"), ngrams


def real_epsilon_scotus(results: Path) -> str:
    runs, ngrams = _real(results)
    rows = []
    for name, label in {"no-noise": "∞, no noise", "eps8": "8", "eps4": "4", "eps2": "2", "eps1": "1"}.items():
        run = runs[f"scotus-{name}"]
        cost = run["privacy"]["epsilon"]
        shown = label if cost is None else round_up(cost)
        rounds = f"{run['rounds']:,} of {run['cohort']:,.0f} people"
        accuracy = [f"**{share(run['metrics']['papers_top1'])}**", share(run["metrics"]["top1"])]
        rows.append([shown, rounds, f"{run['noise_multiplier']:.4g}", *accuracy])
    start = max(run["curve"][0][1] for name, run in runs.items() if name.startswith("scotus-"))
    rows.append(["*public text alone:* pre-trained model", "", "", share(start), ""])
    for counted, label in (
        ("public", "Katz of order 3; 5"),
        ("everybody", "*everybody's text, no privacy:* Katz of order 3; 5"),
    ):
        found = [ngrams["scotus", counted, order] for order in (3, 5)]
        rows.append(
            [label, "", "", *("; ".join(share(each[key]) for each in found) for key in ("papers_top1", "top1"))]
        )
    return table(["ε", "rounds", "noise multiplier", "top-1, papers' metric", "top-1 on a keyboard"], rows)


def real_epsilon_others(results: Path) -> str:
    runs, ngrams = _real(results)
    rows = []
    for corpus, label in (("irc", "Ubuntu's IRC"), ("spanish", "Spanish parliament")):
        cells = [
            label,
            f"{runs[f'{corpus}-no-noise']['population']:,}",
            listed([runs[f"{corpus}-no-noise"]["curve"][0][1]]),
        ]
        for name in ("eps1", "eps2", "eps4", "eps8", "no-noise"):
            metrics = runs[f"{corpus}-{name}"]["metrics"]
            cells.append(f"{share(metrics['papers_top1'], 1)} ({100 * metrics['top1']:.1f})")
        public = ngrams[corpus, "public", 5]
        cells.append(f"{share(public['papers_top1'], 1)} ({100 * public['top1']:.1f})")
        found = [ngrams[corpus, "everybody", order] for order in (3, 5)]
        both = ["; ".join(f"{100 * each[key]:.1f}" for each in found) for key in ("papers_top1", "top1")]
        cells.append(f"{both[0]}% ({both[1]})")
        rows.append(cells)
    heads = ["papers' metric (on a keyboard)", "people", "before", "ε = 1", "2", "4", "8", "no noise"]
    return table([*heads, "public Katz-5", "everybody's Katz-3; Katz-5"], rows)


# Averages, secure aggregation, the keyboard


def averages(results: Path) -> str:
    rows = []
    runs: dict[tuple[float, str, float], list[dict[str, Any]]] = {}
    for each in read(results / "averaging" / "results.jsonl").values():
        runs.setdefault((each["noise"], each["schedule"], each["epsilon"]), []).append(each["metrics"])
    names = list(next(iter(runs.values()))[0])
    for (noise, schedule, cost), found in sorted(runs.items()):
        last = [each[names[0]]["top1"] for each in found]
        cells = [f"{noise:g}", round_up(cost), schedule, share(statistics.mean(last))]
        for name in names[1:]:
            gains = [100 * (each[name]["top1"] - each[names[0]]["top1"]) for each in found]
            cells.append(f"{_signed(statistics.mean(gains))} ({_signed(min(gains))} to {_signed(max(gains))})")
        rows.append(cells)
    return table(["noise multiplier", "ε", "rate", *names], rows)


def _signed(points: float) -> str:
    shown = f"{points:+.2f}"
    return "0.00" if float(shown) == 0 else shown.replace("-", "−")


def secagg(results: Path) -> str:
    runs, rows = read(results / "secagg" / "results.json"), []
    schemes = {"plain": "plain, noise from the server"}
    schemes |= {f"server noise, {bits} bits": f"{bits} bits, noise from the server" for bits in (16, 12, 10, 8)}
    schemes |= {f"device noise, {bits} bits": f"{bits} bits, noise from devices" for bits in (12, 10, 8)}
    for name, label in schemes.items():
        run, plain = runs[f"keyboard, {name}"], runs["keyboard, plain"]
        whole = 4 * run["parameters"]
        upload = whole if run["secagg"] is None else run["secagg"]["integers"] * run["secagg"]["bits"] / 8
        bound = "1" if run["secagg"] is None else f"{run['bound'] / plain['bound']:.3f}"
        accuracy = [share(runs[f"{corpus}, {name}"]["papers_top1"]) for corpus in ("keyboard", "scotus")]
        rows.append([label, f"{upload / 1000:.0f}", f"{upload / whole:.0%}", bound, *accuracy])
    return table(["sums", "upload, kB", "of float32", "bound / clip", "keyboard", "scotus"], rows)


def _compared(results: Path, against: str, metrics: Sequence[str] | None) -> str:
    found = read(results / "keyboard" / "results.json")[against]
    rows = []
    for metric in metrics or list(found[0]["metrics"]):
        cells = [metric]
        for each in found:
            value = each["metrics"][metric]
            shown = f"{value:.2f}" if metric == "words per minute" else share(value)
            if (change := each["changes"].get(metric)) is not None:
                relative, low, high = (100 * change[key] for key in ("relative", "low", "high"))
                shown += f", {relative:+.1f}% ({low:.1f}, {high:.1f})"
            cells.append(shown)
        rows.append(cells)
    return table(["", *(Path(each["model"]).name for each in found)], rows)


def keyboard_rows(results: Path) -> str:
    """The papers' metric on the way; a run that was cut off ends where it was."""
    runs = {line["name"]: line for line in read_lines(results / "keyboard" / "results.jsonl")}
    curves = {name: {point[0]: point[1] for point in run["curve"] if point[0] >= 500} for name, run in runs.items()}
    rounds = sorted({round for curve in curves.values() for round in curve})
    rows = [
        [name, f"{run['noise_multiplier']:.4g}", *(share(curves[name][r]) if r in curves[name] else "" for r in rounds)]
        for name, run in runs.items()
    ]
    return table(["run", "noise multiplier in the run", *(f"round {round:,}" for round in rounds)], rows)


def keyboard_against_ngrams(results: Path) -> str:
    return _compared(results, "against n-grams", None)


def keyboard_against_fedavg(results: Path) -> str:
    return _compared(results, "against FedAvg", ("top-1 recall", "top-3 recall", "picked rate", "word modified ratio"))


TABLES: dict[str, Callable[[Path], str]] = {
    "dp_fedavg/reached": dp_fedavg_reached,
    "dp_fedavg/clipping": dp_fedavg_clipping,
    "dp_fedavg/noise": dp_fedavg_noise,
    "dp_fedavg/layers": dp_fedavg_layers,
    "dp_fedavg/fedsgd": dp_fedavg_fedsgd,
    "dp_fedavg/head_words": dp_fedavg_head_words,
    "cohort_size/text": cohorts_of_text,
    "cohort_size/world": cohorts_of_the_world,
    "gboard/mechanisms": gboard_mechanisms,
    "gboard/clips": gboard_clips,
    "gboard/pretraining": gboard_pretraining,
    "gboard/real_text": gboard_real_text,
    "real_epsilon/scotus": real_epsilon_scotus,
    "real_epsilon/others": real_epsilon_others,
    "averaging": averages,
    "secagg": secagg,
    "keyboard/rows": keyboard_rows,
    "keyboard/ngrams": keyboard_against_ngrams,
    "keyboard/fedavg": keyboard_against_fedavg,
}
