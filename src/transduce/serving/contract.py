"""Requests and answers of both interfaces. Their descriptions go into `openapi.json`."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

# ---------------------------------------------------------------------------- LibreTranslate's


def _refuse_other_items(value: Any) -> Any:
    """Raises one error for a list with items that are not texts; pydantic would report an error for each item."""
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


Texts = Annotated[str | list[str], BeforeValidator(_refuse_other_items)]


class LibreRequest(BaseModel):
    """A request of a client of LibreTranslate. Keys that the server does not know are ignored."""

    api_key: str | None = Field(default=None, description="Needed where the server has keys.")


class TranslateRequest(LibreRequest):
    """Texts of any number of sentences and lines, or HTML."""

    q: Texts = Field(description="A text, or a list of texts.")
    source: str = Field(description="Code of the language of the text; `auto` detects it.")
    target: str = Field(description="Code of the language of the translation.")
    format: Annotated[Literal["text", "html"], BeforeValidator(lambda value: value or "text")] = Field(
        default="text", description="`html` keeps tags where they belong."
    )
    alternatives: Annotated[int, AfterValidator(lambda value: max(0, value))] = Field(
        default=0, description="Most other translations of each text; never more than the beam has."
    )


class DetectRequest(LibreRequest):
    """A text in an unknown language."""

    q: str = Field(description="A text.")


class Detection(BaseModel):
    """A language that a text may be in."""

    confidence: float = Field(description="Probability in percent.")
    language: str


class TranslateAnswer(BaseModel):
    """Translations: strings for one text, lists for a list of texts."""

    translatedText: Texts  # noqa: N815 - the name of the interface
    detectedLanguage: Detection | list[Detection] | None = Field(  # noqa: N815
        default=None, description="Only where `source` is `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        default=None, description="Only where the request has `alternatives` above 0."
    )


class Language(BaseModel):
    """A language, and the languages into which its texts are translated."""

    code: str
    name: str
    targets: list[str]


class NamedLanguage(BaseModel):
    """A language as the page of a client shows it."""

    code: str
    name: str


class LanguageChoice(BaseModel):
    """The languages that a client chooses at first."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """What a client should know of the server."""

    apiKeys: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    frontendTimeout: int = Field(description="Milliseconds after a key stroke until the text is sent.")  # noqa: N815
    keyRequired: bool  # noqa: N815
    language: LanguageChoice
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815


class TranslateFileRequest(LibreRequest):
    """The fields of a form that also uploads a file."""

    source: str = Field(description="Code of the language of the document; `auto` detects it.")
    target: str = Field(description="Code of the language of the translation.")


class TranslateFileAnswer(BaseModel):
    """Where the translated document is for half an hour."""

    translatedFileUrl: str  # noqa: N815


class Failure(BaseModel):
    """Why a request was not answered."""

    error: str


class Status(BaseModel):
    """Whether the server works."""

    status: str


# ---------------------------------------------------------------------------- ours


class LineRequest(BaseModel):
    """Lines: each text is one sentence without a line end, as `transduce translate` reads it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Texts = Field(description="A line, or a list of lines.")
    source: str | None = Field(default=None, description="Code of the source language; needed where there are several.")
    target: str | None = Field(default=None, description="Code of the target language; needed where there are several.")
    n_best: Annotated[int, Field(ge=1, le=10)] = Field(default=1, description="Most translations of each line.")
    beam: Annotated[int, Field(ge=1, le=10)] | None = Field(
        default=None, description="Width of the beam; the model's own if not given."
    )
    length_penalty: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = Field(
        default=None, description="α of the length penalty; the model's own if not given."
    )
    prefix: Texts | None = Field(default=None, description="The beginning of the translation, one for each text.")
    alignments: bool = Field(default=False, description="Pairs of aligned words, from the attention weights.")
    words: bool = Field(default=False, description="The probability of each word.")
    confidence: bool = Field(default=False, description="Confidence, doubts and words; needs `transduce calibrate`.")
    stream: bool = Field(default=False, description="Server-sent events: `line` for each line, then `end`.")


class LineTranslation(BaseModel):
    """One of the translations of a line."""

    text: str
    log_probability: float = Field(description="Natural logarithm, end symbol included.")
    score: float = Field(description="What the search ranks by: log-probability / length penalty.")


class LineRecord(BaseModel):
    """What `transduce translate --json` prints for a line."""

    line: int = Field(description="Number of the text in the request, from 1.")
    target_language: str | None = Field(default=None, description="Of a model of several directions.")
    translations: list[LineTranslation] = Field(description="Best first.")
    alignment: str | None = Field(default=None, description="Such as `0-0 1-2`: source word, target word, from 0.")
    confidence: float | None = Field(default=None, description="From 0 to 1: the chrF / 100 to be expected.")
    doubts: list[str] | None = Field(default=None, description="Reasons for doubt.")
    words: list[tuple[str, float]] | None = Field(default=None, description="Each word with its probability.")


class LineAnswer(BaseModel):
    """The translations of all lines, in order."""

    source: str
    target: str
    lines: list[LineRecord]


class SentencesRequest(BaseModel):
    """A text of any number of sentences and lines, which is split and not translated."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="A text.")
    source: str | None = Field(
        default=None, description="Code of the source language, or `auto`; needed where there are several."
    )
    target: str | None = Field(default=None, description="Code of the target language; needed where there are several.")


class TextPart(BaseModel):
    """A part of a text. The translation of the text is the translations of its parts, one after another."""

    text: str
    kind: Literal["sentence", "text", "copied"] = Field(
        description="`sentence`: a line for /v1/translate. `text`: a line with placeholders or addresses, which "
        "/translate keeps. `copied`: stands in the translation as it is."
    )


class SentencesAnswer(BaseModel):
    """The parts of a text, in order, and its language."""

    source: str
    target: str
    detected: Detection | None = Field(
        default=None,
        description="The language of the text where `source` is `auto`, or where it is surely not the source language.",
    )
    parts: list[TextPart]


class AttentionRequest(BaseModel):
    """A sentence and its translation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="A sentence without a line end.")
    translation: str = Field(description="Its translation.")
    source: str | None = Field(default=None, description="Code of the source language; needed where there are several.")
    target: str | None = Field(default=None, description="Code of the target language; needed where there are several.")


class DirectionAbilities(BaseModel):
    """A direction, and what its model can return."""

    source: NamedLanguage
    target: NamedLanguage
    alignments: bool = Field(description="Whether the model has attention weights: alignments and /v1/attention.")
    confidence: bool = Field(description="Whether the model was calibrated with `transduce calibrate`.")


class ServerSettings(BaseModel):
    """What a client should know of the server."""

    key_required: bool
    max_characters: int = Field(description="Of all texts of a request.")
    max_texts: int = Field(description="Of a request.")
    document_suffixes: list[str] = Field(description="Endings of the names of documents that /translate_file takes.")
    directions: list[DirectionAbilities]
