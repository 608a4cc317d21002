"""LibreTranslate's API for texts; see https://docs.libretranslate.com.

Clients send the values of a request as JSON, as a form or in the query string.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header

from transduce.documents.document import SUFFIXES
from transduce.serving import contract
from transduce.serving.batch_queue import Ticket
from transduce.serving.language_names import is_auto, language_name, named_language
from transduce.serving.limits import Limits
from transduce.serving.service import Service
from transduce.serving.text_translation import TextRequest, translate_texts

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": contract.Failure, "description": "The request is faulty."},
    403: {"model": contract.Failure, "description": "The key is missing or wrong."},
    408: {"model": contract.Failure, "description": "The body did not arrive in time."},
    413: {"model": contract.Failure, "description": "The body is too large."},
    415: {"model": contract.Failure, "description": "The body is compressed, or a form is not UTF-8."},
    429: {"model": contract.Failure, "description": "The client has sent too many requests."},
    503: {"model": contract.Failure, "description": "Too many requests wait, or the translation took too long."},
}


def _body(model: type[contract.LibreRequest]) -> dict[str, Any]:
    """Returns the OpenAPI description of a request whose values `read_values` reads."""
    schema = model.model_json_schema()
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def libretranslate_routes(service: Service) -> APIRouter:
    """Returns the routes of LibreTranslate's API, except those for documents."""
    routes = APIRouter(tags=["LibreTranslate"], responses=ERRORS)

    @routes.post(
        "/translate",
        response_model=contract.TranslateAnswer,
        response_model_exclude_none=True,
        openapi_extra=_body(contract.TranslateRequest),
    )
    async def translate(request: Request) -> dict[str, Any]:
        """Translates texts, which may have any number of sentences and lines, or HTML."""
        with service.counting_faults(request):
            body = parse_values(contract.TranslateRequest, await read_values(request, service.limits))
        texts = [body.q] if isinstance(body.q, str) else body.q
        service.accept_texts(request, body.api_key, texts)

        def translated(ticket: Ticket) -> dict[str, Any]:
            detected = languages_of_texts(service, texts, body.source, body.target)
            target = service.models.language(body.target)
            rows = [[text] for text in texts]  # a text in the target language is copied
            for source in dict.fromkeys(language.language for language in detected if language.language != target):
                indices = [index for index, language in enumerate(detected) if language.language == source]
                text_request = TextRequest(service.models.find(source, target), ticket)
                of_source = [texts[index] for index in indices]
                translations = translate_texts(text_request, of_source, body.format, body.alternatives)
                for index, row in zip(indices, translations, strict=True):
                    rows[index] = row
            is_list = isinstance(body.q, list)
            answer: dict[str, Any] = {"translatedText": [row[0] for row in rows] if is_list else rows[0][0]}
            if is_auto(body.source):
                answer["detectedLanguage"] = detected if is_list else detected[0]
            if body.alternatives:
                answer["alternatives"] = [row[1:] for row in rows] if is_list else rows[0][1:]
            return answer

        return await service.answer(request, translated)

    @routes.post("/detect", openapi_extra=_body(contract.DetectRequest))
    async def detect(request: Request) -> list[contract.Detection]:
        """Returns the languages that a text may be in, the most probable first."""
        with service.counting_faults(request):
            body = parse_values(contract.DetectRequest, await read_values(request, service.limits))
        service.accept_texts(request, body.api_key, [body.q])
        return service.detector.detect(body.q, service.models.languages)

    @routes.get("/languages")
    async def languages() -> list[contract.Language]:
        """Returns the languages of the server, each with the languages into which it can be translated."""
        return [
            contract.Language(code=code, name=language_name(code), targets=service.models.targets(code))
            for code in service.models.languages
        ]

    @routes.get("/frontend/settings")
    async def frontend_settings() -> contract.FrontendSettings:
        """Returns the settings of the server that a client needs to know."""
        # A client initially selects the languages of the first direction.
        first = next(iter(service.models.directions.values()))
        return contract.FrontendSettings(
            apiKeys=service.keys.are_required,
            charLimit=service.limits.characters,
            filesTranslation=True,
            frontendTimeout=500,
            keyRequired=service.keys.are_required,
            language=contract.LanguageChoice(source=named_language(first.source), target=named_language(first.target)),
            suggestions=False,
            supportedFilesFormat=[".txt", *SUFFIXES],
        )

    @routes.post("/suggest", openapi_extra=_body(contract.LibreRequest))
    async def suggest(request: Request) -> contract.Failure:
        """Rejects suggested translations, because this server does not learn from its users."""
        raise HTTPException(403, "Suggestions are disabled on this server.")

    return routes


def languages_of_texts(service: Service, texts: list[str], source: str, target: str) -> list[contract.Detection]:
    """Returns the language of each text, which is `source` or, if that is `auto`, the most probable language.

    Detection chooses between `target` and the languages that can be translated into it. Raises ValueError if the server
    does not support a language.
    """
    models, target = service.models, service.models.language(target)
    if not is_auto(source):
        return [contract.Detection(confidence=100.0, language=models.language(source)) for _ in texts]
    sources = sorted({*models.sources(target), target})
    return [service.detector.detect(text, sources)[0] for text in texts]


OTHER_FIELDS = 20  # largest number of fields in a form besides the texts

UTF_8 = {b"utf-8", b"utf8"}

AnyModel = TypeVar("AnyModel", bound=BaseModel)


async def read_values(request: Request, limits: Limits) -> dict[str, Any]:
    """Reads the values of a request from its query string and its body, which takes precedence.

    The body is either JSON or a form. A name that occurs several times in a form or a query string gets a list of
    values. Raises an HTTP error with status 400 if a JSON body is not an object, and with status 415 if a form is not
    in UTF-8.
    """
    values = _grouped(request.query_params.multi_items())
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if not kind.endswith("json"):
        check_form_encoding(request)
        form = await request.form(max_fields=limits.texts + OTHER_FIELDS, max_part_size=limits.body_bytes)
        return values | _grouped(form.multi_items())
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HTTPException(400, "Invalid JSON format") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "Invalid JSON format")
    return values | body


def check_form_encoding(request: Request) -> None:
    """Raises an HTTP error with status 415 if a form is not in UTF-8; must be called before the form is read.

    Otherwise the client could choose the encoding, and Python has encodings that take minutes to decode a megabyte.
    """
    _, options = parse_options_header(request.headers.get("content-type"))
    if options.get(b"charset", b"utf-8").lower() not in UTF_8:
        raise HTTPException(415, "Invalid request: send the form in UTF-8")


def _grouped(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a dictionary with the value of each name, or a list of values if the name occurs several times."""
    groups: dict[str, list[Any]] = {}
    for name, value in items:
        groups.setdefault(name, []).append(value)
    return {name: group if len(group) > 1 else group[0] for name, group in groups.items()}


def parse_values(model: type[AnyModel], values: dict[str, Any]) -> AnyModel:
    """Validates `values` as a request of type `model`; raises an HTTP error with status 400 if they are invalid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise HTTPException(400, validation_message(error.errors())) from None


def validation_message(errors: Iterable[Any]) -> str:
    """Returns the message for the first of pydantic's validation errors."""
    first = next(iter(errors))
    names = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "missing":
        return f"Invalid request: missing {names[-1] if names else 'body'} parameter"
    if first["type"] == "json_invalid":
        return "Invalid JSON format"
    return f"Invalid request: {names[0] if names else 'body'}: {first['msg']}"
