"""What every command prints with `--json`; docs/json.md is made from these classes (`listing.py`, `page.py`).

A new command gets a class here and a line in `listing.RESULTS`, and prints with `emit`. A test fails if a command
has no `--json` with a class here. A command imports the module of its own results alone.
"""

from tacit.cli.results.base import Result, emit

__all__ = ["Result", "emit"]
