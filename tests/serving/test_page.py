"""The page: its files, their policies and caching; the routes that it uses besides those of lines."""

import html
import json
import re
import shlex
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from transduce.documents.document import SUFFIXES
from transduce.serving.limits import ApiKeys, Limits
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import Translation

PAGE = Path(str(resources.files("transduce.serving") / "page"))
FILES = sorted(path.name for path in PAGE.iterdir())
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
TEXT = "cat dog. the owl saw a mole!\n\n  gnu hen\r\npig 12 fox.\n12\n"


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_page_is_served_as_it_is(server, name):
    answer = server.get(f"/page/{name}")
    assert answer.content == (PAGE / name).read_bytes()
    assert answer.headers["content-type"].split(";")[0] == TYPES[name.rpartition(".")[2]]
    assert answer.headers["x-content-type-options"] == "nosniff"
    same = server.get(f"/page/{name}", headers={"If-None-Match": f"W/{answer.headers['etag']}"})
    assert (same.status_code, same.content) == (304, b"")
    assert server.get(f"/page/{name}", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_page_is_at_the_root_and_names_only_files_that_there_are(server):
    answer = server.get("/")
    assert answer.text == (PAGE / "index.html").read_text()
    text = answer.text + (PAGE / "interface.html").read_text()
    named = {name for name in re.findall(r'(?:href|src)="([^"]+)"', text) if name.startswith("page/")}
    imported = {name for path in PAGE.glob("*.js") for name in re.findall(r'from "\./([^"]+)"', path.read_text())}
    framed = set(re.findall(r'"page/(.+)"', (PAGE / "attention.js").read_text()))
    assert {name.removeprefix("page/") for name in named} | imported | framed | {"index.html", "interface.html"} == set(
        FILES
    )
    assert server.get("/page/other.js").status_code == server.get("/page/..%2Fcontract.py").status_code == 404


def test_the_page_may_run_only_its_own_scripts_and_ask_only_this_server(server):
    policy = server.get("/").headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in " ".join(policy)
    frame = server.get("/page/frame.html").headers["content-security-policy"].split("; ")
    assert {"sandbox allow-scripts", "default-src 'none'"} <= set(frame)
    assert not any(rule.startswith("connect-src") for rule in frame)
    text = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?! type=\"module\" src)|<style|\son\w+=|\sstyle=|//", text)
    for path in PAGE.glob("*.js"):
        assert not re.search(r"innerHTML|https?://", path.read_text()), path.name


def test_the_links_of_both_pages_lead_somewhere(server):
    for page in ("/", "/docs"):
        text = server.get(page).text
        for link in re.findall(r'<a href="([^"#]+)"', text):
            assert link.startswith("https://docs.libretranslate.com") or server.get(f"/{link}").status_code == 200, link
        anchors = re.findall(r'href="#([^"]+)"', text)
        assert [f'id="{anchor}"' in text for anchor in anchors] == [True] * len(anchors)


def examples():
    """The commands of the page that describes the interface."""
    page = html.unescape((PAGE / "interface.html").read_text())
    return re.findall(r"<code>(curl .*?)</code>", page, re.DOTALL)


@pytest.mark.parametrize("command", examples())
def test_an_example_of_the_interface_is_answered(serve, command):
    server = serve(Limits(), ApiKeys(["KEY"] if "KEY" in command else []))
    words = shlex.split(command.replace("\\\n", " "))
    path = words[1].removeprefix("$SERVER")
    given = {
        option: [words[place + 1] for place, word in enumerate(words) if word == option]
        for option in ("-d", "-H", "-F")
    }
    headers = dict(header.split(": ", 1) for header in given["-H"])
    if given["-F"]:
        fields = dict(field.split("=", 1) for field in given["-F"])
        name = fields.pop("file").removeprefix("@")
        answer = server.post(path, data=fields, files={"file": (name, b"<p>cat</p>")})
    elif given["-d"]:
        answer = server.post(path, content=given["-d"][0], headers=headers)
    else:
        answer = server.get(path)
    assert answer.status_code == 200, answer.text


