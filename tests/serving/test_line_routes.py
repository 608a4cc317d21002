"""Our own interface: records are those of the command, as one answer or one by one."""

import json
import shutil

import pytest
from local_server import OPEN, Server

from transduce.serving.limits import ApiKeys
from transduce.serving.request_log import Metrics
from transduce.serving.server import load_models
from transduce.translation.confidence import Calibration

LINES = ["cat dog", "", "the owl saw a mole", "pig"]


@pytest.fixture
def printed(command, fluent, tmp_path):
    """The records that `transduce translate --json` prints."""

    def records(*options):
        (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
        code, out, error = command("translate", fluent, tmp_path / "lines", "--json", *options)
        assert code == 0, error
        return [json.loads(line) for line in out.splitlines()]

    return records


def events(answer):
    """Returns the names and contents of server-sent events."""
    parts = [dict(line.split(": ", 1) for line in part.split("\n")) for part in answer.text.split("\n\n") if part]
    return [(part["event"], json.loads(part["data"])) for part in parts]


def same(records, expected):
    """Compares records, and their numbers up to the rounding of a batch of other sentences."""
    if isinstance(expected, float):
        return records == pytest.approx(expected, abs=1e-5)
    if isinstance(expected, dict):
        return records.keys() == expected.keys() and all(same(records[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(records) == len(expected) and all(map(same, records, expected))
    return records == expected


def test_records_are_what_the_command_prints(server, printed):
    answer = server.post("/v1/translate", json={"text": LINES}).json()
    assert (answer["source"], answer["target"]) == ("en", "de")
    assert same(answer["lines"], printed())
    one = server.post("/v1/translate", json={"text": "cat dog", "source": "EN", "target": "de-AT"}).json()
    assert same(one["lines"], printed()[:1])


def test_options_are_those_of_the_command(server, printed, tmp_path):
    (tmp_path / "prefixes").write_text("tac\n\neht\n\n")
    asked = {"text": LINES, "n_best": 3, "beam": 4, "length_penalty": 0.2, "alignments": True}
    asked["prefix"] = ["tac", "", "eht", ""]
    options = ("--n-best=3", "--beam=4", "--length-penalty=0.2", "--alignments", "--prefix", tmp_path / "prefixes")
    expected = printed(*options)
    assert same(server.post("/v1/translate", json=asked).json()["lines"], expected)
    assert [len(record["translations"]) for record in expected] == [3, 1, 3, 3]
    assert expected[2]["translations"][0]["text"].startswith("eht")
    assert len(expected[2]["alignment"].split()) == len(expected[2]["translations"][0]["text"].split())
    assert expected != printed()


def test_confidence_is_that_of_the_command(command, fluent, tmp_path):
    run = shutil.copytree(fluent, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    calibration = Calibration(
        sentences=40, scores=(0.1, 0.4, 0.9), qualities=(0.2, 0.3, 0.8), doubtful=0.3, length_ratio=(0.5, 2.0)
    )
    calibration.write(run)
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    code, out, error = command("translate", run, tmp_path / "lines", "--json", "--confidence")
    assert code == 0, error
    models = load_models([str(run)], Metrics())
    answer = Server(models, OPEN, ApiKeys()).post("/v1/translate", json={"text": LINES, "confidence": True}).json()
    assert same(answer["lines"], [json.loads(line) for line in out.splitlines()])
    assert all(record.keys() >= {"confidence", "doubts", "words"} for record in answer["lines"])
    models.close()


def test_a_stream_has_an_event_a_line(server, printed):
    answer = server.post("/v1/translate", json={"text": LINES, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in events(answer)] == ["line"] * 4 + ["end"]
    assert same([record for _, record in events(answer)][:-1], printed())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"text": "cat\ndog"}, "text 1 has a line end: split it at line ends, or send it to /translate, which does"),
        ({"n_best": 3}, "`n_best` is 3, and a beam of 2 gives at most 2: add `beam=3`"),
        ({"n_best": 0}, "Invalid request: n_best: "),
        ({"beam": 11}, "Invalid request: beam: "),
        ({"confidence": True}, "the model has no confidence"),
        ({"target": "en"}, "name source and target: this server translates en-de"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "de", "target": "en"}, "en (de-en) is not supported"),
        ({"prefix": ["a", "b"]}, "there are 2 prefixes for 1 texts"),
        ({"text": ["cat", " ".join(["cat"] * 600)]}, "text 2 has 600 subwords, more than 512; split it"),
        ({"text": "a" * 10_000}, "text 1 has "),
        ({"text": "a" * 10_001}, "Invalid request: request (10001) exceeds text limit (10000)"),
        ({"text": ["a"] * 101}, "Invalid request: request (101) exceeds batch limit (100)"),
        ({"prefix": "a" * 10_001}, "Invalid request: request (10001) exceeds text limit (10000)"),
        ({"prefix": " ".join(["tac"] * 600)}, "prefix 1 has 600 subwords, more than 512; shorten it"),
        ({"q": "cat"}, "Invalid request: q: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_an_error_of_status_400(server, stream, change, error):
    answer = server.post("/v1/translate", json={"text": "cat dog", "stream": stream, **change})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)


def test_a_line_that_fails_within_a_stream_ends_it_with_an_error(server, models, monkeypatch):
    (served,) = models.directions.values()

    def refused(source, target):
        if source == "pig":
            raise MemoryError
        return explain(source, target)

    explain = served.translator.explain
    monkeypatch.setattr(served.translator, "explain", refused)
    answer = server.post("/v1/translate", json={"text": LINES, "stream": True, "alignments": True})
    assert [name for name, _ in events(answer)] == ["line", "line", "line", "error"]
    assert events(answer)[-1][1]["error"].startswith("a text is too long to be aligned")
