"""Documents that programs write carelessly, or that are made to take memory: nothing is lost, or a message says why."""

import io
import re
import time
import tracemalloc
import zipfile

import pytest
from ruamel.yaml import YAML
from small_documents import LANGUAGES, docx, translated, translated_docx

from transduce.documents.document import Content, DocumentLanguages, TextFormat, Unit, plain
from transduce.documents.docx_document import MAX_BYTES, MAX_TAGS, MAX_XML_BYTES
from transduce.documents.formats import read_document
from transduce.documents.placeholders import split_placeholders
from transduce.documents.sentence_splitter import SentenceSplitter, is_spaceless
from transduce.documents.sentence_translator import SentenceTranslator, translate_units
from transduce.documents.tag_placement import split_pieces
from transduce.translation.results import Translation

TIMES = "00:00:01,000 --> 00:00:02,000"


def archive_that_says(size: int, name: str = "word/document.xml", content: bytes = b"") -> bytes:
    """Returns an archive with a file whose size is `size` according to the directory of the archive."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        archive.infolist()[0].file_size = size
    return output.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive_that_says(MAX_BYTES + 1, "word/media/a.png"), "more than 268,435,456 bytes .* split the document"),
        (archive_that_says(MAX_XML_BYTES + 1), "of text with its markup, more than .* split the document"),
        (docx("<w:p/>" * MAX_TAGS, zipfile.ZIP_DEFLATED), "the DOCX has 2,097,156 tags, more than 2,097,152; split"),
        (docx("", zipfile.ZIP_BZIP2), "document.xml is compressed by method 12 of ZIP"),
        (docx("", zipfile.ZIP_LZMA), "document.xml is compressed by method 14 of ZIP"),
    ],
)
def test_a_docx_that_would_take_much_memory_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_document(content, TextFormat.DOCX, LANGUAGES)


def test_no_more_of_a_docx_is_unpacked_than_its_directory_says() -> None:
    """`ZipFile.read` unpacked a gibibyte of a file that said to have 100 bytes, and cut it then."""
    content = archive_that_says(100, content=bytes(1 << 25))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged DOCX: Bad CRC-32"):
            read_document(content, TextFormat.DOCX, LANGUAGES)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_field_of_a_docx_stays_whole_after_the_end_of_a_field_of_another_paragraph() -> None:
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    field = f"{mark('begin')}<w:r><w:instrText>REF a</w:instrText></w:r>{mark('separate')}"
    text = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'.format
    source = f"<w:p>{mark('end')}{text('One two ')}{field}{text('three four')}{mark('end')}</w:p>"
    assert f"{field}{text('three four')}{mark('end')}" in translated_docx(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"1\n{TIMES}\r\none two\n\n2\n{TIMES}\na b\r\nc d", f"1\n{TIMES}\r\nTWO ONE\n\n2\n{TIMES}\nD C\r\nB A"),
        (f"1\n{TIMES}\none two\n2\n{TIMES}\nthree\n", f"1\n{TIMES}\nTWO ONE\n2\n{TIMES}\nTHREE\n"),
        (f"1\n{TIMES}\none\n{TIMES}\n{TIMES}\n42\n", f"1\n{TIMES}\nONE\n{TIMES}\n{TIMES}\n42\n"),
        (f"1\n{TIMES}\n\n2\n{TIMES}\none two\n", f"1\n{TIMES}\n\n2\n{TIMES}\nTWO ONE\n"),
    ],
    ids=["line ends of two kinds", "no empty line", "no number", "no text"],
)
def test_careless_subtitles_keep_their_times(source: str, expected: str) -> None:
    assert translated("srt", source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('<script src="a.js"/><p>one two</p>', '<script src="a.js"/><p>TWO ONE</p>'),
        ("<p>one <svg/>two</p><p>a b</p>", "<p><svg/>TWO ONE</p><p>B A</p>"),
        ("<svg><svg/>no</svg><p>one two</p>", "<svg><svg/>no</svg><p>TWO ONE</p>"),
        ('<p translate="no">not this<p>one two</p>', '<p translate="no">not this<p>TWO ONE</p>'),
        ("<div><p class=notranslate>not this</div>one two", "<div><p class=notranslate>not this</div>TWO ONE"),
        (
            '<ul><li translate="no">not <ol><li>this<li>or</ol>this<li>one two</ul>',
            '<ul><li translate="no">not <ol><li>this<li>or</ol>this<li>TWO ONE</ul>',
        ),
        ('<ul><li translate="no">not this</ul>one two', '<ul><li translate="no">not this</ul>TWO ONE'),
        (
            '<li translate="no"><ol><li>not</li></ol></li>one two',
            '<li translate="no"><ol><li>not</li></ol></li>TWO ONE',
        ),
    ],
)
def test_an_element_of_html_that_is_not_translated_ends_without_its_end_tag(source: str, expected: str) -> None:
    assert translated("html", source) == expected


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("markdown", "See [the guide].\n\n[the guide]: b\n", "[GUIDE THE][the guide] SEE.\n\n[the guide]: b\n"),
        ("markdown", "# [One two][]\n\n[one two]: b\n", "# [TWO ONE][One two]\n\n[one two]: b\n"),
        ("markdown", "- [ ] buy milk\n- [x] a b\n", "- [ ] MILK BUY\n- [x] B A\n"),
        ("markdown", "A claim.[^1]\n\n[^1]: A note.\n", "CLAIM A.[^1]\n\n[^1]: NOTE A.\n"),
        ("markdown", "> [!NOTE]\n> Be careful.\n", "> [!NOTE]\n> CAREFUL BE.\n"),
        ("markdown", "[x] is no task here, a [!b] c\n", "[x] C \\[!B\\] A HERE, TASK NO IS\n"),
        ("markdown", "Run <code>make it</code> a b.\n", "B <code>make it</code> A RUN.\n"),
        ("json", '{"a": "Run <kbd>make it</kbd> a b."}', '{"a": "B <kbd>make it</kbd> A RUN."}'),
        ("json", '{"a": "<b translate=\\"no\\">Big Co</b> a b"}', '{"a": "<b translate=\\"no\\">Big Co</b> B A"}'),
        ("html", '<html lang="en-GB" dir="ltr"><p>a b</p>', '<html lang="de" dir="ltr"><p>B A</p>'),
        ("html", "<html lang=en><p title=x>a b</p>", "<html lang=de><p title=x>B A</p>"),
        ("html", '<html lang=""><p>a b</p>', '<html lang=""><p>B A</p>'),
        ("html", "<html lang='fr'><p lang=\"en\">a b</p>", "<html lang='fr'><p lang=\"en\">B A</p>"),
        ("html", '<input placeholder="a b" value="a b">', '<input placeholder="B A" value="a b">'),
        ("html", '<a aria-label="a b" href="#">a b</a>', '<a aria-label="B A" href="#">B A</a>'),
        ("html", '<p>a b <img translate="no" alt="Big Co"></p>', '<p>B A <img translate="no" alt="Big Co"></p>'),
        ("html", "<p>super<wbr>man one</p>", "<p><wbr>ONE SUPERMAN</p>"),
        ("html", "<p>super<!-- c -->man one</p>", "<p><!-- c -->ONE SUPERMAN</p>"),
        ("json", '{"a": "one %{n} two"}', '{"a": "%{n} TWO ONE"}'),
        ("json", '{"a": "one #{n} two"}', '{"a": "#{n} TWO ONE"}'),
        ("markdown", "See <https://a.b/x[^1]> now.\n", "<https://a.b/x[^1]> NOW SEE.\n"),
        ("markdown", "See it.[^1]\n\n[^1]: https://a.b/c\n", "IT SEE.[^1]\n\n[^1]: https://a.b/c\n"),
        ("markdown", "[^1]: A note.\n[^2]: B c.\n", "[^1]: NOTE A.\n[^2]: C B.\n"),
        ("markdown", "see `x`<!-- c --> now\n", "`x`<!-- c --> NOW SEE\n"),
        (
            "markdown",
            '<span translate="no">a <span>b</span> c</span> d e\n',
            '<span translate="no">a <span>b</span> c</span> E D\n',
        ),
        (
            "json",
            '{"a": "<img class=\\"notranslate\\"> <kbd>make it</kbd> b"}',
            '{"a": "<img class=\\"notranslate\\"> <kbd>make it</kbd> B"}',
        ),
        ("html", "<p>see <code>x</code><!-- c --> now</p>", "<p><code>x</code><!-- c --> NOW SEE</p>"),
        ("html", "<p>Use <![CDATA[<b>]]> tags</p>", "<p><![CDATA[<b>]]> TAGS USE</p>"),
    ],
)
def test_what_is_not_translated_stays(kind: str, source: str, expected: str) -> None:
    assert translated(kind, source) == expected


@pytest.mark.parametrize(
    ("beginning", "space"),
    [("", "&nbsp;"), ('<?xml version="1.0"?>', "&#160;"), ('<html xmlns="http://www.w3.org/1999/xhtml">', "&#160;")],
)
def test_a_no_break_space_has_a_name_in_html_and_a_number_in_xml(beginning: str, space: str) -> None:
    units = []

    def kept(unit: Unit) -> Content:
        units.append(unit)
        return (f"{plain(unit.content)} b",)

    document = read_document(f"{beginning}<p>10\u00a0a</p>".encode(), TextFormat.HTML, LANGUAGES)
    assert document.write([kept(unit) for unit in document.units]) == f"{beginning}<p>10{space}a b</p>".encode()


def test_a_bookmark_within_a_word_splits_it_not() -> None:
    text = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'.format
    mark = '<w:bookmarkStart w:id="0" w:name="_GoBack"/><w:bookmarkEnd w:id="0"/>'
    output = translated_docx(f"<w:p>{text('The trans')}{mark}{text('lation is')}</w:p>")
    assert "".join(re.findall(r">([^<]+)<", output)) == "IS TRANSLATION THE"
    assert mark in output
    begin, end = '<w:bookmarkStart w:id="0" w:name="a"/>', '<w:bookmarkEnd w:id="0"/>'
    field = '<w:fldSimple w:instr="SEQ"><w:r><w:t>1</w:t></w:r></w:fldSimple>'
    caption = translated_docx(f"<w:p>{text('Figure ')}{begin}{field}{end}{text(' shows it')}</w:p>")
    assert "".join(re.findall(r">([^<]+)<", caption)) == "IT 1 SHOWS FIGURE"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("请访问https://example.com/a，了解。", ["请访问", "https://example.com/a", "，了解。"]),
        ("请联系info@example.com获取信息。", ["请联系", "info@example.com", "获取信息。"]),
        ("看www.example.com。", ["看", "www.example.com", "。"]),
        ("an müller@exämple.de.", ["an ", "müller@exämple.de", "."]),
    ],
)
def test_addresses_end_where_a_text_without_spaces_goes_on(text: str, parts: list[str]) -> None:
    found = [part if isinstance(part, str) else part.text for part in split_placeholders(text)]
    assert found == parts


@pytest.mark.parametrize(("language", "sentences"), [("de-AT", 1), ("de_DE", 1), ("deu", 1), ("de", 1), ("en", 2)])
def test_sentences_have_the_rules_of_a_language_whatever_its_code(language: str, sentences: int) -> None:
    splitter = SentenceSplitter(language, lambda texts: [len(text) for text in texts], 1000)
    assert len(splitter.spans("Er kam am 3. Mai an, vgl. Abb. 3 dort.", wraps=True)) >= sentences
    assert (len(splitter.spans("Er kam am 3. Mai an.", wraps=True)) == 1) == (sentences == 1)


def test_a_window_that_ends_within_a_sentence_cuts_no_word() -> None:
    splitter = SentenceSplitter("en", lambda texts: [len(text) for text in texts], 1_000_000)
    text = "He said “" + "never mind the words " * 400
    parts = [text[start:end] for start, end in splitter.spans(text, wraps=True)]
    assert len(parts) == 2
    assert " ".join(parts) == text.strip()


@pytest.mark.parametrize("language", ["jpn", "zho", "cmn_Hans", "ja", "zh-TW"])
def test_languages_without_spaces_are_known_by_each_of_their_codes(language: str) -> None:
    assert is_spaceless(language)


@pytest.mark.parametrize("text", ["«" * 99_990, "“a " * 33_000, " " * 20_000 + "a.", "a b c. " * 5000])
def test_a_long_line_is_split_in_a_time_that_grows_with_its_length(text: str) -> None:
    splitter = SentenceSplitter("en", lambda texts: [len(text) for text in texts], 1_000_000)
    start = time.process_time()
    spans = splitter.spans(text, wraps=True)
    assert time.process_time() - start < 2
    assert "".join(text[first:end] for first, end in spans).replace(" ", "") == text.replace(" ", "")


def test_windows_of_a_long_line_cut_no_sentence() -> None:
    sentences = [f"Sentence {'a' * (number % 97)} number {number} is here." for number in range(1200)]
    splitter = SentenceSplitter("en", lambda texts: [len(text) for text in texts], 1_000_000)
    text = " ".join(sentences)
    assert [text[start:end] for start, end in splitter.spans(text, wraps=True)] == sentences


def test_sentences_of_a_script_without_spaces_get_spaces_outside_of_tags() -> None:
    document = read_document(
        "<p><b>第一。</b>第二。<i>第三。</i></p>".encode(), TextFormat.HTML, DocumentLanguages("zh", "en")
    )
    same = SentenceTranslator(
        lambda lines: [Translation(f"S{len(line)}.", -1.0, -1.0, []) for line in lines],
        None, lambda texts: list(map(len, texts)), "zh", "en", 100,
    )  # fmt: skip
    output = document.write(translate_units(document.units, same).contents).decode()
    assert output == "<p><b>S3.</b> S3. <i>S3.</i></p>"


@pytest.mark.parametrize(("text", "cores"), [("नदी।", ["नदी"]), ("(नदी)", ["नदी"]), ("ที่นี่", ["ที่", "นี่"]), ("é.", ["é"])])
def test_marks_belong_to_the_letters_before_them(text: str, cores: list[str]) -> None:
    found = [text[piece.start : piece.end] for piece in split_pieces(text) if piece.part == "core"]
    assert found == cores


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("One  \nword #\n", "ONE  \n\\# WORD\n"),
        ("> one two\\\n> more 1)\n", "> TWO ONE\\\n> 1\\) MORE\n"),
        ("- one  \r\n  \\- two\r\n", "- ONE  \r\n  TWO -\r\n"),
        ("> a `b\n> c` d\n", "> `b\n> c` D A\n"),
    ],
)
def test_lines_of_a_paragraph_of_markdown_keep_their_beginning_and_begin_no_block(source: str, expected: str) -> None:
    assert translated("markdown", source) == expected


@pytest.mark.parametrize(("kind", "string"), [("json", '{{\n"a": "one {}"}}'), ("yaml", '# b\na: "one {}"\n')])
def test_half_a_surrogate_pair_is_refused_with_its_line(kind: str, string: str) -> None:
    with pytest.raises(ValueError, match=r"line 2 has a string with half a surrogate pair, \\ud83d; write the"):
        translated(kind, string.format("\\ud83d"))


def test_a_surrogate_pair_is_one_character() -> None:
    document = read_document(b'["one \\ud83d\\ude00"]', TextFormat.JSON, LANGUAGES)
    assert [plain(unit.content) for unit in document.units] == ["one \U0001f600"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>5 <![ 6</p>two", "<p><![ 6</p>TWO 5"),
        ("<![if IE]>one two<![endif]>", "<![if IE]>TWO ONE<![endif]>"),
        ("<![CDATA[a>b]]>one<p>two", "<![CDATA[a>b]]>ONE<p>TWO"),
        ("<!-- a > b --><p>one", "<!-- a > b --><p>ONE"),
        ("a &# b; <b>c</b> &# d; <i>e</i><p>f", "<i>E</i> D; &amp;# <b>C</b> B; &amp;# A<p>F"),
    ],
)
def test_damaged_markup_of_html_is_kept_and_hides_no_tag(source: str, expected: str) -> None:
    assert translated("html", source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "<pre>" + "<b>a" * 250_000,
        "<!--x>" * 100_000,
        "x-->" + "<!--x>" * 100_000,
        "<![CDATA[x>" * 100_000,
        "a&amp;" * 200_000 + "<p>",
        "&#;" * 200_000 + "<p>",
    ],
    ids=["protected", "comments", "comments after one", "sections", "entities", "damaged references"],
)
def test_hostile_html_takes_a_time_that_grows_with_its_length(source: str) -> None:
    begun = time.monotonic()
    document = read_document(source.encode(), TextFormat.HTML, LANGUAGES)
    assert document.write([unit.content for unit in document.units]) == source.encode()
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("encoding", ["punycode", "idna", "utf-7", "rot13", "zlib", "klingon"])
def test_an_encoding_that_pages_do_not_have_is_refused(encoding: str) -> None:
    source = f"<meta charset={encoding}>".encode() + b"a" * 1_000_000
    with pytest.raises(ValueError, match=rf"the file says that it is {encoding.upper()}, .* convert it to UTF-8"):
        read_document(source, TextFormat.HTML, LANGUAGES)


OVERLAPPING = {
    "over an element": 'One <bx id="1"/>two <g id="2">three<ex id="1"/> four</g> five',
    "out of an element": 'One <g id="2">two <bx id="1"/>three</g> four<ex id="1"/> five',
    "deep": "One " + "<g>" * 150 + "two" + "</g>" * 150 + " three",
}


@pytest.mark.parametrize("source", OVERLAPPING.values(), ids=list(OVERLAPPING))
def test_tags_of_xliff_that_overlap_an_element_copy_no_text(source: str) -> None:
    document = f"""<xliff version="1.2"><file source-language="en"><body>
