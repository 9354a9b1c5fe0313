"""The tables of the pages on what users pay and what models keep of them, as Markdown, from recorded results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from inspection_text_report import at_scale, rates, sentences, top_words, verdict
from page_tables import share, table
from papers_recorded import read

from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.statement.wording import round_up

# What models memorise: what the papers print.

# Thakkar et al., Tables 1 to 6, of 90 canaries: RS, BS from one word, accuracy. SGD in batches of 64 records, momentum and Adam
# in batches of 32; FedAvg + Adam with 500 users a round, and all other federated runs with 5,000.
THAKKAR: dict[str, tuple[int, int, float]] = {
    "SGD, IID": (54, 42, 24.1),
    "SGD, by user": (49, 36, 24.1),
    "FedAvg, IID": (65, 58, 24.6),
    "FedAvg, by user": (26, 2, 24.5),
    "FedAvg + clip, IID": (58, 49, 24.2),
    "FedAvg + clip, by user": (11, 0, 24.0),
    "DP-FedAvg, IID": (48, 42, 23.9),
    "DP-FedAvg, by user": (12, 0, 23.3),
    "momentum, IID": (64, 50, 24.2),
    "momentum, by user": (48, 36, 24.3),
    "Adam, IID": (56, 42, 22.7),
    "Adam, by user": (21, 13, 21.5),
    "FedAvg + Adam, IID": (60, 46, 23.7),
    "FedAvg + Adam, by user": (8, 0, 23.3),
}
# Ramaswamy et al., Table 4: approximate ranks among 2,000,000, and canaries of three that a beam search found; by n_u and n_e.
RAMASWAMY: dict[str, tuple[tuple[int, int, int], int]] = {
    "n_u = 1, n_e = 1": ((637_000, 1_550_000, 1_600_000), 0),
    "n_u = 1, n_e = 14": ((1_600, 41_000, 542_000), 0),
    "n_u = 1, n_e = 200": ((270_000, 347_000, 894_000), 0),
    "n_u = 4, n_e = 1": ((281_000, 308_000, 1_370_000), 0),
    "n_u = 4, n_e = 14": ((1, 16, 762), 1),
    "n_u = 4, n_e = 200": ((263, 904, 4_900), 0),
    "n_u = 16, n_e = 1": ((3_700, 112_000, 129_000), 0),
    "n_u = 16, n_e = 14": ((1, 1, 1), 3),
    "n_u = 16, n_e = 200": ((1, 1, 1), 3),
}


def _memorization(results: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = read(results / "memorization" / f"{name}.json")
    return found


def undertrained(name: str, runs: dict[str, Any]) -> bool:
    """Whether this is a FedAvg below the accuracy of the same training with clipping, which is no baseline then."""
    clipped = runs.get(name.replace("FedAvg,", "FedAvg + clip,")) if name.startswith("FedAvg,") else None
    return clipped is not None and bool(runs[name]["papers_top1"] < clipped["papers_top1"])


def regimes(results: Path) -> str:
    rows, runs = [], _memorization(results, "regimes")
    for name, run in runs.items():
        cost = "∞" if run["epsilon_of_noise"] is None else f"∞ (noise: {run['epsilon_of_noise']:.2f})"
        printed = THAKKAR.get(name)
        paper = ["", ""] if printed is None else [f"{printed[0]}, {printed[1]}", f"{printed[2]}%"]
        found = [run["random_sampling"], run["beam_search"], run["beam_search_from_one_word"]]
        learned = [share(run["papers_top1"]), f"{run['perplexity']:.4g}"]
        rows.append(
            [
                f"{name} †" if undertrained(name, runs) else name,
                *map(str, found),
                f"{run['exposure']:.2f}",
                *learned,
                cost,
                f"{run['seconds']:.0f}",
                *paper,
            ]
        )
    heads = ["regime", "RS, of 90", "BS, of 90", "BS from 1 word", "exposure, bits", "top-1", "perplexity", "epsilon"]
    return table([*heads, "seconds", "paper: RS, BS from 1 word", "paper: accuracy"], rows)


def of_sizes(results: Path) -> str:
    """Step 5's regimes, once they are recorded; a FedAvg below the accuracy of the clipped one is marked."""
    path = results / "memorization" / "sizes.json"
    if not path.exists():
        return "Not recorded yet: users a round, records a batch, Adam at 1e-4, FedAvg with Adam (step 5)."
    runs, rows = _memorization(results, "sizes"), []
    clipped = _memorization(results, "regimes")
    for name, run in runs.items():
        if "diverged" in run:
            rows.append([name, "diverged", "", "", ""])
            continue
        least = clipped[f"FedAvg + clip, {name.rsplit(', ', 1)[1]}"]["papers_top1"]
        mark = " †" if name.startswith("FedAvg of") and run["papers_top1"] < least else ""
        found = [str(run["random_sampling"]), str(run["beam_search_from_one_word"])]
        rows.append([name + mark, *found, share(run["papers_top1"]), f"{run['perplexity']:.4g}"])
    return table(["regime", "RS, of 90", "BS from 1 word", "top-1", "perplexity"], rows)


