"""What narrow numbers cost: accuracy and upload bytes against bit width, with noise from the server and from devices.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences --max-tokens 400 \\
        --vocabulary-private 1000 --key-file experiments/people.key --out stores/scotus_small
    python experiments/secagg.py --minutes 8        (again, until it says that all is done)
    python experiments/secagg.py --report           (prints the tables)

Each variant is one run in runs/secagg; a run that was cut off goes on where it was, and a finished one is not repeated. What
is reported comes from docs/experiments/secagg/results.json, which every finished run adds itself to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grid import Case, main

import tacit
from tacit.privacy.record.codec import to_json
from tacit.recipe.training import Recipe

HERE = Path(__file__).parent
RECIPE = HERE / "secagg.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "secagg" / "results.json"

CORPORA = {
    "keyboard": ["data.world=keyboard", "data.users=20000", "data.vocabulary=1000", "privacy.population=20000"],
    "scotus": ["data.store=stores/scotus_small", "data.tokens_per_user=320", "privacy.population=9049"],
}
SERVER_BITS = (8, 10, 12, 16)
DEVICE_BITS = (8, 10, 12)
SCHEMES: dict[str, list[str]] = {
    "plain": [],
    **{f"server noise, {bits} bits": [f"privacy.secagg.bits={bits}"] for bits in SERVER_BITS},
    **{
        f"device noise, {bits} bits": [
            "privacy.mechanism=discrete",
            "privacy.secagg.scheme=device_noise",
            f"privacy.secagg.bits={bits}",
        ]
        for bits in DEVICE_BITS
    },
}
CASES = [
    Case(f"{corpus}, {scheme}", RECIPE, (*CORPORA[corpus], *SCHEMES[scheme]))
    for scheme in SCHEMES
    for corpus in CORPORA
]


def record(case: Case, recipe: Recipe, run: tacit.Run) -> dict[str, Any]:
    """What the tables need."""
    found: dict[str, Any] = {"rounds": recipe.run.rounds, "noise_multiplier": recipe.privacy.noise_multiplier}
    if run.state != "finished":
        return found | {"failed": f"training {run.state}"}
    return found | {
        "papers_top1": run.summary["metrics"]["papers_top1"],
        "unigram_top1": run.summary["baselines"]["unigram_top1"],
        "parameters": run.summary["parameters"],
        "secagg": to_json(run.ledger.opened.secure_sum),
        "bound": run.ledger.intents[-1].blocks["update"]["bound"],
    }


def report(results: dict[str, Any]) -> str:
    """A table a corpus."""
    lines = []
    for corpus in CORPORA:
        lines += ["", corpus, "", "| sums | top-1 | upload, kB | of float32 | bound / clip | seconds |"]
        lines.append("|---|---|---|---|---|---|")
        for scheme in SCHEMES:
            record = results.get(f"{corpus}, {scheme}")
            if record is None:
                continue
            if "failed" in record:
                lines.append(f"| {scheme} | refused: {record['failed']} | | | | |")
                continue
            plain = 4 * record["parameters"]
            secagg = record["secagg"]
            upload = plain if secagg is None else secagg["integers"] * secagg["bits"] / 8
            lines.append(
                f"| {scheme} | {record['papers_top1']:.2%} | {upload / 1000:.0f} | {upload / plain:.0%} "
                f"| {record['bound'] / 0.5:.3f} | {record['seconds']:.0f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, CASES, RESULTS, lambda results, _: print(report(results)), record=record)
