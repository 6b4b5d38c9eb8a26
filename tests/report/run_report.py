#!/usr/bin/env python3
"""The page of `tilewright inspect --html`: what it holds, and in headless Chromium how it looks.

    run_report.py --tilewright COMMAND [--work DIR] [--screenshots DIR]

The structure is always tested; without Chromium (chromium-headless-shell or chromium in PATH, or
what CHROMIUM names) the rest is skipped, which is said.
"""
import argparse
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent / "models" / "zoo")]
from common import Report, Tilewright  # noqa: E402  (found through the line above)
import zoo  # noqa: E402

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
EVIL = '</script><img src="http://example.invalid/x" onerror="document.title=1"><!-- "\'&\u2028'


# ---- Reading a page ----

class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the texts of scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data


def data_of(path):
    page = Page(path.read_text(encoding="utf-8", errors="replace"))
    assert len(page.scripts) == 2, f"{len(page.scripts)} scripts instead of 2"
    for tag, attrs in page.elements:
        outside = {"src", "href", "action", "srcset", "poster"} & attrs.keys()
        assert not outside and tag not in ("img", "iframe", "link", "object"), (tag, attrs)
    policy = [a["content"] for t, a in page.elements if "http-equiv" in a]
    assert len(policy) == 1 and policy[0].startswith("default-src 'none'"), policy
    addresses = set(re.findall(r"https?://[^\"'\s\\]+", page.scripts[1]))
    assert addresses == {"http://www.w3.org/2000/svg"}, addresses  # a name, which nobody fetches
    return json.loads(page.scripts[0])


def check_data(data, passes=True):
    states = data["states"]
    for stage in data["stages"]:
        ids = [states[s]["i"] for s in stage["s"]]
        assert len(set(ids)) == len(ids), f"{stage['pass']}: an operation is there twice"
        known = set()
        for s in stage["s"]:
            for source in states[s]["in"]:
                assert isinstance(source, str) or source[0] in known, f"{stage['pass']}: order"
            known.add(states[s]["i"])
    assert bool(data["stages"]) == passes
    for before, after in zip(data["stages"], data["stages"][1:]):
        assert before["s"] != after["s"], f"{after['pass']} changed nothing"
    n = len(data["kernels"])
    assert n and [k["index"] for k in data["kernels"]] == list(range(n))
    for buffer in data["memory"]["buffers"]:
        assert buffer["first"] <= buffer["last"] < n
        assert data["memory"]["symbolic"] or \
            buffer["offset"] + buffer["size"] <= data["memory"]["arena"]
    return f"{len(data['stages'])} stages, {len(states)} states, {n} kernels"


# ---- In a browser ----

