"""What a confined process can still do: compute. Run in processes of their own, because it is for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

from tacit.fleet.device.confinement import CLOSED, LIMITS

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")]

SCRIPT = """
import ctypes, json, os, signal, socket, sys, threading
secret, parent = sys.argv[1], int(sys.argv[2])
import numpy as np
sys.path.insert(0, sys.argv[3])
from tacit.fleet.device import confinement
libc = ctypes.CDLL(None, use_errno=True)
started, go, found = threading.Event(), threading.Event(), {}

def attempt(name, call):
    try:
        result = call()
        found[name] = "done" if not isinstance(result, int) or result >= 0 else "refused"
    except (OSError, RuntimeError, MemoryError) as error:
        found[name] = "refused"

def in_an_older_thread():
    started.set()
    go.wait()
    attempt("open in an older thread", lambda: open(secret).read())

thread = threading.Thread(target=in_an_older_thread)
thread.start()
started.wait()
given_up = confinement.leave_network() if False else []
given_up += confinement.confine(64 << 20, 100.0)
go.set()
thread.join()
attempt("open", lambda: open(secret).read())
attempt("write", lambda: open(secret, "w"))
attempt("list", lambda: os.listdir("/"))
attempt("stat", lambda: os.stat(secret))
attempt("socket", lambda: socket.socket(socket.AF_INET))
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("fork", os.fork)
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("kill", lambda: os.kill(parent, signal.SIGTERM))
attempt("kill a thread of another", lambda: libc.syscall(234 if os.uname().machine == "x86_64" else 131, parent, parent, 15))
attempt("ptrace", lambda: libc.ptrace(16, parent, 0, 0))
attempt("read another's memory", lambda: libc.process_vm_readv(parent, 0, 0, 0, 0, 0))
attempt("memory", lambda: np.ones(128 << 20, np.uint8))
attempt("more limits", lambda: libc.prctl(22, 0, 0, 0, 0))
attempt("compute", lambda: int(np.ones(1 << 20).sum()))
other = threading.Thread(target=lambda: attempt("a thread", lambda: 1))
other.start()
other.join()
print(json.dumps([given_up, found]))
"""


@pytest.fixture(scope="module")
def outcome():
    with tempfile.NamedTemporaryFile() as secret:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        command = [sys.executable, "-c", SCRIPT, secret.name, str(os.getpid()), root]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(answer.stdout)


def test_a_confined_process_says_what_it_gave_up(outcome):
    assert outcome[0] == [LIMITS, CLOSED]


def test_it_computes_and_does_nothing_else(outcome):
    found = outcome[1]
    assert {name for name, result in found.items() if result == "done"} == {"compute", "a thread"}
    assert len(found) == 17
