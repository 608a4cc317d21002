"""The picture of a calibration: confidence against quality, and how often each confidence is, before and after."""

import io
from importlib import resources
from pathlib import Path
from string import Template

from transduce.measure.calibration import ReliabilityCurve
from transduce.pictures.drawing import picture_format
from transduce.pictures.html_parts import static_page
from transduce.storage.result_files import replace_file

__all__ = ["calibration_svg", "draw_calibration"]

TITLES = ("before: probability of a token", "after: confidence")


def draw_calibration(before: ReliabilityCurve, after: ReliabilityCurve, path: Path) -> None:
    """Writes reliability diagrams and histograms of a calibration to `path`.

    `.html` is one self-contained page, which has the figures as a table too; `.png` and `.svg` are one figure. Equal
    calibrations give equal bytes. A file is replaced atomically. Raises ValueError for another suffix, OSError where
    the file cannot be written.
    """
    kind = picture_format(path)

    def write(target: Path) -> None:
        if kind == "html":
            target.write_text(_page(before, after), encoding="utf-8", newline="\n")
            return
        # Imported here because Matplotlib takes a second to import.
        from transduce.pictures.calibration_figure import write_calibration_figure

        with target.open("wb") as file:
            write_calibration_figure((before, after), TITLES, file, kind)

    replace_file(path, write)


def calibration_svg(before: ReliabilityCurve, after: ReliabilityCurve) -> str:
    """Returns the figure as an SVG element that stands in a page."""
    from transduce.pictures.calibration_figure import write_calibration_figure

    file = io.BytesIO()
    write_calibration_figure((before, after), TITLES, file, "svg")
    text = file.getvalue().decode()
    return text[text.index("<svg") :]


def _page(before: ReliabilityCurve, after: ReliabilityCurve) -> str:
    """Returns the page: the figure, and its points as a table."""
    rows = "".join(
        f"<tr><td>{number}</td>"
        + "".join(f"<td>{one.prediction:.3f}</td><td>{one.quality:.3f}</td>" for one in pair)
        + "</tr>"
        for number, pair in enumerate(zip(before.bins, after.bins, strict=True), start=1)
    )
    sentences = sum(one.sentences for one in after.bins)
    folder = resources.files(__package__)
    body = Template((folder / "calibration.html").read_text(encoding="utf-8")).substitute(
        summary=f"{sentences:,} translations of a validation set.",
        figure=calibration_svg(before, after),
        rows=rows,
    )
    return static_page("Calibration of confidence", (folder / "calibration.css").read_text(encoding="utf-8"), body)
