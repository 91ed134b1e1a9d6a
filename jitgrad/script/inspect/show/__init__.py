"""A graph as a picture: `graph.show("model.html")`, and `_repr_svg_` in notebooks.

    layout.py     where boxes and edges go
    labels.py     what is written on them
    diagram.py    a graph as nested panels of boxes
    svg.py        panels as SVG
    page.py       one HTML file: pictures, the source beside them, what follows the mouse
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: graph -> the graph in primitives, and value -> name of the kernel that makes it; installed by whoever compiles
compiled_form: list[Callable[[Any], Any]] = []
