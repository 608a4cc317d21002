"""Documents of every format that are made to take time or memory, and what they take; `python … FORMAT` prints it.

Each document is read, translated and written in a process of its own, whose peak of memory is measured: the libraries
of XML allocate where Python does not count.
"""

import json
import os
import sys
import time
import zipfile
from collections.abc import Callable
from typing import NamedTuple

from fake_translator import reversing
from small_documents import LANGUAGES, docx

from transduce.documents.document import TextFormat, Unit
from transduce.documents.formats import read_document
from transduce.documents.sentence_translator import translate_units

TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"
NUMBER = "%d"


class Case(NamedTuple):
    """A kind of document: `write` returns one of some length; `is_refused` says that a long one is an error."""

    write: Callable[[int], bytes]
    is_refused: bool = False


class Measured(NamedTuple):
    """What a document took."""

    seconds: float
    megabytes: float
    error: str


def many(unit: str, length: int) -> str:
    """Repeats a text up to a length; `%d` in it is another number each time."""
    if NUMBER not in unit:
        return unit * (length // len(unit.encode()))
    count = length // (len(unit.encode()) + 3)
    return "".join(unit.replace(NUMBER, str(number)) for number in range(10_000, 10_000 + count))


def texts(beginning: str, unit: str, end: str = "", half: str = "", *, is_refused: bool = False) -> Case:
    """Returns documents of repetitions between a beginning and an end; those of `half` are another half."""

    def write(length: int) -> bytes:
        share = length // 2 if half else length
        return f"{beginning}{many(unit, share)}{many(half, share) if half else ''}{end}".encode()

    return Case(write, is_refused)


def runs(beginning: str, unit: str, middle: str, half: str, end: str, *, is_refused: bool = False) -> Case:
    """Returns documents of Word of one paragraph, compressed."""

    def write(length: int) -> bytes:
        inner = f"{beginning}{many(unit, length // 2)}{middle}{many(half, length // 2)}{end}"
        return docx(f"<w:p>{inner}</w:p>", zipfile.ZIP_DEFLATED)

    return Case(write, is_refused)


def xliff(before: str, unit: str, after: str = "", half: str = "", *, is_refused: bool = False) -> Case:
    head = f'<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>{before}'
    return texts(head, unit, f"{after}</source></trans-unit></body></file></xliff>", half, is_refused=is_refused)


def units(before: str, unit: str, after: str = "") -> Case:
    return texts(
        f'<xliff version="1.2"><file source-language="en"><body>{before}', unit, f"{after}</body></file></xliff>"
    )


def tmx(before: str, unit: str, after: str = "") -> Case:
    return texts(f'<tmx version="1.4"><header srclang="en"/><body>{before}', unit, f"{after}</body></tmx>")


def string(unit: str, beginning: str = "a ") -> Case:
    return texts(f'["{beginning}', unit, '"]')


SEGMENT = '<tu><tuv xml:lang="en"><seg>'
RUN = "<w:r><w:t>one two</w:t></w:r>"
MARKS = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end")]

CASES: dict[str, dict[str, Case]] = {
    "docx": {
        "formatting and tabs": runs(
            "<w:r><w:rPr>", "<w:b/>", "</w:rPr><w:t>a</w:t>", "<w:tab/>", "</w:r>", is_refused=True
        ),
        "attributes and tabs": runs("<w:r", ' a%d=""', "><w:t>a</w:t>", "<w:tab/>", "</w:r>", is_refused=True),
        "formatting with attributes": runs(
            "<w:r><w:rPr", ' a%d=""', "/><w:t>a</w:t>", "<w:tab/>", "</w:r>", is_refused=True
        ),
        "a long attribute": runs('<w:r><w:rPr a="', "a", '"/><w:t>a</w:t>', "<w:tab/>", "</w:r>", is_refused=True),
        "formatting and texts": runs(
            "<w:r><w:rPr>", "<w:b/>", "</w:rPr>", "<w:t>abc</w:t><w:tab/>", "</w:r>", is_refused=True
        ),
        "base formatting": runs(
            "<w:r><w:rPr>", "<w:b/>", f"</w:rPr><w:t>{'a' * 99}</w:t></w:r>", "<w:x/>", "", is_refused=True
        ),
        "a field": runs(
            f"{RUN}<w:r><w:rPr>",
            "<w:b/>",
            '</w:rPr><w:fldChar w:fldCharType="begin"/>',
            "<w:noBreakHyphen/>",
            '<w:fldChar w:fldCharType="end"/></w:r>',
            is_refused=True,
        ),
        "namespaces": runs(
            "<w:r", ' xmlns:a%d="urn:a"', "><w:rPr/><w:t>a</w:t>", "<w:tab/>", "</w:r>", is_refused=True
        ),
        "runs": runs(RUN, "<w:r><w:rPr><w:b/></w:rPr><w:t>ab </w:t></w:r>", "", "<w:r><w:t>c </w:t></w:r>", ""),
        "relative namespaces": runs(
            '<w:r xmlns:a="b"><w:rPr/><w:t>a b</w:t>', "<w:tab/>", "", "<w:t>c</w:t>", "</w:r>"
        ),
        "open fields": runs(RUN, MARKS[0], "", MARKS[1], ""),
        "codes between letters": runs(RUN, "<w:r><w:t>a</w:t></w:r><w:x/>", "", "<w:x/>", ""),
        "links": runs("", f"<w:hyperlink>{RUN}</w:hyperlink>", "", "<w:hyperlink/>", ""),
        "a picture": Case(lambda length: _with_media(length)),
    },
    "xliff": {
        "namespaces": xliff("<g", ' xmlns:a%d="a%d"', "></g>", "><g>a</g", is_refused=True),
        "attributes": xliff("a <x", ' a%d=""', "/>", is_refused=True),
        "codes between letters": xliff("", "a<x/>"),
        "codes": xliff("a b", "<x/>"),
        "pairs": xliff("", "<g>ab</g> "),
        "empty pairs": xliff("a b", "<g></g>"),
        "halves of pairs": xliff("a", '<bx id="%d"/>', "b", '<ex id="%d"/>'),
        "nested segments": units(
            f"<trans-unit><source>a</source><seg-source>{'<mrk mtype=¨seg¨>' * 90}".replace("¨", '"'),
            "a<x/>",
            f"{'</mrk>' * 90}</seg-source></trans-unit>",
        ),
        "nested units": units("<trans-unit><source>a " * 90, "a<x/>", "</source></trans-unit>" * 90),
        "units": units("", "<trans-unit><source>a</source></trans-unit>"),
        "sentences in pairs": xliff("<g>" * 90, "Ab cd. ", "</g>" * 90),
    },
    "tmx": {
        "nested units": tmx(f"{SEGMENT}b <hi>" * 50, "a <ph/>", "</hi></seg></tuv></tu>" * 50),
        "codes": tmx(SEGMENT, "a<ph/>", "</seg></tuv></tu>"),
        "pairs": tmx(SEGMENT, '<bpt i="1"/>a<ept i="1"/> ', "</seg></tuv></tu>"),
        "units": tmx("", f"{SEGMENT}a</seg></tuv></tu>"),
    },
    "html": {
        "pairs between letters": texts("", "<b>a</b>"),
        "open pairs": texts("", "<b>a "),
        "crossed pairs": texts("", "<b><i>a</b></i> "),
        "pairs across sentences": texts("", "<b>One two. Three</b> four <i>five. Six</i> seven. "),
        "codes": texts("a b", "<img>"),
        "codes and commas": texts("", "a <img>, "),
        "points": texts("", "a<wbr>"),
        "attributes": texts("<p", ' title="a"', ">a"),
        "damaged attributes": texts("<p a", '=" ', ">a"),
        "tags that do not end": texts("", "<a b='", ">"),
        "ends of no elements": texts("<script>", "</scrip", ">"),
        "lists": texts("<li class=notranslate>", "<ul><li>", "", "</ul>"),
        "white space": texts("<p>a", " \n", "b</p>"),
    },
    "markdown": {
        "links": texts("", "[a](b)"),
        "open links": texts("", "[a]("),
        "open images": texts("", "!["),
        "backticks": texts("", "`a``b```c"),
        "emphasis": texts("", "*a_ **b"),
        "quotes": texts("", "> "),
        "footnotes": texts("", "[^1]: a\n"),
        "a table in one line": texts("|a|b|\n|-|-|\n", r"|a\|b", "|\n"),
        "front matter": texts("---\n", "a\n", "---\n", "a\\\n"),
        "white space": texts("a", " \n", "b"),
    },
    "srt": {
        "dashes": texts(TIMES, "- a\n"),
        "open tags": texts(TIMES, "a<i "),
        "positions": texts(TIMES, "{\\a}b"),
        "white space": texts(f"{TIMES}a", " ", "b"),
    },
    "po": {
        "messages": texts("", 'msgid "a%d"\nmsgstr ""\n\n'),
        "lines": texts('msgid ""\n', '"ab "\n', 'msgstr ""\n'),
        "tags": texts('msgid "', "<b>a ", '"\nmsgstr ""\n'),
        "header": texts('msgid ""\nmsgstr ""\n', '"A%d: b\\n"\n', '\nmsgid "a"\nmsgstr ""\n'),
        "forms": texts('msgid "a"\nmsgid_plural "b"\n', 'msgstr[%d] ""\n'),
    },
    "json": {
        "strings": texts("[", '"a",', "1]"),
        "nested": texts("", "[", "", "]", is_refused=True),
        "white space": texts('["a"', " ", "]"),
        "escapes": string(r"\""),
        "brackets after an address": string(")", "a http://"),
        "placeholders": string("{b}"),
        "open placeholders": string("{b"),
        "mails": string("a@a."),
        "full stops": string(".", "a"),
        "quotes in a class": string("class='", "a <b "),
        "full stops in a word": texts('["a', ".", 'a"]'),
    },
    "yaml": {
        "spaces at the end of a block": texts("a: |\n  b\n  ", " ", "c\n"),
        "empty lines of a folded block": texts("a: >\n  b\n", "\n", "  c\n"),
        "spaces of a folded block": texts("a: >\n  b\n  ", " ", "c\n"),
        "sequence": texts("", "- a\n"),
        "numbers": texts("", "- 1.b\n"),
        "flow sequence": texts("[", "a,", "]"),
        "open flow sequences": texts("", "[", is_refused=True),
        "aliases": texts("- &a b\n", "- *a\n"),
        "documents": texts("", "---\na\n"),
        "properties": texts("a: ", "!a ", "b\n", is_refused=True),
        "escapes": texts('a: "b ', "\\n", '"\n'),
    },
    "text": {
        "full stops": texts("", "."),
        "sentences": texts("", "A. "),
        "white space": texts("a", " ", "b"),
        "lines": texts("", "a\n"),
        "one word": texts("", "a"),
    },
}


def _with_media(length: int) -> bytes:
    """Returns a document with a picture that is packed into a thousandth."""
    import io

    output = io.BytesIO(docx(f"<w:p>{RUN}</w:p>"))
    with zipfile.ZipFile(output, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/a.png", bytes(1000 * length))
    return output.getvalue()


def work(kind: str, content: bytes) -> None:
    """Reads, translates and writes a document."""
    if kind == "text":
        translate_units([Unit((content.decode(),))], reversing())
        return
    document = read_document(content, TextFormat(kind), LANGUAGES)
    document.write(translate_units(document.units, reversing()).contents)


def measured(kind: str, content: bytes) -> Measured:
    """Returns what a document takes in a process of its own, and the error that refuses it."""
    reader, writer = os.pipe()
    if not os.fork():
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")  # the peak of memory begins anew
        before, begun, error = memory("VmRSS"), time.process_time(), ""
        try:
            work(kind, content)
        except ValueError as refused:
            error = str(refused)
        except BaseException as fault:
            error = f"{type(fault).__name__}!"
        os.write(writer, json.dumps([time.process_time() - begun, memory("VmHWM") - before, error[:500]]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        return Measured(*json.loads(answer.read()))


def memory(name: str) -> float:
    """Returns a value of `/proc/self/status`, in megabytes."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1000


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
    kind, *lengths = sys.argv[1:]
    work(kind, CASES[kind][list(CASES[kind])[-1]].write(300))  # imports the libraries
    for name, case in CASES[kind].items():
        print(json.dumps([name, [measured(kind, case.write(int(length))) for length in lengths]]), flush=True)
