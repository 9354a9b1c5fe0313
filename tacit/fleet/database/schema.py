"""The tables that the server's processes share. No table ever holds an update, a sum or an example.

The tables do hold who takes part, by pseudonymous number, because MinS and MaxP are enforced with them. So the database is for
the run's owner alone, as the run's participation record is.
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

VERSION = 4
metadata = MetaData()
# SQLite numbers new rows only in a column whose type is exactly INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")

# The version of the tables (`migrations.py`).
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
    Column("counter", BigInteger, nullable=False, server_default="0"),  # the last one accepted
    Column("revoked", Boolean, nullable=False, server_default="0"),
    Column("quarantined", Boolean, nullable=False, server_default="0"),  # enrolled, and gets no place
    Column("seen_at", Float),  # when it last asked for a place
    Column("failures", Integer, nullable=False, server_default="0"),  # places in a row from which nothing came
    Column("rests_until", Float, nullable=False, server_default="0"),  # gets no place before, because of those failures
    Column(
        "last_word", String(200)
    ),  # what it last did, or failed to do, in a round: one of the server's own sentences
    # When the device left. `identity` is then a keyed pseudonym of its key, and no longer the key (`device_table.leave`).
    Column("left_at", Float),
)

# Files that devices download, by SHA-256: compiled plans, task descriptions, vocabularies, checkpoints. All are public or
# releases.
blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# A run on devices. `task` is the SHA-256 of `description`, which is the JSON of a `wire.task.DeviceTask`.
tasks = Table(
    "tasks",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("opened_at", Float, nullable=False),
    # What an operator wants of the rounds from now on; null: as the recipe says.
    Column("paused", Boolean, nullable=False, server_default="0"),
    Column("goal", Integer),
    Column("deadline_s", Float),
    # For metrics: from how many devices nothing came, by stage (JSON); rounds lost after their intent; epsilon so far.
    Column("dropped", Text),
    Column("lost", Integer, nullable=False, server_default="0"),
    Column("epsilon", Float),
)

# One try at one round. A settled round accepts no more reports; of an abandoned round, `reason` says why.
OPEN, SETTLED, COMMITTED, ABANDONED = "open", "settled", "committed", "abandoned"
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
    Column("aggregator", String(32)),  # with secure aggregation, the one process that runs the round; otherwise null
    Column("goal", Integer, nullable=False),
    Column("places", Integer, nullable=False),  # how many devices may be selected; at least the goal
    Column("selected", Integer, nullable=False, server_default="0"),
    Column("reported", Integer, nullable=False, server_default="0"),
    Column("opened_at", Float, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("closed_at", Float),
    Column("stopped_by", String(16)),  # an operator asked to give this try up
    Index("open_rounds", "state", "task"),
    Index("recent_rounds", "task", "opened_at"),
)

# A device's place in a round.
SELECTED, REPORTED = "selected", "reported"
assignments = Table(
    "assignments",
    metadata,
    Column("round_id", ForeignKey("rounds.round_id"), primary_key=True),
    Column("device", ForeignKey("devices.device"), primary_key=True),
    # 0, 1, … in the order of selection; in secure aggregation the device's number in the session
    Column("place", Integer, nullable=False),
    Column("aggregator", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("since", Float, nullable=False, server_default="0"),  # when the device was selected
    Column("receipt", String(64)),  # the leaf of the receipt of what it sent; no device can be read from it
)

# The server's public log (`public_log.py`): its entries in order, each a text that `wire.public_log` defines. Rows are only
# added.
log_entries = Table(
    "log_entries",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("leaf", String(64), nullable=False, unique=True),
    Column("entry", Text, nullable=False),
    Column("tried", String(32), unique=True),  # the try that the entry closes; null for other entries
)

# The receipts of each try at a round that is over, by their leaves, in the order of the leaves.
receipts = Table(
    "receipts",
    metadata,
    Column("round_id", ForeignKey("rounds.round_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("leaf", String(64), nullable=False),
)

# The rounds that each device took part in, in the rounds that the model is made of; written before the round's intent. MinS and
# MaxP are checked against this table.
participations = Table(
    "participations",
    metadata,
    Column("task", ForeignKey("tasks.task"), primary_key=True),
    Column("device", ForeignKey("devices.device"), primary_key=True),
    Column("round", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
)

# Running processes. `seen_at` is renewed every few seconds; devices and other processes reach the process at `address`.
processes = Table(
    "processes",
    metadata,
    Column("process", String(32), primary_key=True),  # a random name, new at each start
    Column("role", String(16), nullable=False),
    Column("address", String(256), nullable=False),
    Column("seen_at", Float, nullable=False),
)

# Which process coordinates a run. `epoch` rises with every new holder.
leases = Table(
    "leases",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("holder", String(32), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("expires_at", Float, nullable=False),
)

# The account of these devices, line by line (`budget_table.py`): what runs have reserved, and the budget they draw from.
budget_lines = Table(
    "budget_lines",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", Text, nullable=False),
)
