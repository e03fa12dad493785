"""Interrupts (Ctrl-C, SIGTERM): handled between two decisions, so that records stay whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


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
