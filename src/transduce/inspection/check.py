"""The checks of parallel text by name."""

from enum import StrEnum

__all__ = ["LINE_CHECKS", "NEEDS_LANGUAGES", "Check"]


class Check(StrEnum):
    """A check of pairs of lines; the values are its names in tables and in JSON."""

    EMPTY = "empty"
    ENCODING = "encoding"
    LONG = "long"
    RATIO = "ratio"
    COPY = "copied"
    SWAPPED = "swapped"
    WRONG_LANGUAGE = "wrong_language"
    WRONG_SCRIPT = "wrong_script"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    SEVERAL_TARGETS = "several_targets"
    MARKUP = "markup"
    CONTROL = "control"
    MOJIBAKE = "mojibake"
    UNNORMALISED = "unnormalised"
    NUMBERS = "numbers"
    OVERLAP = "overlap"

    @property
    def phrase(self) -> str:
        """What a pair with this fault has, as it follows the number of pairs."""
        return PHRASES[self]


PHRASES = {
    Check.EMPTY: "with an empty side",
    Check.ENCODING: "with bytes that are no UTF-8",
    Check.LONG: "with a very long side",
    Check.RATIO: "with lengths far from the usual ratio",
    Check.COPY: "with a target equal to its source",
    Check.SWAPPED: "with the languages of the sides exchanged",
    Check.WRONG_LANGUAGE: "with a side in another language",
    Check.WRONG_SCRIPT: "with a side in another script",
    Check.DUPLICATE: "that repeat an earlier pair",
    Check.NEAR_DUPLICATE: "that repeat an earlier pair but for case, punctuation, digits or spaces",
    Check.SEVERAL_TARGETS: "with the source of an earlier pair and another target",
    Check.MARKUP: "with markup",
    Check.CONTROL: "with control characters",
    Check.MOJIBAKE: "with text decoded from a wrong encoding",
    Check.UNNORMALISED: "with invisible characters or Unicode that is not NFC",
    Check.NUMBERS: "with numbers that differ between the sides",
    Check.OVERLAP: "with a source of the validation or test set",
}

LINE_CHECKS = frozenset(
    {
        Check.EMPTY, Check.LONG, Check.COPY, Check.MARKUP, Check.CONTROL, Check.MOJIBAKE, Check.UNNORMALISED,
        Check.NUMBERS,
    }
)  # fmt: skip
"""The checks that judge a pair by itself, without other pairs and without a model of languages."""

NEEDS_LANGUAGES = frozenset({Check.SWAPPED, Check.WRONG_LANGUAGE})
"""The checks that identify languages, with the extra `languages`."""
