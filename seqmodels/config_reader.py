"""Reads gin files into bindings that know their file and line.

Gin's own parser does the parsing. What it lets pass is caught here: names that do not exist, a name bound
twice in one file, an include sought beside the working directory instead of the file that includes it.
"""

import difflib
import inspect
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gin import config as gin_config
from gin import config_parser

from seqmodels.errors import InputError

MACRO = "gin.macro"
MOST_SHOWN = 60
"""Names in a message that lists what there is."""
LONGEST_SHOWN = 200
"""Characters of a value in a message."""


class Key(NamedTuple):
    """What a binding sets: `scope/selector.parameter`; a macro NAME is Key(NAME, MACRO, "value")."""

    scope: str
    selector: str
    parameter: str

    def __str__(self) -> str:
        if self.selector == MACRO:
            return self.scope
        scope = f"{self.scope}/" if self.scope else ""
        return f"{scope}{self.selector.rpartition('.')[2]}.{self.parameter}"


class Binding(NamedTuple):
    """A value and the place that gave it.

    Attributes:
        value: as gin parsed it.
        where: `FILE:LINE`, or the command-line flag.
        included: whether the file was included by another: such bindings are defaults, and may go unused.
    """

    value: Any
    where: str
    included: bool


Bindings = dict[Key, Binding]


def read(files: Sequence[str | Path], flags: Sequence[str] = ()) -> Bindings:
    """The bindings of `files` and then of `flags` ("NAME = VALUE" each); later ones override earlier ones.

    An included file is looked for beside the file that includes it, and a file that several others include is
    read once, where it is first named: a second reading would undo what was set on top of it.
    """
    bindings: Bindings = {}
    read_already: set[Path] = set()
    for file in files:
        _read_file(Path(file), bindings, read_already, within=())
    bound: dict[Key, str] = {}
    for flag in flags:
        where = in_one_line(f"--gin.{flag.replace(' = ', '=', 1)}")
        for statement, _ in _statements(flag, where=lambda line, where=where: where):
            if not isinstance(statement, config_parser.BindingStatement):
                raise InputError(f"{where}: write --gin.NAME=VALUE.")
            _bind(statement, where, bound, bindings, included=False)
    return bindings


def parameters(configurable: Callable | type) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of the constructor of a class, by name."""
    function = constructor(configurable)
    found = dict(inspect.signature(function).parameters)
    if function is not configurable:
        found.pop("self", None)
    return {name: p for name, p in found.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def constructor(configurable: Callable | type) -> Callable:
    """What is called when the configurable is: the `__init__` of a class, a function itself."""
    return configurable.__init__ if inspect.isclass(configurable) else configurable


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that names the right word: the nearest one, or all of them where none is near."""
    by_letters = {name.casefold(): name for name in sorted(known)}
    near = difflib.get_close_matches(word.casefold(), by_letters, n=1)
    if near:
        return f"did you mean {by_letters[near[0]]!r}?"
    shown = list(by_letters.values())[:MOST_SHOWN] or ["none"]
    return f"known: {', '.join(shown)}{', ...' if len(by_letters) > len(shown) else '.'}"


def shown(value: Any) -> str:
    """A value as a config has it, cut to a length that a message can bear."""
    literal = repr(value)
    return literal if len(literal) <= LONGEST_SHOWN else f"{literal[:LONGEST_SHOWN]}..."


