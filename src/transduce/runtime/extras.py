"""Messages that say how to install an extra, from the clone because the package is not published."""

from importlib.util import find_spec


def install_command(extra: str) -> str:
    """The command that installs an extra, for messages."""
    return f"`pip install '.[{extra}]'` in the clone of transduce"


def require_matplotlib() -> None:
    """Raises ValueError if Matplotlib, which draws figures in PNG and SVG, is not installed."""
    if find_spec("matplotlib") is None:
        raise ValueError(f"figures in .png and .svg need Matplotlib: {install_command('figures')}; .html does not")
