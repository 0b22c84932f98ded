"""The typer application that the command modules add themselves to."""

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
