"""LibreTranslate's interface: where values stand, what is answered, the shape of errors."""

import json

import pytest
from local_server import OPEN

from transduce.serving.limits import ApiKeys

TEXT = "cat dog\nthe owl saw a mole. pig fox!\r\n\n  gnu hen\n"
HTML = '<p>cat <b>dog</b></p>\n<p title="owl">pig <i>gnu hen</i><br>fox</p>'
ASKED = {"q": "cat dog", "source": "en", "target": "de"}


@pytest.fixture
def command_translates(command, fluent, tmp_path):
    """What `transduce translate-document` prints for a text of a format."""

    def printed(text, kind):
        (tmp_path / "text").write_bytes(text.encode())
        code, out, error = command("translate-document", fluent, tmp_path / "text", "--format", kind)
        assert code == 0, error
        return out

    return printed


@pytest.mark.parametrize("place", ["json", "data", "params"])
def test_values_stand_in_json_in_a_form_or_in_the_query_string(server, translator, place):
    answer = server.post("/translate", **{place: ASKED})
    assert (answer.status_code, answer.json()) == (200, {"translatedText": translator.translate("cat dog")})
    # Clients send keys that we do not know.
    assert server.post("/translate", **{place: {**ASKED, "apiKey": "x", "format": "text"}}).json() == answer.json()


def test_a_text_of_sentences_and_lines_is_what_the_command_prints(server, command_translates):
    printed = command_translates(TEXT, "text")
    answer = server.post("/translate", json={**ASKED, "q": TEXT}).json()["translatedText"]
    assert answer.replace("\r\n", "\n") == printed
    assert answer.count("\r\n") == 1
    assert len(set(printed.split("\n"))) > 3


def test_html_keeps_its_tags_and_is_what_the_command_prints(server, command_translates):
    answer = server.post("/translate", data={**ASKED, "q": HTML, "format": "html"}).json()["translatedText"]
    assert answer == command_translates(HTML, "html")
    page = {**ASKED, "q": '<html lang="en"><p>cat</p></html>', "format": "html"}
    assert server.post("/translate", data=page).json()["translatedText"].startswith('<html lang="de">')
    for tag in ("<p>", "<b>", "</b>", "<br>", "<i>", "</i>", 'title="'):
        assert answer.count(tag) == HTML.count(tag)


@pytest.mark.parametrize("sent", [{"json": {"q": ["cat dog", "", "owl"]}}, {"data": {"q": ["cat dog", "", "owl"]}}])
def test_a_list_has_a_list(server, translator, sent):
    ((place, values),) = sent.items()
    answer = server.post("/translate", **{place: {**ASKED, **values}}).json()
    assert answer == {"translatedText": [translator.translate(text) for text in ("cat dog", "", "owl")]}


def test_alternatives_are_the_other_translations_of_the_beam(server, translator):
    best, other = translator.translate_records("cat dog", n_best=2)
    asked = {**ASKED, "alternatives": 3}
    answer = {"translatedText": best.text, "alternatives": [other.text]}
    assert server.post("/translate", json=asked).json() == answer  # the beam has two
    assert server.post("/translate", data=asked).json() == answer
    assert server.post("/translate", json={**asked, "q": ["cat dog"]}).json() == {
        "translatedText": [best.text],
        "alternatives": [[other.text]],
    }
    assert "alternatives" not in server.post("/translate", json={**asked, "alternatives": 0}).json()


