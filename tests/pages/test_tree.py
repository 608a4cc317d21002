"""Drawings of parse trees: places of labels, literal text, marks of differences, the page in a browser."""

import html
import os
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_attention_page import CHROMIUM, browse

from transduce.pages import draw_tree
from transduce.pages.figure_style import resolution
from transduce.pages.tree_drawing import compare
from transduce.pages.tree_layout import COLUMN_GAP, MAX_WORDS, PlacedNode, TreeLayout, lay_out, text_width
from transduce.parsing.trees import Tree, clean_tree, format_tree, parse_tree, read_trees, words_of

DATA = Path(os.environ.get("TRANSDUCE_DATA", "/nonexistent"))
SVG = "{http://www.w3.org/2000/svg}"

TREE = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (NNS cats)) (PP (IN in) (NP (NNP Rome))))) (. .))")
REFERENCE = parse_tree(
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NNS cats)) (PP (IN in) (NP (NNP Rome)))) (. .))",
)
ODD_WORDS = (
    "$x_1$",
    "<b>&amp;",
    "\\frac",
    '"',
    "'s",
    "a]]>b",
    "東京",
    "שלום",
    "🙂",
    "é̂",
    "--",
    "$",
    "{}",
    "$\\nosuch$",
    "x\x01y",
)
ODD = Tree("S", (Tree("NP$", tuple(Tree("<&>", (word,)) for word in ODD_WORDS)), Tree("-LRB-", ("-LRB-",))))

LABELS = st.sampled_from(["S", "NP", "VP", "WHADVP-WITH-A-LONG-LABEL", "X", "", "-LRB-", ","])
WORDS = st.sampled_from(
    ["a", "Mississippi", "東京タワー", "WWWWWW", ".", "pneumonoultramicroscopicsilicovolcanoconiosis"]
)
TREES = st.recursive(
    st.builds(lambda label, word: Tree(label, (word,)), LABELS, WORDS),
    lambda parts: st.builds(
        lambda label, nodes: Tree(label, tuple(nodes)), LABELS, st.lists(parts, min_size=1, max_size=5)
    ),
    max_leaves=20,
)


def flat_tree(words: int) -> Tree:
    return Tree("S", tuple(Tree("NN", (f"word{number}",)) for number in range(words)))


def parts_of(layout: TreeLayout, number: int) -> list[PlacedNode]:
    return [node for node in layout.nodes if node.parent == number]


def segments(layout: TreeLayout) -> list[tuple[PlacedNode, float, float, float, float]]:
    """Returns each straight piece of a line with its node: left, top, right, bottom."""
    return [
        (node, min(x, x2), min(y, y2), max(x, x2), max(y, y2))
        for node in layout.nodes
        for (x, y), (x2, y2) in pairwise(node.line)
    ]


@given(tree=TREES)
def test_no_label_lies_on_another_or_outside_of_the_picture(tree: Tree) -> None:
    layout = lay_out(tree)
    rows: dict[float, list[tuple[float, float]]] = {}
    for item in (*layout.nodes, *layout.words):
        rows.setdefault(item.y, []).append((item.x - item.width / 2, item.x + item.width / 2))
        assert 0 < item.y < layout.height
    for row in rows.values():
        assert row[0][0] >= 0
        assert row[-1][1] <= layout.width
        assert all(right + COLUMN_GAP <= left + 1e-6 for (_, right), (left, _) in pairwise(row))


@given(tree=TREES)
def test_no_line_passes_through_a_label(tree: Tree) -> None:
    layout = lay_out(tree)
    for _, left, top, right, bottom in segments(layout):
        for node in layout.nodes:
            beside = right < node.x - node.width / 2 or left > node.x + node.width / 2
            assert beside or bottom <= node.y - 9 or top >= node.y + 9


@given(tree=TREES)
def test_a_phrase_stands_above_the_middle_of_its_parts(tree: Tree) -> None:
    layout = lay_out(tree)
    for number, node in enumerate(layout.nodes):
        parts = parts_of(layout, number)
        assert bool(parts) == node.is_phrase
        if parts:
            assert node.x == pytest.approx((parts[0].x + parts[-1].x) / 2)
            assert node.y < min(part.y for part in parts)
            assert (node.first, node.last) == (parts[0].first, parts[-1].last)
            assert [part.first for part in parts[1:]] == [part.last + 1 for part in parts[:-1]]
            # A line begins below the phrase and ends above the part.
            for part in parts:
                assert part.line[0] == (node.x, node.y + 10)
                assert part.line[-1] == (part.x, part.y - 10)


