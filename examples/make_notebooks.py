"""Write examples/notebooks/ from the scripts, one cell for each `# %%`; `--check` says whether they are up to date.

python examples/make_notebooks.py
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("quick_start", "own_data", "audit", "plan_a_guarantee")


def notebook(name: str) -> str:
    """The notebook of a script, as the text of its file."""
    before, *cells = re.split(r"^# %%(.*)\n", (HERE / f"{name}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    title = before.strip().strip('"').split("\n\n")[0]
    found = [_cell(f"{name}-0", "markdown", f"# {name.replace('_', ' ').capitalize()}\n\n{title}")]
    for number, (kind, text) in enumerate(zip(cells[::2], cells[1::2], strict=True), 1):
        if "markdown" in kind:
            found.append(_cell(f"{name}-{number}", "markdown", re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE)))
        else:
            # The arguments of a notebook's kernel are not ours.
            code = text.strip().replace('TINY = "--tiny" in sys.argv', "TINY = False  # True: seconds, learns nothing")
            found.append(_cell(f"{name}-{number}", "code", re.sub(r"^import sys\n+", "", code, flags=re.MULTILINE)))
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