def in_one_line(text: str) -> str:
    """A text as a message can hold it: line ends and what else cannot be printed become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def check_there(path: Path) -> None:
    """Raises InputError where there is no config file at a path."""
    if os.path.isdir(path):
        raise InputError(f"{path}: this is a folder; name a config file in it.")
    if not os.path.exists(path):
        hint = " A setting is written --gin.NAME=VALUE." if "=" in path.name else ""
        raise InputError(f"{path}: there is no such config file.{hint}")


def _read_file(path: Path, bindings: Bindings, read_already: set[Path], within: tuple[Path, ...]) -> None:
    check_there(path)
    identity = path.resolve()
    if identity in read_already:
        return
    read_already.add(identity)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text, at byte {error.start}.") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}.") from None
    bound: dict[Key, str] = {}
    for statement, where in _statements(text, where=lambda line: f"{path}:{line}"):
        if isinstance(statement, config_parser.ImportStatement):
            raise InputError(f"{where}: 'import' is not needed: every name of the package is known.")
        if isinstance(statement, config_parser.BindingStatement):
            _bind(statement, where, bound, bindings, included=bool(within))
        elif isinstance(statement, config_parser.IncludeStatement):
            if bound:
                raise InputError(
                    f"{where}: an include must stand above all bindings, which it would override."
                )
            included = path.parent / statement.filename
            if not os.path.isfile(included):
                raise InputError(f"{where}: there is no file {included} (sought beside {path}).")
            if included.resolve() in (*within, identity):
                raise InputError(f"{where}: {included} includes itself.")
            _read_file(included, bindings, read_already, (*within, identity))


def _statements(text: str, where: Callable[[int], str]) -> Iterable[tuple[Any, str]]:
    """The statements of a gin text, each with its place; what cannot be parsed is an InputError there."""
    references = _References()
    line = 1
    try:
        parser = config_parser.ConfigParser(io.StringIO(text), references)
        while (statement := parser.parse_statement()) is not None:
            line = statement.location.line_num
            if references.unknown:
                name = references.unknown[0].rpartition("/")[2]
                raise InputError(
                    f"{where(line)}: there is no {name!r}; {nearest(name, configurable_names())}"
                )
            yield statement, where(line)
    except SyntaxError as error:
        raise InputError(f"{where(error.lineno or line)}: {_in_our_words(str(error.msg))}") from None
    except tokenize.TokenError:
        opened = "a bracket or quotation mark that is opened here or below is never closed"
        raise InputError(f"{where(line)}: {opened}.") from None
    except TypeError:
        raise InputError(f"{where(line)}: a key in braces here or below is a list or has braces.") from None
    except RecursionError:
        raise InputError(f"{where(line)}: brackets here or below are nested too deeply.") from None


def _in_our_words(message: str) -> str:
    """What gin's parser complains of, with what would be right."""
    if word := re.search(r"Failed to parse token '(.*)'", message, re.DOTALL):
        return f"{shown(word[1])} is no value; a string stands in quotes, and a name behind @ or %."
    complaint = message.partition("\n")[0].partition("  Got ")[0].rstrip(".")
    return f"{complaint}; a line is NAME.PARAMETER = VALUE, such as train.steps = 100."


class _References(config_parser.ParserDelegate):
    """Makes gin's references and notes the unknown ones: gin would wrap what is raised from in here."""

    def __init__(self):
        self.unknown: list[str] = []

    def configurable_reference(self, scoped_name, evaluate):
        try:
            reference = gin_config.ConfigurableReference(scoped_name, evaluate)
        except (ValueError, KeyError):
            self.unknown.append(scoped_name)
            return None
        if reference.configurable.module == "gin":  # its macros are written %NAME, and nobody needs the rest
            self.unknown.append(scoped_name)
        return reference

    def macro(self, name):
        return gin_config.ParserDelegate().macro(name)


def _bind(statement, where: str, bound: dict[Key, str], bindings: Bindings, *, included: bool) -> None:
    key = _key(statement, where)
    if key in bound:
        raise InputError(f"{where}: {key} is bound twice, first at {bound[key]}.")
    bound[key] = where
    bindings[key] = Binding(statement.value, where, included)


def _key(statement, where: str) -> Key:
    if not statement.arg_name:
        return Key("/".join(filter(None, (statement.scope, statement.selector))), MACRO, "value")
    try:
        entry = gin_config._REGISTRY.get_match(statement.selector)
    except KeyError:
        raise InputError(f"{where}: {statement.selector!r} is ambiguous; write its module too.") from None
    if entry is None or entry.module == "gin":
        known = nearest(statement.selector, configurable_names())
        raise InputError(f"{where}: there is no {statement.selector!r}; {known}")
    known = [name for name in parameters(entry.wrapped) if name not in (entry.denylist or ())]
    if statement.arg_name not in known:
        hint = nearest(statement.arg_name, known)
        raise InputError(f"{where}: {statement.selector} has no parameter {statement.arg_name!r}; {hint}")
    return Key(statement.scope or "", entry.selector, statement.arg_name)


def configurable_names() -> list[str]:
    """The names that a config may use."""
    return sorted({entry.name for _, entry in gin_config._REGISTRY.items() if entry.module != "gin"})
