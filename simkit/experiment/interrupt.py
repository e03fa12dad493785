"""Ctrl-C, or a batch system's SIGTERM, during a simulation: taken between two decisions.

So the records stay whole.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """While it is entered, SIGTERM raises KeyboardInterrupt as Ctrl-C does: workers are ended.

    Outside the main thread, and where somebody else handles SIGTERM, it does nothing.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Set again, SIGINT also ends a wait for a lock: polars, when imported, has it restart the wait.
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class DeferredInterrupt:
    """While it is entered, the first signal only sets `requested`; a second one stops at once.

    Outside the main thread, where Python takes no signals, and where somebody else handles or
    ignores them, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is threading.main_thread():
            usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
            for number, handler in usual.items():
                if signal.getsignal(number) is handler:
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
