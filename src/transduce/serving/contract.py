"""The requests and answers of both APIs; their descriptions appear in `openapi.json`."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

# ---------------------------------------------------------------------------- LibreTranslate's


def _refuse_other_items(value: Any) -> Any:
    """Raises a single error if items of a list are not strings; pydantic would report an error for each item."""
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


Texts = Annotated[str | list[str], BeforeValidator(_refuse_other_items)]


class LibreRequest(BaseModel):
    """A request from a LibreTranslate client. Unknown keys are ignored."""

    api_key: str | None = Field(default=None, description="API key; required if the server was started with keys.")


class TranslateRequest(LibreRequest):
    """Texts to translate: plain text with any number of sentences and lines, or HTML."""

    q: Texts = Field(description="The text to translate, or a list of texts.")
    source: str = Field(description="Language code of the text, or `auto` to detect the language.")
    target: str = Field(description="Language code of the translation.")
    format: Annotated[Literal["text", "html"], BeforeValidator(lambda value: value or "text")] = Field(
        default="text",
        description="Format of the text; with `html`, tags are kept and placed at the corresponding words.",
    )
    alternatives: Annotated[int, AfterValidator(lambda value: max(0, value))] = Field(
        default=0, description="Maximum number of alternative translations of each text; the beam size also limits it."
    )


class DetectRequest(LibreRequest):
    """A text whose language is to be detected."""

    q: str = Field(description="The text whose language is to be detected.")


class Detection(BaseModel):
    """A language that a text may be in, with its probability."""

    confidence: float = Field(description="Probability of the language in percent.")
    language: str


class TranslateAnswer(BaseModel):
    """The translations. If the request contains a list of texts, each value is a list with one item for each text."""

    translatedText: Texts  # noqa: N815 - the name of the interface
    detectedLanguage: Detection | list[Detection] | None = Field(  # noqa: N815
        default=None, description="The detected language of each text; present only if `source` is `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        default=None,
        description="The alternative translations of each text; present only if the request asks for alternatives.",
    )


class Language(BaseModel):
    """A language, and the languages into which the server translates from it."""

    code: str
    name: str
    targets: list[str]


class NamedLanguage(BaseModel):
    """The code of a language and its English name, which a client can show."""

    code: str
    name: str


class LanguageChoice(BaseModel):
    """The languages that a client selects initially."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """The settings of the server that a LibreTranslate client needs to know."""

    apiKeys: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    frontendTimeout: int = Field(description="Milliseconds between the last keystroke and the translation request.")  # noqa: N815
    keyRequired: bool  # noqa: N815
    language: LanguageChoice
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815


class TranslateFileRequest(LibreRequest):
    """The form fields that accompany an uploaded document."""

    source: str = Field(description="Language code of the document, or `auto` to detect the language.")
    target: str = Field(description="Language code of the translation.")


class TranslateFileAnswer(BaseModel):
    """The address from which the translated document can be downloaded for half an hour."""

    translatedFileUrl: str  # noqa: N815


class Failure(BaseModel):
    """The reason why a request was rejected or failed."""

    error: str


class Status(BaseModel):
    """The state of the server."""

    status: str


# ---------------------------------------------------------------------------- ours


class LineRequest(BaseModel):
    """Lines to translate; each line is one sentence without a line break, as in the input of `transduce translate`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Texts = Field(description="The line to translate, or a list of lines.")
    source: str | None = Field(
        default=None, description="Language code of the source; required if several directions match without it."
    )
    target: str | None = Field(
        default=None, description="Language code of the target; required if several directions match without it."
    )
    n_best: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1, description="Number of translations of each line, at most the beam size."
    )
    beam: Annotated[int, Field(ge=1, le=10)] | None = Field(
        default=None, description="Beam size; null means that of the model."
    )
    length_penalty: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = Field(
        default=None, description="Exponent α of the length penalty; null means that of the model."
    )
    prefix: Texts | None = Field(
        default=None, description="Forced beginning of the translation of each line, which the model continues."
    )
    alignments: bool = Field(
        default=False, description="Whether to return word alignments, which are derived from attention weights."
    )
    words: bool = Field(
        default=False, description="Whether to return the words of the translation with their probabilities."
    )
    confidence: bool = Field(
        default=False,
        description="Whether to return a confidence, reasons for doubt, and the probabilities of words. Requires a "
        "model that was calibrated with `transduce calibrate`.",
    )
    stream: bool = Field(
        default=False,
        description="Whether to stream the response as server-sent events: `line` for each line, followed by `end`, "
        "or by `error` if a line fails.",
    )


