"""``python -m orbittrace_data`` is the ``orbittrace`` command."""

from .cli import main

if __name__ == "__main__":
    main()
