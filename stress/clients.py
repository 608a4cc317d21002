"""Six published clients of LibreTranslate, unchanged, against `transduce serve`: `python stress/clients.py RUN`.

RUN translates English to German. Install the clients, and name where they are:

    python3 -m venv clients && clients/bin/pip install libretranslatepy deep-translator libretranslate-aio
    npm install --prefix clients libretranslate libretranslate-ts translate
    python stress/clients.py runs/en-de --folder clients

Each client's translations must be those of `transduce translate`. A client that is not installed is named.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from local_server import started_server

from transduce import Translator

TEXT, OTHER, GERMAN = "A dog runs.", "Two men sit on a bench.", "Das ist das Haus meiner Mutter."

LIBRETRANSLATEPY = """
from libretranslatepy import LibreTranslateAPI
client = LibreTranslateAPI(url)
show("text", client.translate(text, "en", "de"))
show("languages", client.languages())
show("detected", client.detect(german)[0]["language"])
show("error", fails(lambda: client.translate(text, "zz", "de")))
"""

DEEP_TRANSLATOR = """
from deep_translator import LibreTranslator
client = LibreTranslator(source="en", target="de", custom_url=url + "/", api_key="any")
show("text", client.translate(text))
show("list", client.translate_batch([text, other]))
show("error", fails(lambda: LibreTranslator("de", "en", custom_url=url + "/", api_key="any").translate(text)))
"""

LIBRETRANSLATE_AIO = """
import asyncio, dataclasses, io
from urllib.request import urlopen
from libretranslate_aio import AsyncLibreTranslate, LibreTranslate
client = LibreTranslate(url)
show("text", client.translate(text, "en", "de").translated_text)
show("list", client.translate([text, other], "en", "de").translated_text)
found = client.translate(text, "auto", "de", alternatives=1)
show("text", found.translated_text)
show("alternatives", len(found.alternatives))
show("detected", client.translate(german, "auto", "de").detected_language.language)
show("detected", client.detect(german)[0].language)
show("html", client.translate(f"<p>{text}</p>", "en", "de", format="html").translated_text)
show("languages", [dataclasses.asdict(language) for language in client.languages()])
show("settings", client.frontend_settings().language.target.code)
show("health", client.health())
for source in ("en", "auto"):
    document = io.BytesIO(text.encode())
    document.name = "a.txt"
    show("text", urlopen(client.translate_file(document, source, "de").translated_file_url).read().decode())
show("error", fails(lambda: client.translate(text, "zz", "de")))
show("error", fails(lambda: client.suggest("a", "b", "en", "de")))
async def later():
    async with AsyncLibreTranslate(url) as client:
        return (await client.translate(text, "en", "de")).translated_text
show("text", asyncio.run(later()))
"""

LIBRETRANSLATE = """
const { translate } = require("libretranslate")
show("text", await translate({ query: text, source: "en", target: "de", apiurl: url }))
show("text", await translate({ query: text, source: "auto", target: "de", apiurl: url }))
show("html", await translate({ query: `<p>${text}</p>`, source: "en", target: "de", format: "html", apiurl: url }))
show("error", await fails(() => translate({ query: text, source: "zz", target: "de", apiurl: url })))
"""

LIBRETRANSLATE_TS = """
const { libreTranslate } = require("libretranslate-ts")
libreTranslate.setApiEndpoint(url)
libreTranslate.setApiKey("")
show("text", (await libreTranslate.translate(text, "en", "de")).translatedText)
show("detected", (await libreTranslate.detect(german)).language)
show("languages", await libreTranslate.listLanguages())
show("error", (await libreTranslate.translate(text, "zz", "de")).status >= 400)
"""

TRANSLATE = """
const { default: translate } = await import("translate")
translate.engine = "libre"
translate.url = url + "/translate"
show("text", await translate(text, { from: "en", to: "de" }))
show("error", await fails(() => translate(text, { from: "de", to: "en" })))
"""


class Client(NamedTuple):
    """A package, and the program that uses it."""

    package: str
    program: str


PYTHON = [Client("libretranslatepy", LIBRETRANSLATEPY), Client("deep-translator", DEEP_TRANSLATOR)]
PYTHON += [Client("libretranslate-aio", LIBRETRANSLATE_AIO)]
NODE = [Client("libretranslate", LIBRETRANSLATE), Client("libretranslate-ts", LIBRETRANSLATE_TS)]
NODE += [Client("translate", TRANSLATE)]

PYTHON_BEGIN = """
import json, sys
url, text, other, german = sys.argv[1:]
def show(check, result): print(json.dumps([check, result]), flush=True)
def fails(call):
    try: call()
    except Exception as error: return not isinstance(error, (AttributeError, KeyError, TypeError))
    return False
