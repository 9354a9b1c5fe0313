"""Write examples/notebooks/ from the scripts, one cell for each `# %%`; `--check` says whether they are up to date.

python examples/make_notebooks.py
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("quick_start", "own_data", "audit", "plan_a_guarantee")


@dataclass(frozen=True)
class Script:
    """A script as parts: the first paragraph of its docstring, what else that says, and its cells."""

    about: str
    more: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]  # "markdown" or "code", and the text


def parsed(name: str) -> Script:
    """The parts of a script; how to run it is left out of the docstring.

    A script without `# %%` is parted at its comments: those that begin a paragraph are text.
    """
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    before, *cells = re.split(r"^# %%(.*)\n", source, flags=re.MULTILINE)
    docstring, code = re.fullmatch(r'"""(.*?)"""\n*(.*)', before, flags=re.DOTALL).groups()
    about, *more = [part for part in docstring.split("\n\n") if not part.strip().startswith("python examples/")]
    found = [cell for part in re.split(r"\n\n+(?=# )", code.strip()) for cell in _paragraph(part)]
    for kind, text in zip(cells[::2], cells[1::2], strict=True):
        markdown = "markdown" in kind
        plain = re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE) if markdown else text.strip()
        found.append(("markdown" if markdown else "code", plain))
    return Script(about.strip(), tuple(part.strip() for part in more), tuple(found))


def _paragraph(code: str) -> list[tuple[str, str]]:
    """The comment that a paragraph begins with, and its code."""
    comment, rest = re.fullmatch(r"((?:#[^\n]*(?:\n|$))*)(.*)", code, flags=re.DOTALL).groups()
    parts = ("markdown", re.sub(r"^# ?", "", comment.strip(), flags=re.MULTILINE)), ("code", rest.strip())
    return [part for part in parts if part[1]]


def notebook(name: str) -> str:
    """The notebook of a script, as the text of its file."""
    script = parsed(name)
    found = [_cell(f"{name}-0", "markdown", f"# {name.replace('_', ' ').capitalize()}\n\n{script.about}")]
    for number, (kind, text) in enumerate(script.cells, 1):
        if kind == "code":
            # The arguments of a notebook's kernel are not ours.
            text = text.replace('TINY = "--tiny" in sys.argv', "TINY = False  # True: seconds, learns nothing")
            text = re.sub(r"^import sys\n+", "", text, flags=re.MULTILINE)
        found.append(_cell(f"{name}-{number}", kind, text))
    tree = {
        "cells": found,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def _cell(name: str, kind: str, text: str) -> dict:
    cell = {"cell_type": kind, "id": name.replace("_", "-"), "metadata": {}, "source": text.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def main() -> None:
    for name in SCRIPTS:
        path, text = HERE / "notebooks" / f"{name}.ipynb", notebook(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} differs from {name}.py: run python examples/make_notebooks.py")


if __name__ == "__main__":
    main()
