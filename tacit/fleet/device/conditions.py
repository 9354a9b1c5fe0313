"""Whether the device has time now. A phone's maker asks the operating system; here a file says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

CONDITIONS = ("idle", "charging", "unmetered")


class Conditions(Protocol):
    """Asked before a check-in, before the work and before anything is sent."""

    def met(self) -> bool:
        """Whether the device is idle, charging and on an unmetered network."""
        ...


class FileConditions:
    """`conditions.json`: an object with any of "idle", "charging", "unmetered"; what is not there is true."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def met(self) -> bool:
        """A file that cannot be read, or says anything but true, is a reason to wait."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return isinstance(found, dict) and all(found.get(name, True) is True for name in CONDITIONS)
