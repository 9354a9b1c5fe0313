"""What narrow numbers cost: accuracy and upload bytes against bit width, with noise from the server and from devices.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences --max-tokens 400 \\
        --vocabulary-private 1000 --key-file experiments/people.key --out stores/scotus_small
    python experiments/secagg.py --minutes 8        (again, until it says that all is done)
    python experiments/secagg.py --report           (prints the tables)

Each variant is one run in runs/secagg; a run that was cut off goes on where it was, and a finished one is not repeated. What
is reported comes from docs/experiments/secagg/results.json, which every finished run adds itself to.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import tacit
from tacit.errors import DivergedError, PrivacyError
from tacit.privacy.record.codec import to_json
from tacit.recipe.training import load_recipe
from tacit.runs.folder import is_run

HERE = Path(__file__).parent
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
# Name → changes to experiments/secagg.toml.
VARIANTS = {f"{corpus}, {scheme}": CORPORA[corpus] + SCHEMES[scheme] for scheme in SCHEMES for corpus in CORPORA}


class Say(tacit.Callback):
    """A line an evaluation."""

    def __init__(self, name: str) -> None:
        self._name, self._started = name, time.monotonic()

    def on_evaluation(self, round: int, metrics: Any) -> None:
        seconds = time.monotonic() - self._started
        print(f"{self._name}: round {round}, top-1 {metrics['papers_top1']:.2%}, {seconds:.0f} s", flush=True)


def step(names: list[str], folder: Path, results_path: Path, minutes: float, changes: list[str]) -> bool:
    """Run variants until the time is nearly up; says whether all are done."""
    from tacit.privacy.record.ledger import read_ledger
    from tacit.simulation.training import resume_run, start_run

    deadline, longest = time.monotonic() + 60 * minutes, 0.0
    for name in names:
        results = json.loads(results_path.read_text()) if results_path.exists() else {}
        if name in results:
            continue
        if time.monotonic() + longest > deadline:
            return False
        began, out = time.monotonic(), folder / name.replace(" ", "_").replace(",", "")
        recipe = load_recipe(HERE / "secagg.toml", VARIANTS[name] + changes)
        record: dict[str, Any] = {"rounds": recipe.run.rounds, "noise_multiplier": recipe.privacy.noise_multiplier}
        try:
            summary = resume_run(out, Say(name)) if is_run(out) else start_run(recipe, out, Say(name))
            opened = read_ledger(out / "ledger.jsonl")
            record |= {
                "papers_top1": summary["metrics"]["papers_top1"],
                "unigram_top1": summary["baselines"]["unigram_top1"],
                "parameters": summary["parameters"],
                "secagg": to_json(opened.opened.secure_sum),
                "bound": opened.intents[-1].blocks["update"]["bound"],
            }
        except (DivergedError, PrivacyError) as error:
            record["failed"] = error.sentence
        record["seconds"] = time.monotonic() - began
        longest = max(longest, record["seconds"])
        results_path.parent.mkdir(parents=True, exist_ok=True)
        results_path.write_text(json.dumps({**results, name: record}, indent=1))
    return True


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop starting variants when this is nearly up")
    parser.add_argument("--only", nargs="*", help="these variants, by name")
    parser.add_argument("--runs", type=Path, default=Path("runs/secagg"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every variant")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        print(report(json.loads(arguments.results.read_text())))
        return
    names = arguments.only or list(VARIANTS)
    done = step(names, arguments.runs, arguments.results, arguments.minutes, arguments.changes)
    print("all done" if done else "time is up; run again to go on")


if __name__ == "__main__":
    main()