def find_browser():
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def visit(browser, page, fragment, work, screenshot=None):
    """The document after the scripts ran; no error, no request over a network."""
    log = work / "net.json"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
               f"--user-data-dir={work / 'profile'}", f"--log-net-log={log}",
               "--enable-logging=stderr", "--virtual-time-budget=20000"]
    what = [f"--screenshot={screenshot}"] if screenshot else ["--dump-dom"]
    done = subprocess.run([*command, *what, f"{page.as_uri()}#{fragment}"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    asked = set(re.findall(r'"url":"((?:https?|ftp|wss?)://[^"]*)"', log.read_text(errors="replace")))
    assert not asked, f"it asks for {asked}"
    return done.stdout


def rects_of(dom, pane):
    """Boxes of the operations of a pane, and the scale that they are shown at."""
    part = dom[dom.index(f'id="{pane}"'):]
    part = part[:part.index("</svg>")]
    scale = float(re.search(r"scale\(([\d.e-]+)\)", part).group(1))
    rects = [tuple(float(re.search(rf'\b{k}="([-\d.e]+)"', tag).group(1))
                   for k in ("x", "y", "width", "height"))
             for tag in re.findall(r"<rect[^>]*>", part)]
    return scale, rects, re.findall(r"<text[^>]*>([^<]*)</text>", part)


def check_readable(dom, least):
    scale, rects, texts = rects_of(dom, "after")
    assert scale >= 0.45, f"shown at {scale}"
    assert len(rects) >= least and len(texts) >= 2 * least, (len(rects), len(texts))
    for i, (x, y, w, h) in enumerate(rects):
        for a, b, c, d in rects[i + 1:]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y, "boxes overlap"
    return f"{len(rects)} operations in view, scale {scale:.2f}"


# ---- Cases ----

def evil_model(path):
    nodes = [helper.make_node("MatMul", ["x", "w" + EVIL], ["m" + EVIL], name="product" + EVIL),
             helper.make_node("Add", ["m" + EVIL, "x"], ["s" + EVIL], name="sum" + EVIL),
             helper.make_node("Softmax", ["s" + EVIL], ["y" + EVIL], name="end" + EVIL)]
    tensor = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8])
              for n in ("x", "w" + EVIL, "y" + EVIL)]
    graph = helper.make_graph(nodes, "graph" + EVIL, tensor[:2], tensor[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)


def check_evil(tw, browser, work):
    model, page = work / "evil <b>&.onnx", work / "evil.html"
    evil_model(model)
    tw("inspect", model, "--html", page)
    data = data_of(page)
    note = check_data(data)
    assert data["model"] == model.name and any(EVIL.replace("\u2028", "") in
                                               s.get("l", "").replace("\u2028", "")
                                               for s in data["states"]), "a name is changed"
    if browser:
        dom = visit(browser, page, "stage=0", work)
        assert 'data-ready="yes"' in dom
        assert not any(tag == "img" for tag, _ in Page(dom).elements), "a name became an element"
    return note


def check_forms(tw, browser, work):
    """A compiled file has no passes to show; with a profile kernels have times."""
    model, compiled, page = work / "evil.onnx", work / "evil.tw", work / "forms.html"
    evil_model(model)
    tw("compile", model, "-o", compiled)
    profile = work / "profile.json"
    profile.write_text(tw("bench", compiled, "--profile", "--json", "--seconds", "0.1"))
    tw("inspect", compiled, "--html", page, "--profile", profile)
    data = data_of(page)
    note = check_data(data, passes=False)
    assert all(k["ms"] > 0 for k in data["kernels"]) and data["profile"]["gflops"] > 0
    if browser:
        dom = visit(browser, page, "show=roofline", work)
        assert 'data-ready="yes"' in dom and dom.count("<circle") == sum(
            k["flops"] > 0 for k in data["kernels"])
    for wrong in (["--profile", profile], ["--html", model], ["--html", page, "--profile", model]):
        try:
            tw("inspect", model, *wrong)
        except RuntimeError:
            continue
        raise AssertionError(f"{wrong} is taken")
    return note


def check_network(tw, browser, work, name, screenshots):
    model, page = zoo.fill(name, work), work / f"{name}.html"
    tw("inspect", model, "--html", page)
    note = check_data(data_of(page))
    if not browser:
        return note
    for fragment in ("stage=0", "stage=99"):
        dom = visit(browser, page, fragment, work)
        assert 'data-ready="yes"' in dom
        note += "; " + check_readable(dom, 5)
    for show in ("kernels", "memory"):
        assert 'data-ready="yes"' in visit(browser, page, f"show={show}", work)
    if screenshots:
        visit(browser, page, "stage=99", work, screenshots / f"{name}.png")
    return note


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NETWORK", default=["resnet50"])
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--screenshots", type=Path, help="folder for pictures of the networks")
    args = parser.parse_args()
    for folder in filter(None, (args.work, args.screenshots)):
        folder.mkdir(parents=True, exist_ok=True)
    tw, report, browser = Tilewright(args.tilewright), Report(), find_browser()
    if not browser:
        print("skipped: how the pages look, for there is no " + " or ".join(BROWSERS))
    cases = {"names that look like markup": lambda work: check_evil(tw, browser, work),
             "a compiled file, a profile": lambda work: check_forms(tw, browser, work)}
    cases |= {name: lambda work, name=name: check_network(tw, browser, work, name,
                                                          args.screenshots)
              for name in args.names}
    for name, run in cases.items():
        with tempfile.TemporaryDirectory(dir=args.work, ignore_cleanup_errors=True) as work:
            report.case(name, lambda: run(Path(work).resolve()))
    return report.close(0 if browser else len(cases))


if __name__ == "__main__":
    sys.exit(main())
