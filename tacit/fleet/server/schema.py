"""The tables that the server's processes share. No update, sum or example is ever in one of them.

Who takes part is here, by pseudonymous number, because MinS and MaxP are enforced with it: the database belongs to the run's
owner, as the participation record does.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = 1
metadata = MetaData()
# SQLite counts up by itself only in a column that is INTEGER and nothing else.
_Number = BigInteger().with_variant(Integer, "sqlite")

# How far the tables have come (`database.migrate`).
schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

# Enrolment tokens, by their SHA-256; `uses_left` counts down.
tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("uses_left", Integer, nullable=False),
    Column("expires_at", Float, nullable=False),
)

devices = Table(
    "devices",
    metadata,
    Column("device", _Number, primary_key=True, autoincrement=True),
    Column("identity", LargeBinary(32), nullable=False, unique=True),
    Column("counter", BigInteger, nullable=False, server_default="0"),  # the last one taken
    Column("revoked", Boolean, nullable=False, server_default="0"),
)

# What devices download, by SHA-256: plans, descriptions, words, checkpoints. All of it is public or a release.
blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# A run on devices. `description` is its `wire.Task`; `next_round` lets a device be refused before a round is open.
tasks = Table(
    "tasks",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("opened_at", Float, nullable=False),
)

# One try at one round. `state`: open, settled (no report is taken any more), committed, abandoned (`reason` says why).
rounds = Table(
    "rounds",
    metadata,
    Column("round_id", String(32), primary_key=True),
    Column("task", ForeignKey("tasks.task"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text),
    Column("checkpoint", String(64), nullable=False),
    Column("clip_norm", Float, nullable=False),
    Column("threshold", Float),
    Column("signs_seed", String(64)),
    Column("aggregator", String(32)),  # with secure aggregation one process has the whole round; else any
    Column("goal", Integer, nullable=False),
    Column("places", Integer, nullable=False),  # devices that may be chosen, more than the goal
    Column("selected", Integer, nullable=False, server_default="0"),
    Column("reported", Integer, nullable=False, server_default="0"),
    Column("opened_at", Float, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("closed_at", Float),
    Index("open_rounds", "state", "task"),
    Index("recent_rounds", "task", "opened_at"),
)

# A device's place in a round. `state`: selected, reported, refused.
assignments = Table(
    "assignments",
    metadata,
    Column("round_id", ForeignKey("rounds.round_id"), primary_key=True),
    Column("device", ForeignKey("devices.device"), primary_key=True),
    Column(
        "place", Integer, nullable=False
    ),  # 0, 1, … in the order of selection: the device's number in secure aggregation
    Column("aggregator", String(32), nullable=False),
    Column("state", String(16), nullable=False),
)

# Rounds a device took part in, written before the round's intent: what MinS and MaxP are checked against.
participations = Table(
    "participations",
    metadata,
    Column("task", ForeignKey("tasks.task"), primary_key=True),
    Column("device", ForeignKey("devices.device"), primary_key=True),
    Column("round", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
)

# Running processes: `seen_at` is renewed every few seconds; `address` is where devices and processes reach it.
processes = Table(
    "processes",
    metadata,
    Column("process", String(32), primary_key=True),  # drawn anew when it starts
    Column("role", String(16), nullable=False),
    Column("address", String(256), nullable=False),
    Column("seen_at", Float, nullable=False),
)

# Who coordinates a task; `epoch` rises with every change of hands.
leases = Table(
    "leases",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("holder", String(32), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("expires_at", Float, nullable=False),
)
