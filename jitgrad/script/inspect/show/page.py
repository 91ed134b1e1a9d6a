"""One HTML file that shows a graph beside its source; nothing in it is fetched from elsewhere."""

import json
import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from html import escape
from typing import Any

from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.script.graph.ir import Graph, Value, walk
from jitgrad.script.inspect.lines import Line, functions_of, line_of
from jitgrad.script.inspect.show import svg as pictures
from jitgrad.script.inspect.show.diagram import depth_of, draw, draw_lines
from jitgrad.script.passes import pipeline

#: with more nodes than these: blocks start closed; the picture starts with a box a line; ops are not drawn singly
OPEN, SINGLE, LARGEST = 80, 160, 1500


def svg(graph: Graph) -> str:
    """The graph as an SVG element: every op, or a box a line where there are many."""
    count = sum(1 for _ in walk(graph.block))
    if count > SINGLE:
        return pictures.svg(draw_lines(graph))
    return pictures.svg(draw(graph, depth_of(graph.block) if count <= OPEN else 1))


def show(graph: Graph, path: str | os.PathLike[str] | None = None, *, browser: bool | None = None) -> str:
    """Write the page of a graph; the path of the file. The arguments are those of `Graph.show`."""
    if path is None:
        handle, name = tempfile.mkstemp(prefix=f"{graph.name}-", suffix=".html")
        os.close(handle)
    else:
        name = os.fspath(path)
    with open(name, "w", encoding="utf-8") as file:
        file.write(page(graph))
    if browser or (browser is None and path is None and (hasattr(sys, "ps1") or sys.flags.interactive)):
        webbrowser.open("file://" + os.path.abspath(name))
    return name


def page(graph: Graph) -> str:
    """The text of the page."""
    views: list[dict[str, Any]] = []
    count = sum(1 for _ in walk(graph.block))
    deepest = depth_of(graph.block)
    if any(line_of(n.span) is not None for n in graph.block.nodes):
        views.append({"group": "lines", "level": "", "svg": pictures.svg(draw_lines(graph), style=False)})
    forms: list[tuple[str, Graph, Mapping[Value, str]]] = [("ops", graph, {})]
    if count <= LARGEST:
        forms.append(("kernels", *compiled_form(graph)))
        for group, shown, kernels in forms:
            for depth in range(depth_of(shown.block) + 1):
                text = pictures.svg(draw(shown, depth, kernels), "kernels" if kernels else "", style=False)
                views.append({"group": group, "level": str(depth), "svg": text})
    first = "lines" if count > SINGLE and views[0]["group"] == "lines" else "ops"
    start = {"group": first, "level": str(deepest if count <= OPEN else 0) if first == "ops" else ""}
    data = json.dumps({"views": views, "start": start}).replace("</", "<\\/")
    return PAGE.replace("@title@", escape(graph.name)).replace("@style@", pictures.STYLE).replace(
        "@source@", _source(graph)).replace("@data@", data).replace("@count@", str(count))


def compiled_form(graph: Graph) -> tuple[Graph, dict[Value, str]]:
    """The graph in primitives, and for each value that a kernel makes its name: "kernel 1", ..."""
    shown = pipeline.run(graph)
    found: dict[Value, str] = {}
    number = 0
    for step, nodes in lower("shown", shown).origins.items():
        if isinstance(step, KernelStep) and not any(n.blocks for n in nodes):
            made = [v for n in nodes for v in n.outputs if v not in found]
            if made:
                number += 1
                found.update((v, f"kernel {number}") for v in made)
    return shown, found


