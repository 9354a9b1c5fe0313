"""Attack your own proof: plant made-up users, each in or out by a coin, train, and let an attacker guess who was in.

python examples/audit.py
"""

# %%
import sys

import tacit

TINY = "--tiny" in sys.argv
COINS, ROUNDS, COHORT = (20, 2, 10) if TINY else (200, 30, 100)

# %% [markdown]
# The plan of the canaries: phrases of random words, each held by a made-up user of its own. They take part more often than
# anybody else, so that the attacker has a chance. Keep the plan secret: it contains the coins.

# %%
world = tacit.KeyboardWorld(1, 50_000, vocabulary_size=500)
plan = tacit.canaries(world, coins=COINS, copies=20, device_rate=0.3)
plan.save("canaries.json")

# %% [markdown]
# Train the demo with the canaries among its users. With so much noise epsilon is small even for a user who is in a third of the
# rounds, and an attacker who guessed well would contradict it. `tacit.train(model, task, users, canaries=plan, ...)` does the
# same for a model of your own.

# %%
run = tacit.train(
    recipe="demo",
    changes=[
        "audit.plan=canaries.json",
        "data.users=50_000",
        "data.vocabulary=500",
        "data.held_out=20",
        "privacy.population=50_000",
        f"privacy.cohort={COHORT}",
        "privacy.noise_multiplier=8.0",
        "privacy.clip_norm=0.1",
        "server.learning_rate=1.0",
        f"run.rounds={ROUNDS}",
    ],
    callbacks=[tacit.Progress()],
)
print(f"Proven for everybody else: {run.cost()}")

# %% [markdown]
# The attack on the model. Its lower bound on epsilon is compared with the proven epsilon of a canary user, computed from the
# rounds that they were in. "broken" would mean that the proof is wrong; "could_not_fail" that there were too few canaries for
# any attack to contradict it.

# %%
outcome = run.audit()
print(*outcome.words(), sep="\n")
print("Verdict:", outcome.verdict)

# %% [markdown]
# Every simulated run also audits the gate: made-up contributions pass the clip, and the noise is compared with the scale that
# the ledger states. That works at any epsilon.

# %%
gate = run.gate_audit()
print(*gate.words(), sep="\n")
print("Verdict:", gate.verdict)
