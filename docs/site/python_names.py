"""The reference of Python: every public name, in groups; mkdocstrings writes what each is from its docstring."""

from __future__ import annotations

from typing import Any

import tacit
import tacit.testing

# One page a group: title, what the reader can do after it, names.
GROUPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "training": (
        "Training and runs",
        "train a model, hold its loop, resume it, and ask a run what it is and what it cost.",
        (
            "train",
            "resume",
            "rounds",
            "open_run",
            "register_objects",
            "Run",
            "StatedCost",
            "Round",
            "Rounds",
            "RunFolder",
            "LastAverage",
            "ExponentialAverage",
        )
        + ("use_every_core", "TacitError"),
    ),
    "users": (
        "Users and data",
        "bring users of your own, open a store, use a built-in world, and say how text and images become batches.",
        ("users", "open_store", "Users", "MemoryUsers", "Examples", "Vocabulary", "KeyboardWorld", "HandwritingWorld")
        + ("TextBatches", "ImageBatches"),
    ),
    "models": (
        "Models, tasks and work",
        "say what is learned and what each user computes, and use the models that come with Tacit.",
        ("Task", "as_task", "NextWord", "Work", "LocalWork", "FedAvg", "FedSGD", "Transformer", "TransformerConfig")
        + ("add_adapters",),
    ),
    "plans": (
        "Plans and recipes",
        "say what is released about users and with which noise, find the noise for an epsilon, limit what all runs may spend, "
        "say who trains and who watches.",
        (
            "PrivacyPlan",
            "calibrate",
            "set_budget",
            "budget_of",
            "BudgetStatus",
            "Recipe",
            "load_recipe",
            "Ray",
            "Witness",
        ),
    ),
    "sweeps": (
        "Sweeps",
        "run a grid of recipes side by side, and ask what all of it costs; [Run a sweep](../../how_to/sweeps.md) shows how.",
        ("sweep", "open_sweep", "Sweep", "SweepCase", "CaseResult", "SweepCallback"),
    ),
    "callbacks": (
        "Callbacks and trackers",
        "be told how a run goes, and send it to a tracker.",
        ("Callback", "Progress", "StopRequested", "TensorBoard", "MLflow", "WandB"),
    ),
    "audits": (
        "Audits, inspections and ledgers",
        "plant canaries, look for faults in text that nobody may read, and read what a run released.",
        ("canaries", "CanaryPlan", "inspect_text", "TextInspected", "read_ledger"),
    ),
    "extensions": (
        "Extensions",
        "bring a mechanism, a strategy or a participation of your own; [Write an extension](../../extending.md) shows how.",
        ("MechanismKind", "register_mechanism", "Mechanism", "Gaussian", "BoundedSum", "Block", "Releases", "Cost")
        + ("Strategy", "MatrixStrategy", "register_strategy", "CustomParticipation", "register_participation"),
    ),
}


# What the docstring of a name does not say.
NOTES = {
    "PrivacyPlan": "Its settings are the keys of [`[privacy]`](../recipes.md#privacy) in a recipe.",
    "Recipe": "Its sections and keys are in the [reference of recipes](../recipes.md).",
}


def nav() -> list[Any]:
    """The pages in order."""
    groups = [{title: f"reference/python/{name}.md"} for name, (title, _, _) in GROUPS.items()]
    return ["reference/python/index.md", *groups, {"tacit.testing": "reference/python/testing.md"}]


def pages() -> dict[str, str]:
    """The pages by name; ValueError unless every public name is in one group."""
    grouped = sorted(name for _, _, names in GROUPS.values() for name in names)
    if grouped != tacit.__all__:
        missing = sorted(set(grouped) ^ set(tacit.__all__)) or "a name in two groups"
        raise ValueError(f"Expected every public name of tacit in one group of docs/site/python_names.py: {missing}.")
    made = {f"reference/python/{name}.md": _page(*group) for name, group in GROUPS.items()}
    return {"reference/python/index.md": _index(), **made, "reference/python/testing.md": _testing()}


def _page(title: str, after: str, names: tuple[str, ...]) -> str:
    entries = [_entry("tacit", name, tacit._PUBLIC[name]) for name in names]
    return f"# {title}\n\nAfter this page you can {after}\n" + "".join(entries)


def _testing() -> str:
    entries = [_entry("tacit.testing", name, tacit.testing._PUBLIC[name]) for name in tacit.testing.__all__]
    head = (
        "# tacit.testing\n\nAfter this page you can test an extension of your own: inherit the class that fits it, and run "
        "pytest. Tacit's own mechanisms, strategies, samplers, tasks and callbacks pass the same suites.\n"
    )
    return head + "".join(entries)


def _entry(module: str, name: str, owner: str) -> str:
    shown = f"{module}.{name}"
    note = f"\n{NOTES[name]}\n" if name in NOTES else ""
    options = f"    options:\n      heading: {shown}\n      toc_label: {shown}\n"
    return f"\n[](){{ #{shown} }}\n\n::: {owner}.{name}\n{options}{note}"


def _index() -> str:
    lines = [
        "# Python",
        "",
        "After this page you can find any public name of `tacit`. [Use Tacit from Python](../../python.md) shows them at work.",
    ]
    for page, (title, _, names) in GROUPS.items():
        lines += ["", f"**[{title}]({page}.md)**", ""]
        lines.append(", ".join(f"[`{name}`]({page}.md#tacit.{name})" for name in names))
    suites = ", ".join(f"[`{name}`](testing.md#tacit.testing.{name})" for name in tacit.testing.__all__)
    return "\n".join([*lines, "", "**[tacit.testing](testing.md)**", "", suites, ""])
