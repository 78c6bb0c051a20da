"""Config files and flags, right ones, wrong ones and damaged ones, over all names that a config may use."""

import types
import typing

from gin import config as gin_config
from hypothesis import strategies as st

from seqmodels import registry  # noqa: F401  (the names)
from seqmodels.config_reader import constructor, parameters

BASE = {
    "train.model": "@LanguageModel",
    "train.data": "@RecallAtDistance()",
    "train.optimizer": "@AdamW()",
    "train.steps": "8",
    "train.batch_size": "2",
    "train.row_length": "64",
    "LanguageModel.width": "32",
    "LanguageModel.depth": "1",
}
ENTRIES = [entry for _, entry in gin_config._REGISTRY.items() if entry.module != "gin"]
HINTS = {
    f"{entry.name}.{name}": typing.get_type_hints(constructor(entry.wrapped)).get(name, typing.Any)
    for entry in ENTRIES
    for name in parameters(entry.wrapped)
    if name not in (entry.denylist or ())
}
NAMES = sorted(HINTS)


def edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Characters are taken out and put in: (where, how many, which)."""
    for place, count, new in edits:
        place %= len(text) + 1
        text = text[:place] + new + text[place + count :]
    return text


def _one_of(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


_BIG = ("2147483647", "2147483648", "4294967296", "1000000000000", "9223372036854775808", "9" * 400)
_NUMBERS = st.one_of(
    st.integers(-2, 300).map(str),
    _one_of("0", "-1", "1", "1_000", "0x10", "1e3", "1e-3", "0.5", "-0.0", "1e999", "-1e999", "3j", *_BIG),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
_WORDS = _one_of(
    "True", "None", "'x'", "''", "x", "nan", "10**3", "*.txt", "'a\\x00b'", "b'x'", "...", "%", "-"
)
_MACROS = _one_of("rate", "rite", "größe", "steps", "a/b", "gin.REQUIRED")
_SCOPES = _one_of("", "", "near/", "a/b/")
_REFERENCES = st.builds(
    "@{}{}{}".format,
    _SCOPES,
    st.one_of(
        _one_of(*sorted(entry.name for entry in ENTRIES)), _one_of("Mambo", "macro", "gin.singleton", "a")
    ),
    _one_of("", "()", "()()", "(1)"),
)
_BRACKETS = _one_of("({})", "({},)", "[{}]", "{{{}}}", "{{1: {}}}", "({}")
_ANYTHING = st.recursive(
    st.one_of(_NUMBERS, _WORDS, _REFERENCES, _MACROS.map("%{}".format), st.text(max_size=8).map(repr)),
    lambda inner: st.builds(str.format, _BRACKETS, st.lists(inner, max_size=3).map(", ".join)),
    max_leaves=5,
)


def _fitting(hint: typing.Any) -> st.SearchStrategy[str]:
    """Values of about the right type, of any size."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(arguments).map(repr)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(_fitting, arguments))
    if origin is tuple:
        return st.lists(_fitting(arguments[0]), max_size=3).map(lambda items: f"[{', '.join(items)}]")
    known = {int: _NUMBERS, float: _NUMBERS, bool: _one_of("True", "False"), type(None): st.just("None")}
    return known.get(hint, _REFERENCES)


_LETTERS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1), _one_of(*"abcT_1é.")), max_size=2)
_KEYS = st.one_of(
    st.sampled_from(NAMES),
    st.builds(str.__add__, _SCOPES, st.sampled_from(NAMES)),
    st.builds(edited, st.sampled_from(NAMES), _LETTERS),
    _MACROS,
)


@st.composite
def _bindings(draw) -> tuple[str, str]:
    """(name, value): half of them of about the right type."""
    name = draw(_KEYS)
    hint = HINTS.get(name.rpartition("/")[2])
    return name, draw(_ANYTHING if hint is None or draw(st.booleans()) else _fitting(hint))


@st.composite
def configs(draw) -> str:
    """The base with a few bindings, in place of its own or beside them, often with their owner in use."""
    more = draw(st.lists(_bindings(), max_size=4))
    twice = draw(st.integers(0, 4)) == 0
    kept = {name: value for name, value in BASE.items() if twice or name not in dict(more)}
    if more and draw(st.booleans()):
        owner = more[-1][0].rpartition("/")[2].partition(".")[0]
        name, value = draw(st.sampled_from((("train.data", "@{}()"), ("LanguageModel.mixers", "(@{},)"))))
        kept[name] = value.format(owner)
    end = draw(_one_of("\n", "\r\n", "\n\n# note\n", " \n", "\t\n"))
    return end.join(f"{name} = {value}" for name, value in [*kept.items(), *more])


_EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), st.text(max_size=3)), max_size=4)
damaged_configs = st.builds(edited, configs(), _EDITS)
_ASSIGNED = _bindings().map("=".join)
flags = st.one_of(_ASSIGNED, st.text(max_size=12), st.builds(edited, _ASSIGNED, _EDITS)).map(
    "--gin.{}".format
)
