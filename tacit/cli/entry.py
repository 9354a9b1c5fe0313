"""Where the `tacit` command starts. It imports next to nothing, so that Ctrl-C is heard from the first moment on.

Ctrl-C ends every command with exit code 130 and without a traceback. The imports take up to a second, and a KeyboardInterrupt
inside of them can be swallowed, turned into another error, or leave a library half set up that then crashes when Python shuts
down. So while the commands are being imported Ctrl-C leaves at once, and afterwards it leaves as soon as the command has
cleaned up, in both cases without shutting Python down. What a command has written by then is durable (`tacit.files`).
"""

from __future__ import annotations

import os
import signal
import sys
from _thread import interrupt_main
from contextlib import suppress
from typing import Any, NoReturn

# What a shell gives a command that Ctrl-C ended.
STOPPED = 130


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
    """Answers SIGINT with KeyboardInterrupt, and remembers it."""

    def __init__(self) -> None:
        self.raised = False

    def __call__(self, number: int, frame: Any) -> NoReturn:
        self.raised = True
        raise KeyboardInterrupt

    def unraisable(self, error: sys.UnraisableHookArgs) -> None:
        """Where Python would print a KeyboardInterrupt and go on, in a finalizer for example, send the signal once more."""
        if issubclass(error.exc_type, KeyboardInterrupt):
            interrupt_main()
        else:
            sys.__unraisablehook__(error)


def _leave(*_: Any) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # closed, or in the middle of a write
            stream.flush()
    os._exit(STOPPED)
