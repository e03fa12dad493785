"""The figure of simkit's pictures: keeps its style wherever it is drawn, and shows in notebooks.

Import it inside functions: it needs matplotlib.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from simkit.analysis.plot_style import METADATA, styled


class Picture(Figure):
    """A matplotlib figure that is drawn and saved in simkit's style; else like any other."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        FigureCanvasAgg(self)

    def draw(self, renderer: Any) -> None:
        with styled():
            super().draw(renderer)

    def savefig(self, fname: Any, **settings: Any) -> None:
        with styled():
            super().savefig(fname, **settings)

    def _repr_png_(self) -> bytes:
        target = BytesIO()
        self.savefig(target, format="png", dpi=110, metadata=METADATA[".png"])
        return target.getvalue()


def empty_picture(width: float, height: float, top: float) -> Picture:
    """Return a figure of so many inches; its panels lie below the share `top` of its height."""
    layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.08, rect=(0, 0, 1, top))
    return Picture(figsize=(width, height), layout=layout)
