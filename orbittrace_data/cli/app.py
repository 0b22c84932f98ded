"""The typer application that the command modules add themselves to."""

import sys

import typer

app = typer.Typer(
    name="orbittrace",
    help="Availability traces of real satellites: build, verify, look at and train under them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Take the options that hold for every command (`run` has read --debug already)."""


def wide_console():
    """Return a console that cuts no column of a table, however narrow the terminal or the pipe is."""
    from rich.console import Console

    return Console(width=1000, highlight=False)  # a table is as wide as its columns, not as this


def find_own_modules() -> None:
    """Let ``module:function`` name a module of the folder that the command is called in."""
    if "" not in sys.path:
        sys.path.insert(0, "")