def test_a_text_that_is_surely_in_another_language_is_named(server):
    french = "Deux chiens jouent dans la neige avec un homme qui porte un chapeau rouge."
    answer = server.post("/v1/sentences", json={"text": french, "source": "en", "target": "de"}).json()
    assert answer["detected"]["language"] == "fr"
    for text in ("Two dogs play in the snow with a man who wears a red hat.", "Deux chiens"):
        assert "detected" not in server.post("/v1/sentences", json={"text": text}).json()


def test_every_file_is_in_the_package():
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert "serving/page/*" in settings["tool"]["setuptools"]["package-data"]["transduce"]


def test_the_page_is_no_part_of_the_described_interface(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith("/page")]
    assert {"/v1/settings", "/v1/sentences", "/v1/attention"} <= paths.keys()


def test_the_settings_say_what_the_server_can_do(serve):
    server = serve(Limits(characters=70, texts=5), ApiKeys(["key"]))
    assert server.get("/v1/settings").json() == {
        "key_required": True,
        "max_characters": 70,
        "max_texts": 5,
        "document_suffixes": [".txt", *SUFFIXES],
        "directions": [
            {
                "source": {"code": "en", "name": "English"},
                "target": {"code": "de", "name": "German"},
                "alignments": True,
                "confidence": False,
            }
        ],
    }


@pytest.mark.parametrize("text", [TEXT, "", "\n", "dog@cat.de owl.\ncat {dog} owl. pig"])
def test_the_translations_of_the_parts_are_the_translation_of_the_text(server, text):
    parts = server.post("/v1/sentences", json={"text": text}).json()["parts"]

    def translated(part):
        if part["kind"] == "sentence":
            (line,) = server.post("/v1/translate", json={"text": part["text"]}).json()["lines"]
            return line["translations"][0]["text"]
        if part["kind"] == "text":
            asked = {"q": part["text"], "source": "en", "target": "de"}
            return server.post("/translate", json=asked).json()["translatedText"]
        return part["text"]

    asked = {"q": text, "source": "en", "target": "de"}
    assert "".join(map(translated, parts)) == server.post("/translate", json=asked).json()["translatedText"]
    assert all(part["text"] for part in parts)


def test_parts_are_sentences_lines_with_placeholders_and_what_is_copied(server):
    answer = server.post("/v1/sentences", json={"text": TEXT + "see {owl} now. pig.", "source": "en"}).json()
    assert (answer["source"], answer["target"]) == ("en", "de")
    assert [(part["kind"], part["text"]) for part in answer["parts"]] == [
        ("sentence", "cat dog."),
        ("copied", " "),
        ("sentence", "the owl saw a mole!"),
        ("copied", "\n"),
        ("copied", "\n"),
        ("copied", "  "),
        ("sentence", "gnu hen"),
        ("copied", "\r\n"),
        ("sentence", "pig 12 fox."),
        ("copied", "\n"),
        ("copied", "12"),
        ("copied", "\n"),
        ("text", "see {owl} now. pig."),
    ]


def test_each_sentence_of_a_line_has_its_language_code(server, monkeypatch):
    monkeypatch.setattr("transduce.documents.sentence_translator.codes_of", lambda vocabulary: {">>fra<<"})
    parts = server.post("/v1/sentences", json={"text": ">>fra<< cat dog. the owl!\nmole", "source": "en"}).json()[
        "parts"
    ]
    sentences = [part["text"] for part in parts if part["kind"] == "sentence"]
    assert sentences == [">>fra<< cat dog.", ">>fra<< the owl!", "mole"]


