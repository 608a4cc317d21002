"""Checks language codes.

A language code consists of two letters (ISO 639-1) or three letters (ISO 639-3), which may be followed by a hyphen and
a script or region.
"""

import difflib
import re
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import AfterValidator

# Maps codes that are often written by mistake, such as country codes, to the codes that are meant.
MEANT = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "iw": "he", "jp": "ja", "ua": "uk", "us": "en", "vn": "vi"}


@cache
def language_names() -> dict[str, str]:
    """Returns the English names of the languages in ISO 639-1, keyed by their codes."""
    text = resources.files(__package__).joinpath("language_codes.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines())


def check_language(code: str) -> str:
    """Returns `code` if it is a valid language code, and otherwise raises ValueError, which suggests the nearest code.

    Any three letters are accepted, because ISO 639-3 has 7,900 codes and reserves some for private use.
    """
    language, *subtags = re.split("[-_]", code)
    has_code = language.lower() in language_names() or re.fullmatch("[A-Za-z]{3}", language)
    if has_code and all(re.fullmatch("[A-Za-z0-9]{2,8}", subtag) for subtag in subtags):
        return code
    meant = _meant(language.lower())
    proposal = f"; did you mean `{meant}` ({language_names()[meant]})?" if meant else ""
    raise ValueError(f"`{code}` is not a code of a language, such as `de`, `pt-BR` or `ast`{proposal}")


def _meant(text: str) -> str | None:
    """Returns the code of the language that the user probably meant, or None if no language is similar.

    `text` may be the name of a language, a country code or a misspelt code.
    """
    names = {name.lower(): code for code, name in language_names().items()}
    known = names | MEANT | {code: code for code in language_names()}
    nearest = difflib.get_close_matches(text, known, n=1, cutoff=0.75)
    return known[nearest[0]] if nearest else None


LanguageCode = Annotated[str, AfterValidator(check_language)]
