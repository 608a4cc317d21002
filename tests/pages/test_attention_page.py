"""The page: its data, its independence of the network, and its drawing in a browser."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.pages import draw_attention
from transduce.translation.results import Explanation

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HEADLESS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
)
EMPTY = {"meta", "link"}


class Outline(HTMLParser):
    """The elements of a page, each with its text; a tag that is not closed in its place is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture
def page(explanation: Explanation, tmp_path: Path) -> str:
    draw_attention(explanation, tmp_path / "attention.html")
    return (tmp_path / "attention.html").read_text(encoding="utf-8")


@pytest.fixture
def record(page: str) -> Any:
    return json.loads(embedded(page))


def embedded(page: str) -> str:
    return re.findall(r'<script type="application/json" id="record">(.*?)</script>', page)[0]


def test_the_page_holds_every_weight_to_the_thousandth(record: Any, explanation: Explanation) -> None:
    assert [attention["name"] for attention in record["attentions"]] == ["cross", "encoder", "decoder"]
    for attention, layers in zip(record["attentions"], (explanation.cross, explanation.encoder, explanation.decoder)):
        assert len(attention["layers"]) == len(layers)
        for embedded, weights in zip(attention["layers"], layers, strict=True):
            assert np.array(embedded).shape == weights.shape
            np.testing.assert_allclose(np.array(embedded) / 1000, weights, atol=0.000501)


def test_a_row_of_the_decoder_is_the_subword_written_and_a_column_the_subword_before(record: Any) -> None:
    source = ["The", "</script><b>", "paint", "·ing", "$x$", '"', "שלום", "🙂", "</s>"]
    target = ["Das", "Gemälde", "&amp;", "·s", "$title", "</s>"]
    sides = [(attention["queries"], attention["keys"]) for attention in record["attentions"]]
    assert sides == [(target, source), (source, source), (target, ["<s>", *target[:-1]])]


def test_each_head_has_a_colour_of_its_own(record: Any) -> None:
    assert len(set(record["colours"])) == 5
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in record["colours"])


def test_the_page_is_well_formed_with_hostile_subwords(page: str, explanation: Explanation) -> None:
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("script") == 2
    assert "b" not in tags
    assert outline.texts["dd"] == [explanation.source_text, "Das Gemälde &amp;s $title␁"]
    assert outline.texts["title"] == [f"Attention: {explanation.source_text}"]


def test_no_subword_can_end_the_script_element(page: str) -> None:
    # A browser ends a script at "</script" and a space too, and "<!--" changes where it ends.
    assert not set("<>&") & set(embedded(page))


