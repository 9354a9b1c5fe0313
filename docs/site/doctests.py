"""An extension of griffe: examples in docstrings (`>>> ...`) become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|(?<=\n))>>> .*?(?=\n\s*\n|\Z)", re.DOTALL)


class Doctests(griffe.Extension):
    """Puts examples between fences, so that Markdown does not take `>` for a quotation."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        """Rewrite the docstring of each object that is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```", obj.docstring.value)
