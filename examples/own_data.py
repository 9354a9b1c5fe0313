"""Bring text of your own: from a dictionary, from rows such as a CSV file has, and saved as a store for later runs.

python examples/own_data.py
"""

# %%
import csv
import io
import sys
import tempfile

import jax.numpy as jnp
import optax

import tacit

tacit.use_every_core()  # before JAX makes its first array
TINY = "--tiny" in sys.argv

# %% [markdown]
# A vocabulary must be public: a word list, or the words of a public corpus. Words counted on private users would reveal
# something about them, and the guarantee would say so: epsilon would be infinite.

# %%
words = ["see", "you", "soon", "on", "my", "way", "good", "night", "morning", "call", "me", "later"]
users = tacit.users({"ann": ["See you soon!", "on my way"], "bob": ["good night"]}, vocabulary=words)
print("From a dictionary:", users)

# %% [markdown]
# Rows come in any order; `user` and `text` name their columns. A Hugging Face dataset works in the same way. About 5% of the
# people are held out, each by a hash of their own id; `held_out` sets the share.

# %%
phrases = ["see you soon", "on my way", "good night", "good morning", "call me later"]
chats = "who,said\n" + "\n".join(f"person{i % 300},{phrases[i * i % 5]}" for i in range(3_000))
users = tacit.users(csv.DictReader(io.StringIO(chats)), user="who", text="said", vocabulary=words, held_out=0.1)
print("From rows:", users)

# %% [markdown]
# A store on disk can be opened without reading it into memory. It also has an odometer, which lists all runs on its users.

# %%
folder = tempfile.mkdtemp()
users.save(f"{folder}/chats")
store = tacit.open_store(f"{folder}/chats")

# %% [markdown]
# The model is any pytree of arrays, here a table that scores the next word after each word. The population in the plan is a
# public estimate, never a count of the store.


# %%
def loss(table, tokens):
    """The sum of losses over a batch of rows [rows, length + 1], and the number of predictions."""
    asked = tokens[:, 1:] > 1  # 0 is padding, 1 begins a sentence
    losses = optax.softmax_cross_entropy_with_integer_labels(table[tokens[:, :-1]], tokens[:, 1:])
    return jnp.sum(losses * asked), jnp.sum(asked)


size = len(store.vocabulary)
run = tacit.train(
    jnp.zeros((size, size)),
    loss,
    store,
    held_out=30,
    work=tacit.FedAvg(learning_rate=1.0),
    privacy=tacit.PrivacyPlan(population=300, cohort=60, clip_norm=1.0, noise_multiplier=4.0, delta=1e-4),
    server=optax.sgd(1.0),
    rounds=3 if TINY else 30,
)
print(f"Loss on held-out people: {run.metrics[-1]['loss']:.2f}; {run.cost()}")
print("Every run on this store:", f"tacit account odometer {folder}/chats")
