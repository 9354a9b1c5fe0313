"""Run the cases of a sweep, several at a time, each in a process of its own; a case that fails does not stop the others.

Ctrl-C stops each run after its round under way, with a checkpoint; a second Ctrl-C stops at once. The same command goes on from
there. If this process is killed, the others see their standard input end, and stop by themselves.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from tacit.runs.callbacks import StopRequested
from tacit.simulation.sweep.cases import DONE, CaseResult, result_of
from tacit.simulation.sweep.folder import SettledCase, SweepFolder, reused_case
from tacit.simulation.sweep.one_run import STOPPED, Event, attempt, command_for

# Of an accelerator's memory, what all processes get together. The one that checks the cases keeps some.
MEMORY_SHARE = 0.8


class SweepCallback:
    """Follows a sweep. Every method does nothing until a subclass overrides it.

    >>> import tacit
    >>> class Printing(tacit.SweepCallback):
    ...     def on_end(self, case, result):
    ...         print(case, result.state)
    >>> Printing().on_begin("clip_norm=0.2", 1, 6)
    """

    def on_begin(self, case: str, number: int, cases: int) -> None:
        """The run of this case begins or goes on; it is number `number` of `cases` that this call runs."""

    def on_warning(self, case: str, sentence: str) -> None:
        """The settings of this case will harm its training."""

    def on_evaluation(self, case: str, round: int, metrics: Mapping[str, Any]) -> None:
        """The model of this case was measured after `round` rounds."""

    def on_end(self, case: str, result: CaseResult) -> None:
        """The run of this case has ended: finished, diverged, failed or stopped."""


def run_cases(
    sweep: SweepFolder,
    chosen: Sequence[SettledCase],
    *,
    launcher: Launcher | None,
    minutes: float | None,
    callback: SweepCallback,
) -> None:
    """Run the chosen cases that are not done, where the launcher says, or one after another in this process.

    No run begins after so many `minutes`. StopRequested if a person stopped the sweep.
    """
    waiting = [case for case in chosen if result_of(sweep, case).state not in DONE]
    plan = _Plan(sweep, waiting, minutes, callback)
    if launcher is None:
        while (case := plan.next(())) is not None:
            try:
                attempt(sweep, case, lambda event, case=case: plan.pass_on(case, event))  # type: ignore[misc]
            except KeyboardInterrupt:
                raise StopRequested from None
            finally:
                plan.ended(case)
        return
    _run_several(plan, launcher)


class _Plan:
    """Which case is next, and who is told what."""

    def __init__(
        self, sweep: SweepFolder, waiting: Sequence[SettledCase], minutes: float | None, callback: SweepCallback
    ) -> None:
        self._sweep, self._waiting, self._callback = sweep, list(waiting), callback
        self._count, self._begun = len(waiting), 0
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes

    def next(self, running: Sequence[str]) -> SettledCase | None:
        """The first case that needs no pre-trained model of one that is still to run; None if none may begin now."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            return None
        unfinished = {*running, *(case.name for case in self._waiting)}
        for case in self._waiting:
            if reused_case(case.recipe, self._sweep.path) not in unfinished - {case.name}:
                self._waiting.remove(case)
                self._begun += 1
                self._callback.on_begin(case.name, self._begun, self._count)
                return case
        return None

    def pass_on(self, case: SettledCase, event: Event) -> None:
        if event["kind"] == "warning":
            self._callback.on_warning(case.name, event["sentence"])
        else:
            self._callback.on_evaluation(case.name, event["round"], event["metrics"])

    def ended(self, case: SettledCase) -> None:
        self._callback.on_end(case.name, result_of(self._sweep, case))


# What was heard of a case: an event, or None when its run has ended.
Heard = queue.Queue[tuple[SettledCase, Event | None]]


class Launcher(Protocol):
    """Where runs go on, at most `at_once` at a time, each by itself. What becomes of them goes into a queue."""

    at_once: int

    def begin(self, case: SettledCase, heard: Heard) -> None:
        """Begin the run of this case, or go on with it."""

    def ended(self, case: SettledCase) -> None:
        """The end of this run was heard: note why it failed, if nobody has."""

    def stop(self) -> None:
        """Ask every run to stop after its round under way."""

    def kill(self) -> None:
        """End whatever still runs, at once."""


def _run_several(plan: _Plan, launcher: Launcher) -> None:
    """Keep as many runs going as may go on; the first Ctrl-C asks them to stop, and the second one ends them."""
    heard: Heard = queue.Queue()
    running: list[str] = []
    stopping = False
    try:
        while True:
            try:
                while not stopping and len(running) < launcher.at_once and (case := plan.next(running)) is not None:
                    launcher.begin(case, heard)
                    running.append(case.name)
                if not running:
                    break
                case, event = heard.get()
                if event is not None:
                    plan.pass_on(case, event)
                    continue
                running = [name for name in running if name != case.name]
                launcher.ended(case)
                plan.ended(case)
            except KeyboardInterrupt:
                if stopping:
                    raise
                stopping = True
                launcher.stop()
    finally:
        launcher.kill()
    if stopping:
        raise StopRequested


class Processes:
    """Runs on this machine, each in a process of its own, and a thread for each that listens to it."""

    def __init__(self, sweep: SweepFolder, at_once: int, modules: Sequence[str], lock: int) -> None:
        self.at_once = at_once
        self._sweep, self._modules, self._lock = sweep, modules, lock
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._environment = environment_for(at_once)

    def begin(self, case: SettledCase, heard: Heard) -> None:
        log = self._sweep.private_path / f"{case.name}.log"
        with log.open("a") as errors:
            process = subprocess.Popen(
                command_for(self._sweep, case, self._modules),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment,
                pass_fds=(self._lock,),
                start_new_session=True,  # Ctrl-C reaches this process alone, which stops the others
            )
        self._running[case.name] = process
        threading.Thread(target=_follow, args=(case, process, heard), daemon=True).start()

    def ended(self, case: SettledCase) -> None:
        process = self._running.pop(case.name)
        _end_input(process)
        if process.returncode not in (0, STOPPED):
            how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
            log = self._sweep.private_path / f"{case.name}.log"
            problem = f"Its process ended with {how}; {log} has what it said."
            self._sweep.write_notes(case, seconds=0.0, problem=problem)

    def stop(self) -> None:
        for process in self._running.values():
            _end_input(process)

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def _follow(case: SettledCase, process: subprocess.Popen[str], heard: Heard) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            with suppress(ValueError):  # a library printed something
                heard.put((case, json.loads(line)))
    process.wait()
    heard.put((case, None))


def _end_input(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    if not process.stdin.closed:
        process.stdin.close()


def environment_for(at_once: int, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of one of so many processes: its share of the cores and of an accelerator's memory.

    What the person has set stays as it is.
    """
    found = dict(os.environ if environment is None else environment)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{MEMORY_SHARE / at_once:.3f}")
    if "JAX_NUM_CPU_DEVICES" not in found and "xla_force_host_platform_device_count" not in found.get("XLA_FLAGS", ""):
        found["JAX_NUM_CPU_DEVICES"] = str(max(1, cores // at_once))
        found.setdefault("NPROC", found["JAX_NUM_CPU_DEVICES"])  # how many threads compute for them
    return found
