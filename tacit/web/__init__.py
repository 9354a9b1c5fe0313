"""Pages in the browser: the board that shows runs.

app.py        the application: security around it, routes in it, the built pages of static/
settings.py   what a board was told: which folders, where it listens, what it may do
security.py   who may ask: host, token, origin, and the headers of every answer
problems.py   what is wrong, as JSON or as a page
serving.py    the process: a port, a server, the address to open
watcher.py    the runs below some folders, read again when their files change
rows.py       a run as a line of the table
events.py     what changes, sent to open pages
runs.py       routes of the table
one_run.py    routes of one run; audits.py, compare.py, control.py (stop and resume) beside it
evidence.py   the witness and the certificate of a run
papers.py     the recorded experiments: papers.json, written by experiments/papers.py
suggestions.py  what a run's model suggests
fleets.py     a running fleet; fleet_figures.py (its metrics) and fleet_alarms.py beside it
plans.py      the planner, as tacit plan asks it
words.py      whether a run's words may be shown
reading.py    runs named by keys, damage told in one sentence
plain.py      whether a run's folder holds plain files alone
keyboard/     the keyboard to try, with the models that a page gets
"""
