"""The tables of `explain`, and the reasons and guards in them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import jitgrad
from tests.script.inspect.explain.programs import Counter, noisy, rnn, rnn_arguments, two_maxima


def test_a_table_has_a_row_for_every_line_of_the_function():
    text = str(rnn.explain(*rnn_arguments()))
    rows = [row for row in text.split("\n\n")[1].splitlines() if re.match(r" +\d+ ", row)]
    assert [re.sub(r"^ *\d+ ", "", row)[:20].rstrip() for row in rows] == [
        "def rnn(xs, h, wx, w", "    for x in xs:", "        h = jitgrad.", "    return (h * h).s"]
    assert "x5" in rows[2]
    assert "B" in rows[2]
    assert "products" in rows[2]
    assert text.startswith("rnn\n  forward ")
    assert "saved" in text
    assert "how it was measured" in text


def test_guards_sizes_and_inputs_are_told():
    text = str(rnn.explain(*rnn_arguments()))
    assert "`xs` is float32 of rank 3, no size of 1" in text
    assert "`wx` is float32 of rank 2, no size of 1, requires grad" in text
    assert "xs.shape[2] == wx.shape[0] (as at the first call)" in text
    assert "`h`: float32[*, *]" in text


def test_reasons_name_both_lines():
    text = str(two_maxima.explain(jitgrad.ones(6, 5)))
    assert re.search(r"forward: exp \(line \d+\) -> amax \(line \d+\): they reduce different axes", text)


def test_why_there_is_another_specialisation():
    scripted = jitgrad.script(two_maxima.eager)
    scripted(jitgrad.ones(2, 3))
    report = scripted.explain(jitgrad.ones(2, 3, dtype=jitgrad.float64))
    assert report.others == ["`x` had dtype jitgrad.float32, has jitgrad.float64"]
    assert report.recompilations == report.others
    assert "another specialisation does not take this call: `x` had dtype" in str(report)


def test_decisions_are_told():
    def picks(x):
        total = x.sum()
        scales = (1.0, 2, 3.0)
        for i in range(3):
            total = total + scales[i] * x.sum()
        return total

    assert any("unrolled the loop" in line for line in jitgrad.script(picks).explain(jitgrad.ones(2)).log)


def test_no_loop_is_unrolled_to_find_an_item():
    """Its place among separate objects is found without another evaluation."""
    def place(x, n: int):
        return x * [1, n, 3].index(3)

    scripted = jitgrad.script(place)
    for n, there in ((2, 2), (3, 1)):
        assert scripted(jitgrad.ones(2), n).tolist() == [there, there]
    assert not any("unrolled the loop" in line for line in scripted.explain(jitgrad.ones(2), 2).log)


def test_a_module_shows_the_user_s_functions():
    text = str(jitgrad.script(Counter()).explain(jitgrad.ones(2, 3)))
    assert "\nforward, " in text
    assert "\nhelper, " in text
    assert "return y.exp().log()" in text
    assert "`self.fc.weight`" in text


def test_a_method_is_explained_with_its_instance():
    class Scaled:
        def __init__(self):
            self.factor = 2.0

        @jitgrad.script
        def apply(self, x):
            return x * self.factor

    assert "return x * self.factor" in str(Scaled().apply.explain(jitgrad.ones(3)))


class Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows = [], 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_notebooks_get_a_table():
    report = noisy.explain(jitgrad.ones(2, 2), 2)
    checker = Checker()
    checker.feed(report._repr_html_())
    assert not checker.open
    assert checker.rows == 1 + 7
    assert "src=" not in report._repr_html_()
    assert "print(&quot;step&quot;, i)" in report._repr_html_()