"""

NODE_BEGIN = """
const [url, text, other, german] = process.argv.slice(1)
const show = (check, result) => console.log(JSON.stringify([check, result]))
const fails = async (call) => { try { return (await call()) === undefined } catch { return true } }
"""


def command_of(client: Client, folder: Path) -> list[str] | None:
    """Returns the command that runs a client; None where it is not installed."""
    if client in PYTHON:
        python = folder / "bin" / "python"
        check = [str(python), "-m", "pip", "show", "--quiet", client.package]
        is_installed = python.exists() and not subprocess.run(check, capture_output=True).returncode
        return [str(python), "-c", PYTHON_BEGIN + client.program] if is_installed else None
    program = f"(async () => {{{NODE_BEGIN}{client.program}}})()"
    return ["node", "-e", program, "--"] if (folder / "node_modules" / client.package).exists() else None


def version_of(client: Client, folder: Path) -> str:
    """Returns the installed version."""
    if client in PYTHON:
        program = f"from importlib.metadata import version; print(version({client.package!r}))"
        return subprocess.check_output([folder / "bin" / "python", "-c", program], text=True).strip()
    return str(json.loads((folder / "node_modules" / client.package / "package.json").read_text())["version"])


def results_of(command: list[str], folder: Path, url: str) -> list[tuple[str, Any]]:
    """Returns what a client shows; the last entry is its error, if it has one."""
    environment = {**os.environ, "NODE_PATH": str(folder / "node_modules")}
    run = subprocess.run(
        [*command, url, TEXT, OTHER, GERMAN], capture_output=True, text=True, cwd=folder, env=environment, timeout=120
    )
    shown = [tuple(json.loads(line)) for line in run.stdout.splitlines()]
    return [*shown, ("no exception", " ".join(run.stderr.split())[-300:])] if run.returncode else shown


def main() -> None:
    """Runs all clients, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--folder", type=Path, default=Path("clients"), help="where the clients are installed")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    translations = [best.text for best in Translator.load(arguments.run).translate([TEXT, OTHER])]
    expected = {
        "text": translations[0],
        "list": translations,
        "html": f"<p>{translations[0]}</p>",
        "detected": "de",
        "alternatives": 1,
        "settings": "de",
        "languages": [
            {"code": "de", "name": "German", "targets": []},
            {"code": "en", "name": "English", "targets": ["de"]},
        ],
        "health": True,
        "error": True,
    }
    failed = 0
    print("| client | version | checks | failed |\n|---|---|---|---|")
    with started_server(arguments.run) as server:
        for client in [*PYTHON, *NODE]:
            command = command_of(client, folder)
            if command is None:
                print(f"| {client.package} | not installed | | |", flush=True)
                continue
            results = results_of(command, folder, server.url)
            wrong = [f"{check}: {result}" for check, result in results if result != expected.get(check)]
            failed += len(wrong)
            print(
                f"| {client.package} | {version_of(client, folder)} | {len(results)} | {'; '.join(wrong)} |", flush=True
            )
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
