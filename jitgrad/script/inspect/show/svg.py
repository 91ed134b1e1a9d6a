"""Panels as SVG: one string, no external resources, light and dark by the reader's preference."""

from collections.abc import Sequence
from html import escape

from jitgrad.script.inspect.show.diagram import HEAD, LINE, PAD, Box, Panel
from jitgrad.script.inspect.show.layout import Point

MARGIN = 14.0

STYLE = """
.jg{--ink:#1f2430;--soft:#667085;--edge:#98a2b3;--paper:#fff;--op:#f4f6fa;--line:#c9d1de;--product:#fde7d3;
--pline:#e8a869;--reduce:#e3edfd;--rline:#8fb4ee;--input:#e6f5ea;--iline:#8fcaa0;--block:#fafbfd;--number:#f3ecfb;
--nline:#c3a6e8;--effect:#fde4e4;--eline:#ea9a9a;--lit:#f5b80066;background:var(--paper);
font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(prefers-color-scheme:dark){.jg{--ink:#e6e9ef;--soft:#98a2b3;--edge:#667085;--paper:#14171d;--op:#222732;
--line:#3c4454;--product:#4a3018;--pline:#a8703a;--reduce:#1c2f4d;--rline:#47699e;--input:#173423;--iline:#3d7552;
--block:#191d25;--number:#33244a;--nline:#76589e;--effect:#4a2020;--eline:#9a4c4c;--lit:#f5b80055}}
.jg text{fill:var(--ink)}.jg .ty,.jg .at,.jg .hd{fill:var(--soft);font-size:10.5px}
.jg rect{fill:var(--op);stroke:var(--line)}.jg .product>rect{fill:var(--product);stroke:var(--pline)}
.jg .reduce>rect{fill:var(--reduce);stroke:var(--rline)}.jg .input>rect,.jg .result>rect{fill:var(--input);
stroke:var(--iline)}.jg .number>rect{fill:var(--number);stroke:var(--nline)}
.jg .effect>rect{fill:var(--effect);stroke:var(--eline)}.jg .block>rect{fill:var(--block)}
.jg .block>.bt{font-weight:600}.jg .e{fill:none;stroke:var(--edge);stroke-width:1.2}
.jg .tip{fill:var(--edge)}.jg .sep{stroke:var(--line);stroke-dasharray:3 3}
.jg.kernels g[data-k]>rect{fill:var(--k);stroke:var(--ks)}.jg g.lit>rect{stroke:#e0a000;stroke-width:2.5}
"""


def svg(panel: Panel, classes: str = "", style: bool = True) -> str:
    """A panel as an SVG element. `style`: with its style sheet (once a page is enough)."""
    width, height = panel.placed.width + 2 * MARGIN, panel.placed.height + 2 * MARGIN
    colours = {name: number for number, name in enumerate(_kernels(panel))}
    body = _panel(panel, MARGIN, MARGIN, colours)
    sheet = f"<style>{STYLE}</style>" if style else ""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" class="{f"jg {classes}".strip()}" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">')
    return head + sheet + "".join(body) + "</svg>"


def _kernels(panel: Panel) -> dict[str, None]:
    found: dict[str, None] = {}
    for box in panel.boxes:
        if box.kernel:
            found[box.kernel] = None
        for inner in box.panels:
            found.update(_kernels(inner))
    return found


def _panel(panel: Panel, x: float, y: float, colours: dict[str, int]) -> list[str]:
    parts = [_edge(points, x, y) for points in panel.placed.edges]
    for box, (left, top) in zip(panel.boxes, panel.placed.corners, strict=True):
        parts += _box(box, x + left, y + top, colours)
    return parts


def _box(box: Box, x: float, y: float, colours: dict[str, int]) -> list[str]:
    line = f' data-line="{escape(box.line.file, quote=True)}:{box.line.number}"' if box.line is not None else ""
    kernel = ""
    if box.kernel:
        hue = colours[box.kernel] * 137.5 % 360
        kernel = (f' data-k="{escape(box.kernel, quote=True)}" style="--k:hsl({hue:.0f} 70% 50% / .28);'
                  f'--ks:hsl({hue:.0f} 60% 50%)"')
    radius = min(box.height / 2, 12) if box.kind in ("input", "result") else 5
    parts = [f'<g class="n {box.kind}"{line}{kernel}><title>{escape(box.tooltip)}</title>'
             f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.0f}"/>']
    if not box.panels:
        for row, (text, kind) in enumerate(box.rows):
            parts.append(f'<text class="{kind}" text-anchor="middle" x="{x + box.width / 2:.1f}" '
                         f'y="{y + 4 + LINE * row + 11:.1f}">{escape(text)}</text>')
        return [*parts, "</g>"]
    parts.append(f'<text class="bt" x="{x + PAD:.1f}" y="{y + 16:.1f}">{escape(box.rows[0][0])}</text>')
    titled = 16.0 if any(p.title for p in box.panels) else 0.0
    at = x + (box.width - sum(p.placed.width for p in box.panels) - 2 * PAD * (len(box.panels) - 1)) / 2
    for number, panel in enumerate(box.panels):
        if panel.title:
            parts.append(f'<text class="hd" x="{at:.1f}" y="{y + HEAD + 11:.1f}">{panel.title}</text>')
        if number:
            parts.append(f'<path class="sep" d="M{at - PAD:.1f},{y + HEAD:.1f}V{y + box.height - 4:.1f}"/>')
        parts += _panel(panel, at, y + HEAD + titled + PAD, colours)
        at += panel.placed.width + 2 * PAD
    return [*parts, "</g>"]


def _edge(points: Sequence[Point], dx: float, dy: float) -> str:
    """A smooth line downwards through points, with a small head."""
    moved = [(x + dx, y + dy) for x, y in points]
    (x, y), end = moved[0], moved[-1]
    path = f"M{x:.1f},{y:.1f}"
    for u, v in [*moved[1:-1], (end[0], end[1] - 4)]:
        if abs(u - x) < 0.5:
            path += f"L{u:.1f},{v:.1f}"
        else:
            middle = (y + v) / 2
            path += f"C{x:.1f},{middle:.1f} {u:.1f},{middle:.1f} {u:.1f},{v:.1f}"
        x, y = u, v
    a, b = end
    return f'<path class="e" d="{path}"/><path class="tip" d="M{a - 3:.1f},{b - 6:.1f}h6l-3,6z"/>'