def test_the_language_of_a_text_is_detected(server, translator):
    english, german = "this is the house of my mother", "das ist das Haus meiner Mutter"
    answer = server.post("/translate", json={**ASKED, "q": english, "source": "auto"}).json()
    assert answer["translatedText"] == translator.translate(english)
    assert answer["detectedLanguage"]["language"] == "en"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100
    answer = server.post("/translate", json={**ASKED, "q": [german, english], "source": "auto"}).json()
    assert [language["language"] for language in answer["detectedLanguage"]] == ["de", "en"]
    assert answer["translatedText"] == [german, translator.translate(english)]  # German is German already
    first, second = server.post("/detect", json={"q": german, "format": "text"}).json()
    assert (first["language"], second["language"]) == ("de", "en")
    assert first["confidence"] > 50 > 5 > second["confidence"]
    assert server.post("/detect", params={"q": english}).json()[0]["language"] == "en"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        ({"source": "de", "target": "en"}, "en (de-en) is not supported; this server translates en-de"),
        ({"format": "pdf"}, "Invalid request: format: Input should be 'text' or 'html'"),
        ({"alternatives": "many"}, "Invalid request: alternatives: "),
        ({"q": "a" * 10_001}, "Invalid request: request (10001) exceeds text limit (10000)"),
        ({"q": ["a"] * 101}, "Invalid request: request (101) exceeds batch limit (100)"),
    ],
)
@pytest.mark.parametrize("place", ["json", "data"])
def test_what_is_wrong_is_an_error_of_status_400(server, place, change, error):
    values = {name: value for name, value in {**ASKED, **change}.items() if value is not None}
    answer = server.post("/translate", **{place: values})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"].startswith(error)


def test_what_typed_clients_send_for_options_that_are_not_set_is_the_default(server):
    asked = {"q": "cat", "source": "en", "target": "de"}
    plain = server.post("/translate", json=asked).json()
    for change in ({"format": None}, {"format": ""}, {"alternatives": -1}):
        answer = server.post("/translate", json={**asked, **change})
        assert (answer.status_code, answer.json()) == (200, plain)


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/languages", "/frontend/settings", "/metrics", "/spec"])
def test_head_is_answered_as_get(server, path):
    head, get = server.call("HEAD", path), server.get(path)
    assert (head.status_code, head.headers["content-type"]) == (200, get.headers["content-type"])
    assert f'route="{path}",status="200"}} 2.0' in server.get("/metrics").text


def test_a_text_whose_language_is_asked_for_has_the_same_limit(server):
    answer = server.post("/detect", json={"q": "a" * 10_001})
    assert (answer.status_code, answer.json()["error"][:33]) == (400, "Invalid request: request (10001) ")


@pytest.mark.parametrize("body", ["{", "[1]", '"cat"', "[" * 100_000, '{"q": 1' + "0" * 5000 + "}", "\xff"])
def test_a_body_that_is_no_json_object_is_named(server, body):
    answer = server.post("/translate", content=body.encode("latin-1"), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


@pytest.mark.parametrize("name", ["q", "source", "target", "format", "api_key"])
def test_half_a_surrogate_pair_is_refused(serve, name):
    server = serve(OPEN, ApiKeys(["secret"]) if name == "api_key" else ApiKeys())
    headers = {"Content-Type": "application/json"}
    answer = server.post("/translate", content=json.dumps({**ASKED, name: "cat \ud800"}), headers=headers)
    assert (answer.status_code, set(answer.json())) == (403 if name == "api_key" else 400, {"error"})
    ours = json.dumps({"text": "cat", "prefix" if name == "q" else name: "\ud800", "key \ud800": 1})
    assert server.post("/v1/translate", content=ours, headers=headers).status_code == 400


def test_other_routes(server, serve):
    assert server.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    settings = serve(OPEN, ApiKeys(["secret"])).get("/frontend/settings").json()
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert (settings["charLimit"], settings["keyRequired"]) == (10_000, True)
    refused = server.post("/suggest", data={"q": "cat", "s": "dog", "source": "en", "target": "de"})
    assert (refused.status_code, set(refused.json())) == (403, {"error"})
    assert server.get("/translate").status_code == 405
    assert server.get("/nowhere").json() == {"error": "Not Found"}
    assert server.get("/spec").json() == server.get("/openapi.json").json()
    assert server.get("/languages", headers={"Origin": "http://other"}).headers["access-control-allow-origin"] == "*"


def test_several_slashes_are_one(server):
    assert (
        server.post("http://testserver//translate", data=ASKED).json() == server.post("/translate", data=ASKED).json()
    )
    assert server.get("/v1//settings").status_code == 200
