"""One case of a sweep trained: begun, or gone on with. In this process, or in one of its own: `python -m` this module.

A process of its own prints what happens as JSON, one event a line. It stops after the round under way, with a checkpoint, when
its standard input ends: whoever started it stops it so, and it stops by itself if that process is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.data.remote import place_of
from tacit.errors import RunError, TacitError
from tacit.privacy.outside import import_module_named
from tacit.recipe.training import Recipe
from tacit.runs.callbacks import Callback, StopRequested
from tacit.runs.finding import is_run
from tacit.simulation.sweep.folder import SettledCase, SweepFolder

# What a process ends with that was stopped before its run was finished.
STOPPED = 130
# What a run's folder holds before it is one: a process that is killed while it makes the folder leaves a part of it.
_BEFORE_IT_IS_A_RUN = {"private", "checkpoints", "sections", "recipe.toml", "vocabulary.txt"}

Event = dict[str, Any]


class _Telling(Callback):
    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell

    def on_warning(self, sentence: str) -> None:
        self._tell({"kind": "warning", "sentence": sentence})

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._tell({"kind": "evaluation", "round": round, "metrics": dict(metrics)})


def attempt(sweep: SweepFolder, case: SettledCase, tell: Callable[[Event], None]) -> None:
    """Train this case to its end, or as far as it goes; why it failed, if it does, is noted in the sweep's folder.

    StopRequested or KeyboardInterrupt if a person stopped it.
    """
    began, problem = time.monotonic(), None
    try:
        _require_same_store(sweep, case)
        _train(sweep.run_path(case), case.recipe, _Telling(tell))
    except (StopRequested, KeyboardInterrupt):
        raise
    except TacitError as error:
        problem = error.sentence
    except Exception as error:  # a bug, or memory that ran out: the other cases go on
        log = sweep.private_path / f"{case.name}.log"
        with log.open("a") as file:
            traceback.print_exc(file=file)
        problem = f"{type(error).__name__}; {log} has the traceback."
    finally:
        sweep.write_notes(case, seconds=time.monotonic() - began, problem=problem)


def _require_same_store(sweep: SweepFolder, case: SettledCase) -> None:
    named = case.recipe.data.store
    if named is not None and (here := place_of(named).resolve()) != case.store:
        raise RunError(
            f"The sweep {sweep.path} was begun where {named} is {case.store}, and here it is {here}: start it from the same "
            "folder as before."
        )


def _train(path: Path, recipe: Recipe, callback: Callback) -> None:
    # Imported here: what decides which cases are to run needs no JAX.
    from tacit.simulation.training import resume_run, start_run
    from tacit.training.vocabularies import words_folder

    if is_run(path):
        resume_run(path, callback)
        return
    if path.is_dir() and _half_made(path):
        shutil.rmtree(path)
    section, words = recipe.vocabulary, words_folder(path)
    if section is not None and section.run is None and is_run(words):
        # Stopped between the discovery of its words and the run: the words are paid for.
        section = section.model_copy(update={"run": str(words.resolve())})
        recipe = recipe.model_copy(update={"vocabulary": section})
    start_run(recipe, path, callback)


def _half_made(path: Path) -> bool:
    """Whether the folder is what is left of one that was never a run: nothing was released from it."""
    names = {each.name for each in path.iterdir() if not each.name.endswith(".tmp")}
    return names <= _BEFORE_IT_IS_A_RUN and not any((path / "private").glob("*"))


def command_for(sweep: SweepFolder, case: SettledCase, modules: Sequence[str]) -> list[str]:
    """What runs this case in a process of its own; `modules` register what its recipe names."""
    return [sys.executable, "-m", "tacit.simulation.sweep.one_run", str(sweep.path), case.name, *modules]


def main(arguments: Sequence[str]) -> int:
    """The process of one case."""
    # A shell in the background ignores the signal, and hands that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_when_input_ends, daemon=True).start()
    folder, name, *modules = arguments
    return run_named(Path(folder), name, modules, lambda event: print(json.dumps(event), flush=True))


def run_named(folder: Path, name: str, modules: Sequence[str], tell: Callable[[Event], None]) -> int:
    """Train the case of this name of the sweep in this folder; 0, or STOPPED if it was stopped before its end."""
    for module in modules:
        import_module_named(module)
    sweep = SweepFolder.open(folder)
    case = next(each for each in sweep.cases if each.name == name)
    try:
        attempt(sweep, case, tell)
    except (StopRequested, KeyboardInterrupt):
        return STOPPED
    return 0


def _stop_when_input_ends() -> None:
    while os.read(0, 1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