def test_the_language_of_a_text_is_detected_and_a_text_in_the_target_language_is_copied(server):
    german = "Das ist das Haus meiner Mutter. Es ist alt."
    answer = server.post("/v1/sentences", json={"text": german, "source": "auto", "target": "de"}).json()
    assert (answer["source"], answer["detected"]["language"]) == ("de", "de")
    assert answer["parts"] == [{"text": german, "kind": "copied"}]
    asked = {"text": "This is the house of my mother.", "source": "auto", "target": "de-AT"}
    answer = server.post("/v1/sentences", json=asked).json()
    assert (answer["source"], answer["detected"]["language"], answer["target"]) == ("en", "en", "de")
    assert [part["kind"] for part in answer["parts"]] == ["sentence"]


def test_a_word_has_its_probability_without_a_calibration(server, translator):
    (line,) = server.post("/v1/translate", json={"text": "cat dog", "words": True}).json()["lines"]
    best = translator.translate_records("cat dog")
    assert [word for word, _ in line["words"]] == best.text.split()
    assert all(0 < probability <= 1 for _, probability in line["words"])
    (scores,) = translator.token_scores(["cat dog"], [best.text])
    product = 1.0
    for _, probability in line["words"]:
        product *= probability
    assert product == pytest.approx(float(2.718281828459045 ** sum(scores[:-1])), rel=1e-3)
    assert "confidence" not in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12\u00a0% von", ["12\u00a0%", "von"]),
        ("a\u3000b\tc d", ["a\u3000b\tc", "d"]),
        ("▁", []),
        ("x\u00a0y", ["x\u00a0y"]),
    ],
)
def test_only_spaces_end_a_word(translator, text, words):
    (tokens,) = translator.target.encode([text])
    best = Translation(text, -1.0, -1.0, tokens)
    (printed,) = OutputFormat(json=True, words=True).lines(translator, ["cat"], [[best]])
    assert [word for word, _ in json.loads(printed)["words"]] == words


def test_the_picture_is_that_of_the_command_under_a_policy(server, command, fluent, translator, tmp_path):
    best = translator.translate("cat dog")
    answer = server.post("/v1/attention", json={"text": "cat dog", "translation": best})
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    code, _, error = command("draw", fluent, "cat dog", "--out", tmp_path / "picture.html")
    assert code == 0, error
    assert answer.text == (tmp_path / "picture.html").read_text("utf-8")
    other = server.post("/v1/attention", json={"text": "cat dog", "translation": "god"})
    assert '<dd lang="" dir="auto" translate="no">god</dd>' in other.text


@pytest.mark.parametrize(
    ("path", "asked", "error"),
    [
        ("attention", {"text": "", "translation": "god"}, "text has 0 subwords: attention is drawn from 1 to 120"),
        ("attention", {"text": "cat", "translation": "owl " * 130}, "translation has "),
        ("attention", {"text": "cat"}, "Invalid request: missing translation parameter"),
        ("attention", {"text": "cat", "translation": "a", "target": "zz"}, "zz is not supported"),
        ("sentences", {"text": "cat", "target": "en"}, "name source and target: this server translates en-de"),
        ("sentences", {"text": "cat", "source": "auto"}, "name target: it says which languages are detected"),
        ("sentences", {"text": "a" * 10_001}, "Invalid request: request (10001) exceeds text limit (10000)"),
    ],
)
def test_what_is_wrong_is_an_error_of_status_400(server, path, asked, error):
    answer = server.post(f"/v1/{path}", json=asked)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)


def test_keys_and_rates_hold_for_sentences_and_pictures(serve):
    server = serve(Limits(requests_per_minute=2), ApiKeys(["key"]))
    asked = {"sentences": {"text": "cat"}, "attention": {"text": "cat", "translation": "tac"}}
    for path, values in asked.items():
        assert server.post(f"/v1/{path}", json=values).status_code == 403
        headers = {"Authorization": "Bearer key"}
        assert server.post(f"/v1/{path}", json=values, headers=headers).status_code == 200
    refused = server.post("/v1/sentences", json={"text": "cat"}, headers={"Authorization": "Bearer key"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
