"""Users on real devices: the same loop, gate and mechanisms as in simulation, with a network in between.

wire.py              what devices and server say to each other: paths, messages, the bytes of a report
signing.py           a device's signature on a request, and why it cannot be replayed
schema.py            the tables that the server's processes share
database.py          SQLite or PostgreSQL, and how one becomes the other's equal; migrations
enrolment.py         tokens, devices and their keys
selection.py         who may take part in a round now
pace.py              when the others should come back
rounds.py            the life of a round in the database
attendance.py        who took part when, by the run's own record
leases.py            which processes run, and which one coordinates; heartbeat.py keeps both up to date
sums.py              reports added up on the users' side of the gate, in memory that does not grow with the cohort
sealed.py            partial sums on their way from one process to another
internal.py          what the server's processes say to each other
aggregator.py        rounds in the memory of one process: reports, or the stages of secure aggregation (secure_rounds.py)
blobs.py             the bytes that devices download, named by their hash
tasks.py             what devices are given: the work as a compiled plan, its description, the words
gathering.py         a round with devices: opened, waited for, settled
program.py           a run on devices as the run driver takes it; what devices sent crosses the gate here
evaluation.py        a model measured on devices, through the same gate
coordinator.py       begins a run, and goes on with it whatever fails
serving.py           one process of the server: its roles, its certificate, its end
api.py               the HTTP interface
  admin.py           the administrator's part of it: tokens, status, shutting a device out
  limits.py          how often somebody may ask, and how much of a body is read
  downloads.py       plans and checkpoints, from memory where they were asked for lately
  refusals.py        what is answered when a request is not taken
  documentation.py   what its OpenAPI document says beyond what FastAPI finds out
observability.py     logs and metrics without anybody in them
tls.py               a certificate for trying a fleet out on one machine
device/              the other side: identity, local store, timer, work, and the agent that ties them together
"""