def small_regimes(results: Path) -> str:
    rows = []
    for name, run in _memorization(results, "small").items():
        found = [str(run["random_sampling"]), str(run["beam_search"]), f"{run['exposure']:.2f}"]
        cost = "∞" if run["epsilon"] is None else f"{run['epsilon']:.2f}"
        rows.append([name, *found, share(run["papers_top1"]), f"{run['perplexity']:.4g}", cost])
    return table(["regime", "RS, of 27", "BS, of 27", "exposure, bits", "top-1", "perplexity", "epsilon"], rows)


def by_setting(results: Path, name: str, head: str, figure: Callable[[dict[str, Any]], str]) -> str:
    runs = _memorization(results, name)
    settings = list(next(iter(runs.values()))["settings"])
    return table([head, *settings], [[regime, *map(figure, run["settings"].values())] for regime, run in runs.items()])


def first_by_rank(setting: dict[str, Any]) -> str:
    return str(setting["random_sampling"])


def median_rank(setting: dict[str, Any]) -> str:
    return f"{statistics.median(setting['ranks']):,.0f}"


def devices(results: Path, name: str) -> str:
    recorded = _memorization(results, name)
    seen = {each["setting"]: each for each in recorded["exposures"]}
    rows = []
    for setting, group in groupby(recorded["canaries"], key=lambda each: each["setting"]):
        same = list(group)
        ranks = ", ".join(f"{rank:,}" for rank in sorted(each["rank"] for each in same))
        found = sum(each["place"] is not None for each in same)
        printed, extracted = RAMASWAMY[setting]
        times = [f"{seen[setting][key]:,.0f}" for key in ("expected", "seen")]
        paper = [", ".join(f"{rank:,}" for rank in printed), f"{extracted} / 3"]
        rows.append([setting, *times, ranks, f"{found} / {len(same)}", *paper])
    heads = ["", "expected to be seen", "seen", f"ranks among {recorded['suffixes']:,}", "found by beam search"]
    return table([*heads, "paper: ranks", "paper: found"], rows)


def few_users(results: Path) -> str:
    runs = [_memorization(results, name) for name in ("production_few_users", "production_few_users_paper_steps")]
    rows = []
    for several in (4, 16):
        for copies in (14, 200):
            cells = [f"{several} devices, {copies} copies"]
            for run in runs:
                same = [each for each in run["canaries"] if each["setting"] == f"n_u = {several}, n_e = {copies}"]
                ranks = ", ".join(f"{rank:,}" for rank in sorted(each["rank"] for each in same))
                cells += [ranks, f"{sum(each['place'] is not None for each in same)} / {len(same)}"]
            rows.append(cells)
    top1 = [share(run["metrics"]["papers_top1"], 1) for run in runs]
    rows.append(["top-1", top1[0], "", top1[1], ""])
    return table(["", "our local steps", "extracted", "the paper's local steps", "extracted"], rows)


# Inspections


def text(results: Path) -> str:
    recorded = read(results / "inspection" / "text.json")
    ordered = sorted(recorded.values(), key=lambda record: (record["corpus"], record["share"]))
    parts = []
    for corpus, group in groupby(ordered, key=lambda record: record["corpus"]):
        records = list(group)
        parts += [f"### {corpus}", rates(records), top_words(records), verdict(records), sentences(records)]
    return "\n\n".join([*parts, at_scale(recorded)])


def images(results: Path, folder: str) -> str:
    runs = read(results / "inspection" / folder / "images.json")
    scores, chosen = [], []
    for name, run in runs.items():
        for side, score in run["scores"].items():
            figures = [f"{score[each]:.2f}" for each in ("brightness", "confidence", "negative_confidence")]
            scores.append([name, side, f"{score['inverted']:.0%}", *figures])
        limits = run["thresholds"]
        shown = "by example" if limits is None else f"≤ {limits[0]:.2f}, ≥ {limits[1]:.2f}"
        accuracy = [share(run["accuracy"][key], 1) for key in ("before", "now")]
        chosen.append([name, *accuracy, shown, f"{run['seconds'] / 60:.1f}"])
    heads = ["inspection", "images like those of", "bright background", "mean intensity", "confidence", "on negatives"]
    second = table(["inspection", "held-out accuracy before", "now", "thresholds", "minutes"], chosen)
    return f"{table(heads, scores)}\n\n{second}"


# What users pay: Gboard's models, and all other papers


