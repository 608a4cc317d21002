"""Random documents of every format around real sentences, and what each must keep."""

import html
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

PLACEHOLDERS = "{0} {name} %s %d %(count)d ${x} {{y}} https://example.org/a?b=c x.y@example.org {n:.2f}".split()
SENTENCES = (
    "Two men are at the stove preparing food.",
    "A child in a pink dress is climbing up a set of stairs.",
    "Is someone in a blue shirt standing on a ladder?",
    'Mr. Smith\'s dogs & cats are < 3 years old, e.g. "Rex".',
    "A girl, who is 5, plays; her brother sleeps!",
)


class Piece(NamedTuple):
    """Text, or a tag around pieces, or an empty tag."""

    text: str = ""
    children: "tuple[Piece, ...]" = ()
    is_pair: bool = False
    is_empty: bool = False


def random_pieces(rng: random.Random, sentences: Sequence[str], depth: int = 0) -> tuple[Piece, ...]:
    """Returns words of one to three sentences with placeholders, cut by tags at random places."""
    words = " ".join(rng.choice(sentences) for _ in range(rng.randint(1, 3))).split(" ")
    for _ in range(rng.randint(0, 3)):
        words.insert(rng.randrange(len(words) + 1), rng.choice(PLACEHOLDERS))
    return _tagged(rng, words, depth)


def _tagged(rng: random.Random, words: list[str], depth: int) -> tuple[Piece, ...]:
    """Returns words with random tags around some of them."""
    pieces: list[Piece] = []
    while words:
        count = rng.randint(1, len(words))
        part, words = words[:count], words[count:]
        space = " " if words else ""
        kind = rng.random()
        if kind < 0.35 and depth < 3:
            inner = _tagged(rng, part, depth + 1)
            pieces += [Piece(children=inner, is_pair=True), Piece(space)]
        elif kind < 0.45:
            pieces += [Piece(" ".join(part) + " "), Piece(is_empty=True), Piece(space)]
        else:
            pieces.append(Piece(" ".join(part) + space))
    return tuple(pieces)


def text_of(pieces: Sequence[Piece]) -> str:
    return "".join(text_of(piece.children) if piece.is_pair else piece.text for piece in pieces)


def render(pieces: Sequence[Piece], pair: Callable[[int, str], str], empty: Callable[[int], str]) -> str:
    """Returns pieces as markup; tags are numbered from 1 in the order of their beginnings."""
    numbers = iter(range(1, 1000))

    def write(pieces: Sequence[Piece]) -> str:
        parts = []
        for piece in pieces:
            if piece.is_pair:
                number = next(numbers)
                parts.append(pair(number, write(piece.children)))
            else:
                parts.append(empty(next(numbers)) if piece.is_empty else escape(piece.text))
        return "".join(parts)

    return write(pieces)


def html_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    body = "".join(
        f'<p id="p{n}">{render(p, lambda n, t: f"<b id={n}>{t}</b>", lambda n: f"<img id={n}>")}</p>\n'
        for n, p in enumerate(paragraphs)
    )
    return f"<!DOCTYPE html>\n<html><body>\n{body}<pre>a  &lt; b</pre></body></html>\n".encode()


def markdown_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    """Tags are HTML within Markdown, whose text needs fewer escapes than emphasis at random places."""
    blocks = [render(p, lambda n, t: f"<b id={n}>{t}</b>", lambda n: f"![i]({n}.png)") for p in paragraphs]
    marks = ("", "# ", "- ", "> ")
    return "\n\n".join(marks[n % 4] + block for n, block in enumerate(blocks)).encode() + b"\n\n```\na  b\n```\n"


def xliff_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    units = "".join(
        f'<trans-unit id="{n}"><source>'
        f'{render(p, lambda n, t: f"""<g id="{n}">{t}</g>""", lambda n: f"""<x id="{n}"/>""")}</source></trans-unit>\n'
        for n, p in enumerate(paragraphs)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f'<file original="f" datatype="plaintext" source-language="en"><body>\n{units}</body></file></xliff>\n'
    ).encode()


def xliff_2_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    units = "".join(
        f'<unit id="{n}"><segment><source>'
        f'{render(p, lambda n, t: f"""<pc id="{n}">{t}</pc>""", lambda n: f"""<ph id="{n}"/>""")}'
        "</source></segment></unit>\n"
        for n, p in enumerate(paragraphs)
    )
    return (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">'
        f'<file id="f">\n{units}</file></xliff>\n'
    ).encode()


def tmx_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    def pair(number: int, text: str) -> str:
        return f'<bpt i="{number}">[</bpt>{text}<ept i="{number}">]</ept>'

    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{render(p, pair, lambda n: f"""<ph x="{n}">!</ph>""")}</seg></tuv></tu>\n'
        for p in paragraphs
    )
    return (
        '<?xml version="1.0"?>\n<tmx version="1.4"><header creationtool="t" creationtoolversion="1" segtype="block" '
        f'o-tmf="t" adminlang="en" srclang="en" datatype="plaintext"/><body>\n{units}</body></tmx>\n'
    ).encode()


def tagged_strings(paragraphs: Sequence[Sequence[Piece]]) -> list[str]:
    """Returns strings as programs have them: no escapes but for tags."""
    return [
        html.unescape(render(p, lambda n, t: f"<b{n}>{t}</b{n}>", lambda n: f"<br{n}/>")).replace("< 3", "3")
        for p in paragraphs
    ]


def json_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    return json.dumps({f"key {n}": [text] for n, text in enumerate(tagged_strings(paragraphs))}, indent=1).encode()


def yaml_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    lines = ["# comment"]
    for n, text in enumerate(tagged_strings(paragraphs)):
        quoted = (json.dumps(text), "'" + text.replace("'", "''") + "'", f"|\n  {text}")[n % 3]
        lines.append(f"key {n}: {quoted}")
    return ("\n".join(lines) + "\n").encode()


def po_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    strings = dict.fromkeys(tagged_strings(paragraphs))
    return (header + "\n".join(f'msgid {json.dumps(text)}\nmsgstr ""\n' for text in strings)).encode()


def srt_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    cues = [
        f"{n}\n00:00:{n % 60:02},000 --> 00:00:{n % 60:02},900\n{text}\n"
        for n, text in enumerate(tagged_strings(paragraphs), start=1)
    ]
    return "\n".join(cues).encode()


def docx_document(paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

    def runs(pieces: Sequence[Piece], formatting: str) -> str:
        parts = []
        for piece in pieces:
            if piece.is_pair:
                parts.append(runs(piece.children, "<w:b/>" if "<w:b/>" not in formatting else "<w:i/>"))
            else:
                text = "<w:tab/>" if piece.is_empty else f'<w:t xml:space="preserve">{escape(piece.text)}</w:t>'
                parts.append(f"<w:r><w:rPr>{formatting}</w:rPr>{text}</w:r>")
        return "".join(parts)

    body = "".join(f"<w:p><w:pPr/>{runs(p, '')}</w:p>" for p in paragraphs)
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>')
        archive.writestr("word/media/image.png", b"\x89PNG")
    return output.getvalue()


WRITERS: dict[str, Callable[[Sequence[Sequence[Piece]]], bytes]] = {
    "html": html_document,
    "markdown": markdown_document,
    "xliff": xliff_document,
    "xliff 2": xliff_2_document,
    "tmx": tmx_document,
    "po": po_document,
    "json": json_document,
    "yaml": yaml_document,
    "srt": srt_document,
    "docx": docx_document,
}