def _source(graph: Graph) -> str:
    """The functions that the graph was made of, a row for each line."""
    lines: dict[Line, None] = {}
    for node in walk(graph.block):
        line = line_of(node.span)
        if line is not None:
            lines[line] = None
    parts = []
    for function in functions_of(list(lines)):
        parts.append(f"<h2>{escape(os.path.basename(function.file.strip('<>')))}</h2>")
        for number in range(function.first, function.last + 1):
            line = Line(function.file, number)
            used = " class=u" if line in lines else ""
            key = escape(f"{line.file}:{number}", quote=True)
            parts.append(f'<p data-line="{key}"{used}><b>{number}</b>{escape(line.text) or " "}</p>')
    return "".join(parts)


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@title@</title><meta name="viewport" content="width=device-width">
<style>@style@
:root{color-scheme:light dark}*{box-sizing:border-box}
body{margin:0;height:100vh;display:grid;grid-template:auto 1fr/minmax(220px,32%) 1fr;
font:13px/1.5 system-ui,sans-serif;background:#fff;color:#1f2430}
header{grid-column:1/3;display:flex;gap:14px;align-items:center;padding:8px 14px;border-bottom:1px solid #8883}
header h1{font-size:15px;margin:0 8px 0 0}header span{opacity:.6}
button{font:inherit;border:1px solid #8886;background:none;color:inherit;padding:2px 10px;cursor:pointer}
button:first-child{border-radius:6px 0 0 6px}button:last-child{border-radius:0 6px 6px 0}
button+button{border-left:0}button.on{background:#3b76d8;color:#fff;border-color:#3b76d8}
nav{display:flex}nav:empty{display:none}label{cursor:pointer}
#source{overflow:auto;padding:8px 0;border-right:1px solid #8883;
font:12px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
#source h2{font:600 12px system-ui;opacity:.6;margin:10px 14px 4px}
#source p{margin:0;white-space:pre;padding:0 14px 0 0;opacity:.55}#source p.u{opacity:1;cursor:default}
#source b{display:inline-block;width:44px;padding-right:12px;text-align:right;font-weight:400;opacity:.5}
#source p.lit{background:#f5b80040}
#picture{overflow:auto;padding:8px}#picture svg{display:block;margin:0 auto}
@media(prefers-color-scheme:dark){body{background:#14171d;color:#e6e9ef}}
</style></head><body>
<header><h1>@title@</h1><nav id="groups"></nav><nav id="levels"></nav>
<label id="colours"><input type="checkbox" checked> colour kernels</label><span>@count@ nodes</span></header>
<div id="source">@source@</div><div id="picture"></div>
<script type="application/json" id="data">@data@</script>
<script>
const {views, start} = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id), names = {lines: "lines", ops: "ops", kernels: "as compiled"};
let now = {...start};
function buttons(nav, items, chosen, pick) {
  nav.replaceChildren(...items.map(([key, text]) => {
    const b = document.createElement("button");
    b.textContent = text; b.className = key === chosen ? "on" : ""; b.onclick = () => pick(key);
    return b;
  }));
}
function light(line) {
  for (const e of document.querySelectorAll("[data-line]")) e.classList.toggle("lit", e.dataset.line === line);
}
function draw() {
  const levels = views.filter(v => v.group === now.group).map(v => v.level);
  if (!levels.includes(now.level)) now.level = levels[levels.length - 1];
  const groups = [...new Set(views.map(v => v.group))];
  buttons($("groups"), groups.map(g => [g, names[g]]), now.group, g => { now.group = g; draw(); });
  const last = levels[levels.length - 1];
  const name = l => l === "0" ? "blocks closed" : l === last ? "all open" : l + " open";
  const choices = levels.length < 2 ? [] : levels.map(l => [l, name(l)]);
  buttons($("levels"), choices, now.level, l => { now.level = l; draw(); });
  $("picture").innerHTML = views.find(v => v.group === now.group && v.level === now.level).svg;
  $("colours").style.display = now.group === "kernels" ? "" : "none";
  paint();
}
function paint() {
  const picture = $("picture").querySelector("svg");
  picture.classList.toggle("kernels", now.group === "kernels" && $("colours").querySelector("input").checked);
}
$("colours").onchange = paint;
$("picture").onmouseover = e => { const g = e.target.closest("[data-line]"); light(g && g.dataset.line);
  if (g) { const p = $("source").querySelector(".lit"); if (p) p.scrollIntoView({block: "nearest"}); } };
$("source").onmouseover = e => { const p = e.target.closest("p.u"); light(p && p.dataset.line); };
$("picture").onmouseleave = $("source").onmouseleave = () => light(null);
$("picture").ondblclick = e => {
  if (!e.target.closest(".block")) return;
  now.level = now.level === "0" ? "last" : "0"; draw();
};
if (location.hash) now.group = location.hash.slice(1);
draw();
</script></body></html>
"""
