"""What a process gives up before it runs a plan: memory, files, connections, other processes.

Limits on resources exist everywhere. On Linux a process can also leave the network (a network namespace of its own) and give up
all system calls but those that computing needs (seccomp): it can then open no file and no connection, start no program, and
signal no other process. Both need no privileges, but some systems forbid the first. `confine` returns what it could do, and the
caller decides whether that is enough.

The list of calls was made by running plans; what is not on it fails with EPERM, so that a library that can do without, does.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterator

# What `confine` returns: limits on resources; no network; no files, connections or programs.
LIMITS, NO_NETWORK, CLOSED = "limits", "no network", "closed"

_NEW_USER, _NEW_NET, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
_SET_NO_NEW_PRIVILEGES, _SET_NAME = 38, 15
_SET_MODE_FILTER, _SYNCHRONISE_THREADS = 1, 1
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_THREAD = 0x10000  # CLONE_THREAD
# In struct seccomp_data: the call, the architecture, the lower half of the first argument.
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06

# (x86_64, aarch64) numbers of the calls that computing, threads, memory, time and an open pipe need.
_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "mincore": (27, 232),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "exit": (60, 93),
    "uname": (63, 160),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "sigaltstack": (131, 132),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_setaffinity": (203, 122),
    "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}
_CLONE, _CLONE3, _SIGNAL_THREAD, _PRCTL, _SECCOMP = (56, 220), (435, 435), (234, 131), (157, 167), (317, 277)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def leave_network() -> list[str]:
    """Leave the network, if the system allows it. Call it before there are threads."""
    if sys.platform != "linux":
        return []
    left = _libc().unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0
    return [NO_NETWORK] if left else []


def confine(memory_bytes: int, cpu_seconds: float) -> list[str]:
    """Give up everything else, for good and for all threads; returns what was given up.

    `memory_bytes` may be used beyond what is in use now.
    """
    _limit(memory_bytes, cpu_seconds)
    return [LIMITS, *([CLOSED] if _close() else [])]


def _limit(memory_bytes: int, cpu_seconds: float) -> None:
    wanted = {
        resource.RLIMIT_AS: _address_space() + memory_bytes,
        resource.RLIMIT_CPU: int(cpu_seconds) + 1,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
    }
    for which, most in wanted.items():
        _, hard = resource.getrlimit(which)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(which, (allowed, allowed))
        except (OSError, ValueError):  # macOS does not limit address space
            continue


def _address_space() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _close() -> bool:
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return False
    which, architecture = _ARCHITECTURES[platform.machine()]
    program = b"".join(struct.pack("<HBBI", *step) for step in _steps(which, architecture))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    libc = _libc()
    loaded = Program(len(program) // 8, program)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return libc.syscall(_SECCOMP[which], _SET_MODE_FILTER, _SYNCHRONISE_THREADS, ctypes.byref(loaded)) == 0


def _steps(which: int, architecture: int) -> Iterator[tuple[int, int, int, int]]:
    """The filter, as (code, jump if true, jump if false, value)."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _IF_EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _CALL
    yield from _answer(_CLONE3[which], _ERROR | _ENOSYS)  # its flags cannot be read here; libraries then use clone
    yield from _if_first(_CLONE[which], _IF_ANY_BIT, _THREAD)
    yield from _if_first(_SIGNAL_THREAD[which], _IF_EQUAL, os.getpid())
    yield from _if_first(_PRCTL[which], _IF_EQUAL, _SET_NAME)
    for numbers in _CALLS.values():
        if (number := numbers[which]) is not None:
            yield from _answer(number, _ALLOW)
    yield _RETURN, 0, 0, _ERROR | _EPERM


def _answer(call: int, answer: int) -> Iterator[tuple[int, int, int, int]]:
    yield _IF_EQUAL, 0, 1, call
    yield _RETURN, 0, 0, answer


def _if_first(call: int, test: int, value: int) -> Iterator[tuple[int, int, int, int]]:
    """Allow this call if its first argument passes the test."""
    yield _IF_EQUAL, 0, 4, call
    yield _LOAD, 0, 0, _FIRST_ARGUMENT
    yield test, 0, 1, value
    yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _ERROR | _EPERM


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