def test_the_page_needs_no_network(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    addresses = [values[name] for _, values in outline.elements for name in ("src", "href") if name in values]
    assert addresses == ["data:,"]
    # The name of SVG's namespace is not an address; nothing else may look like one.
    assert set(re.findall(r"https?://[^\s\"']*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bfetch\(|XMLHttpRequest|@import|url\(|\bimport\b[ (]", page)


def test_equal_explanations_give_equal_pages(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "one.html")
    draw_attention(explanation, tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def browse(page: Path, address: str, profile: Path) -> str:
    """Returns the document after the scripts ran; any message in the console is an error."""
    assert CHROMIUM
    command = [CHROMIUM, *HEADLESS, f"--user-data-dir={profile}", "--dump-dom", f"{page.as_uri()}{address}"]
    completed = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=True)
    assert "CONSOLE" not in completed.stderr, completed.stderr
    return completed.stdout


def drawn_lines(document: str) -> list[str]:
    """Returns the titles of the lines."""
    return sorted(html.unescape(title) for title in re.findall(r"<line .*?<title>(.*?)</title></line>", document))


def expected_lines(explanation: Explanation, layer: int, heads: list[int], queries: list[int]) -> list[str]:
    """Returns the titles of all weights of at least 0.01."""
    labels = ["The", "</script><b>", "paint", "·ing", "$x$", '"', "שלום", "🙂", "</s>"]
    weights = np.round(1000 * explanation.encoder[layer].astype(np.float64)) / 1000
    return sorted(
        f"{labels[query]} → {labels[key]}, head {head + 1}: {weights[head, query, key]:.3f}"
        for head in heads
        for query in queries
        for key in range(len(labels))
        if weights[head, query, key] >= 0.01
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_draws_the_lines_of_the_selected_subwords_and_heads(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "attention.html")
    document = browse(tmp_path / "attention.html", "#encoder-2&view=lines&heads=2.5&queries=2.4", tmp_path / "profile")
    assert drawn_lines(document) == expected_lines(explanation, 1, [1, 4], [1, 3])


READER = """<script>
const subwords = document.querySelectorAll("ol.queries button");
subwords[2].click();
subwords[2].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
document.querySelector("#heads input").click();
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_reader_pins_a_subword_goes_to_the_next_layer_and_deselects_a_head(
    explanation: Explanation, tmp_path: Path
) -> None:
    path = tmp_path / "attention.html"
    draw_attention(explanation, path)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", READER), encoding="utf-8")
    document = browse(path, "#encoder-2&view=lines", tmp_path / "profile")
    assert "Encoder self-attention, layer 3 of 3" in document
    assert drawn_lines(document) == expected_lines(explanation, 2, [1, 2, 3], [2])


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_opens_on_the_mean_of_the_last_cross_attention(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "attention.html")
    document = browse(tmp_path / "attention.html", "", tmp_path / "profile")
    assert "Cross-attention, layer 2 of 2, mean of heads" in document
    shown = [float(cell.replace("1.0", "1")) for cell in re.findall(r"<td style[^>]*>([.\d]+)</td>", document)]
    mean = explanation.cross[-1].mean(axis=0)
    np.testing.assert_allclose(shown, mean.ravel(), atol=0.0066)
    largest = [int(key) for key in re.findall(r'data-key="(\d+)" class="[^"]*largest', document)]
    assert largest == mean.argmax(axis=1).tolist()
    none = browse(tmp_path / "attention.html", "#cross-2&heads=", tmp_path / "profile")
    assert "No head is selected." in none


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_every_heat_map_and_each_cell_of_a_large_one(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "attention.html")
    small = browse(tmp_path / "attention.html", "#encoder-1&view=maps", tmp_path / "profile")
    assert small.count("<canvas") == 4 + 5 + 4
    large = browse(tmp_path / "attention.html", "#cross-2&view=map&head=3", tmp_path / "profile")
    assert "Cross-attention, layer 2 of 2, head 3" in large
    assert large.count("<td ") == 6 * 9


KEYBOARD = """<script>
const focused = [];
const after = (action) => { action(); focused.push(document.activeElement.id || buttonName(document.activeElement)); };
const press = (name) => {
  const button = [...document.querySelectorAll("#stage button")].find((candidate) => buttonName(candidate) === name);
  button.focus();
  button.click();
};
after(() => press("Next head"));
after(() => press("Next head"));
after(() => press("All heads"));
after(() => press("Layer 1, head 1"));
document.body.append(element("output", {}, focused.join("; ")));
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_focus_stays_where_buttons_are_rebuilt(explanation: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "attention.html"
    draw_attention(explanation, path)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", KEYBOARD), encoding="utf-8")
    # Head 2.5 is read as 2. Head 4 is the last of this layer, so that its button for the next head is disabled.
    document = browse(path, "#encoder-1&view=map&head=2.5", tmp_path / "profile")
    assert "<output>Next head; stage; stage; stage</output>" in document


def test_figures_without_matplotlib_name_the_extra(
    explanation: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.runtime.extras.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"need Matplotlib: `pip install '.\[figures\]'`"):
        draw_attention(explanation, tmp_path / "attention.png")
    draw_attention(explanation, tmp_path / "attention.html")
