"""How the commands read their options: a mistake is an InputError, and nothing is guessed or overridden.

Imports nothing that takes time, so that --help comes at once.
"""

import argparse
from typing import Any, NoReturn

from seqmodels.config_reader import nearest
from seqmodels.errors import InputError


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations and without options of which the second silently wins.

    takes_settings: whether the command takes `--gin.NAME=VALUE`, which are read before.
    """

    def __init__(self, *, takes_settings: bool = False, **arguments: Any):
        super().__init__(allow_abbrev=False, **arguments)
        self._takes_settings = takes_settings
        for action in (None, "store"):
            self.register("action", action, _Once)

    def error(self, message: str) -> NoReturn:
        """Raises InputError."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = f"{message}; {self._meant(unknown.split(' '))}"
        elif message.endswith("expected one argument"):
            message = f"{message}; one that begins with - is written --NAME=-VALUE."
        end = "" if message.endswith((".", "?")) else "."
        raise InputError(f"{message}{end} See {self.prog} --help.")

    def _meant(self, words: list[str]) -> str:
        """What the first unknown option may be meant to be."""
        word = next((word for word in words if word.startswith("-")), words[0])
        name = word.partition("=")[0]
        if word.startswith("-") and "." not in name and "gin" not in name:
            return nearest(name, self._option_string_actions)
        if self._takes_settings:
            return "a setting is written --gin.NAME=VALUE."
        return "settings are those of the run." if name.startswith("--gin") else "an option begins with --."


class _Once(argparse.Action):
    """An option that may be given once."""

    def __call__(self, parser, namespace, values, option_string=None):
        given = getattr(namespace, "given", ())
        if option_string is not None and option_string in given:
            parser.error(f"{option_string} is given twice")
        namespace.given = (*given, option_string)
        setattr(namespace, self.dest, values)
