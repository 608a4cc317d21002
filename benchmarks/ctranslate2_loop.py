"""A plain server around CTranslate2, to compare ours with: `python benchmarks/ctranslate2_loop.py FOLDER --threads 2`.

FOLDER is an export (`transduce export RUN --to ctranslate2 --out FOLDER`). Each request is one call of the engine in a
thread; there are no limits, no deadlines and no common batches. It answers only what `benchmarks/serving.py` asks.
"""

import argparse
import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import uvicorn

from transduce.exchange.ctranslate2_folder import load_ctranslate2


class PlainEngine:
    """CTranslate2 with the subwords and the beam of the exported model."""

    def __init__(self, folder: Path, threads: int) -> None:
        ours = load_ctranslate2(folder)
        self._source, self._target, self._decoding = ours.source, ours.target, ours.decoding
        self._engine = ctranslate2.Translator(str(folder), inter_threads=threads, intra_threads=1)
        self._ids = {string: token for token, string in enumerate(self._target.vocabulary)}

    def translate(self, lines: list[str]) -> list[str]:
        """Returns the translation of each line."""
        sources = [[self._source.vocabulary[token] for token in row] for row in self._source.encode(lines)]
        decoding = self._decoding
        results = self._engine.translate_batch(
            sources, beam_size=decoding.beam, length_penalty=decoding.length_penalty, max_decoding_length=256
        )
        return list(self._target.decode([[self._ids[string] for string in row.hypotheses[0]] for row in results]))


def application(engine: PlainEngine) -> Any:
    """Returns the ASGI application."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["type"] == "http"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        translated = await asyncio.to_thread(engine.translate, json.loads(body)["text"])
        lines = [{"translations": [{"text": text}]} for text in translated]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps({"lines": lines}).encode()})

    return answer


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    engine = PlainEngine(arguments.folder, arguments.threads)
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listening:
        print(f"serving at http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(application(engine), log_config=None, access_log=False, lifespan="off", ws="none")
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
