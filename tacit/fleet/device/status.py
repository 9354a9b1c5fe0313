"""What a device's owner can see: the policy in force, what the server had, what was refused, and what plans run in."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.fleet.device.cage import probe
from tacit.fleet.device.confinement import CLOSED, NO_NETWORK
from tacit.fleet.device.home import Home
from tacit.fleet.device.memory import Objection
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.spending import epsilon_of


@dataclass(frozen=True)
class DeviceStatus:
    """`epsilon` is what the device can prove itself; `unproven` are rounds for which it can prove none."""

    policy: OwnerPolicy
    signed: bool
    rounds: int
    epsilon: float
    unproven: int
    refusals: tuple[Objection, ...]
    cage: list[str]

    def sentences(self) -> list[str]:
        """The same as sentences."""
        policy = self.policy
        origin = f"issue {policy.issue}, signed by the application" if self.signed else "a built-in one"
        cage = "can open no file and no connection" if CLOSED in self.cage else "has its memory and time limited"
        network = " and has no network" if NO_NETWORK in self.cage and CLOSED not in self.cage else ""
        vouchers = len(policy.secagg.vouchers)
        return [
            f"The owner's policy is {origin}.",
            f"The server had {self.rounds} of at most {policy.most_rounds} rounds.",
            f"{self.rounds - self.unproven} of them cost ε = {self.epsilon:.3g} (δ = {policy.delta:g}) by devices' noise; "
            f"in {self.unproven} the noise is the server's word.",
            "Plans: any program with the task's shapes."
            if policy.plan_registry is None
            else "Plans: those in the owner's registry.",
            f"A plan runs in a process that {cage}{network}.",
            f"In secure aggregation the server is taken to be {policy.secagg.server}; "
            + (f"{vouchers} vouchers vouch for other devices." if vouchers else "it alone vouches for other devices."),
            *(f"Refused: {each.sentence}" for each in self.refusals),
        ]


def status_of(home: Home) -> DeviceStatus:
    """The status of this device. It starts a cage, to see what the system allows."""
    policy, memory = home.policy, home.memory
    return DeviceStatus(
        policy=policy,
        signed=home.config.application is not None,
        rounds=memory.server.rounds,
        epsilon=epsilon_of(memory.proven_rho, policy.delta),
        unproven=memory.server.unproven,
        refusals=memory.refusals,
        cage=probe(),
    )
