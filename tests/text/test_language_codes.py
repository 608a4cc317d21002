"""Codes of languages: what ISO 639 has passes, and the nearest is proposed for other texts, at every door."""

import pytest

from transduce.commands import main
from transduce.recipe.recipe import from_values
from transduce.text.language_codes import check_language, language_names


@pytest.mark.parametrize(
    "code", ["de", "DE", "pt-BR", "zh_Hans", "sr-Latn-RS", "ast", "eng_Latn", "qaa", *language_names()]
)
def test_codes_of_languages_pass(code):
    assert check_language(code) == code


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("jp", "ja"), ("cz", "cs"), ("english", "en"), ("Englsh", "en"), ("German", "de"), ("german ", "de"),
        ("Norwegian", "no"), ("xx", None), ("", None), ("d", None), ("de-", None), ("12", None),
    ],
)  # fmt: skip
def test_the_nearest_is_proposed(text, meant):
    with pytest.raises(ValueError, match="is not a code of a language") as raised:
        check_language(text)
    assert (f"did you mean `{meant}`" in str(raised.value)) == (meant is not None)


def test_every_door_proposes_it(tmp_path, capsys):
    (tmp_path / "text").write_text("one two three four\n")
    data = {"train": {"embedded": "train"}, "source_language": "english", "target_language": "de"}
    with pytest.raises(ValueError, match=r"source_language.*english.*did you mean `en` \(English\)"):
        from_values({"data": data, "model": {"preset": "tiny"}}, place="here")
    text = str(tmp_path / "text")
    for arguments in (
        ["measure", text, "--reference", text, "--language", "jp"],
        ["inspect", text, text, "--to", "jp"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "did you mean `ja` (Japanese)" in capsys.readouterr().err
