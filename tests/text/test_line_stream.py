"""Lines of a slow stream, and lines of several sentences."""

import os

import pytest

from transduce.text.lines import CHUNK_BYTES, LineStream, read_lines
from transduce.text.sentence_ends import has_several_sentences


def streamed(content, limit=1000):
    reader, writer = os.pipe()
    stream = LineStream(reader, "a pipe", limit)
    with os.fdopen(writer, "wb") as file:
        file.write(content)
    return list(stream)


@pytest.mark.parametrize("content", [b"", b"\n", b"a\r\n\nb", b"a\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbfa\n"])
def test_a_stream_has_the_lines_of_a_file(content):
    from transduce.text.lines import decode_lines

    assert [line for window in streamed(content) for line in window] == decode_lines(content, "a pipe")


def test_windows_have_at_most_the_limit_and_long_lines_are_whole():
    long = "x" * (2 * CHUNK_BYTES)
    windows = streamed("".join(f"{line}\n" for line in ["a", "b", long, "c"]).encode(), limit=2)
    assert [line for window in windows for line in window] == ["a", "b", long, "c"]
    assert max(map(len, windows)) <= 2


def test_a_complete_line_is_yielded_while_the_next_is_written():
    reader, writer = os.pipe()
    stream = iter(LineStream(reader, "a pipe", 1000))
    for line in (b"one\nunfin", b"ished\n"):
        os.write(writer, line)
        assert len(next(stream)) == 1
    os.close(writer)
    assert list(stream) == []


@pytest.mark.parametrize(("line", "message"), [(b"\xff", "line 3 is not UTF-8"), (b"<seg>", "line 3 is markup")])
def test_errors_name_the_line_of_the_whole_stream(line, message):
    with pytest.raises(ValueError, match=message):
        streamed(b"one\ntwo\n" + line + b"\n", limit=2)


def test_a_line_without_an_end_is_refused_before_it_is_read_whole(monkeypatch):
    monkeypatch.setattr("transduce.text.lines.MAX_LINE_BYTES", 3 * CHUNK_BYTES)
    whole = "x" * (3 * CHUNK_BYTES - 1)
    assert [line for window in streamed(f"{whole}\n{whole}".encode()) for line in window] == [whole] * 2
    message = "line 2 is longer than 196,608 bytes; a text has one sentence a line: split it"
    with pytest.raises(ValueError, match=f"^a pipe: {message}$"):
        streamed(f"one\nx{whole}\n".encode())
    with pytest.raises(ValueError, match=r"^/dev/zero: line 1 is longer"):
        read_lines("/dev/zero")
    zero = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(ValueError, match=r"^zeros: line 1 is longer"):
        list(LineStream(zero, "zeros", 1000))


@pytest.mark.parametrize(
    "line", ["A dog runs. A cat sleeps.", "Really? Yes.", 'He said "Stop." Then he left.', "Ab. Öl"]
)
def test_lines_of_several_sentences(line):
    assert has_several_sentences(line)


@pytest.mark.parametrize(
    "line", ["", "A dog.", "Dr. Smith", "J. R. R. Tolkien", "Am 3. Mai", "z. B. Hunde", "i.e. James", "Oh! no", "www.A"]
)
def test_lines_of_one_sentence(line):
    assert not has_several_sentences(line)
