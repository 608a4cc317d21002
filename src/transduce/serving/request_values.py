"""The values of a request of LibreTranslate's clients: of JSON, a form or the query string."""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header

from transduce.serving.limits import Limits

__all__ = ["check_form_encoding", "parse_values", "read_values", "validation_message"]

OTHER_FIELDS = 20  # of a form, besides the texts

UTF_8 = {b"utf-8", b"utf8"}

AnyModel = TypeVar("AnyModel", bound=BaseModel)


async def read_values(request: Request, limits: Limits) -> dict[str, Any]:
    """Returns the values of a request; of a form, a name that stands several times has a list.

    Raises an error of status 400 for a body that is no JSON object.
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
    """Raises an error of status 415 for a form in another encoding than UTF-8; to be called before it is read.

    The fields of a form are decoded as its client says, and Python has encodings that take minutes for a megabyte.
    """
    _, options = parse_options_header(request.headers.get("content-type"))
    if options.get(b"charset", b"utf-8").lower() not in UTF_8:
        raise HTTPException(415, "Invalid request: send the form in UTF-8")


def _grouped(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the value of each name; a list where there are several."""
    groups: dict[str, list[Any]] = {}
    for name, value in items:
        groups.setdefault(name, []).append(value)
    return {name: group if len(group) > 1 else group[0] for name, group in groups.items()}


def parse_values(model: type[AnyModel], values: dict[str, Any]) -> AnyModel:
    """Returns the request that `values` are; raises an error of status 400 where they are none."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise HTTPException(400, validation_message(error.errors())) from None


def validation_message(errors: Iterable[Any]) -> str:
    """Returns the message of the first of pydantic's errors."""
    first = next(iter(errors))
    names = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "missing":
        return f"Invalid request: missing {names[-1] if names else 'body'} parameter"
    if first["type"] == "json_invalid":
        return "Invalid JSON format"
    return f"Invalid request: {names[0] if names else 'body'}: {first['msg']}"
