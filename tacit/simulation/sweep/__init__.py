"""Sweeps: many recipes side by side, what came of each, and what all of them cost together.

folder.py     the folder of a sweep: its cases as they were settled, and the lock of the process that runs it
preparing.py  every case built in advance, with its noise, its cost and its time
room.py       whether the people's budget suffices for all cases
one_run.py    one case trained, here or in a process of its own
running.py    the cases, several at a time, until all are done
ray_tasks.py  the same on Ray: a run is a task
cases.py      where each case is: a row of the table
statement.py  what the sweep costs the people whose data it reads
picture.py    the results in one picture
"""
