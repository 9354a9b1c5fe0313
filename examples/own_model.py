"""Train a transformer of your own, with a loss of your own, under differential privacy; stop it, resume it, use it.

python examples/own_model.py
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import tacit

tacit.use_every_core()  # before JAX makes its first array
TINY = "--tiny" in sys.argv
PEOPLE, ROUNDS, WIDTH, LENGTH = (200, 4, 8, 10) if TINY else (2_000, 60, 32, 10)


class OneHead(eqx.Module):
    """A transformer with one head of attention and tied embeddings: tokens [length] to logits [length, vocabulary]."""

    words: jax.Array
    places: jax.Array
    attention: jax.Array  # [3, width, width]: queries, keys, values

    def __init__(self, vocabulary, *, key):
        keys = jax.random.split(key, 3)
        self.words = jax.random.normal(keys[0], (vocabulary, WIDTH)) / WIDTH**0.5
        self.places = jax.random.normal(keys[1], (LENGTH, WIDTH)) / WIDTH**0.5
        self.attention = jax.random.normal(keys[2], (3, WIDTH, WIDTH)) / WIDTH**0.5

    def __call__(self, tokens):
        x = self.words[tokens] + self.places[: len(tokens)]
        queries, keys, values = x @ self.attention
        earlier = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
        seen = jax.nn.softmax(jnp.where(earlier, queries @ keys.T / WIDTH**0.5, -jnp.inf))
        return (x + seen @ values) @ self.words.T


class SmoothedNextWord:
    """What it learns: the next word, with smoothed labels. `scores` is for predictions and `metrics` for evaluations."""

    def scores(self, model, tokens):
        return jax.vmap(model)(tokens)

    def loss_sum(self, model, tokens):
        logits, asked = self.scores(model, tokens[:, :-1]), tokens[:, 1:] > 1  # 0 is padding, 1 begins a sentence
        labels = optax.smooth_labels(jax.nn.one_hot(tokens[:, 1:], logits.shape[-1]), 0.05)
        return jnp.sum(optax.softmax_cross_entropy(logits, labels) * asked), jnp.sum(asked)

    def metrics(self, model, tokens):
        asked = tokens[:, 1:] > 1
        right = self.scores(model, tokens[:, :-1]).argmax(-1) == tokens[:, 1:]
        return {"top1": (jnp.sum(right & asked), jnp.sum(asked))}


world = tacit.KeyboardWorld(1, PEOPLE, vocabulary_size=200)  # made-up people; bring your own (own_data.py)
users = tacit.users({i: world.sentences(i)[:20] for i in range(PEOPLE)}, vocabulary=world.words[4:], held_out=0.1)
model, task = OneHead(len(users.words), key=jax.random.key(0)), SmoothedNextWord()
settings = {"held_out": 50, "work": tacit.FedAvg(learning_rate=0.5), "server": optax.sgd(1.0, momentum=0.9)}
plan = tacit.PrivacyPlan(population=PEOPLE, cohort=PEOPLE / 10, clip_norm=0.3, noise_multiplier=2.0, delta=1e-4)

# Leaving the loop stops the run with a checkpoint.
loop = tacit.rounds(model, task, users, privacy=plan, rounds=ROUNDS, **settings)
for step in loop:
    if step.number == ROUNDS // 2:
        break
print(loop.run)

# Resuming needs the same objects; plan and rounds come from the folder. Rounds that ran twice would count twice.
run = tacit.resume(loop.run.path, model, task, users, **settings)
print(run, f"top1 {run.metrics[-1]['top1']:.1%}")
print(run.cost())
print(run.guarantee().as_markdown().splitlines()[2])
print("After 'see you':", run.predict("see you"))
print("Exported with its guarantee inside:", run.export(f"{run.path}.safetensors"))

# Later, in another process: a model of the same shape is filled with what was trained.
again = tacit.open_run(run.path, model=model, task=task)
assert again.predict("see you") == run.predict("see you")
