"""The database that all processes of the server share: its tables, and every function that reads or writes them.

schema.py               the tables and the schema's version
migrations.py           how an older database is brought to that version
transactions.py         opening SQLite or PostgreSQL, and the three kinds of transaction
hot_statements.py       the statements of every check-in and report, given to the database's driver itself
clock.py                the current time, as the database tells it
leases.py               which processes run, and which of them coordinates
heartbeat.py            a thread that keeps a process's entry and its lease up to date
round_table.py          the states of a round: open, settled, committed or abandoned; reports are counted here
task_table.py           tasks that devices can see, and the files that devices download
device_table.py         what each device is doing, and did last
participation_table.py  which device took part in which round
public_log.py           the server's public log: entries, receipts, and proofs of what is in it
leaving.py              what remains of a device that leaves, and how it is known again if it returns

No update and no sum is ever stored in the database.
"""
