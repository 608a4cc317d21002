"""Settings for the choice of a metric: either a built-in metric or an external program such as COMET or MetricX."""

import math
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, field_validator

from transduce.settings import Spec

MetricName = Literal["bleu", "chrf", "ter", "spbleu", "bleu-lowercased-tokenised", "bleu-paper"]
METRICS: tuple[str, ...] = get_args(MetricName)

# Display names of the metrics, of the F1 score of parse trees, and of the loss.
LABELS = {name: name for name in METRICS} | {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "spbleu": "spBLEU"}
LABELS |= {"f1": "F1", "loss": "loss"}

# Takes sources, translations and references, with one line per sentence, and returns the score of all lines.
MetricFunction = Callable[[Sequence[str], Sequence[str], Sequence[str]], float]


class ProgramMetric(Spec):
    """An external program that reads files of sources, translations and references, and prints a score."""

    command: str = Field(
        description="Command line of the program. `{sources}`, `{translations}` and `{references}` become paths of "
        "files with one sentence per line. The last word printed is the score."
    )
    best: Literal["highest", "lowest"] = Field(
        default="highest", description="Whether the highest or the lowest score is best."
    )

    @field_validator("command")
    @classmethod
    def _names_translations(cls, command: str) -> str:
        """Raises ValueError if the command has an unclosed quotation mark or does not read the translations."""
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"{error}: close the quotation mark in the command") from None
        if not any("{translations}" in word for word in words):
            raise ValueError("write {translations} where the program takes the file of the translations")
        return command

    @property
    def name(self) -> str:
        """The name of the program, without its directory."""
        return Path(shlex.split(self.command)[0]).name

    def __call__(self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> float:
        """Runs the program and returns the last number that it prints.

        Raises ValueError if the program fails, or if the last word of its output is not a finite number.
        """
        texts = {"sources": sources, "translations": translations, "references": references}
        with tempfile.TemporaryDirectory(prefix="transduce-metric-") as folder:
            words = shlex.split(self.command)
            for name, lines in texts.items():
                file = Path(folder, name)
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
                words = [word.replace(f"{{{name}}}", str(file)) for word in words]
            try:
                done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
            except OSError as error:
                raise ValueError(f"cannot start `{words[0]}`: {error.strerror or error}") from None
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
            raise ValueError(f"`{self.name}` ended with code {done.returncode}: {last}")
        return _last_number(done.stdout, self.name)


def _last_number(text: str, program: str) -> float:
    """Returns the last word of a program's output as a number; raises ValueError if it is not a finite number."""
    word = (text.split() or ["nothing"])[-1]
    try:
        number = float(word)
    except ValueError:
        raise ValueError(f"`{program}` must print the score last, and the last word is {word!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"`{program}` printed {word}, which is not a score")
    return number
