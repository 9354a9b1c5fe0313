"""The index of docs/experiments: each table and figure of the five papers, and what stands for it here.

A row's figures of ours are read from recorded results, or it says that there are none. The verdicts are judgements, and the
page that a row names gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from page_tables import listed, share, table
from page_tables_privacy import THAKKAR, agreeing
from papers_recorded import read
from steps import STEPS

REPRODUCED, TREND, DIFFERS = "reproduced", "trend", "differs"
NOT_POSSIBLE, NOT_RECORDED = "not possible here", "not recorded yet"
VERDICTS = (REPRODUCED, TREND, DIFFERS, NOT_POSSIBLE, NOT_RECORDED)
Ours = str | Callable[[Path], str]


@dataclass(frozen=True)
class Row:
    """A table or figure: what the paper says, what is here, the verdict, and where the page is or what would make it."""

    paper: str
    item: str
    what: str
    theirs: str
    ours: Ours
    verdict: str
    page: str = ""
    step: int | None = None

    def cells(self, results: Path) -> list[str]:
        ours = self.ours if isinstance(self.ours, str) else self.ours(results)
        where = f"[{self.page}]({self.page}.md)" if self.page else ""
        if self.step is not None:
            where = f"{where}; step {self.step}" if where else f"step {self.step}"
        return [self.item, self.what, self.theirs, ours, self.verdict, where]


# Our figures, from results.


def _numbers(results: Path, item: str) -> str:
    found = [each for each in read(results / "privacy_numbers" / "results.json") if each["item"].startswith(item)]
    close, of = agreeing(found)
    return f"{close} of {of} by the paper's convention"


def _with_z_of_one(results: Path) -> str:
    (found,) = (each for each in read(results / "privacy_numbers" / "results.json") if each["item"].startswith("Memor"))
    return f"{found['by_convention']:.2f} by the paper's convention with z = 1"


def _rho(results: Path) -> str:
    rows = read(results / "gboard_privacy" / "results.json")["rows"]
    return f"{sum(round(row['rho'], 2) == row['printed_rho'] for row in rows)} of {len(rows)} values of ρ"


def _gboard_epsilons(results: Path) -> str:
    rows = [
        row for row in read(results / "gboard_privacy" / "results.json")["rows"] if row["printed_epsilon"] is not None
    ]
    return f"{sum(round(row['epsilon_by_convention'], 2) == row['printed_epsilon'] for row in rows)} of {len(rows)} values of ε"


def _top1(results: Path, *names: str) -> str:
    runs = read(results / "dp_fedavg" / "results.json")
    return ", ".join(share(runs[name]["metrics"]["papers_top1"]) for name in names)


def _sizes(results: Path, small: str, large: str) -> str:
    runs = read(results / "cohort_size" / "results.jsonl")
    ends = [
        listed([run["curve"][-1][1] for name, run in runs.items() if name.startswith(size)], 2)
        for size in (small, large)
    ]
    return f"{ends[0]} and {ends[1]}"


def _head_words(results: Path) -> str:
    runs = read(results / "dp_fedavg" / "results.json")
    counts = [runs[name]["head_words"]["100"] for name in ("unclipped, server rate 0.7", "clip 0.8, noise 3.2e-3")]
    return (
        " and ".join(f"{each[10] / sum(each):.0%}" for each in counts) + " of the words have ten of ten among the 100"
    )


def _found(results: Path, *names: str, one_word: bool = True) -> str:
    runs = read(results / "memorization" / "regimes.json")
    key = "beam_search_from_one_word" if one_word else "beam_search"
    return "; ".join(
        f"{runs[name]['random_sampling']}, {runs[name][key]} ({share(runs[name]['papers_top1'], 1)})" for name in names
    )


def _printed(*names: str) -> str:
    return "; ".join(f"{THAKKAR[name][0]}, {THAKKAR[name][1]} ({THAKKAR[name][2]}%)" for name in names)


def _sixteen(results: Path) -> str:
    canaries = read(results / "memorization" / "production_paper_steps.json")["canaries"]
    found = {}
    for setting in ("n_u = 4, n_e = 14", "n_u = 16, n_e = 14", "n_u = 16, n_e = 200", "n_u = 1, n_e = 14"):
        found[setting] = sum(each["place"] is not None for each in canaries if each["setting"] == setting)
    return ", ".join(str(each) for each in found.values())


def _seen(results: Path) -> str:
    rows = read(results / "memorization" / "production_paper_steps.json")["exposures"]
    worst = max(abs(row["seen"] / row["expected"] - 1) for row in rows)
    return f"{rows[0]['expected']:,.0f} expected, {rows[0]['seen']:,.0f} seen; all nine within {worst:.0%}"


def _text(results: Path, corpus: str, figure: Callable[[dict[str, object]], str]) -> str:
    runs = read(results / "inspection" / "text.json")
    return ", ".join(figure(runs[f"{corpus} {each}"]["inspection"]) for each in ("0", "0.01", "0.1", "1"))


def _images(results: Path, name: str, folder: str = ".") -> str:
    scores = read(results / "inspection" / folder / "images.json")[name]["scores"]
    return f"{scores['high']['inverted']:.0%} and {scores['low']['inverted']:.0%} bright"


def _sides(results: Path) -> str:
    """The thresholds before the fault, and which share of the users is on either side of them with the fault."""
    from tacit.inspection.images.accuracy_histogram import share_beyond

    found = read(results / "inspection" / "small" / "images.json")["digits, bug"]
    low, high = found["thresholds"]
    beyond = [share_beyond(found["histogram"], at, side=side) for side, at in (("high", high), ("low", low))]
    return f"{low:.0%}, {high:.0%}; {beyond[0]:.0%} and {beyond[1]:.0%} of 800, as released"


def _pretrained(results: Path) -> str:
    runs = read(results / "gboard" / "results.json")["world"]
    names = ("tree", "tree, adaptive clip", "tree, pre-trained")
    return ", ".join(share(runs[name]["metrics"]["papers_top1"], 1) for name in names) + " (made-up world)"


def _timers(results: Path) -> str:
    found = read(results / "gboard_privacy" / "timers.json")["timers"]
    return ", ".join(f"{each['min_separation']}" for each in found)


def _keyboard(results: Path) -> str:
    models = {Path(each["model"]).name: each for each in read(results / "keyboard" / "results.json")["against n-grams"]}
    return ", ".join(
        f"{models['dp_fedavg']['changes'][each]['relative']:+.1%}"
        for each in ("top-1 recall", "top-3 recall", "click-through rate")
    )


FEDAVG, PRODUCTION, DEBUGGING, MEMORIZATION, GBOARD = (
    "DP-FedAvg: *Learning Differentially Private Recurrent Language Models* (McMahan et al. 2018)",
    "Production: *Training Production Language Models without Memorizing User Data* (Ramaswamy et al. 2020)",
    "Debugging: *Generative Models for Effective ML on Private, Decentralized Datasets* (Augenstein et al. 2020)",
    "Memorization: *Understanding Unintended Memorization in Language Models Under Federated Learning* (Thakkar et al. 2020)",
    "Gboard: *Federated Learning of Gboard Language Models with Differential Privacy* (Xu et al. 2023)",
)
IMAGES = "same classifier and GAN on 836 writers of MNIST; the thresholds were those of users with the fault"

ROWS: tuple[Row, ...] = (
    Row(
        FEDAVG,
        "Table 1",
        "ε by users, cohort, z and rounds",
        "42 values",
        partial(_numbers, item="DP-FedAvg, Table 1"),
        REPRODUCED,
        "privacy_numbers",
    ),
    Row(
        FEDAVG,
        "Table 2, ε",
        "ε after 5,000 rounds",
        "6 values",
        partial(_numbers, item="DP-FedAvg, Table 2"),
        REPRODUCED,
        "privacy_numbers",
    ),
    Row(
        FEDAVG,
        "Table 2, accuracy",
        "no noise; σ = 0.003, 0.006, 0.012",
        "17.62%; 17.49, 17.04, 16.33%",
        "Reddit is not here; other text, other model: below",
        NOT_RECORDED,
        "dp_fedavg",
        2,
    ),
    Row(
        FEDAVG,
        "Section 3, appendix D, ε",
        "1,250 and 5,000 users a round",
        "1.97; 3.81, 8.92",
        partial(_numbers, item="DP-FedAvg, in"),
        REPRODUCED,
        "privacy_numbers",
    ),
    Row(
        FEDAVG,
        "Table 3",
        "frequent words among the top ten",
        "better models use fewer; noise matters only where it costs accuracy",
        _head_words,
        TREND,
        "dp_fedavg",
        2,
    ),
    Row(
        FEDAVG,
        "Figure 1",
        "noise against no noise",
        "σ = 0.003 costs 0.13 points",
        lambda results: (
            f"{_top1(results, 'clip 0.8')} without, {_top1(results, 'clip 0.8, noise 3.2e-4')} with σ = 3.2e-4 at S = 0.8"
        ),
        TREND,
        "dp_fedavg",
        2,
    ),
    Row(
        FEDAVG,
        "Figure 2",
        "clipping at S = 10 to 20",
        "at most a small effect",
        "only S = 0.2 to 1.6 with another model, where S matters",
        NOT_RECORDED,
        "dp_fedavg",
        2,
    ),
    Row(
        FEDAVG,
        "Figure 3",
        "noise by level, flat and per layer",
        "each level ends lower; σ = 0.2 destroys accuracy",
        lambda results: _top1(results, *(f"clip 0.8, noise {level}" for level in ("3.2e-4", "1e-3", "3.2e-3"))),
        TREND,
        "dp_fedavg",
        2,
    ),
    Row(
        FEDAVG,
        "Figures 4, 8",
        "lower S and σ late in training",
        "better after round 4,885",
        "the schedule exists (`privacy.clip_schedule`)",
        NOT_RECORDED,
        "",
        2,
    ),
    Row(FEDAVG, "Figure 5", "sampling and estimators", "no difference", "", NOT_RECORDED, "", 2),
    Row(
        FEDAVG,
        "Figure 6",
        "users a round, no noise",
        "diminishing returns",
        lambda results: _sizes(results, "scotus-100-z0-", "scotus-1250-z0-"),
        TREND,
        "cohort_size",
        2,
    ),
    Row(
        FEDAVG,
        "Figure 7",
        "100 and 1,250 users a round, same noise on the mean",
        "almost identical curves",
        lambda results: _sizes(results, "scotus-100-z0.08", "scotus-1250-z1-"),
        REPRODUCED,
        "cohort_size",
        1,
    ),
    Row(
        FEDAVG,
        "Figures 9, 10",
        "FedSGD needs many more rounds, and a smaller S",
        "S = 2 and σ = 2e-3 are reasonable",
        lambda results: (
            f"FedSGD {_top1(results, 'fedsgd, clip 0.8')}, FedAvg {_top1(results, 'clip 0.8')} after as many rounds"
        ),
        DIFFERS,
        "dp_fedavg",
        2,
    ),
    Row(FEDAVG, "Figures 11, 12", "20,000 and 30,000 words", "same S and σ serve", "", NOT_RECORDED, "", 2),
    Row(
        FEDAVG,
        "Appendix D",
        "a penalty on the update",
        "no positive effect",
        "`work.update_penalty` exists",
        NOT_RECORDED,
        "",
        2,
    ),
    Row(
        PRODUCTION,
        "Table 1",
        "the setting: momentum 0.99, rate 0.5, batches of 50, S = 0.8",
        "24.15% on Stack Overflow",
        "Stack Overflow is not here; other text",
        NOT_RECORDED,
        "",
        3,
    ),
    Row(
        PRODUCTION,
        "Table 2",
        "live recall against n-grams: top-1, top-3, clicks",
        "+7.8, +6.4, +4.3%",
        lambda results: f"{_keyboard(results)} in a replay, with a model of 51,152 parameters",
        DIFFERS,
        "keyboard",
    ),
    Row(PRODUCTION, "Table 3", "how often canaries are seen", "1,150 a device", _seen, REPRODUCED, "memorization", 4),
    Row(
        PRODUCTION,
        "Table 4",
        "found of three: 4 × 14, 16 × 14, 16 × 200, 1 × 14 (devices × copies)",
        "1, 3, 3, 0",
        _sixteen,
        TREND,
        "memorization",
        4,
    ),
    Row(
        PRODUCTION,
        "Table 5",
        "ε by population",
        "5 values",
        partial(_numbers, item="Production"),
        REPRODUCED,
        "privacy_numbers",
    ),
    Row(
        PRODUCTION,
        "Section V-A",
        "(1, 1e-8) for one is (16, δ) for 16",
        "δ = 0.53",
        "0.052; the printed one is near k e^((k-1) ε) δ = 0.523, a looser bound",
        DIFFERS,
        "privacy_numbers",
    ),
    Row(
        PRODUCTION, "Table 6", "server optimizers", "momentum 24.15%, Adam 23.38%, SGD 20.41%", "", NOT_RECORDED, "", 3
    ),
    Row(PRODUCTION, "Table 7", "client batches and rates", "23.92 to 24.15%", "", NOT_RECORDED, "", 3),
    Row(
        PRODUCTION,
        "Table 8, Figure 1",
        "clipping norms, and clients clipped",
        "23.45 to 24.15%",
        "",
        NOT_RECORDED,
        "",
        3,
    ),
    Row(
        DEBUGGING,
        "Table 1",
        "tasks T1 to T6",
        "selection criteria",
        "`tacit inspect` has a command for each",
        TREND,
        "inspection",
    ),
    Row(
        DEBUGGING,
        "Figures 1, 4",
        "unknown first words with 0, 1, 10, 100% of sentences hit",
        "rises with the share",
        lambda results: _text(results, "scotus", lambda found: f"{found['primary']['rates']['by_place'][0]:.1%}"),
        REPRODUCED,
        "inspection",
        8,
    ),  # type: ignore[index]
    Row(
        DEBUGGING,
        "Tables 2, 8",
        "top 20 unknown words with a space, at 0, 1, 10, 100%",
        "0, 0, 9, 20",
        lambda results: _text(results, "scotus", lambda found: f"{20 * found['with_space']:.0f}"),
        REPRODUCED,
        "inspection",
        8,
    ),  # type: ignore[operator]
    Row(
        DEBUGGING,
        "Table 6",
        "rate of unknown words at 0, 1, 10, 100%",
        "6.52, 6.63, 7.60, 17.89%",
        lambda results: _text(results, "scotus", lambda found: f"{found['unknown_words']['overall']:.2%}"),
        TREND,
        "inspection",
        8,
    ),  # type: ignore[index]
    Row(DEBUGGING, "Table 7", "made-up sentences", "more UNK as the share rises", "the same", TREND, "inspection", 8),
    Row(DEBUGGING, "Table 4", "Stack Overflow's users", "342,477", "other text", NOT_POSSIBLE),
    Row(
        DEBUGGING,
        "Tables 5, 9",
        "hyperparameters",
        "",
        "Table 9 is used as it is; Table 5's S of 0.2 and 0.1 are not",
        TREND,
        "inspection",
        8,
    ),
    Row(
        DEBUGGING,
        "Figure 3",
        "made-up images after accurate and inaccurate users, with the fault",
        "dark and bright background",
        lambda results: (
            f"{_images(results, 'bug')}; {IMAGES}. With a small GAN and thresholds as in the paper: "
            f"{_images(results, 'digits, bug', 'small')}"
        ),
        TREND,
        "inspection",
        8,
    ),
    Row(
        DEBUGGING,
        "Figure 5, Tables 10, 11",
        "accuracies without the fault: quartiles; users on either side",
        "88.2, 93.9%; 425 and 2,125 of 3,400",
        _sides,
        TREND,
        "inspection",
        8,
    ),
    Row(
        DEBUGGING,
        "Figure 6",
        "the same after the fix",
        "both dark",
        lambda results: (
            f"{_images(results, 'fixed')}; with a small GAN and thresholds as in the paper: "
            f"{_images(results, 'digits, fixed', 'small')}"
        ),
        TREND,
        "inspection",
        8,
    ),
    Row(
        DEBUGGING,
        "Figures 7, 8, Table 12",
        "by example",
        "dark and bright; then both dark",
        "the inspection exists (`selection.by`); with a small GAN one of two models made no digits",
        NOT_RECORDED,
        "inspection",
        8,
    ),
    Row(
        DEBUGGING,
        "Section 5, Tables 3, 13",
        "ε of realistic populations",
        "8 values",
        partial(_numbers, item="Debugging"),
        REPRODUCED,
        "inspection",
    ),
    Row(
        MEMORIZATION,
        "Table 1, FedAvg",
        "RS, BS of 90 with 5,000 users a round (accuracy): IID; by user",
        _printed("FedAvg, IID", "FedAvg, by user"),
        lambda results: f"{_found(results, 'FedAvg, IID', 'FedAvg, by user')}: models that learned too little",
        DIFFERS,
        "memorization",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 1, SGD",
        "64 records: IID; by user",
        _printed("SGD, IID", "SGD, by user"),
        lambda results: _found(results, "SGD, IID", "SGD, by user"),
        TREND,
        "memorization",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 1, other sizes; Table 3",
        "500 to 2,000 users, 32 to 256 records",
        "no clear effect of the size",
        "",
        NOT_RECORDED,
        "",
        5,
    ),
    Row(
        MEMORIZATION,
        "Tables 2, 5",
        "DP-FedAvg: IID; by user",
        _printed("DP-FedAvg, IID", "DP-FedAvg, by user"),
        lambda results: _found(results, "DP-FedAvg, IID", "DP-FedAvg, by user"),
        TREND,
        "memorization",
        5,
    ),
    Row(MEMORIZATION, "Tables 2, 5, 6: ε", "ε = 18.8", "no z printed", _with_z_of_one, TREND, "privacy_numbers"),
    Row(
        MEMORIZATION,
        "Table 4, momentum",
        "IID; by user",
        _printed("momentum, IID", "momentum, by user"),
        lambda results: _found(results, "momentum, IID", "momentum, by user"),
        TREND,
        "memorization",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 4, Adam",
        "rate 1e-4: IID; by user",
        _printed("Adam, IID", "Adam, by user"),
        lambda results: f"{_found(results, 'Adam, IID', 'Adam, by user')} at 5e-4",
        DIFFERS,
        "memorization",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 4, FedAvg + Adam",
        "500 users: IID; by user",
        _printed("FedAvg + Adam, IID", "FedAvg + Adam, by user"),
        "the regime exists",
        NOT_RECORDED,
        "",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 6",
        "clipped, no noise: IID; by user",
        _printed("FedAvg + clip, IID", "FedAvg + clip, by user"),
        lambda results: _found(results, "FedAvg + clip, IID", "FedAvg + clip, by user"),
        TREND,
        "memorization",
        5,
    ),
    Row(
        MEMORIZATION,
        "Table 7",
        "after equal passes",
        "2,000 users a round or more by user: 0, 0",
        "",
        NOT_RECORDED,
        "",
        5,
    ),
    Row(GBOARD, "Tables 1, 2: ρ", "20 models", "20 values", _rho, REPRODUCED, "gboard_privacy"),
    Row(
        GBOARD,
        "Table 2, appendix C: ε",
        "at δ = 1e-10",
        "7 values; 4.49, 13.69",
        _gboard_epsilons,
        REPRODUCED,
        "gboard_privacy",
    ),
    Row(
        GBOARD, "Tables 1, 2: utility", "live tests of 20 models", "", "needs people who type", NOT_POSSIBLE, "keyboard"
    ),
    Row(
        GBOARD,
        "Section 2.2",
        "500 users at z = 0.54, 6,500 at z = 7",
        "similar, or slightly better",
        lambda results: _sizes(results, "world-500-z0.54", "world-6500-z7-"),
        REPRODUCED,
        "cohort_size",
        1,
    ),
    Row(
        GBOARD,
        "Section 2.2",
        "MinS with timers of 24, 48, 144 hours, Spanish",
        "313; –; 526",
        _timers,
        TREND,
        "gboard_privacy",
    ),
    Row(
        GBOARD,
        "Figure 3",
        "fixed clip, adaptive clip, pre-trained",
        "adaptive like fixed; pre-training saves about 1,000 rounds",
        _pretrained,
        TREND,
        "gboard",
        6,
    ),
    Row(
        GBOARD,
        "Figure 4",
        "ρ by report goal, rounds and MinS",
        "curves, no printed points",
        "the same shapes",
        REPRODUCED,
        "gboard_privacy",
    ),
)


def index(results: Path) -> str:
    """A table for each paper."""
    parts = []
    for paper in (FEDAVG, PRODUCTION, DEBUGGING, MEMORIZATION, GBOARD):
        rows = [row.cells(results) for row in ROWS if row.paper == paper]
        parts.append(f"## {paper}\n\n{table(HEADS, rows)}")
    return "\n\n".join(parts)


HEADS: Sequence[str] = ("", "what", "the paper", "here", "verdict", "page, step")


def counted(results: Path) -> str:
    """How many rows have each verdict."""
    del results
    return table(VERDICTS, [[str(sum(row.verdict == verdict for row in ROWS)) for verdict in VERDICTS]])


def of_page(results: Path, page: str) -> str:
    """The rows that a page is about."""
    rows = [row for row in ROWS if row.page == page]
    cells = [[_short(row.paper) + row.item, *row.cells(results)[1:5]] for row in rows]
    return table(("", "what", "the paper", "here", "verdict"), cells)


def _short(paper: str) -> str:
    return f"{paper.partition(':')[0]}, "


PAGES = sorted({row.page for row in ROWS if row.page})


def waiting(results: Path) -> str:
    """The steps that need a GPU, with their commands."""
    del results
    rows = []
    for number, step in STEPS.items():
        items = [f"{_short(row.paper)}{row.item}" for row in ROWS if row.step == number]
        rows.append(
            [str(number), step.what, "; ".join(items), str(step.minutes), f"`python experiments/steps.py {number}`"]
        )
    return table(("step", "what", "for", "minutes on one H200", "command"), rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "index": index,
    "index/counts": counted,
    "index/steps": waiting,
    **{f"verdicts/{page}": partial(of_page, page=page) for page in PAGES},
}
