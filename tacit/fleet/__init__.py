"""Users on real devices: the same loop, gate and mechanisms as in simulation, with a network in between.

wire/       everything that is sent: message formats, signatures, encryption, TLS
database/   the tables that the server's processes share, and every function that reads or writes them
rounds/     selection, reports and sums, secure aggregation, and the run that they belong to
server/     the HTTP server: its processes, routes, limits and metrics
device/     the code on a device: its folder, its limits, its work, its connection
logs.py     the server's log, one JSON object a line

server imports rounds, rounds imports database, database imports wire. The device imports wire alone.
"""
