"""Where the `tacit` command starts. It imports next to nothing, so that Ctrl-C is heard from the first moment on.

Ctrl-C ends every command with exit code 130 and without a traceback. The imports take up to a second, and a KeyboardInterrupt
inside of them can be swallowed, turned into another error, or leave a library half set up that then crashes. So while the
command is being imported Ctrl-C leaves at once. Afterwards it leaves as soon as the command has cleaned up; a command that is
importing a library at that moment finishes the import first. In both cases Python is not shut down. What a command has written
by then is durable (`tacit.files`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

# What a shell gives a command that Ctrl-C ended.
STOPPED = 130
# Where Python imports a module, some frame on the stack is of this file.
IMPORT = "<frozen importlib._bootstrap>"
# How long to wait before sending the signal again, in seconds.
PATIENCE = 0.02


def main() -> None:
    """The `tacit` command: ends in SystemExit, or at once after Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as in a shell's background
        from tacit.cli.app import main as command

        return command()
    signal.signal(signal.SIGINT, _leave)
    from tacit.cli.app import load
    from tacit.cli.app import main as command

    load(sys.argv[1:])
    interrupt = _Interrupt()
    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = interrupt.unraisable
    try:
        return command()
    except KeyboardInterrupt:
        _leave()
    except SystemExit as ended:
        if ended.code == STOPPED:
            _leave()
        raise
    except Exception:
        if interrupt.raised:  # a library made another error of it
            _leave()
        raise


class _Interrupt:
    """Answers SIGINT with KeyboardInterrupt, and remembers it. Where that would be lost, it waits and tries again.

    It would be lost inside an import, and where Python reports an exception that it ignores.
    """

    def __init__(self) -> None:
        self.raised = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _would_be_lost(frame):
            _send_again()
            return
        self.raised = True
        raise KeyboardInterrupt

    def unraisable(self, error: sys.UnraisableHookArgs) -> None:
        """Where Python would print a KeyboardInterrupt and go on, in a finalizer for example, send the signal once more."""
        if issubclass(error.exc_type, KeyboardInterrupt):
            _send_again()
        else:
            sys.__unraisablehook__(error)


def _would_be_lost(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORT or frame.f_code is _Interrupt.unraisable.__code__:
            return True
        frame = frame.f_back
    return False


def _send_again() -> None:
    again = threading.Timer(PATIENCE, _interrupt_main_thread)
    again.daemon = True
    again.start()


def _interrupt_main_thread() -> None:
    """Send a real signal, which also ends a sleep or a read, as soon as no import would have to bear it."""
    main_thread = threading.main_thread().ident
    if main_thread is None or _would_be_lost(sys._current_frames().get(main_thread)):
        _send_again()
    else:
        signal.pthread_kill(main_thread, signal.SIGINT)


def _leave(*_: Any) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # closed, or in the middle of a write
            stream.flush()
    os._exit(STOPPED)