<trans-unit id="1"><source>{source}</source></trans-unit></body></file></xliff>"""
    target = translated("xliff", document).partition("<target")[2].partition("</target>")[0]
    assert target.count('id="2"') <= 1
    for word in ("One", "two", "three", "four", "five"):
        assert target.lower().count(word.lower()) == source.count(word)


def test_a_milestone_between_two_segments_of_a_seg_source_is_a_code() -> None:
    segments = (
        '<bpt id="1">b</bpt><mrk mtype="seg" mid="1">one two</mrk>'
        '<mrk mtype="seg" mid="2">more<ept id="1">b</ept></mrk>'
    )
    document = f"""<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>x</source>
<seg-source>{segments}</seg-source></trans-unit></body></file></xliff>"""
    output = translated("xliff", document)
    assert ">TWO ONE</mrk>" in output
    assert ">MORE" in output.partition("<target")[2]


@pytest.mark.parametrize("text", ["%" + "0" * 100_000 + " x", "http://a" + ")" * 100_000, "%(a)" + "0" * 100_000])
def test_placeholders_are_found_in_a_time_that_grows_with_the_text(text: str) -> None:
    begun = time.process_time()
    assert "".join(part if isinstance(part, str) else part.text for part in split_placeholders(text)) == text
    assert time.process_time() - begun < 2


def test_a_po_header_does_not_decide_how_much_memory_is_taken() -> None:
    source = (
        'msgid ""\nmsgstr ""\n"Plural-Forms: nplurals=1000000000;\\n"\n\n'
        'msgid "one two"\nmsgid_plural "one more"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    output = translated("po", source)
    assert 'msgstr[0] "TWO ONE"\nmsgstr[1] "MORE ONE"' in output
    assert "msgstr[2]" not in output


@pytest.mark.parametrize("letter", ["\u2028", "\u0085", "\x1c"])
def test_strings_of_po_end_at_line_feeds_alone(letter: str) -> None:
    assert translated("po", f'msgid "one{letter}two"\nmsgstr ""\n').endswith('msgstr "TWO ONE"\n')


@pytest.mark.parametrize("value", ["one two\n\nmore\n", "one\ntwo\n", "one\n\n\ntwo\nmore\n", "one\n\n  two\n"])
def test_a_folded_block_of_yaml_has_the_line_ends_of_the_translation(value: str) -> None:
    folded = value.rstrip("\n").replace("\n", "\n\n") if "\n\n" not in value else None
    document = read_document(b"a: >\n  x y\nb: one\n", TextFormat.YAML, LANGUAGES)
    output = document.write([(value.rstrip("\n"),), ("one",)]).decode()
    assert YAML(typ="safe", pure=True).load(output)["a"].rstrip("\n") == value.rstrip("\n")
    assert folded is None or "".join(f"  {line}\n" if line else "\n" for line in folded.split("\n")) in output


@pytest.mark.parametrize("value", ["No", "yes", "ON", "off", "y", "12:30:00", "1_000", "0777"])
def test_what_yaml_1_1_takes_for_another_type_is_quoted(value: str) -> None:
    document = read_document(b"a: one\n", TextFormat.YAML, LANGUAGES)
    assert document.write([(value,)]) == f'a: "{value}"\n'.encode()


def test_a_comment_in_a_hyperlink_of_word_stays() -> None:
    body = "<w:p><w:hyperlink><!--x--><w:r><w:t>one two</w:t></w:r></w:hyperlink></w:p>"
    assert "TWO ONE" in translated_docx(body)


def test_runs_of_equal_formatting_are_joined_in_a_time_that_grows_with_their_number() -> None:
    text = "abcdefgh " * 10
    body = "<w:p>" + f"<w:r><w:t>{text}</w:t></w:r>" * 60_000 + "</w:p>"
    begun = time.monotonic()
    (unit,) = read_document(docx(body), TextFormat.DOCX, LANGUAGES).units
    assert plain(unit.content) == text * 60_000
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "text", ["A dog.\u202c", "\u200eA dog.\u202c", "A dog.\u200b A cat.\ufeff", "A dog. \u200e", "\u200e", "A dog.  "]
)
def test_invisible_characters_alone_are_no_sentence(text):
    splitter = SentenceSplitter("en", lambda texts: [len(text) for text in texts], 1000)
    sentences = [text[start:end] for start, end in splitter.spans(text, wraps=False)]
    assert len(sentences) == max(1, text.count("dog") + text.count("cat"))
    assert not any(sentence.isspace() or sentence != sentence.strip() for sentence in sentences)
