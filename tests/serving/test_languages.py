"""Languages as clients name them, and the page that describes the interface."""

import json

import pytest

from transduce.serving.contract import Detection
from transduce.serving.language_names import LanguageDetector, language_name, matching_code


@pytest.mark.parametrize(
    ("code", "served", "expected"),
    [
        ("EN", ["de", "en"], "en"),
        ("en_GB", ["de", "en"], "en"),
        ("en-GB", ["en", "en-GB"], "en-GB"),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pt-BR", ["pt", "pb"], "pb"),
        ("zh", ["zh-Hant", "zh-Hans"], "zh-Hans"),
        ("zt", ["zh-Hant", "zh-Hans"], "zh-Hant"),
        ("zh-Hans", ["zh"], "zh"),
        ("pt", ["pt-BR"], None),
        ("zz", ["de"], None),
        ("", ["de"], None),
    ],
)
def test_a_code_means_a_served_language(code, served, expected):
    assert matching_code(code, served) == expected


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("pb", "Portuguese (Brazil)"), ("zh", "Chinese (Simplified)"), ("xx1!", "xx1!"), ("qqx", "qqx")],
)
def test_languages_have_english_names(code, name):
    assert language_name(code) == name


def test_probabilities_are_over_all_languages_that_are_known():
    detector = LanguageDetector(lambda text: {"de": -3.0, "fr": -3.0, "en": -3.0 - 1000})
    assert LanguageDetector(lambda text: {"pt": -3.0}).detect("x", ["pb"]) == [
        Detection(language="pb", confidence=100.0)
    ]
    assert detector.detect("x", ["en", "tlh", "de-AT"]) == [
        Detection(language="de-AT", confidence=50.0),
        Detection(language="en", confidence=0.0),
        Detection(language="tlh", confidence=0.0),
    ]


def test_the_description_has_the_fields_of_forms_and_no_status_422(server):
    description = server.get("/openapi.json").json()
    (form,) = description["paths"]["/translate_file"]["post"]["requestBody"]["content"].values()
    assert {"file", "source", "target", "api_key"} == form["schema"]["properties"].keys()
    fields = description["components"]["schemas"]["LineTranslation"]["properties"]
    assert "log-probability / length penalty" in fields["score"]["description"]
    assert not any('"422"' in json.dumps(operation) for operation in description["paths"].values())


def test_ready_is_another_thing_than_alive(server, models, monkeypatch):
    assert (server.get("/health").status_code, server.get("/ready").status_code) == (200, 200)
    (queue,) = models.queues
    monkeypatch.setattr(queue, "_closed", True)
    assert (server.get("/health").status_code, server.get("/ready").status_code) == (200, 503)


def test_requests_are_counted_by_route_and_status_and_never_by_invented_paths(server):
    server.post("/translate", json={"q": "cat dog", "source": "en", "target": "de"})
    server.post("/translate", json={"q": "cat dog"})
    server.get("/invented")
    lines = server.get("/metrics").text.splitlines()
    for line in (
        'transduce_requests_total{route="/translate",status="200"} 1.0',
        'transduce_requests_total{route="/translate",status="400"} 1.0',
        'transduce_requests_total{route="none",status="404"} 1.0',
        "transduce_characters_total 7.0",
        "transduce_waiting_sentences 0.0",
    ):
        assert line in lines
    assert not any("invented" in line for line in lines)
