"""What each format translates and keeps, its edge cases, and what is refused."""

import io
import json
import zipfile
from pathlib import PurePath

import pytest
from fake_translator import reversing, same
from small_documents import LANGUAGES, docx, translated, translated_docx

from transduce.documents import string_tables
from transduce.documents.document import DocumentLanguages, TextFormat, format_by_name
from transduce.documents.formats import format_by_content, read_document

XLIFF = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">\n'
    ' <file original="a" source-language="en" datatype="x"{more}>\n  <body>\n{units}  </body>\n </file>\n</xliff>\n'
)
XLIFF_2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">\n <file id="f">{units}</file>\n'
    "</xliff>\n"
)
TMX = (
    '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en"/><body>\n'
    "{units}</body></tmx>\n"
)


def unit(source: str, *, target: str = "", attributes: str = "") -> str:
    return f'   <trans-unit id="1"{attributes}>\n    <source>{source}</source>{target}\n   </trans-unit>\n'


def test_html_translates_text_and_attributes_and_keeps_every_other_byte() -> None:
    source = (
        "<!DOCTYPE html>\n<HTML lang=en><head><title>Big page</title><style>a b {}</style></head><body class=x>\n"
        '<p>One <B>two</b> &amp; <a href="u?a=1&b=2" title=\'A tip\'>three</a>.<br>Four five<img src=x alt="A cat">\n'
        '<pre>do not</pre><p>Use <code>x y</code> now</p><p translate="no">Not this</p><div class="a notranslate">No '
        "<b>no</b></div>\n<script>var a = 'b c';</script><!-- no comment --></body></HTML>\n"
    )
    assert translated("html", source) == (
        "<!DOCTYPE html>\n<HTML lang=de><head><title>PAGE BIG</title><style>a b {}</style></head><body class=x>\n"
        '<p><a href="u?a=1&b=2" title=\'TIP A\'>THREE</a> &amp; <B>TWO</b> ONE.<br>FIVE FOUR<img src=x alt="CAT A">\n'
        '<pre>do not</pre><p><code>x y</code> NOW USE</p><p translate="no">Not this</p><div class="a notranslate">No '
        "<b>no</b></div>\n<script>var a = 'b c';</script><!-- no comment --></body></HTML>\n"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_html_in_its_declared_encoding(encoding: str) -> None:
    from transduce.documents.sentence_translator import translate_units

    source = f'<meta charset="{encoding}"><p>h\u00e9 b</p>'.encode(encoding)
    document = read_document(source, TextFormat.HTML, LANGUAGES)
    assert document.write(translate_units(document.units, reversing()).contents) == (
        f'<meta charset="{encoding}"><p>B H\u00c9</p>'.encode(encoding)
    )


@pytest.mark.parametrize("space", ["", " "])
def test_a_page_whose_declaration_of_utf_16_can_be_read_is_utf_8(space: str) -> None:
    """With an even and with an odd number of bytes."""
    page = f'<meta charset="utf-16"><p>a \u00e9</p>{space}'
    assert translated("html", page) == page.replace("a \u00e9", "\u00c9 A")


def test_markdown_keeps_its_blocks() -> None:
    source = (
        "---\ntitle: a b\n---\n# One `code` two\n\nThree **four** five,\nsee [a link](http://a.b/c) ok.  \n"
        "Six\\*seven\neight.\n\n- nine ten\n  1. *a* b\n\n> c d\n> e\n\n| f g | h |\n|---|---|\n| i j | `k l` |\n\n"
        "```py\nm n\n```\n\n    o p\n\n<div>q r</div>\n"
    )
    assert translated("markdown", source) == (
        "---\ntitle: a b\n---\n# `code` TWO ONE\n\nOK [LINK A](http://a.b/c) SEE FIVE, **FOUR** THREE.  \n"
        "EIGHT SIX\\*SEVEN.\n\n- TEN NINE\n  1. B *A*\n\n> E D C\n\n| G F | H |\n|---|---|\n| J I | `k l` |\n\n"
        "```py\nm n\n```\n\n    o p\n\n<div>q r</div>\n"
    )


@pytest.mark.parametrize("fence", ["---", "+++"])
def test_front_matter_with_carriage_returns_stays(fence: str) -> None:
    front = f"{fence}\r\ntitle: a b\r\nauthor: c d\r\n{fence}\r\n"
    assert translated("markdown", f"{front}\r\nOne two.\r\n") == f"{front}\r\nTWO ONE.\r\n"


def test_markdown_escapes_what_a_translation_begins_with() -> None:
    assert translated("markdown", "word #\n") == "\\# WORD\n"
    assert translated("markdown", "more 1)\n") == "1\\) MORE\n"


def test_xliff_fills_the_target_and_names_the_language() -> None:
    source = XLIFF.format(more="", units=unit('One <g id="1">two</g><x id="2"/>.'))
    target = '\n    <target state="translated"><g id="1">TWO</g><x id="2"/> ONE.</target>'
    expected = XLIFF.format(
        more=' target-language="de"', units=unit('One <g id="1">two</g><x id="2"/>.', target=target)
    )
    assert translated("xliff", source) == expected


@pytest.mark.parametrize(
    ("target", "attributes", "stays"),
    [
        ("<target>Text da</target>", "", True),
        ('<target state="final">one two</target>', "", True),
        ("<target>x</target>", ' approved="yes"', True),
        ('<target state="needs-translation">x</target>', "", False),
        ("<target>one two</target>", "", False),
        ("<target/>", "", False),
        ("", ' translate="no"', True),
    ],
)
def test_xliff_keeps_translations(target: str, attributes: str, stays: bool) -> None:
    source = XLIFF.format(more=' target-language="de"', units=unit("one two", target=target, attributes=attributes))
    assert ("TWO ONE" in translated("xliff", source)) is not stays
    if stays and target:
        assert target in translated("xliff", source)
        assert "TWO ONE" in translated("xliff", source, replace=True)


def test_xliff_translates_the_segments_of_a_seg_source_one_by_one() -> None:
    marks = '<mrk mtype="seg" mid="1">One two.</mrk> <mrk mtype="seg" mid="2">Three four.</mrk>'
    source = XLIFF.format(more="", units=unit("x", target=f"<seg-source>{marks}</seg-source>"))
    assert '<mrk mtype="seg" mid="1">TWO ONE.</mrk> <mrk mtype="seg" mid="2">FOUR THREE.</mrk>' in translated(
        "xliff", source
    )


def test_xliff_2_fills_each_segment() -> None:
    segment = '<unit id="1"><segment>\n  <source>One <pc id="1">two</pc> <ph id="2"/>.</source>\n </segment></unit>'
    output = translated("xliff", XLIFF_2.format(units=segment))
    assert '<segment state="translated">' in output
    assert '<target><pc id="1">TWO</pc> ONE <ph id="2"/>.</target>' in output
    assert 'trgLang="de"' in output


def test_tmx_adds_a_variant() -> None:
    other = '<tu><tuv xml:lang="fr"><seg>a b</seg></tuv></tu>\n'
    done = '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de-DE"><seg>ja</seg></tuv></tu>\n'
    variant = '<tuv xml:lang="en-GB">\n<seg>One <bpt i="1">[</bpt>two<ept i="1">]</ept>.</seg></tuv>'
    new = '<tuv xml:lang="de">\n<seg><bpt i="1">[</bpt>TWO<ept i="1">]</ept> ONE.</seg></tuv>'
    source = TMX.format(units=f"{other}{done}<tu>\n{variant}\n</tu>\n")
    assert translated("tmx", source) == TMX.format(units=f"{other}{done}<tu>\n{variant}\n{new}\n</tu>\n")


def test_po_fills_empty_and_fuzzy_messages() -> None:
    header = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
    source = (
        '#: a.c:1\n#, c-format\nmsgid "One %s\\n"\nmsgstr ""\n\n#, fuzzy\n#| msgid "old"\nmsgid "two three"\n'
        'msgstr "x"\n\nmsgid "done"\nmsgstr "da"\n\nmsgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
        'msgstr[1] ""\n'
    )
    assert translated("po", header + source) == header + (
        '#: a.c:1\n#, c-format\nmsgid "One %s\\n"\nmsgstr "ONE %s\\n"\n\nmsgid "two three"\nmsgstr "THREE TWO"\n\n'
        'msgid "done"\nmsgstr "da"\n\nmsgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] "FILE A"\n'
        'msgstr[1] "%d FILES"\n'
    )


def test_json_keeps_keys_and_layout() -> None:
    source = '{\n  "a b" : "one <b>two</b> {x}",\n "n": 1.50, "l": ["a \\"b\\"", null, "https://a.b"]\n}\n'
    assert translated("json", source) == (
        '{\n  "a b" : "<b>TWO</b> ONE {x}",\n "n": 1.50, "l": ["\\"B\\" A", null, "https://a.b"]\n}\n'
    )


def test_yaml_keeps_keys_comments_and_styles() -> None:
    source = (
        "# c d\na: one two  # e\nb: \"f: g\"\nc:\n  - 'it''s h'\n  - |\n    i j\n    k l\n\nd: >-\n  m n\n  o\n"
        "e: &x p q\nf: *x\ng: true\nh: !!str r s\n"
    )
    assert translated("yaml", source) == (
        "# c d\na: TWO ONE  # e\nb: \"G F:\"\nc:\n  - 'H IT''S'\n  - |\n    J I\n    L K\n\nd: >-\n  O N M\n"
        "e: &x Q P\nf: *x\ng: true\nh: !!str S R\n"
    )


def test_truth_values_of_yaml_1_1_stay_without_quotes() -> None:
    assert (
        translated("yaml", "a: yes\nb: Off\nc: 'no'\nd: [n, No way]\n") == "a: yes\nb: Off\nc: 'NO'\nd: [n, WAY NO]\n"
    )


def test_srt_keeps_times_and_wraps_again() -> None:
    source = (
        "1\r\n00:00:01,000 --> 00:00:02,000\r\none two three\r\nfour <i>five</i> six\r\n\r\n2\r\n"
        "00:00:03,000 --> 00:00:04,000\r\n- a b\r\n- c d\r\n"
    )
    assert translated("srt", source) == (
        "1\r\n00:00:01,000 --> 00:00:02,000\r\nSIX <i>FIVE</i> FOUR\r\nTHREE TWO ONE\r\n\r\n2\r\n"
        "00:00:03,000 --> 00:00:04,000\r\n- B A\r\n- D C\r\n"
    )


def test_docx_moves_formatting_and_keeps_fields() -> None:
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'.format
    assert translated_docx(
        '<w:p><w:pPr><w:jc/></w:pPr><w:r><w:t xml:space="preserve">One </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
        f"<w:t>two</w:t></w:r><w:proofErr/><w:r><w:t> thr</w:t></w:r><w:r><w:t>ee {{0}}</w:t></w:r>{field}</w:p>"
    ) == (
        f'<w:p><w:pPr><w:jc/></w:pPr>{run("THREE ")}<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">TWO</w:t></w:r>'
        f"{run(' ONE {0}')}{field}</w:p>"
    )


def test_a_docx_without_changes_is_the_same_text() -> None:
    from transduce.documents.sentence_translator import translate_units

    document = read_document(docx("<w:p><w:r><w:t>One two.</w:t></w:r></w:p>"), TextFormat.DOCX, LANGUAGES)
    output = document.write(translate_units(document.units, same()).contents)
    assert b"<w:t>One two.</w:t>" in zipfile.ZipFile(io.BytesIO(output)).read("word/document.xml")


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("html", b"  \n", "the file is empty"),
        ("html", b"<p>\xff</p>", "the file is not UTF-8"),
        ("markdown", b"\xff", "the file is not UTF-8"),
        ("xliff", b"<xliff", "damaged XML"),
        ("xliff", b"<tmx/>", "not XLIFF: the root is <tmx>"),
        ("xliff", XLIFF.format(more=' target-language="fr"', units="").encode(), "wants a translation into fr"),
        ("xliff", XLIFF.replace('"en"', '"it"').format(more="", units="").encode(), "the document is in it"),
        (
            "tmx",
            TMX.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', LAUGHS).format(units="").encode(),
            "declares entities",
        ),
        ("tmx", b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><tmx>&e;</tmx>', "declares entities"),
        ("po", b"hello", "not PO"),
        ("po", b'msgid "a"\nfoo bar\n', "damaged PO"),
        ("json", b'{"a": }', "damaged JSON"),
        ("json", b"[" * 100_000, "damaged JSON"),
        ("yaml", b"a: [b", "damaged YAML"),
        ("srt", b"hello", "not SRT"),
        ("docx", b"PK\x03\x04hello", "damaged DOCX"),
        ("docx", docx("<w:p>"), "damaged XML"),
    ],
)
def test_what_is_refused(kind: str, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_document(content, TextFormat(kind), LANGUAGES)


def test_the_target_language_must_be_named() -> None:
    unknown = DocumentLanguages(None, None)
    with pytest.raises(ValueError, match="names the target language"):
        translated("xliff", XLIFF.format(more="", units=unit("one two")), languages=unknown)
    source = XLIFF.format(more=' target-language="de"', units=unit("one two"))
    assert "TWO ONE" in translated("xliff", source, languages=unknown)


def test_the_bound_on_the_values_of_yaml_counts_no_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join(f"k{number}: one two\n" for number in range(4)).encode()
    monkeypatch.setattr(string_tables, "MAX_YAML_VALUES", 9)  # one mapping, four keys, four values
    document = read_document(source, TextFormat.YAML, LANGUAGES)
    assert document.write([("Größe – 1",)] * 4).decode() == "".join(f"k{number}: Größe – 1\n" for number in range(4))
    for more in (b"k4: one\n", b"---\none\n"):
        with pytest.raises(ValueError, match="the YAML has more than 9 keys and values"):
            read_document(source + more, TextFormat.YAML, LANGUAGES)


@pytest.mark.parametrize(
    "value", ["0x_", "0b_", "2001-12-14t25:59:43", "2001-99-14T21:59:43Z", "2001-12-14t21:59:43+99:00", "é\x00", "<<"]
)
def test_a_translation_that_yaml_cannot_read_is_quoted(value: str) -> None:
    document = read_document(b"a: one\n", TextFormat.YAML, LANGUAGES)
    assert document.write([(value,)]).decode() == f"a: {json.dumps(value, ensure_ascii=False)}\n"


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<xliff version="1.2">', TextFormat.XLIFF),
        (b'<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx>', TextFormat.TMX),
        (b"\n<!doctype HTML>", TextFormat.HTML),
        (docx("")[:400], TextFormat.DOCX),
        (b"A <b>man</b>.", None),
        (b"<s> marks the beginning", None),
    ],
)
def test_formats_by_content(beginning: bytes, kind: TextFormat | None) -> None:
    assert format_by_content(beginning) is kind


def test_formats_by_name() -> None:
    assert format_by_name(PurePath("A/b.HTML")) is TextFormat.HTML
    assert format_by_name(PurePath("b.en")) is None