@given(tree=TREES)
def test_words_stand_in_their_order_below_their_parts_of_speech(tree: Tree) -> None:
    layout = lay_out(tree)
    assert [word.text for word in layout.words] == words_of(tree)
    assert len({word.y for word in layout.words}) == 1
    tags = [node for node in layout.nodes if not node.is_phrase]
    assert [tag.x for tag in tags] == [word.x for word in layout.words]
    assert {tag.y for tag in tags} == {layout.words[0].y - 20}
    assert [tag.first for tag in tags] == [tag.last for tag in tags] == list(range(len(tags)))
    assert layout.text_of(layout.nodes[0]) == " ".join(words_of(tree))


def test_a_wide_character_takes_more_than_a_letter_and_a_mark_nothing() -> None:
    assert text_width("東京", 10) > 20 > text_width("ab", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)


@pytest.mark.parametrize("text", ["WWW", "The quick brown fox", "NP-SBJ", "mmmm", "(1,000.5)", "Übergröße", "ΑΩж"])
def test_the_estimate_of_a_text_is_its_length_or_a_little_more(text: str) -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    drawn = TextPath((0, 0), text, size=100, prop=FontProperties(family="DejaVu Sans")).get_extents().width
    assert drawn <= text_width(text, 100) <= 1.4 * drawn


