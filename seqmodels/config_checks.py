"""What gin does not check: the type of each value, names that nothing uses, values that must be given."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import gin
from gin import config as gin_config

from seqmodels.config_reader import MACRO, Bindings, Key, constructor, nearest, parameters
from seqmodels.errors import InputError

Node = tuple[tuple[str, ...], str]  # the scopes in force and the selector of a configurable that is called


def check(bindings: Bindings, roots: Sequence[str]) -> Bindings:
    """The bindings that the roots use.

    Raises:
        InputError: a value has the wrong type or is missing, or one that no included file gives is never
            used.
    """
    for key, binding in bindings.items():
        _check_value(key, resolve(binding.value, bindings, binding.where), binding.where)
    reached = reachable(bindings, roots)
    used = {key: binding for key, binding in bindings.items() if any(_covers(key, node) for node in reached)}
    for key, binding in bindings.items():
        if key not in used and not binding.included:
            owner = f"%{key}" if key.selector == MACRO else str(key).rpartition(".")[0]
            raise InputError(f"{binding.where}: {key} is never used: nothing refers to {owner}.")
    for key, binding in used.items():
        if resolve(binding.value, bindings, binding.where) is gin.REQUIRED:
            raise InputError(f"{binding.where}: {key} must be given, for example --gin.{key}=VALUE.")
    for node in sorted(reached):
        _check_required(node, bindings)
    return used


def resolve(value: Any, bindings: Bindings, where: str) -> Any:
    """The value with macros (`%NAME`) replaced by what they stand for, inside lists and dicts too."""
    if isinstance(value, (list, tuple)):
        return type(value)(resolve(item, bindings, where) for item in value)
    if isinstance(value, dict):
        return {key: resolve(item, bindings, where) for key, item in value.items()}
    if not isinstance(value, gin_config.ConfigurableReference):
        return value
    if value.configurable.wrapped is gin_config._retrieve_constant:
        return gin_config._CONSTANTS["/".join(value.scopes)]
    if value.configurable.wrapped is not gin_config.macro:
        return value
    name = "/".join(value.scopes)
    macro = bindings.get(Key(name, MACRO, "value"))
    if macro is None:
        known = [key.scope for key in bindings if key.selector == MACRO]
        raise InputError(f"{where}: %{name} is not defined; {nearest(name, known)}")
    return resolve(macro.value, bindings, macro.where)


def reachable(bindings: Bindings, roots: Sequence[str]) -> set[Node]:
    """Every configurable that a call of the roots can reach by references, with the scopes it runs in."""
    by_owner: dict[tuple[str, str], list[Any]] = {}
    for key, (value, *_) in bindings.items():
        by_owner.setdefault((key.scope, key.selector), []).append(value)
    entries = [gin_config._REGISTRY.get_match(root) for root in roots]
    waiting: list[Node] = [((), entry.selector) for entry in entries if entry is not None]
    found: set[Node] = set()
    while waiting:
        node = scopes, selector = waiting.pop()
        if node in found:
            continue
        found.add(node)
        for depth in range(len(scopes) + 1):  # inside a/b gin reads the bindings of '', 'a' and 'a/b'
            for value in by_owner.get(("/".join(scopes[:depth]), selector), ()):
                for reference in _references(value):
                    waiting.append((tuple(reference.scopes) or scopes, reference.configurable.selector))
    return found


def _references(value: Any) -> Iterator[gin_config.ConfigurableReference]:
    for item in gin_config._iterate_flattened_values(value):
        if isinstance(item, gin_config.ConfigurableReference):
            yield item


def _covers(key: Key, node: Node) -> bool:
    scopes, selector = node
    own = tuple(filter(None, key.scope.split("/")))
    return key.selector == selector and scopes[: len(own)] == own


def _check_value(key: Key, value: Any, where: str) -> None:
    if key.selector == MACRO or value is gin.REQUIRED:
        return
    hints = typing.get_type_hints(constructor(gin_config._REGISTRY[key.selector].wrapped))
    if key.parameter in hints and not matches(value, hints[key.parameter]):
        raise InputError(
            f"{where}: {key} = {value!r} is of the wrong type: {_describe(hints[key.parameter])}."
        )


def _check_required(node: Node, bindings: Bindings) -> None:
    scopes, selector = node
    entry = gin_config._REGISTRY[selector]
    if entry.module == "gin":
        return
    for name, parameter in parameters(entry.wrapped).items():
        needed = parameter.default in (gin.REQUIRED, inspect.Parameter.empty)
        bound = any(Key("/".join(scopes[:n]), selector, name) in bindings for n in range(len(scopes) + 1))
        if needed and not bound and name not in (entry.denylist or ()):
            shown = Key("/".join(scopes), selector, name)
            raise InputError(f"{shown} must be given, in a config file or as --gin.{shown}=VALUE.")


def matches(value: Any, hint: Any) -> bool:
    """Whether a gin value fits a type hint; an int is a float, a bool is neither, a list is a tuple."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, option) for option in arguments)
    if isinstance(value, gin_config.ConfigurableReference):
        return _reference_matches(value, origin or hint)
    if origin is typing.Literal:
        return any(value == option and type(value) is type(option) for option in arguments)
    if origin is tuple and arguments[-1:] != (...,):
        items = isinstance(value, (tuple, list)) and len(value) == len(arguments)
        return items and all(map(matches, value, arguments))
    if origin in (tuple, list, collections.abc.Sequence):
        return isinstance(value, (tuple, list)) and all(matches(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            matches(key, arguments[0]) and matches(item, arguments[1]) for key, item in value.items()
        )
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (tuple, list):
        return isinstance(value, (tuple, list))
    if origin in (type, collections.abc.Callable) or hint in (type, collections.abc.Callable):
        return False  # only a reference gives a class or a function
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    return not getattr(hint, "_is_protocol", False)


_PLAIN = (bool, int, float, str, tuple, list, dict, type(None), typing.Literal, collections.abc.Sequence)


def _reference_matches(reference: gin_config.ConfigurableReference, hint: Any) -> bool:
    """`@Name` gives a class or function, `@Name()` what it makes, whose class is known if Name is one."""
    if hint in (type, collections.abc.Callable):
        return not reference.evaluate
    made = reference.configurable.wrapped
    if hint in _PLAIN:
        return reference.evaluate and not inspect.isclass(made)
    if not reference.evaluate:
        return False
    if not inspect.isclass(made) or not isinstance(hint, type):
        return True
    if getattr(hint, "_is_protocol", False):
        return all(hasattr(made, name) for name, member in vars(hint).items() if inspect.isfunction(member))
    return issubclass(made, hint)


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(option) for option in arguments)
    if origin in (type, collections.abc.Callable) or hint in (type, collections.abc.Callable):
        return "a reference @NAME"
    if hint is type(None):
        return "None"
    if origin is tuple and arguments[-1:] == (...,):
        return f"a tuple, each item of it {_describe(arguments[0])}"
    if isinstance(hint, type) and not arguments:
        known = {int: "an int", float: "a float", str: "a string", bool: "True or False"}
        return known.get(hint, f"a reference @NAME() to a {hint.__name__}")
    return str(hint).replace("typing.", "").replace("collections.abc.", "")
