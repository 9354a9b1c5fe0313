"""Hold the training loop in your own hands: watch, stop early, resume. The ledger is the same as that of `tacit.train`.

python examples/own_loop.py
"""

import sys

import tacit

TINY = "--tiny" in sys.argv
ROUNDS = 4 if TINY else 30
CHANGES = [
    f"run.rounds={ROUNDS}",
    "run.evaluate_every=1",
    "data.users=50_000",
    "privacy.population=50_000",
    "privacy.cohort=100",
]
if TINY:
    CHANGES += ["privacy.cohort=10", "privacy.noise_multiplier=4.0", "data.held_out=10", "data.vocabulary=200"]


class Best(tacit.Callback):
    """Remembers the best evaluation. Callbacks only ever get public values."""

    def __init__(self):
        self.round, self.top1 = 0, 0.0

    def on_evaluation(self, round, metrics):
        print(f"  round {round}: {metrics['top1']:.1%} guessed right")
        if metrics["top1"] > self.top1:
            self.round, self.top1 = round, metrics["top1"]

    def on_end(self, end):
        print(f"  {end.outcome}")


# The loop. Each step has the model after its round. Whatever you decide by released models costs no privacy; accuracy is
# measured on held-out people, who are never trained on and whom the guarantee does not cover.
best = Best()
loop = tacit.rounds(recipe="demo", changes=CHANGES, callbacks=[best])
for step in loop:
    print(f"round {step.number} of {step.rounds}: {type(step.model).__name__}")
    if step.number >= ROUNDS // 2 and best.round <= step.number - 2:
        print("No improvement for two rounds: stop.")
        break

# A run that stopped early is charged for all rounds that were planned, so that stopping may depend on what was seen.
print(f"{loop.run}: {loop.run.cost()}")

# The rest of its rounds are paid for: going on costs nothing more.
if loop.run.state == "stopped":
    run = tacit.resume(loop.run.path, callbacks=[best])
    print(f"{run}: {run.cost()}")
print(f"Best: {best.top1:.1%} in round {best.round}")
