"""The figure of simkit's pictures: keeps its style wherever it is drawn, and shows in notebooks.

Import it inside functions: it needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

Style = Callable[[], AbstractContextManager[None]]
_NOTEBOOK_DPI: Final = 110


class Picture(Figure):
    """A matplotlib figure that is drawn and saved in a style of its own; else like any other."""

    def __init__(self, style: Style, **settings: Any) -> None:
        super().__init__(**settings)
        self._own_style = style
        FigureCanvasAgg(self)

    def draw(self, renderer: Any) -> None:
        with self._own_style():
            super().draw(renderer)

    def savefig(self, fname: Any, **settings: Any) -> None:
        with self._own_style():
            super().savefig(fname, **settings)

    def _repr_png_(self) -> bytes:
        target = BytesIO()
        self.savefig(target, format="png", dpi=_NOTEBOOK_DPI, metadata={"Software": None})
        return target.getvalue()


def empty_picture(style: Style, width: float, height: float, top: float) -> Picture:
    """Return a figure, its size in inches; its panels lie below the share `top` of its height."""
    layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.08, rect=(0, 0, 0.99, top))
    return Picture(style, figsize=(width, height), layout=layout)
