"""What a page that translates as one types needs besides translations: sentences, attention, what the server can do."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from transduce.pages import render_attention_page
from transduce.serving.contract import (
    AttentionRequest,
    DirectionAbilities,
    Failure,
    NamedLanguage,
    SentencesAnswer,
    SentencesRequest,
    ServerSettings,
    TextPart,
)
from transduce.serving.languages import AUTO, is_auto, language_name
from transduce.serving.libretranslate import ERRORS, languages_of_texts
from transduce.serving.line_routes import bearer_key, find_direction
from transduce.serving.page_routes import PICTURE_POLICY
from transduce.serving.request_log import note_texts
from transduce.serving.served_models import ServedDirection
from transduce.serving.service import Service
from transduce.serving.text_parts import text_parts
from transduce.serving.tickets import Ticket

__all__ = ["sentence_routes"]

MAX_DRAWN_TOKENS = 120  # of a side: the picture of a base model then has two million weights, and 8 MB
PICTURE_HEADERS = {"Content-Security-Policy": PICTURE_POLICY, "Cache-Control": "no-store"}
# With `response_class` FastAPI takes the content of every status for HTML, unless it is named.
PICTURE_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": error["description"],
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{Failure.__name__}"}}},
    }
    for status, error in ERRORS.items()
}


def sentence_routes(service: Service) -> APIRouter:
    """Returns the routes that split texts, draw attention, and say what the server can do."""
    routes = APIRouter(tags=["transduce"])

    @routes.get("/v1/settings")
    async def settings() -> ServerSettings:
        """Returns the directions of the server, and its limits."""
        return ServerSettings(
            key_required=service.keys.are_required,
            max_characters=service.limits.characters,
            max_texts=service.limits.texts,
            directions=[_abilities(served) for served in service.models.directions.values()],
        )

    @routes.post("/v1/sentences", responses=ERRORS, response_model_exclude_none=True)
    async def split_text(request: Request, body: SentencesRequest) -> SentencesAnswer:
        """Splits a text as /translate does, and detects its language.

        A client that translates sentence by sentence need not translate again those that it has. With keys, send the
        header `Authorization: Bearer KEY`.
        """
        service.admit(request, bearer_key(request))
        service.limits.check_texts([body.text])
        note_texts(request, [body.text])
        return await service.answer(request, lambda _: _split(service, body))

    @routes.post("/v1/attention", responses=PICTURE_ERRORS, response_class=HTMLResponse)
    async def draw_attention(request: Request, body: AttentionRequest) -> HTMLResponse:
        """Returns the picture of the attention weights of a sentence and its translation: the page of `transduce draw`.

        With keys, send the header `Authorization: Bearer KEY`.
        """
        service.admit(request, bearer_key(request))
        service.limits.check_texts([body.text, body.translation])
        note_texts(request, [body.text, body.translation])
        served = find_direction(service.models, body.source, body.target)
        picture = await service.answer(request, lambda ticket: _picture(served, body, ticket))
        return HTMLResponse(picture, headers=PICTURE_HEADERS)

    return routes


def _abilities(served: ServedDirection) -> DirectionAbilities:
    """Returns what the model of a direction gives."""
    try:
        served.translator.check_explicable()
    except ValueError:
        is_explicable = False
    else:
        is_explicable = True
    source, target = (NamedLanguage(code=code, name=language_name(code)) for code in (served.source, served.target))
    return DirectionAbilities(
        source=source, target=target, alignments=is_explicable, confidence=served.calibration is not None
    )


def _split(service: Service, body: SentencesRequest) -> SentencesAnswer:
    """Returns the parts of a text and its language; a text in the target language is copied."""
    if body.source is None or not is_auto(body.source):
        served = find_direction(service.models, body.source, body.target)
        return SentencesAnswer(source=served.source, target=served.target, parts=text_parts(body.text, served))
    if body.target is None:
        raise HTTPException(400, "name target: it says which languages are detected")
    (detected,) = languages_of_texts(service, [body.text], AUTO, body.target)
    source, target = detected.language, service.models.language(body.target)
    if source == target:
        parts = [TextPart(text=body.text, kind="copied")]
    else:
        parts = text_parts(body.text, service.models.find(source, target))
    return SentencesAnswer(source=source, target=target, detected=detected, parts=parts)


def _picture(served: ServedDirection, body: AttentionRequest, ticket: Ticket) -> str:
    """Returns the picture; raises ValueError for texts that are empty or too long for it."""
    translator = served.translator
    sides: dict[str, Any] = {"text": translator.source, "translation": translator.target}
    for name, vocabulary in sides.items():
        (tokens,) = vocabulary.encode([getattr(body, name)])
        if not 1 <= len(tokens) <= MAX_DRAWN_TOKENS:
            raise ValueError(f"{name} has {len(tokens)} subwords: attention is drawn from 1 to {MAX_DRAWN_TOKENS}")
    with served.queue.inspecting:
        ticket.check()
        explanation = translator.explain(body.text, body.translation)
    return render_attention_page(explanation)
