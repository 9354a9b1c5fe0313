"""Tutorials, from the scripts of examples/: their docstring, their text and their code."""

from __future__ import annotations

from typing import Any

from make_notebooks import HERE, parsed

# In the order in which a newcomer reads them.
SCRIPTS = {
    "quick_start": "Train, and ask what it cost",
    "own_data": "Text of your own",
    "own_model": "A model of your own",
    "plan_a_guarantee": "Plan a guarantee",
    "own_loop": "The loop in your hands",
    "adapters": "Frozen models and adapters",
    "audit": "Attack your own proof",
    "own_mechanism": "Noise of your own",
    "inspect_private_data": "Find a bug in text nobody may read",
    "fleet": "A fleet on one machine",
}


def nav() -> list[Any]:
    """The pages in order."""
    return ["tutorials/index.md", *({title: f"tutorials/{name}.md"} for name, title in SCRIPTS.items())]


def pages() -> dict[str, str]:
    """The pages by name; every script has one."""
    found = {path.stem for path in HERE.glob("*.py")} - {"make_notebooks"}
    if found != set(SCRIPTS):
        raise ValueError(
            f"Expected a title in docs/site/tutorials.py for each script of examples/: {found ^ set(SCRIPTS)}."
        )
    return {f"tutorials/{name}.md": _page(name, title) for name, title in SCRIPTS.items()}


def _page(name: str, title: str) -> str:
    script = parsed(name)
    command = f"python examples/{name}.py"
    parts = [
        f"# {title}",
        script.about,
        f"Run it from the root of the repository:\n\n```\n$ {command}\n```",
        *script.more,
    ]
    for kind, text in script.cells:
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(parts) + "\n"
