"""Train a private next-word model on a built-in world of made-up people, and ask what it cost them.

python examples/quick_start.py            # a minute or two on two cores
python examples/quick_start.py --tiny     # seconds; it learns nothing
"""

# %%
import sys

import tacit

TINY = "--tiny" in sys.argv

# %% [markdown]
# A recipe is a whole run as a file: users, model, privacy, optimizer. `demo` comes with Tacit, and `changes` sets single
# values of it. Ctrl-C stops after the round under way, and `tacit.resume` goes on from there.

# %%
changes = ["run.rounds=40", "privacy.cohort=200"]
if TINY:
    changes = [
        "run.rounds=2",
        "privacy.cohort=10",
        "privacy.noise_multiplier=4.0",
        "data.held_out=10",
        "data.vocabulary=200",
    ]
run = tacit.train(recipe="demo", changes=changes, callbacks=[tacit.Progress()])

# %% [markdown]
# The cost is that to any one person, for all of their text. It is computed from the ledger, which recorded every round before
# it read anybody's data.

# %%
print(run.cost())

# %% [markdown]
# The guarantee says what that means. `as_markdown()` is the whole statement for a reviewer: what was released, what the code
# enforces, what it can only assume.

# %%
print(run.guarantee().headline)
print(run.guarantee().paragraph)

# %% [markdown]
# The model, its accuracy on people whom it was not trained on, a picture, and one page with everything.

# %%
print(f"After {run.rounds_done} rounds, {run.metrics[-1]['top1']:.1%} of the next words are guessed right.")
for word, probability in run.predict("see you", count=3):
    print(f"  see you {word:<12} {probability:.1%}")
print("Picture:", run.plot(f"{run.path}.png"))
print("Report: ", run.report())
