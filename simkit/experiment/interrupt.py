"""Interrupts: Ctrl-C, SIGTERM and the limit of wall time are handled between two decisions.

So records stay whole. When the wall time is over, code of the user that does not return by itself,
such as an endless loop in `schedule`, is left by force a second later: by a signal in the main
thread, elsewhere by an exception that a watching thread puts into this one. Only compiled code that
never returns to Python, and code that catches every exception again and again (``except:`` in an
endless loop), cannot be left.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final

from simkit.engine.outages import driven
from simkit.engine.simulation import Simulation


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt as Ctrl-C does, so that workers are ended.

    It does nothing outside the main thread, or if SIGTERM already has another handler.
    """
    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not mine or before not in (signal.SIG_DFL, signal.default_int_handler):
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Set again, SIGINT also ends a wait for a lock: polars, when imported, has it restart the wait.
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class DeferredInterrupt:
    """A context in which the first signal only sets `requested`; a second one stops at once.

    It does nothing outside the main thread, or if the signals already have handlers of others.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler in (signal.default_int_handler, signal.SIG_DFL):
                    self._before[number] = signal.signal(number, self._take)
                elif handler is signal.SIG_IGN:  # polars listens nevertheless, once imported
                    signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(self, *_error: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


GRACE_S: Final = 1.0
"""Time between the end of the wall time and the attempts to leave the user's code."""
_ATTEMPTS: Final = 30
"""After this many in vain, the engine's own code is left as well."""
_CALL_USERS: Final[frozenset[CodeType]] = frozenset({Simulation.run.__code__, driven.__code__})
"""What may be left at any point: the engine's functions that run policies and processes."""


class WallTimeOver(KeyboardInterrupt):
    """The wall time is over; the user's ``except Exception`` does not catch it."""


class WallClock:
    """A context in which `over` turns true when a time is up."""

    def __init__(self, limit_s: float | None) -> None:
        self.over = False
        self._limit_s = limit_s
        self._attempts = 0
        self._signalled = False
        self._thread = threading.get_ident()
        self._done = threading.Event()
        self._busy = threading.Lock()

    def __enter__(self) -> WallClock:
        if self._limit_s is None:
            return self
        if _alarm_is_free():
            self._signalled = True
            signal.signal(signal.SIGALRM, lambda _number, frame: self._ring(frame))
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, GRACE_S)
        else:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._signalled:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            return
        with self._busy:
            self._done.set()
            _raise_in(self._thread, None)

    def _ring(self, frame: FrameType | None) -> None:
        """Note that the time is over; if the simulation does not end by itself, interrupt it."""
        if self.must_leave(frame):
            raise WallTimeOver

    def must_leave(self, frame: FrameType | None) -> bool:
        """Return whether to leave the code at a frame, a grace period after the last question."""
        late, self.over = self.over, True
        self._attempts += late
        return late and (_is_users(frame) or self._attempts > _ATTEMPTS)

    def _watch(self) -> None:
        wait_s = self._limit_s
        while not self._done.wait(wait_s):
            wait_s = GRACE_S
            with self._busy:
                frame = sys._current_frames().get(self._thread)
                if not self._done.is_set() and self.must_leave(frame):
                    _raise_in(self._thread, WallTimeOver)


def _alarm_is_free() -> bool:
    """Return whether this is the main thread of a system with alarms that nobody else uses."""
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    )


def _is_users(frame: FrameType | None) -> bool:
    """Return whether code is a policy's or a process's: the engine only called it."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("simkit.engine."):
            return frame.f_code in _CALL_USERS
        frame = frame.f_back
    return False


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let an exception be raised in another thread at its next step; None: take it back."""
    given = ctypes.py_object() if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