def gboard_rows(results: Path) -> str:
    rows = []
    for row in read(results / "gboard_privacy" / "results.json")["rows"]:
        limits = f"{row['min_separation']}, {row['max_participation']}"
        rho = [f"{row['printed_rho']:.2f}", f"{row['rho']:.4f}"]
        printed = "" if row["printed_epsilon"] is None else f"{row['printed_epsilon']:.2f}"
        ours = [f"{row['epsilon_by_convention']:.2f}", round_up(row["epsilon"])]
        rows.append([row["table"], row["model"], f"{row['rounds']:,}", limits, *rho, printed, *ours])
    heads = ["table", "model", "rounds", "MinS, MaxP", "ρ: paper", "ours", "ε: paper", "by its convention", "proven"]
    return table(heads, rows)


def timers(results: Path) -> str:
    found = read(results / "gboard_privacy" / "timers.json")
    from gboard_privacy import DELTA, NOISE, rho_of

    rows = []
    for each in found["timers"]:
        rho = rho_of(NOISE, found["rounds"], each["min_separation"], each["max_participation"])
        limits = [str(each["min_separation"]), str(each["max_participation"])]
        cost = [f"{rho:.3f}", round_up(epsilon_of_gaussian(rho, DELTA))]
        rows.append([f"{each['timer_hours']:g} h", f"{each['simulated_days']:.0f}", *limits, *cost])
    return table(["timer", "days", "MinS", "MaxP", "ρ", "ε"], rows)


def _numbers(results: Path, *items: str) -> list[dict[str, Any]]:
    return [each for each in read(results / "privacy_numbers" / "results.json") if each["item"].startswith(items)]


def sampled_rounds(results: Path) -> str:
    """DP-FedAvg's Table 1: printed, by its convention, and proven."""
    rows = []
    for what, group in groupby(_numbers(results, "DP-FedAvg, Table 1"), key=lambda each: each["what"]):
        same = list(group)
        rows += [
            [what, "printed", *(f"{each['printed']:.2f}" for each in same)],
            ["", "by its convention", *(f"{each['by_convention']:.2f}" for each in same)],
            ["", "proven", *(round_up(each["proven"]) for each in same)],
        ]
    return table(["", "", *(f"{10**power:,}" for power in range(7))], rows)


def numbers(results: Path, *items: str) -> str:
    return table(
        ["", "", "rounds", "δ", "printed", "by its convention", "proven", "had it been Poisson"],
        [
            [
                each["item"],
                each["what"],
                f"{each['rounds']:,}",
                f"{each['delta']:.2e}",
                f"{each['printed']:g}",
                _as_printed(each),
                round_up(each["proven"]),
                "" if each["sampling"] == "poisson" else round_up(each["if_poisson"]),
            ]
            for each in _numbers(results, *items)
        ],
    )


def _as_printed(each: dict[str, Any]) -> str:
    """With as many decimals as the paper prints."""
    decimals = len(f"{each['printed']:g}".partition(".")[2])
    return f"{each['by_convention']:.{max(decimals, 2)}f}"


def agreeing(found: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many numbers come out by the paper's convention within one unit of the last digit printed, and how many there are."""
    close = []
    for each in found:
        decimals = max(len(f"{each['printed']:g}".partition(".")[2]), 1 if each["printed"] > 10 else 2)
        close.append(abs(each["by_convention"] - each["printed"]) < 1.0001 * 10.0**-decimals)
    return sum(close), len(close)


def scenarios(results: Path) -> str:
    """Debugging's populations."""
    rows = []
    for each in _numbers(results, "Debugging"):
        size = [f"{each['users']:,}", f"{each['cohort']:,}", f"{each['rounds']:,}", f"{each['delta']:.2e}"]
        costs = [f"{each['printed']:.2f}", f"{each['by_convention']:.2f}"]
        rows.append([each["what"], *size, *costs, round_up(each["proven"]), round_up(each["if_poisson"])])
    heads = ["scenario", "N", "users a round", "rounds", "δ", "paper", "its convention", "proven, fixed size"]
    return table([*heads, "Poisson, public q"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "memorization/regimes": regimes,
    "memorization/first": partial(by_setting, name="regimes", head="first among random endings", figure=first_by_rank),
    "memorization/ranks": partial(by_setting, name="regimes", head="median rank", figure=median_rank),
    "memorization/sizes": of_sizes,
    "memorization/devices": partial(devices, name="production"),
    "memorization/devices_paper_steps": partial(devices, name="production_paper_steps"),
    "memorization/few_users": few_users,
    "memorization/small": small_regimes,
    "memorization/small_ranks": partial(by_setting, name="small", head="median rank", figure=median_rank),
    "inspection/text": text,
    "inspection/scenarios": scenarios,
    "inspection/images": partial(images, folder="."),
    "inspection/small_images": partial(images, folder="small"),
    "gboard_privacy/models": gboard_rows,
    "gboard_privacy/timers": timers,
    "privacy_numbers/table_1": sampled_rounds,
    "privacy_numbers/others": lambda results: numbers(
        results, "DP-FedAvg, Table 2", "DP-FedAvg, in", "Production", "Mem"
    ),
}
