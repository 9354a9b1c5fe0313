"""Tacit trains language models on text that nobody may look at, and proves how much they can have learned about anybody.

cli           the commands
testing       contract suites for extensions: mechanisms, strategies, participations, work, tasks, users, callbacks
api           the public Python calls: train, resume, open_run, rounds, sweep, Run
testing       contract suites: what every extension must do, as tests to inherit
audit         attacks on finished runs: the secret sharer, epsilon from below
inspection    private generative models in place of looking at data: text, images
keyboard      typing replayed with a model: n-gram baseline, comparison, intervals
export        a trained model as safetensors or ONNX, its guarantee inside
simulation    users on this machine: the batched engine, the slow reference, populations of devices
fleet         users on their own devices: wire, server, rounds, device
training      from a recipe or a call to everything a run needs, except where its users are
recipe        a run as validated data
runs          a run on disk: driver, folder, journal, checkpoints, metrics, cost, odometer, budget, gate audit, report
learning      the loop; work on one user; the server's step; central training; evaluation
privacy       what is released about users, and what it costs them: gate, noise, participation, record, accounting, statement
secagg        secure aggregation: vectors as integers, the protocol as pure stages; no I/O, no JAX
data          users and their examples: stores, import, vocabulary, views, canaries, built-in worlds
models        one model a file
files         durable writes, locks, private files
mistakes      what is wrong with settings, in one sentence
numbers       numbers as JSON holds them and as people read them
plotting      pictures without a display
errors        every mistake a person can make, as one tree

Imports only go down this list, and simulation and fleet do not see each other (docs/design.md). `import tacit` itself loads
nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

# Every public name and where it lives; loaded when first asked for.
_PUBLIC = {
    "Block": "tacit.privacy.gate.sums",
    "BoundedSum": "tacit.privacy.gate.sums",
    "BudgetStatus": "tacit.runs.budget.status",
    "Callback": "tacit.runs.callbacks",
    "CanaryPlan": "tacit.data.canaries.plan",
    "CaseResult": "tacit.simulation.sweep.cases",
    "Cost": "tacit.privacy.accounting.cost",
    "CustomParticipation": "tacit.privacy.participation.custom",
    "Examples": "tacit.data.users",
    "ExponentialAverage": "tacit.learning.averaging",
    "FedAvg": "tacit.learning.work",
    "FedSGD": "tacit.learning.work",
    "Gaussian": "tacit.privacy.noise.mechanisms",
    "HandwritingWorld": "tacit.data.worlds",
    "ImageBatches": "tacit.learning.batches",
    "KeyboardWorld": "tacit.data.worlds",
    "LastAverage": "tacit.learning.averaging",
    "LocalWork": "tacit.learning.work",
    "MLflow": "tacit.runs.trackers.mlflow",
    "MatrixStrategy": "tacit.privacy.noise.strategies",
    "Mechanism": "tacit.privacy.noise.mechanisms",
    "MechanismKind": "tacit.privacy.noise.kinds",
    "MemoryUsers": "tacit.data.memory",
    "NextWord": "tacit.learning.next_word",
    "PrivacyPlan": "tacit.privacy.plan",
    "Progress": "tacit.runs.progress",
    "Ray": "tacit.recipe.engine",
    "Recipe": "tacit.recipe.training",
    "Releases": "tacit.privacy.accounting.releases",
    "Round": "tacit.api.train",
    "Rounds": "tacit.api.train",
    "Run": "tacit.api.run",
    "RunFolder": "tacit.runs.folder",
    "StatedCost": "tacit.api.run",
    "StopRequested": "tacit.runs.callbacks",
    "Strategy": "tacit.privacy.noise.strategies",
    "Sweep": "tacit.api.sweep",
    "SweepCallback": "tacit.simulation.sweep.running",
    "SweepCase": "tacit.recipe.sweep",
    "TacitError": "tacit.errors",
    "Task": "tacit.learning.tasks",
    "TensorBoard": "tacit.runs.trackers.tensorboard",
    "TextBatches": "tacit.learning.batches",
    "TextInspected": "tacit.api.inspection",
    "Transformer": "tacit.models.transformer",
    "TransformerConfig": "tacit.models.transformer",
    "Users": "tacit.data.users",
    "Vocabulary": "tacit.data.vocabulary",
    "WandB": "tacit.runs.trackers.wandb",
    "Witness": "tacit.runs.witness",
    "Work": "tacit.learning.work",
    "add_adapters": "tacit.models.lora",
    "as_task": "tacit.learning.tasks",
    "budget_of": "tacit.api.budget",
    "calibrate": "tacit.api.planning",
    "canaries": "tacit.api.canaries",
    "inspect_text": "tacit.api.inspection",
    "load_recipe": "tacit.recipe.training",
    "open_run": "tacit.api.run",
    "open_store": "tacit.data.store",
    "open_sweep": "tacit.api.sweep",
    "read_ledger": "tacit.privacy.record.ledger",
    "register_mechanism": "tacit.privacy.noise.kinds",
    "register_objects": "tacit.api.own_objects",
    "register_participation": "tacit.privacy.participation.custom",
    "register_strategy": "tacit.privacy.noise.kinds",
    "resume": "tacit.api.train",
    "rounds": "tacit.api.train",
    "set_budget": "tacit.api.budget",
    "sweep": "tacit.api.sweep",
    "train": "tacit.api.train",
    "use_every_core": "tacit.simulation.placement",
    "users": "tacit.data.memory",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
