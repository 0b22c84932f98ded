"""The ``orbittrace`` command: one module a group of commands, errors as one sentence."""

import errno
import io
import os
import sys
from importlib import import_module

# What --help groups the commands by, and the modules that hold them.
COMMAND_MODULES = {
    "Traces": ("traces",),
    "Releases": ("release", "publish"),
    "Element sets": ("elements", "windows", "forecast"),
    "Training": ("train", "compare", "advise"),
    "Measuring": ("bench",),
}

_INTERRUPTED = 130  # the shell's exit code for Ctrl-C, which typer gives too

# Refusals that are about the path that was given: bad input. A full disk is not.
_ABOUT_THE_PATH = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ELOOP,
        errno.EINVAL,
    }
)


def main() -> None:
    """Run the command line and leave with its exit code."""
    # A daemon may be started with its streams closed: what is said to nobody must not stop the work.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115 - likewise
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without block characters shows "?", not a traceback
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line.

    Parameters
    ----------
    arguments : list of str
        Without the program's name. ``--debug`` anywhere shows the traceback of an error.

    Returns
    -------
    int
        0; 1 where the work failed; 2 for bad input; 130 when interrupted.
    """
    import typer

    from ..errors import OrbitTraceError
    from .app import app

    debug = "--debug" in arguments
    for argument in arguments:
        given = os.fsencode(argument)
        if given != argument.encode(errors="replace"):
            print(
                f"orbittrace: {given!r} is not UTF-8 text: rename it, or use a UTF-8 locale", file=sys.stderr
            )
            return 2
    for group, modules in COMMAND_MODULES.items():
        homes = {import_module(f".{module}", __name__).__name__ for module in modules}
        for registered in app.registered_commands:
            if registered.callback and registered.callback.__module__ in homes:
                registered.rich_help_panel = group
    command = typer.main.get_command(app)
    try:
        result = command.main([a for a in arguments if a != "--debug"], "orbittrace", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        result = _INTERRUPTED
    except BrokenPipeError:
        return _closed_pipe()
    except SystemExit as left:  # click leaves with 1 where the reader of our output went away
        if isinstance(left.__context__, BrokenPipeError):
            return _closed_pipe()
        raise
    except OrbitTraceError as error:
        if debug:
            raise
        print(f"orbittrace: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if debug:
            raise
        print(f"orbittrace: {refusal(error)}", file=sys.stderr)
        return 2 if error.errno in _ABOUT_THE_PATH else 1
    except Exception as error:
        # click's own errors (usage, bad parameters) are known by their method: typer may bring its own click.
        format_message = getattr(error, "format_message", None)
        if format_message is not None:
            print(f"orbittrace: {format_message()} (see orbittrace --help)", file=sys.stderr)
            return 2
        if type(error).__name__ == "Abort":
            print("aborted", file=sys.stderr)
            return 1
        raise
    if result == _INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return result if isinstance(result, int) else 0


def refusal(error: OSError) -> str:
    """Say in a sentence what the operating system refused.

    Examples
    --------
    >>> refusal(PermissionError(errno.EACCES, "Permission denied", "/srv/orbittrace"))
    '/srv/orbittrace cannot be used (Permission denied): choose another place, or change what is there'
    """
    reason = error.strerror or str(error).partition("\n")[0] or type(error).__name__
    if error.filename is None:
        return f"the system refused ({reason}): nothing more was written"
    name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
    return f"{name} cannot be used ({reason}): choose another place, or change what is there"


def _closed_pipe() -> int:
    """Leave quietly when the reader of our output went away (``| head``)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
