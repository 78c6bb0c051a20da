"""The config of a run: gin files and `--gin.NAME=VALUE` flags, checked before anything is built.

Classes are registered and reached by reference; only `train` and `evaluate` are called with what was bound.
"""

import dataclasses
import os
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gin
from gin import config as gin_config
from gin import config_parser

from seqmodels.config_checks import check, prefixes, reachable, resolve
from seqmodels.config_reader import MACRO, Bindings, Key, in_one_line, parameters, read
from seqmodels.errors import InputError

ROOTS = ("train", "evaluate")
FLAG = "--gin."


class Difference(NamedTuple):
    """A setting that two configs give different values, as gin literals."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}: {self.old} -> {self.new}"


@dataclasses.dataclass(frozen=True)
class Config:
    """A loaded config: its bindings, and all of them as one gin text that `load` reads again."""

    bindings: Bindings
    text: str

    def differences(self, saved: str | Path) -> list[Difference]:
        """What training would see change from the config file `saved` to this one, by name.

        Compared is the value that each call gets, wherever it is bound: a scope has that of the scopes around
        it where it has none of its own. A difference has the name of the innermost scope that binds it.
        """
        old, new = read([saved]), self.bindings
        changed = {}
        for scopes, selector in {*reachable(old, ["train"]), *reachable(new, ["train"])}:
            if selector == MACRO:
                continue
            for parameter in parameters(gin_config._REGISTRY[selector].wrapped):
                keys = [Key(scope, selector, parameter) for scope in prefixes(scopes)]
                (before_at, before), (after_at, after) = (_effective(side, keys) for side in (old, new))
                if before != after:
                    key = max(before_at, after_at, key=keys.index)
                    changed[key] = Difference(str(key), before, after)
        return [changed[key] for key in sorted(changed)]


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Parts command-line arguments into gin bindings ("NAME = VALUE") and the rest.

    A value that is no gin literal is a string: `--gin.TextFiles.train=data/*.txt` needs no quotes.
    """
    bindings, rest = [], []
    for argument in arguments:
        if not argument.startswith(FLAG):
            rest.append(argument)
            continue
        name, _, value = argument.removeprefix(FLAG).partition("=")
        name, value = name.strip(), value.strip()
        if len(name.split()) != 1 or not value:
            raise InputError(f"{in_one_line(argument)}: write {FLAG}NAME=VALUE, without spaces.")
        bindings.append(f"{name} = {value if _is_literal(value) else repr(value)}")
    return bindings, rest


def load(files: Sequence[str | Path], flags: Sequence[str] = (), *, overridable: str | None = None) -> Config:
    """Reads, checks and binds a config; the registered names must have been imported.

    Args:
        files: gin files; later ones override earlier ones.
        flags: "NAME = VALUE" each, as `split_arguments` gives them; they override the files.
        overridable: if given, flags may only set this root ("evaluate") and what it refers to.
    """
    bindings = read([os.fspath(file) for file in files], flags)
    bindings = check(bindings, ROOTS)
    if overridable is not None:
        _check_overrides(bindings, flags, overridable)
    gin.clear_config()
    for key, binding in bindings.items():
        gin.bind_parameter(key, binding.value)
    gin.finalize()
    return Config(bindings, gin.config_str(max_line_length=110))


def rebind(loaded: Config, flags: Sequence[str]) -> Config:
    """The config that was loaded last, with the values of `flags` in place of its own.

    What has been used of it so far stays on record, and counts as used by both.
    """
    bindings = read([], flags)
    with gin.unlock_config():
        for key, binding in bindings.items():
            gin.bind_parameter(key, binding.value)
    return Config({**loaded.bindings, **bindings}, gin.config_str(max_line_length=110))


def operative_text() -> str:
    """What the run has used so far, defaults included, as a gin text that `load` reads again."""
    return gin.operative_config_str(max_line_length=110)


def _is_literal(value: str) -> bool:
    """Whether all of it is one value; what stands behind one would be a statement of its own."""
    try:
        parser = config_parser.ConfigParser(value, gin_config.ParserDelegate(skip_unknown=True))
        parser.parse_value()
        while parser.current_token.type in (tokenize.NEWLINE, tokenize.NL):
            parser.advance_one_line()
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError):
        return False
    return parser.current_token.type == tokenize.ENDMARKER


def _check_overrides(bindings: Bindings, flags: Sequence[str], root: str) -> None:
    allowed = {selector for _, selector in reachable(bindings, [root])}
    for key in read([], flags):
        if key.selector not in allowed:
            raise InputError(f"{FLAG}{key}: only {root} and what it refers to can be set here.")


def _effective(bindings: Bindings, keys: Sequence[Key]) -> tuple[Key, str]:
    """The last of `keys` that is bound, and its value as a literal; none: the first, and the default."""
    for key in reversed(keys):
        if key in bindings:
            return key, repr(resolve(bindings[key].value, bindings, bindings[key].where))
    return keys[0], _default(keys[0])


def _default(key: Key) -> str:
    default = parameters(gin_config._REGISTRY[key.selector].wrapped)[key.parameter].default
    return "not given" if default is gin.REQUIRED else repr(default)
