"""Tells whether the device is idle, charging and on an unmetered network.

Here a file says so; a phone would ask its operating system.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

CONDITIONS = ("idle", "charging", "unmetered")


class Conditions(Protocol):
    """Checked before a check-in, and again before anything is sent."""

    def met(self) -> bool:
        """Whether the device is idle, charging and on an unmetered network."""
        ...


class FileConditions:
    """`conditions.json`: an object with any of "idle", "charging" and "unmetered". A missing key, or file, means true."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def met(self) -> bool:
        """False if the file cannot be read, or any value in it is not true."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return isinstance(found, dict) and all(found.get(name, True) is True for name in CONDITIONS)
