"""Freeze a model that was trained on public text, and learn a small correction of it (LoRA) from private users.

    python examples/adapters.py

Only what is trained is clipped, noised and counted. Noise grows with the number of trained values, so fewer of them mean a
better model at the same epsilon.
"""

import sys

import equinox as eqx
import jax
import numpy as np
import optax

import tacit

tacit.use_every_core()  # before JAX makes its first array
TINY = "--tiny" in sys.argv
PEOPLE, ROUNDS, STEPS = (200, 2, 5) if TINY else (2_000, 30, 3_000)
task = tacit.NextWord()

# A small transformer, and public text to train it on first: here, another made-up world.
public, private = (tacit.KeyboardWorld(seed, PEOPLE, vocabulary_size=200) for seed in (2, 1))
words = private.words[4:]
users = tacit.users({i: private.sentences(i)[:20] for i in range(PEOPLE)}, vocabulary=words, held_out=0.1)
shape = tacit.TransformerConfig(vocabulary=len(users.words), width=16, heads=2, layers=1, hidden=32)
base = tacit.Transformer.build(shape, key=jax.random.key(0))

public_users = tacit.users({i: public.sentences(i)[:20] for i in range(64)}, vocabulary=words)
rows = tacit.TextBatches("windows", length=10, batch_size=8, steps=1).lay_out(public_users.gather(np.arange(64)))
batches = rows.batches(np.arange(64))[:, 0]  # [64, rows, length + 1]
step = eqx.filter_jit(task.sgd_step)
for number in range(STEPS):
    base = step(base, batches[number % 64], 1.0)

# Adapters of rank 2 beside each matrix of the blocks. The base stays as it is.
adapted = tacit.add_adapters(base, 2, where=lambda path, leaf: path.startswith("blocks"), key=jax.random.key(1))
run = tacit.train(
    adapted,
    task,
    users,
    held_out=50,
    work=tacit.FedAvg(learning_rate=0.3),
    privacy=tacit.PrivacyPlan(population=PEOPLE, cohort=PEOPLE / 10, clip_norm=0.1, noise_multiplier=2.0, delta=1e-4),
    server=optax.sgd(1.0, momentum=0.9),
    rounds=ROUNDS,
    trainable=adapted.trainable,  # or any function of path and leaf, such as lambda path, leaf: "gain" in path
)
values = sum(leaf.size for leaf in jax.tree.leaves(base))
print(f"{run.summary['parameters']:,} of {values:,} values were trained and noised.")
print(f"top1 {run.metrics[-1]['top1']:.1%}, {run.cost()}")
plain = run.model.merged()  # without adapters: a model like the base, to deploy
print("The base is as it was:", bool(eqx.tree_equal(run.model.base, base)))
