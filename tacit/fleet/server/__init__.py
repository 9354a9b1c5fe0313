"""The HTTP server: what one process of it does, and every request that it answers.

serving.py          one process of the server: its roles, its certificate, how it starts and stops
api.py              the routes for devices: enrolment, check-in, downloads, reports, secure aggregation
log_routes.py       the public log for devices, and leaving
admin.py            the routes for the administrator: tokens, status, revoking a device, metrics
operators.py        who may use the administrator's routes for what, and the log of what they did
internal_routes.py  the routes for the coordinator of the same server
authentication.py   whether a request comes from the device that it names
enrolment.py        enrolment tokens and devices
call_queue.py       runs the short calls of many requests in few threads
request_limits.py   how often a device may ask, and how long an upload may be and take
connections.py      how many connections there may be, and how long each may be idle
unread_bodies.py    lets a client read an answer that is sent before its upload has ended
downloads.py        files for devices, with a cache in memory
metrics.py          metrics for Prometheus
health.py           whether this process is alive, and whether requests should be sent to it
openapi.py          additions to the OpenAPI document
"""
