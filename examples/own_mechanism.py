"""Add noise in a way of your own, and say what it costs. Tacit then states whose claim that is.

    python examples/own_mechanism.py

docs/extending.md has the same for strategies (correlated noise) and for who takes part.
"""

import sys

import jax.numpy as jnp
import optax

import tacit

tacit.use_every_core()  # before JAX makes its first array
TINY = "--tiny" in sys.argv


# A kind brings everything about a mechanism: its release, its version, what it is proven under, its cost. Its name is its
# import path. In a real project this class is in a module, and `tacit --import mynoise account run RUN` finds it again.
@tacit.register_mechanism
class ByRho(tacit.MechanismKind):
    version = "1.0"
    noise = "Gaussian noise on the sum of each round"
    proven_under = ("check_in",)

    def build(self, plan, rounds, strategy):
        """The release: any object with `init` and `release`. Noise of your own goes here; this one is Tacit's Gaussian."""
        return tacit.Gaussian(plan.noise_multipliers)

    def cost(self, releases):
        """From the ledger alone: each participation costs 1 / (2 z²) of zero-concentrated privacy."""
        return tacit.Cost.of_rho(releases.participations / (2 * releases.noise_multiplier**2))


def loss(table, tokens):
    """A table that scores the next word after each word."""
    asked = tokens[:, 1:] > 1  # 0 is padding, 1 begins a sentence
    losses = optax.softmax_cross_entropy_with_integer_labels(table[tokens[:, :-1]], tokens[:, 1:])
    return jnp.sum(losses * asked), jnp.sum(asked)


words = ["see", "you", "soon", "on", "my", "way"]
users = tacit.users({i: ["see you soon", "on my way"] * 3 for i in range(400)}, vocabulary=words, held_out=0.1)
run = tacit.train(
    jnp.zeros((10, 10)),
    loss,
    users,
    held_out=10,
    work=tacit.FedAvg(learning_rate=1.0),
    privacy=tacit.PrivacyPlan(
        mechanism=f"{ByRho.__module__}:ByRho",
        sampling="check_in",  # devices come by themselves; at least 9 rounds lie between two rounds of one user
        min_separation=9,
        max_participation=3,
        population=300,
        cohort=20,
        clip_norm=1.0,
        noise_multiplier=5.0,
        delta=1e-5,
    ),
    server=optax.sgd(1.0),
    rounds=4 if TINY else 30,
)
print(f"loss {run.metrics[-1]['loss']:.2f}; {run.cost()}")
for line in run.guarantee().as_markdown().splitlines():
    if "ByRho" in line:
        print(line)

# Every simulated run tests that the noise has the scale that the ledger states. A mechanism that adds less is found out.
print(*run.gate_audit().words(), sep="\n")

# In the tests of your package, the contract suite that Tacit's own mechanisms pass:
#
#     from tacit.testing import MechanismContract
#
#     class TestByRho(MechanismContract):
#         mechanism = "mynoise:ByRho"
#
#         def build(self, noise_multipliers):
#             return tacit.Gaussian(noise_multipliers)
