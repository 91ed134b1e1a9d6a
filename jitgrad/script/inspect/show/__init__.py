"""A graph as a picture: `graph.show("model.html")`, and `_repr_svg_` in notebooks.

    layout.py     where boxes and edges go
    labels.py     what is written on them
    diagram.py    a graph as nested panels of boxes
    svg.py        panels as SVG
    page.py       one HTML file: pictures, the source beside them, what follows the mouse
"""

from typing import Any

from jitgrad.script.graph.ir import Graph, views


def _page(graph: Graph, path: Any = None, **options: Any) -> str:
    from jitgrad.script.inspect.show.page import show  # the code generator with it: only where something is shown

    return show(graph, path, **options)


def _svg(graph: Graph) -> str:
    from jitgrad.script.inspect.show.page import svg

    return svg(graph)


views["page"], views["svg"] = _page, _svg
