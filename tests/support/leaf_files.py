"""Files in LEAF's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def leaf_file(path: Path, users: dict[str, Any], **more: Any) -> Path:
    content = {
        "users": list(users),
        "num_samples": [len(data["x"]) for data in users.values()],
        "user_data": users,
        **more,
    }
    path.write_text(json.dumps(content))
    return path
