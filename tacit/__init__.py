"""Tacit trains language models on text that nobody may look at, and proves how much they can have learned about anybody.

errors        every mistake a person can make, as one tree
privacy       what is released about users, and what it costs them: gate, mechanisms, ledger, accounting, plan, guarantee
secagg        secure aggregation: vectors as integers, the protocol as pure stages; no I/O, no JAX
data          users and their examples: stores, import, vocabulary, views, built-in worlds
models        one model a file
learning      the loop; work on one user; the server's step; central training; evaluation
runs          a run on disk: folder, journal, checkpoints, metrics, report, odometer
recipe        a run as validated data
audit         canaries, the secret sharer's attacks, epsilon from below
simulation    users on this machine: the batched engine, the slow reference, populations, training
inspection    private generative models in place of looking at data
fleet         users on their own devices: server, rounds, the device
cli           the commands

Imports only go up this list, and inspection and fleet do not know each other; `import tacit` itself loads nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Every public name and where it lives; loaded when first asked for.
_PUBLIC = {
    "Block": "tacit.privacy.gate.sums",
    "BoundedSum": "tacit.privacy.gate.sums",
    "Examples": "tacit.data.users",
    "FedAvg": "tacit.learning.work",
    "FedSGD": "tacit.learning.work",
    "Gaussian": "tacit.privacy.noise.mechanisms",
    "HandwritingWorld": "tacit.data.worlds",
    "KeyboardWorld": "tacit.data.worlds",
    "LocalWork": "tacit.learning.work",
    "Mechanism": "tacit.privacy.noise.mechanisms",
    "NextWord": "tacit.learning.next_word",
    "PrivacyPlan": "tacit.privacy.plan",
    "Recipe": "tacit.recipe.training",
    "RunFolder": "tacit.runs.folder",
    "TacitError": "tacit.errors",
    "Task": "tacit.learning.tasks",
    "Transformer": "tacit.models.transformer",
    "TransformerConfig": "tacit.models.transformer",
    "Users": "tacit.data.users",
    "Vocabulary": "tacit.data.vocabulary",
    "Work": "tacit.learning.work",
    "add_adapters": "tacit.models.lora",
    "as_task": "tacit.learning.tasks",
    "load_recipe": "tacit.recipe.training",
    "open_store": "tacit.data.store",
    "read_ledger": "tacit.privacy.record.ledger",
    "resume_run": "tacit.simulation.training",
    "start_run": "tacit.simulation.training",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
