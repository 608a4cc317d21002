"""What a translated document must have of its source, found by other parsers than those of the package."""

import io
import json
import re
import zipfile
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree

from random_documents import PLACEHOLDERS

PLACEHOLDER = re.compile("|".join(map(re.escape, sorted(PLACEHOLDERS, key=len, reverse=True))))
TARGETS = {"xliff": "target", "xliff 2": "target", "tmx": "tuv[2]/seg"}
_STRING_TAG = re.compile(r"<(/?)(\w+)(/?)>")


class TagBalance(HTMLParser):
    """Collects tags; `faults` has those that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.path: list[str] = []
        self.tags: Counter[str] = Counter()
        self.faults: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[f"{tag} {attrs}"] += 1
        if tag not in ("img", "br"):
            self.path.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.path or self.path.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def faults(kind: str, source: bytes, output: bytes) -> list[str]:
    """Returns what a translation has lost or broken."""
    if kind in ("xliff", "xliff 2", "tmx"):
        return _xml_faults(kind, source, output)
    if kind == "docx":
        return _docx_faults(source, output)
    before, after = source.decode(), output.decode()
    found = []
    if kind == "html":
        found = _html_faults(before, after)
    elif kind == "markdown":
        found = _markdown_faults(before, after)
    else:
        found = _string_faults(_strings(kind, before, translated=False), _strings(kind, after, translated=True))
        found += _skeleton_faults(kind, before, after)
    return found + _placeholder_faults(_plain(kind, before), _plain(kind, after, translated=True))


def _plain(kind: str, text: str, *, translated: bool = False) -> str:
    return "\n".join(_strings(kind, text, translated=translated)) if kind in ("po", "json", "yaml", "srt") else text


def _placeholder_faults(before: str, after: str) -> list[str]:
    """Returns the placeholders whose numbers differ."""
    counts = [Counter(PLACEHOLDER.findall(text)) for text in (before, after)]
    return [f"placeholders {counts[0] - counts[1]} {counts[1] - counts[0]}"] if counts[0] != counts[1] else []


def _html_faults(before: str, after: str) -> list[str]:
    parsers = [TagBalance(), TagBalance()]
    for parser, text in zip(parsers, (before, after), strict=True):
        parser.feed(text)
        parser.close()
    found = [f"tag {tag}" for tag in parsers[1].faults + parsers[1].path]
    return found + (["tags differ"] if parsers[0].tags != parsers[1].tags else [])


def _markdown_faults(before: str, after: str) -> list[str]:
    """Compares the blocks, and the numbers of inline tokens, as CommonMark reads them."""
    from markdown_it import MarkdownIt

    shapes = []
    for text in (before, after):
        tokens = MarkdownIt("commonmark").parse(text)
        blocks = [(token.type, token.level) for token in tokens]
        html = [child.content for token in tokens for child in token.children or () if child.type == "html_inline"]
        images = [child.attrs["src"] for token in tokens for child in token.children or () if child.type == "image"]
        shapes.append((blocks, Counter(html), Counter(images)))
    return ["structure differs"] if shapes[0] != shapes[1] else _html_faults(before, after)


def _string_faults(before: list[str], after: list[str]) -> list[str]:
    """Compares the tags within strings."""
    if len(before) != len(after):
        return [f"{len(before)} strings, {len(after)} after"]
    found = []
    for first, second in zip(before, after, strict=True):
        if Counter(_STRING_TAG.findall(first)) != Counter(_STRING_TAG.findall(second)):
            found.append(f"tags of {first!r}: {second!r}")
        path = []
        for end, name, empty in _STRING_TAG.findall(second):
            if end:
                found += [] if path and path.pop() == name else [f"unbalanced {second!r}"]
            elif not empty:
                path.append(name)
    return found


def _strings(kind: str, text: str, *, translated: bool) -> list[str]:
    """Returns the strings of a table, by another library than the package uses where there is one."""
    if kind == "json":
        return [value for values in json.loads(text).values() for value in values]
    if kind == "yaml":
        from ruamel.yaml import YAML

        return [str(value).rstrip("\n") for value in YAML(typ="safe", pure=True).load(text).values()]
    if kind == "srt":
        return [" ".join(block.split("\n")[2:]).strip() for block in text.strip().split("\n\n")]
    entries = re.split(r"(?m)^msgid ", text)[2:]
    parts = [re.split(r"(?m)^msgstr ", entry)[translated] for entry in entries]
    return ["".join(json.loads(quoted) for quoted in re.findall(r'(?m)^(?:.*? )?(".*")$', part)) for part in parts]


def _skeleton_faults(kind: str, before: str, after: str) -> list[str]:
    """Compares keys, numbers and times."""
    if kind == "json":
        same = list(json.loads(before)) == list(json.loads(after))
    elif kind == "yaml":
        same = re.findall(r"(?m)^key \d+:|^#.*", before) == re.findall(r"(?m)^key \d+:|^#.*", after)
    elif kind == "srt":
        same = re.findall(r"(?m)^\d+$|^.*-->.*$", before) == re.findall(r"(?m)^\d+$|^.*-->.*$", after)
    else:
        same = _strings("po", before, translated=False) == _strings("po", after, translated=False)
    return [] if same else ["structure differs"]


def _xml_faults(kind: str, source: bytes, output: bytes) -> list[str]:
    """Compares each source with its target: text, tags, attributes, placeholders; the sources must stay."""
    first, second = ElementTree.fromstring(source), ElementTree.fromstring(output)
    found = []
    name = "seg" if kind == "tmx" else "source"
    before = [element for element in first.iter() if element.tag.rpartition("}")[2] == name]
    for parent in second.iter():
        children = [child.tag.rpartition("}")[2] for child in parent]
        if kind == "tmx" and parent.tag == "tu":
            pair = [variant.find("seg") for variant in parent]
        elif "target" in children:
            pair = [child for child in parent if child.tag.rpartition("}")[2] in ("source", "target")]
        else:
            continue
        original = before.pop(0)
        texts = ["".join(element.itertext()) for element in (original, *pair)]
        tags = [
            Counter((child.tag, tuple(child.attrib.items())) for child in element.iter() if child is not element)
            for element in (original, *pair)
        ]
        found += ["the source changed"] if texts[0] != texts[1] or tags[0] != tags[1] else []
        found += ["tags differ"] if tags[1] != tags[2] else []
        found += _placeholder_faults(texts[1], texts[2])
        found += _order_faults(pair[1])
    return found + ([f"{len(before)} without a target"] if before else [])


def _order_faults(segment: ElementTree.Element) -> list[str]:
    """Returns the pairs of TMX whose tags are in the wrong order or cross."""
    path = []
    for child in segment.iter():
        if child.tag == "bpt":
            path.append(child.get("i"))
        elif child.tag == "ept" and (not path or path.pop() != child.get("i")):
            return ["unbalanced"]
    return ["unbalanced"] if path else []


def _docx_faults(source: bytes, output: bytes) -> list[str]:
    archives = [zipfile.ZipFile(io.BytesIO(content)) for content in (source, output)]
    if archives[0].namelist() != archives[1].namelist():
        return ["files differ"]
    found = []
    for name in archives[0].namelist():
        contents = [archive.read(name) for archive in archives]
        if name != "word/document.xml":
            found += ["a file changed"] if contents[0] != contents[1] else []
            continue
        word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
        shapes, texts = [], []
        for content in contents:
            paragraphs = list(ElementTree.fromstring(content).iter(f"{word}p"))
            shapes.append([len(list(paragraph.iter(f"{word}tab"))) for paragraph in paragraphs])
            texts.append(["".join(text.text or "" for text in p.iter(f"{word}t")) for p in paragraphs])
        found += ["structure differs"] if shapes[0] != shapes[1] else []
        for first, second in zip(*texts, strict=True):
            found += _placeholder_faults(first, second)
    return found