class LineTranslation(BaseModel):
    """One of the n-best translations of a line."""

    text: str
    log_probability: float = Field(
        description="Natural logarithm of the probability of the translation, including the EOS token."
    )
    score: float = Field(description="Score by which beam search ranks translations: log-probability / length penalty.")


class LineRecord(BaseModel):
    """The translations of a line, in the form in which `transduce translate --json` prints them."""

    line: int = Field(description="Number of the line in the request, counted from 1.")
    target_language: str | None = Field(
        default=None, description="Language code of the translation; present only if the model has several directions."
    )
    translations: list[LineTranslation] = Field(description="The translations of the line, best first.")
    alignment: str | None = Field(
        default=None,
        description="Word alignment of the best translation, such as `0-0 1-2`: pairs of the indices of a source word "
        "and a target word, counted from 0.",
    )
    confidence: float | None = Field(
        default=None,
        description="Confidence from 0 to 1, an estimate of the chrF of the best translation divided by 100.",
    )
    doubts: list[str] | None = Field(default=None, description="Reasons to doubt the best translation.")
    words: list[tuple[str, float]] | None = Field(
        default=None, description="The words of the best translation, each with its probability."
    )


class LineAnswer(BaseModel):
    """The translations of all lines, in the order of the request."""

    source: str
    target: str
    lines: list[LineRecord]


class SentencesRequest(BaseModel):
    """A text with any number of sentences and lines, which is split into sentences but not translated."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="The text to split into sentences.")
    source: str | None = Field(
        default=None,
        description="Language code of the source, or `auto` to detect the language; required if several directions "
        "match without it.",
    )
    target: str | None = Field(
        default=None, description="Language code of the target; required if several directions match without it."
    )


class TextPart(BaseModel):
    """A part of a text; the translations of all parts, joined in order, are the translation of the text."""

    text: str
    kind: Literal["sentence", "text", "copied"] = Field(
        description="`sentence` is a line to translate with /v1/translate. `text` is a line with placeholders or "
        "addresses, to translate with /translate, which keeps them. `copied` is copied to the translation unchanged."
    )


class SentencesAnswer(BaseModel):
    """The parts of a text, in order, and the languages between which it is translated."""

    source: str
    target: str
    detected: Detection | None = Field(
        default=None,
        description="The detected language of the text; present only if `source` is `auto`, or if the text is almost "
        "certainly not in the source language.",
    )
    parts: list[TextPart]


class AttentionRequest(BaseModel):
    """A sentence and its translation, for which the attention weights are drawn."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="A sentence without a line break.")
    translation: str = Field(description="The translation of the sentence.")
    source: str | None = Field(
        default=None, description="Language code of the source; required if several directions match without it."
    )
    target: str | None = Field(
        default=None, description="Language code of the target; required if several directions match without it."
    )


class DirectionAbilities(BaseModel):
    """A translation direction, and what its model can return in addition to translations."""

    source: NamedLanguage
    target: NamedLanguage
    alignments: bool = Field(
        description="Whether the model has attention weights, which alignments and /v1/attention require."
    )
    confidence: bool = Field(
        description="Whether the model was calibrated with `transduce calibrate`, which `confidence` requires."
    )


class ServerSettings(BaseModel):
    """The settings of the server that a client needs to know."""

    key_required: bool
    max_characters: int = Field(description="Maximum number of characters in a request, summed over its texts.")
    max_texts: int = Field(description="Maximum number of texts in a request.")
    document_suffixes: list[str] = Field(description="Suffixes of the file names that /translate_file accepts.")
    directions: list[DirectionAbilities]
