"""The owner's policy: what a device takes part in, whatever its server asks for.

The application that has the text ships the policy as a file, signed with the application's key (`signed_files.py`). Without
one, a device has the defaults below; with a server on this machine it has `for_trying`, because then the owner of the device is
the owner of the server. A policy's terms are absolute. Beside them a device holds its server to the best terms that it has
been offered (`terms.py`); a new edition of the policy, with a higher `issue`, is how an application agrees to weaker ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import FleetError, LedgerError
from tacit.fleet.device.signed_files import read_signed
from tacit.fleet.wire.messages import PublicKey
from tacit.fleet.wire.tls import is_loopback
from tacit.transparency.checkpoint import PublicKey as PublicKeyOfLog

POLICY_LABEL = b"tacit fleet policy v1\0"
# The most tasks that a device's memory has room for.
MOST_TASKS = 10_000

_Number = Annotated[float, Field(allow_inf_nan=False)]


def _log_key(text: str) -> str:
    try:
        return PublicKeyOfLog.parse(text).text()
    except LedgerError as error:
        raise ValueError(error.sentence) from None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SecAggAssumptions(_Part):
    """What the device's owner assumes of others in secure aggregation, and how much exposure they accept.

    The device checks the server's parameters against these before it sends a key (`tacit.secagg.parameters.check`). A "curious"
    server follows the protocol; a "malicious" one may send anything.
    """

    server: Literal["curious", "malicious"] = "malicious"
    corruption: float = Field(default=0.1, ge=0, lt=1, description="share of devices that collude with the server")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="share of devices that drop out of a round")
    exposure: float = Field(default=2.0**-40, gt=0, lt=1)
    minimum: int = Field(
        default=2, ge=2, description="the fewest devices in a sum; the task's report goal if that is more"
    )
    vouchers: tuple[PublicKey, ...] = Field(
        default=(), description="who vouches for devices' identity keys; empty: only the server's enrolment does"
    )


class OwnerPolicy(_Part):
    """`policy.json`. The defaults are meant for a server that the owner does not run."""

    format: Literal[1] = 1
    issue: int = Field(default=1, ge=1, description="rises with each edition; an older edition is refused")

    largest_clip: _Number = Field(default=10.0, gt=0, le=1e6, description="of one round")
    least_cohort: int = Field(default=20, ge=1, description="the smallest report goal")
    least_noise: _Number = Field(
        default=0.3, ge=0, description="the smallest noise multiplier, that the task states or the devices' noise has"
    )
    noise_from: Literal["server", "devices"] = Field(
        default="server", description='"devices": only noise that devices add themselves counts'
    )
    secure_aggregation: Literal["required", "if offered"] = "required"
    secagg: SecAggAssumptions = SecAggAssumptions()

    least_pause_s: _Number = Field(
        default=6 * 3600.0, ge=0, description="between two rounds of any of the server's tasks"
    )
    least_separation: int = Field(default=0, ge=0, description="the smallest min_separation of a task")
    most_rounds: int = Field(default=200, ge=1, le=100_000, description="with this server, for the life of the data")
    most_tasks: int = Field(
        default=100, ge=1, le=MOST_TASKS, description="different tasks that the server may ever offer"
    )
    largest_epsilon: _Number | None = Field(
        default=None, gt=0, description="for the life of the data, by the devices' own noise; none: no limit"
    )
    largest_stated_epsilon: _Number | None = Field(
        default=None,
        gt=0,
        description="for the life of the data, if the server adds the noise that it logged; none: no limit",
    )
    delta: float = Field(default=1e-6, gt=0, lt=1)

    log: Literal["required", "if offered"] = Field(
        default="required", description="whether the server must show what it asks for in a public log"
    )
    log_key: Annotated[str, AfterValidator(_log_key)] | None = Field(
        default=None, description="the log's public key, name+id+key; none: that of the first head that the device sees"
    )

    plan_registry: PublicKey | None = Field(
        default=None, description="the key that signs the list of permitted plans; none: any plan"
    )
    plan_seconds: _Number = Field(default=900.0, gt=0, description="how long a plan may run")
    plan_memory_mb: int = Field(default=4096, ge=64, description="the memory that a plan may use")
    cage: Literal["any", "closed"] = Field(
        default="any", description='"closed": plans run only where they can open no file and no connection'
    )

    @classmethod
    def for_trying(cls) -> OwnerPolicy:
        """For a server on this machine."""
        return cls(
            largest_clip=1e3,
            least_cohort=2,
            least_noise=0.0,
            secure_aggregation="if offered",
            secagg=SecAggAssumptions(server="curious"),
            least_pause_s=0.0,
            most_rounds=10_000,
            log="if offered",
        )


def built_in(server: str) -> OwnerPolicy:
    """The policy of a device whose application ships none."""
    return OwnerPolicy.for_trying() if is_loopback(urlsplit(server).hostname or "") else OwnerPolicy()


def read_policy(path: Path, application: str) -> OwnerPolicy:
    """The policy in this file; FleetError unless the application's key signed it."""
    try:
        return OwnerPolicy.model_validate_json(read_signed(path, application, POLICY_LABEL))
    except ValidationError as error:
        place = error.errors()[0]
        field = ".".join(map(str, place["loc"])) or "the file"
        raise FleetError(f"The owner's policy {path} is not valid: {field}: {place['msg']}.") from None
