"""Start from the guarantee: choose epsilon, and find the noise. No data is read and nothing is trained.

python examples/plan_a_guarantee.py
"""

# %%
import sys

import tacit

TINY = "--tiny" in sys.argv

# %% [markdown]
# `calibrate` takes the settings of a `PrivacyPlan`, all but the noise multiplier, and returns the plan with the least noise
# that keeps the promise. The noise on the mean update is the noise multiplier times the clip, over the cohort: the smaller,
# the better the model.

# %%
setting = {"population": 500_000, "clip_norm": 0.5, "delta": 1e-6}
for epsilon in (4,) if TINY else (1, 2, 4, 8):
    plan = tacit.calibrate(epsilon=epsilon, rounds=130, cohort=500, **setting)
    print(f"epsilon = {epsilon}: noise multiplier {plan.noise_multiplier:g}")

# %% [markdown]
# Larger cohorts are the usual way to a better model at the same epsilon. They cost computing time, not privacy.

# %%
for cohort in (500, 2_000) if TINY else (100, 500, 2_000, 8_000):
    plan = tacit.calibrate(epsilon=4, rounds=130, cohort=cohort, **setting)
    noise = plan.noise_multiplier * plan.clip_norm / cohort
    print(f"cohort {cohort:>5}: noise multiplier {plan.noise_multiplier:g}, noise on the mean {noise:.1e}")

# %% [markdown]
# Phones cannot be sampled. Without sampling, the promise rests on how often and how closely one phone takes part, and noise
# that is correlated over rounds (a tree, or `banded` and `blt`) does better than fresh noise.

# %%
often = {"sampling": "check_in", "min_separation": 99, "max_participation": 2, "cohort": 500}
for mechanism in ("gaussian", "tree"):
    plan = tacit.calibrate(epsilon=4, rounds=200, mechanism=mechanism, **often, **setting)
    print(f"{mechanism:>8}: noise multiplier {plan.noise_multiplier:g}")

# %% [markdown]
# Noise multipliers of different mechanisms do not compare by themselves: a tree's noise is on its nodes, and fresh noise piles
# up round after round. `tacit plan` compares mechanisms by their effect on the model. The plan goes into `tacit.train` as it
# is:

# %%
print("tacit.train(model, task, users, privacy=plan, rounds=200, ...)")
print(plan)
