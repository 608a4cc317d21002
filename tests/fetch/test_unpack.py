"""Members of archives and segments of SGML."""

import io
import os
import tarfile

import pytest
from fetch_world import tar

from transduce.fetch.sources import UnusableError, plain_text, read_segments, unpack


def archive(folder, content):
    path = folder / "a.tgz"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_members_are_written_to_the_given_paths_only(tmp_path, mode):
    members = {"../evil": b"1", "/evil": b"2", "./a/x.en": b"en\n", "a/x.de": b"de\n", "a/../../evil": b"3"}
    path = archive(tmp_path, tar(members, mode))
    (tmp_path / "out").mkdir()
    unpack(path, {"a/x.en": tmp_path / "out" / "1", "a/x.de": tmp_path / "out" / "2"})
    assert (tmp_path / "out" / "1").read_bytes() == b"en\n"
    assert (tmp_path / "out" / "2").read_bytes() == b"de\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["1", "2", "a.tgz", "out"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_not_a_file_raises(tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as stream:
        entry = tarfile.TarInfo("x.en")
        entry.type, entry.linkname = kind, str(tmp_path / "secret")
        stream.addfile(entry)
    with pytest.raises(UnusableError, match=r"x\.en is a link or a folder instead of a file"):
        unpack(archive(tmp_path, file.getvalue()), {"x.en": tmp_path / "out"})
    assert not (tmp_path / "out").exists()


def test_a_missing_member_is_named(tmp_path):
    with pytest.raises(UnusableError, match=r"a\.tgz does not contain b, c; it is not the expected archive"):
        unpack(
            archive(tmp_path, tar({"a": b""}, "w:gz")), {"a": tmp_path / "1", "c": tmp_path / "2", "b": tmp_path / "3"}
        )


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_truncated_archive_raises(tmp_path, keep):
    whole = tar({"a": os.urandom(50_000), "b": b""}, "w:gz")
    with pytest.raises(UnusableError, match="damaged archive"):
        unpack(archive(tmp_path, whole[: int(len(whole) * keep)]), {"b": tmp_path / "1"})


SGM = """<srcset setid="newstest2014" srclang="any">
<DOC sysid="ref" docid="a" genre='news'>
<hl>
<SEG id="1">AT&T pays R&amp;D &lt;now&gt; &quot;at &#8364; 5&quot;; 5 < 6</SEG>
</hl>
<p>
outside
<seg id="2">
 two
 lines </seg><seg id="3"></seg>
<seg id="4">caf\xe9\xa0\u2028bar</seg>
</p>
</DOC>
</srcset>
"""


def test_segments_have_no_markup_and_decoded_entities(tmp_path):
    (tmp_path / "x.sgm").write_text(SGM, "utf-8")
    assert list(read_segments(tmp_path / "x.sgm")) == [
        'AT&T pays R&D <now> "at € 5"; 5 < 6',
        "two lines",
        "",
        "caf\xe9\xa0\u2028bar",
    ]


def test_sgml_becomes_a_line_a_segment_and_plain_text_is_unchanged(tmp_path):
    (tmp_path / "x.sgm").write_text(SGM, "utf-8")
    (tmp_path / "x.txt").write_text("text", "utf-8")
    assert plain_text(tmp_path / "x.txt", tmp_path / "converted") == tmp_path / "x.txt"
    assert plain_text(tmp_path / "x.sgm", tmp_path / "converted").read_text("utf-8").count("\n") == 4


@pytest.mark.parametrize(
    ("content", "message"), [(b"<seg id=1>caf\xe9</seg>", "not UTF-8"), (b"<seg id=1>cut", "ends inside a segment")]
)
def test_damaged_sgml_raises(tmp_path, content, message):
    (tmp_path / "x.sgm").write_bytes(content)
    with pytest.raises(UnusableError, match=message):
        list(read_segments(tmp_path / "x.sgm"))
