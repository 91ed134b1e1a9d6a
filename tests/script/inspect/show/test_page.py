"""Pictures of graphs: SVG and the HTML page, complete in themselves."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

import jitgrad
from jitgrad import nn
from jitgrad.script.inspect.show.diagram import depth_of, draw, draw_lines
from jitgrad.script.inspect.show.page import page, svg
from tests.script.inspect.pycode_programs import PROGRAMS

SVG = "{http://www.w3.org/2000/svg}"


def graph_of(name):
    function, arguments = next((f, a) for f, a in PROGRAMS if f.__name__ == name)
    return jitgrad.script(function).graph_for(*arguments())


def texts(text):
    return [e.text for e in ElementTree.fromstring(text).iter(f"{SVG}text")]


def views(text):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    return json.loads(data)


def boxes_of(panel):
    for box in panel.boxes:
        yield box
        for inner in box.panels:
            yield from boxes_of(inner)


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_every_graph_has_a_page_and_a_picture(function, arguments):
    graph = jitgrad.script(function).graph_for(*arguments())
    ElementTree.fromstring(svg(graph))
    for view in views(page(graph))["views"]:
        ElementTree.fromstring(view["svg"])


def test_constants_names_and_loops_are_written_out():
    found = texts(svg(graph_of("rnn")))
    assert "for k in range(A)" in found
    assert "· @ wh" in found
    assert "tanh" in found
    assert found.count("f32[B, C]") >= 1
    newton = texts(svg(graph_of("newton")))
    assert {"while", "· * 0.5", "a / ·"} <= set(newton)
    assert {"then", "else"} <= set(texts(svg(graph_of("branches"))))


def test_labels_fit_their_boxes():
    for name in ("attention", "newton", "losses"):
        for box in boxes_of(draw(graph_of(name), 9)):
            assert all(7.3 * len(text) <= box.width for text, _ in box.rows)


def test_blocks_close():
    graph = graph_of("nested")
    assert depth_of(graph.block) >= 2
    closed, opened = draw(graph, 0), draw(graph, 9)
    assert len(list(boxes_of(closed))) < len(list(boxes_of(opened)))
    assert any(text.endswith("ops inside") for box in closed.boxes for text, _ in box.rows)
    assert closed.placed.height < opened.placed.height


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(60)])

    def forward(self, x):
        for layer in self.layers:
            x = jitgrad.tanh(layer(x))
        return x


def test_large_graphs_start_as_lines():
    graph = jitgrad.script(Deep()).graph_for(jitgrad.ones(2, 4))
    assert views(page(graph))["start"]["group"] == "lines"
    panel = draw_lines(graph)
    assert len(panel.boxes) < 10
    assert "x = jitgrad.tanh(layer(x))" in texts(svg(graph))


def test_kernels_are_coloured_in_the_compiled_form():
    text = next(v["svg"] for v in views(page(graph_of("norm")))["views"] if v["group"] == "kernels")
    root = ElementTree.fromstring(text)
    assert "kernels" in root.get("class")
    marked = [e.get("data-k") for e in root.iter(f"{SVG}g") if e.get("data-k")]
    assert set(marked) == {"kernel 1"}  # the whole normalisation is one kernel
    assert len(marked) > 5


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.lines, self.fetched = [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.fetched += [found[k] for k in ("src", "href") if k in found]
        if tag == "p":
            self.lines.append(found["data-line"])


def test_the_page_has_the_source_and_fetches_nothing(tmp_path):
    path = graph_of("rnn").show(tmp_path / "rnn.html")
    text = Path(path).read_text(encoding="utf-8")
    parser = Page()
    parser.feed(text)
    assert not parser.fetched
    assert "url(" not in text
    assert "@import" not in text
    assert len(parser.lines) == 4
    lines = {e.get("data-line") for v in views(text)["views"] for e in ElementTree.fromstring(v["svg"]).iter()}
    assert lines - {None} <= set(parser.lines)


def test_a_name_cannot_break_out_of_the_page():
    graph = graph_of("rnn")
    graph.name = "</script><b>"
    text = page(graph)
    assert text.count("</script>") == 2
    assert "<b>" not in text.partition("<header>")[2].partition("</h1>")[0]


def test_a_temporary_file_where_no_path_is_given(monkeypatch):
    import os
    import webbrowser

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = graph_of("rnn").show()
    assert path.endswith(".html")
    assert not opened  # nobody is there to look
    os.unlink(path)
    os.unlink(graph_of("rnn").show(browser=True))
    assert len(opened) == 1


def test_notebooks_get_an_svg():
    assert graph_of("rnn")._repr_svg_().startswith("<svg ")
