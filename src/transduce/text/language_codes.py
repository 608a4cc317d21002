"""Language codes: two letters of ISO 639-1 or three of ISO 639-3, and a script or a region after a hyphen."""

import difflib
import re
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import AfterValidator

# Country codes and other codes that people write by mistake, and the language that they mean.
MEANT = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "iw": "he", "jp": "ja", "ua": "uk", "us": "en", "vn": "vi"}


@cache
def language_names() -> dict[str, str]:
    """English names of the languages of ISO 639-1, by code."""
    text = resources.files(__package__).joinpath("language_codes.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines())


def check_language(code: str) -> str:
    """Returns a valid language code; for anything else raises ValueError, which proposes the nearest code.

    Any three letters pass: ISO 639-3 has 7,900 codes, and some are reserved for private use.
    """
    language, *subtags = re.split("[-_]", code)
    has_code = language.lower() in language_names() or re.fullmatch("[A-Za-z]{3}", language)
    if has_code and all(re.fullmatch("[A-Za-z0-9]{2,8}", subtag) for subtag in subtags):
        return code
    meant = _meant(language.lower())
    proposal = f"; did you mean `{meant}` ({language_names()[meant]})?" if meant else ""
    raise ValueError(f"`{code}` is not a code of a language, such as `de`, `pt-BR` or `ast`{proposal}")


def _meant(text: str) -> str | None:
    """Returns the code of the language that a text may mean: a name, a country code or a typing error."""
    names = {name.lower(): code for code, name in language_names().items()}
    known = names | MEANT | {code: code for code in language_names()}
    nearest = difflib.get_close_matches(text, known, n=1, cutoff=0.75)
    return known[nearest[0]] if nearest else None


LanguageCode = Annotated[str, AfterValidator(check_language)]
