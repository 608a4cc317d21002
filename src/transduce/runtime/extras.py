"""How the libraries of an extra are installed; the package is not published, so that its name is not named to pip."""


def install_command(extra: str) -> str:
    """Returns the command that installs an extra, for messages."""
    return f"`pip install '.[{extra}]'` in the clone of transduce"
