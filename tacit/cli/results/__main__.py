"""`python -m tacit.cli.results` prints docs/json.md; with the name of a command, the JSON Schema of what it prints."""

from __future__ import annotations

import json
import sys

from tacit.cli.results.listing import RESULTS
from tacit.cli.results.page import page

if len(sys.argv) == 1:
    print(page(), end="")
elif (name := " ".join(sys.argv[1:])) in RESULTS:
    print(json.dumps(RESULTS[name].model_json_schema(), indent=2))
else:
    sys.exit(f"Expected one of {', '.join(RESULTS)}, got {name}.")
