"""What remains to be recorded of the five papers, as steps that a card can run one after another.

    python experiments/steps.py                        (lists the steps)
    python experiments/steps.py prepare --data DATA    (the stores; DATA holds the files of people's text and images)
    python experiments/steps.py 3 --minutes 10         (again, until it says that all is done)

A step calls the scripts named in it, each with the time that is left. Every one of them begins no run after its time, goes on
with a run that was cut off, and does not repeat what its results file has. Afterwards `python experiments/pages.py` renders the
pages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DONE = "all done"  # what each script prints last


@dataclass(frozen=True)
class Step:
    """A part of the work: what it records, an estimate of its minutes on one H200, and the scripts that do it."""

    what: str
    minutes: int
    scripts: tuple[tuple[str, ...], ...]


STEPS: dict[int, Step] = {
    1: Step(
        "small and large rounds with the same noise on the mean (recorded)",
        15,
        (("cohort_size.py", "--only", "scotus"), ("cohort_size.py", "--only", "world", "--at-once", "5")),
    ),
    2: Step("DP-FedAvg's own model, levels and schedules", 40, (("dp_fedavg_paper.py", "--at-once", "3"),)),
    3: Step("Production's ablations", 30, (("production.py", "--at-once", "3"),)),
    4: Step(
        "Production's devices with its own local steps, and as often as there",
        28,
        (
            ("memorization.py", "--table", "production_paper_steps"),
            ("memorization.py", "--table", "production_as_often"),
        ),
    ),
    5: Step("what models memorise by sizes and optimizers", 50, (("memorization.py", "--table", "sizes"),)),
    6: Step("Gboard's Figure 3 on real text", 25, (("pretraining.py", "--at-once", "2"),)),
    8: Step(
        "inspections of images and of text with models of the paper's size",
        60,
        (("inspection_images.py",), ("inspection_text.py", "--only", "scotus_paper")),
    ),
}

SCOTUS, USERS = "scotus_advocates_en.jsonl.gz", ("--user", "user", "--text", "sentences")
PUBLIC = ("commits_en.jsonl.gz", "irc_ubuntu_en.jsonl.gz", "stackexchange_small_en.jsonl.gz")
KEY = ("--key-file", "experiments/people.key")


def stores(data: Path) -> dict[Path, list[str]]:
    """What makes each file and store of the steps, in order; `data` holds the public files."""
    text, public = str(data / SCOTUS), [str(data / name) for name in PUBLIC]
    commands: dict[str, list[str]] = {}
    for name, words in (("scotus", 10_000), ("scotus_20k", 20_000), ("scotus_30k", 30_000)):
        commands[f"stores/{name}"] = ["import", text, *USERS, "--vocabulary-private", str(words), *KEY]
    corpora = [word for each in public for word in ("--corpus", each)]
    named = ("--public-name", "commit messages, Ubuntu chat and Stack Exchange")
    commands["stores/public.vocab"] = ["vocabulary", *USERS, *named, *corpora]
    commands["stores/public_text"] = ["import", *public, *USERS, "--vocabulary", "stores/public.vocab"]
    commands["stores/scotus_public_words"] = ["import", text, *USERS, "--vocabulary", "stores/public.vocab", *KEY]
    commands["stores/mnist"] = ["import", str(data / "mnist_by_writer.npz")]
    return {Path(path): ["data", *words, "--out", path] for path, words in commands.items()}


def prepare(data: Path) -> None:
    """Make the stores that are not there. Those of the inspection of text are made as its script says."""
    for path, words in stores(data).items():
        if not path.exists():
            print("$ tacit", *words, flush=True)
            subprocess.run([sys.executable, "-m", "tacit", *words], check=True)


def run(step: Step, minutes: float, more: Sequence[str]) -> bool:
    """Call the step's scripts one after another; says whether all of them are done."""
    deadline = time.monotonic() + 60 * minutes
    for script in step.scripts:
        left = (deadline - time.monotonic()) / 60
        if left <= 0:
            return False
        words = [str(HERE / script[0]), *script[1:], "--minutes", f"{left:.2f}", *more]
        print("$ python", *words, flush=True)
        last = ""
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                last = line.strip() or last
        if process.returncode or last != DONE:
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?", help="a number, or prepare; none: list the steps")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no run after this time")
    parser.add_argument("--data", type=Path, help="of prepare: the folder of the public files")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every run")
    options = parser.parse_args()
    if options.step is None:
        for number, each in STEPS.items():
            print(f"{number}  about {each.minutes} minutes  {each.what}")
    elif options.step == "prepare":
        if options.data is None:
            parser.error("prepare needs --data, the folder of the public files")
        prepare(options.data)
    elif options.step.isdigit() and int(options.step) in STEPS:
        changes = [word for change in options.changes for word in ("--set", change)]
        done = run(STEPS[int(options.step)], options.minutes, changes)
        print(DONE if done else "not all done; run again to go on")
    else:
        parser.error(f"there is no step {options.step}; the steps are {', '.join(map(str, STEPS))}")


if __name__ == "__main__":
    main()
