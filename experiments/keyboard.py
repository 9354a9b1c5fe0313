"""Who predicts best on the keyboards of people who were not trained on: n-grams, FedAvg, DP-FedAvg or DP-FTRL.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences --max-tokens 800 \\
        --vocabulary-private 2000 --held-out 400 --seed 1 --out stores/scotus_keyboard
    python experiments/keyboard.py

The three runs are made one after the other in runs/keyboard: a run that was cut off goes on where it was, a finished one is not
repeated. Then all models type what the held-out people typed, the n-gram model being the baseline. What came out is written to
docs/experiments/keyboard, and printed as a table.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any

from dp_fedavg import Say
from gboard import POISSON, noise_at_scale

from tacit.recipe import Recipe, apply_change, parse_recipe
from tacit.runs.folder import RunFolder, is_run
from tacit.simulation.comparison import NGRAM, NGRAM_WITH_HISTORY, Comparison, NgramSettings, compare

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "experiments" / "keyboard"
STORE = "stores/scotus_keyboard"
NGRAM_ORDER = 3
# What the run with 6,500 of 4 million devices a round would cost, at the delta of [scale].
EPSILON = 2.0