def texts_of(path: Path) -> list[str]:
    return [text.text or "" for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


def test_odd_characters_stand_in_the_svg_as_they_are(tmp_path: Path) -> None:
    draw_tree(ODD, tmp_path / "tree.svg")
    texts = texts_of(tmp_path / "tree.svg")
    expected = [word.replace("\x01", "␁") for word in ODD_WORDS]
    assert [text for text in texts if text in expected] == expected
    assert texts.count("<&>") == len(ODD_WORDS)
    assert texts[:2] == ["S", "NP$"]
    assert texts[-2:] == ["-LRB-", "("]


def test_a_very_long_word_is_shortened_in_the_picture_alone(tmp_path: Path) -> None:
    tree = Tree("NP", (Tree("NN", ("x" * 500,)),))
    draw_tree(tree, tmp_path / "tree.svg")
    assert "x" * 59 + "…" in texts_of(tmp_path / "tree.svg")
    draw_tree(tree, tmp_path / "tree.html")
    assert f"(NP (NN {'x' * 500}))" in (tmp_path / "tree.html").read_text(encoding="utf-8")


def test_the_png_grows_with_the_sentence_and_is_not_blank(tmp_path: Path) -> None:
    draw_tree(TREE, tmp_path / "tree.png", other=REFERENCE)
    draw_tree(TREE, tmp_path / "alone.png")
    draw_tree(ODD, tmp_path / "odd.png")
    image, alone, odd = (matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("tree", "alone", "odd"))
    assert image.shape[0] > alone.shape[0]
    assert odd.shape[1] > alone.shape[1] > 500
    assert alone[..., :3].std() > 0.05
    # Only the boxes and labels of the marked phrases are red.
    layout = lay_out(TREE)
    (marked,) = (node for node in layout.nodes if layout.text_of(node) == "cats in Rome")
    x, y = round(marked.x * 160 / 72), round((marked.y + 9) * 160 / 72)
    red, alone_red = (picture[..., 0] - picture[..., 1] for picture in (image, alone))
    assert red[y - 2 : y + 3, x - 8 : x + 8].max(axis=0).min() > 0.3
    assert alone_red.max() < 0.1
    assert b"Software" not in (tmp_path / "tree.png").read_bytes()


def test_the_resolution_falls_where_a_picture_would_be_too_large() -> None:
    assert resolution(10, 5, 160) == 160
    for width, height in ((300.0, 30.0), (3.0, 3000.0), (1000.0, 1.0)):
        dpi = resolution(width, height, 160)
        assert dpi < 160
        assert width * height * dpi**2 <= 40.01e6
        assert max(width, height) * dpi < 2**16


def test_a_png_of_a_long_sentence_is_bounded(tmp_path: Path) -> None:
    draw_tree(flat_tree(300), tmp_path / "tree.png")
    assert 10_000 < matplotlib.image.imread(tmp_path / "tree.png").shape[1] < 2**16
    unreadable = Tree("S", tuple(Tree("NN", ("W" * 60,)) for _ in range(MAX_WORDS)))
    with pytest.raises(ValueError, match=r"1000 words would be too small in a PNG: draw into \.svg or \.html"):
        draw_tree(unreadable, tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_equal_trees_give_equal_bytes_in_one_word_and_in_forty_levels(tmp_path: Path, suffix: str) -> None:
    deep = Tree("NN", ("a",))
    for level in range(40):
        deep = Tree(f"X{level}", (deep, Tree("NN", ("b",))) if level % 2 else (deep,))
    for tree in (parse_tree("(INTJ (UH Yes))"), parse_tree("(UH Yes)"), deep):
        draw_tree(tree, tmp_path / f"one.{suffix}", other=tree)
        draw_tree(tree, tmp_path / f"two.{suffix}", other=tree)
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_differences_are_labels_and_spans() -> None:
    layout = lay_out(TREE)
    notes = compare(layout, lay_out(REFERENCE))
    assert [(layout.nodes[number].label, layout.text_of(layout.nodes[number])) for number in sorted(notes.extra)] == [
        ("NP", "cats in Rome")
    ]
    assert notes.missing == ()
    assert notes.legend == "Marked: 1 of 7 phrases, which the reference tree does not have."
    notes = compare(lay_out(REFERENCE), layout)
    assert not notes.extra
    assert notes.legend == "Every phrase is in the reference tree."
    assert notes.lines[1:] == ("Missing: 1 phrase of the reference tree.", "NP, words 4–6: cats in Rome")


def test_a_chain_of_one_label_is_matched_as_often_as_it_occurs() -> None:
    once, twice = parse_tree("(S (X (NP (N a))))"), parse_tree("(S (NP (X (NP (N a)))))")
    assert len(compare(lay_out(twice), lay_out(once)).extra) == 1
    assert compare(lay_out(once), lay_out(twice)).missing == ("NP, word 1: a",)
    # A part of speech is not a phrase: neither one of another name, nor one of the name and place of a phrase.
    assert len(compare(lay_out(parse_tree("(S (NP (NP a)))")), lay_out(parse_tree("(S (NP a))"))).extra) == 1
    assert not compare(lay_out(parse_tree("(NP (B a))")), lay_out(parse_tree("(NP (A a))"))).extra


def test_the_svg_marks_what_the_reference_tree_lacks(tmp_path: Path) -> None:
    draw_tree(TREE, tmp_path / "tree.svg", other=REFERENCE)
    draw_tree(REFERENCE, tmp_path / "alone.svg")
    groups = list(ElementTree.parse(tmp_path / "tree.svg").getroot().iter(f"{SVG}g"))
    titles = [group.findtext(f"{SVG}title") for group in groups if "extra" in group.get("class", "").split()]
    assert titles == ["NP: cats in Rome"]
    assert texts_of(tmp_path / "tree.svg")[-1] == "No phrase of the reference tree is missing."
    assert "#b3261e" not in (tmp_path / "alone.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        (Tree("S", ()), None, r"the bracket \(S\) is empty; remove it"),
        (Tree("S", ("word",)), Tree("S", ("word", "more")), "has 2 words; draw what `clean_tree` returns"),
        (Tree("S", ("word", Tree("N", ("a",)))), None, "has no part of speech"),
        (flat_tree(MAX_WORDS + 1), None, "1001 words, and a picture has at most 1000: draw a shorter sentence"),
        (flat_tree(2), flat_tree(3), "word 3 is 'word2' there and none in the tree"),
        (parse_tree("(S (N a) (N b))"), parse_tree("(S (N a) (N c))"), "word 2 is 'c' there and 'b' in the tree"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_remedy(
    tree: Tree, other: Tree | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "tree.svg"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        draw_tree(tree, path, other=other)
    assert path.read_text(encoding="utf-8") == "old"


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.html, \.png or \.svg"):
        draw_tree(TREE, tmp_path / "tree.pdf")


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    path = tmp_path / f"tree.{suffix}"
    draw_tree(TREE, path)
    before = path.read_bytes()

    def fail(self: Path, *arguments: object, **options: object) -> int:
        Path(self).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, target, **options: fail(target))
    with pytest.raises(OSError, match="no space left"):
        draw_tree(ODD, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    draw_tree(TREE, tmp_path / "tree.html", other=REFERENCE)
    page = (tmp_path / "tree.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "http:" not in page
    assert "https:" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert not re.search(r"\bfetch\(|XMLHttpRequest|@import|url\(|\bimport\b[ (]", page)


def test_the_page_has_sentence_brackets_and_a_well_formed_picture(tmp_path: Path) -> None:
    draw_tree(ODD, tmp_path / "tree.html")
    page = (tmp_path / "tree.html").read_text(encoding="utf-8")
    brackets = html.unescape(re.findall(r'<pre id="brackets"[^>]*>(.*?)</pre>', page)[0])
    assert brackets == format_tree(ODD).replace("\x01", "␁")
    picture = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0])
    assert picture.get("aria-describedby") == "brackets"
    nodes = [group for group in picture.iter("g") if "node" in group.get("class", "").split()]
    assert [(group.get("data-first"), group.get("data-last"), group.get("data-parent")) for group in nodes[:4]] == [
        ("0", "15", None),
        ("0", "14", "0"),
        ("0", "0", "1"),
        ("1", "1", "1"),
    ]
    assert nodes[3].findtext("title") == "<&>: <b>&amp;"


READER = """<script>
const seen = [];
const look = () => seen.push(document.getElementById("phrase").textContent + " " + highlight.getAttribute("width"));
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const labelled = (label) => nodes.filter((node) => labelOf(node) === label);
labelled("PP")[0].dispatchEvent(new PointerEvent("pointerenter")); look();
labelled("PP")[0].dispatchEvent(new PointerEvent("pointerleave")); look();
nodes[0].focus(); nodes[0].dispatchEvent(new FocusEvent("focus")); look(); // headless windows may not be active
for (const key of ["ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"]) { press(key); look(); }
seen.push(document.querySelectorAll('.node[tabindex="0"]').length);
const output = document.createElement("output");
output.textContent = seen.join("; ");
document.body.append(output);
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_pointer_and_keyboard_show_the_words_of_a_phrase(tmp_path: Path) -> None:
    path = tmp_path / "tree.html"
    draw_tree(TREE, path)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", READER), encoding="utf-8")
    document = browse(path, "", tmp_path / "profile")
    output = re.findall("<output>(.*?)</output>", document)[0].split("; ")
    shown = [text.rsplit(" ", 1) for text in output[:-1]]
    hint = "Point at a phrase to see its words. The arrow keys move from phrase to phrase."
    verb_phrase = "VPsaw cats in Rome"
    assert [text for text, _ in shown] == [
        *("PPin Rome", hint, "Sthe dog saw cats in Rome .", "NPthe dog", verb_phrase),
        *("VBDsaw", "VBDsaw", verb_phrase),
    ]
    layout = lay_out(TREE)
    first, last = layout.words[4], layout.words[5]
    assert float(shown[0][1]) == pytest.approx(last.x + last.width / 2 - first.x + first.width / 2 + 8, abs=0.3)
    assert float(shown[1][1]) == 0
    assert output[-1] == "1"


@pytest.mark.parametrize("treebank", ["craft-treebank/dev/*.tree", "ptb-sample/*.mrg"])
def test_trees_of_a_treebank_are_drawn(treebank: str, tmp_path: Path) -> None:
    files = sorted(DATA.glob(treebank))[:3]
    if not files:
        pytest.skip(f"TRANSDUCE_DATA has no {treebank}")
    trees = [tree for path in files for _, tree in read_trees(path.read_text("utf-8").split("\n"), str(path))]
    cleaned = [tree for tree in map(clean_tree, trees) if tree]
    longest = max(cleaned, key=lambda tree: len(words_of(tree)))
    draw_tree(longest, tmp_path / "tree.svg")
    texts = texts_of(tmp_path / "tree.svg")
    assert set(words_of(longest)) <= set(texts)
