"""What gin does not check: the type of each value, names that nothing uses, values that must be given."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gin
from gin import config as gin_config

from seqmodels.config_reader import MACRO, Binding, Bindings, Key, constructor, nearest, parameters, shown
from seqmodels.errors import InputError

SMALLEST_FLOAT, LARGEST_FLOAT = 2.0**-126, 2.0**128 * (1 - 2.0**-24)  # of float32; smaller ones become 0
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
    read = {(scope, selector) for scopes, selector in reached for scope in prefixes(scopes)}
    used = {key: binding for key, binding in bindings.items() if (key.scope, key.selector) in read}
    for key, binding in bindings.items():
        if key not in used and not binding.included:
            raise InputError(f"{binding.where}: {key} is never used: {_why_unused(key, reached)}")
    for key, binding in used.items():
        if resolve(binding.value, bindings, binding.where) is gin.REQUIRED:
            raise InputError(f"{binding.where}: {key} must be given, for example --gin.{key}=VALUE.")
    for node in sorted(reached):
        _check_required(node, bindings)
    return used


def resolve(value: Any, bindings: Bindings, where: str, within: tuple[str, ...] = ()) -> Any:
    """The value with macros (`%NAME`) replaced by what they stand for, inside lists and dicts too.

    within: the macros that the value stands in.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(resolve(item, bindings, where, within) for item in value)
    if isinstance(value, dict):
        return {key: resolve(item, bindings, where, within) for key, item in value.items()}
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
    if name in within:
        circle = " -> ".join(f"%{each}" for each in (*within[within.index(name) :], name))
        raise InputError(f"{macro.where}: {name} is defined by itself ({circle}); give it a value.")
    return resolve(macro.value, bindings, macro.where, (*within, name))


def reachable(bindings: Bindings, roots: Sequence[str]) -> set[Node]:
    """Every configurable that a call of the roots can reach by references, with the scopes it runs in.

    Raises:
        InputError: one refers to itself, so that a call would never end.
    """
    by_owner: dict[tuple[str, str], dict[str, Binding]] = {}
    for key, binding in bindings.items():
        by_owner.setdefault((key.scope, key.selector), {})[key.parameter] = binding
    found: set[Node] = set()

    def visit(node: Node, within: tuple[Node, ...]) -> None:
        found.add(node)
        scopes, selector = node
        arguments: dict[str, Binding] = {}
        for scope in prefixes(scopes):
            arguments |= by_owner.get((scope, selector), {})
        for parameter, (value, where, _) in arguments.items():
            for reference in _references(value):
                other = tuple(reference.scopes) or scopes, reference.configurable.selector
                if other in (*within, node):
                    key = Key("/".join(scopes), selector, parameter)
                    raise InputError(f"{where}: {key} refers back to itself by {reference}.")
                if other not in found:
                    visit(other, (*within, node))

    for entry in map(gin_config._REGISTRY.get_match, roots):
        if entry is not None:
            visit(((), entry.selector), ())
    return found


def prefixes(scopes: tuple[str, ...]) -> Iterator[str]:
    """The scopes whose bindings gin reads inside a/b: '', 'a' and 'a/b'; later ones override."""
    return ("/".join(scopes[:depth]) for depth in range(len(scopes) + 1))


def _why_unused(key: Key, reached: set[Node]) -> str:
    """That nothing refers to its owner; of a macro that is named like a parameter, which may be meant."""
    if key.selector != MACRO:
        return f"nothing refers to {str(key).rpartition('.')[0]}."
    owners = [gin_config._REGISTRY[selector] for selector in {selector for _, selector in reached} - {MACRO}]
    meant = sorted(f"{owner.name}.{key.scope}" for owner in owners if key.scope in parameters(owner.wrapped))
    return f"did you mean {' or '.join(meant)}?" if meant else f"nothing refers to %{key}."


def _references(value: Any) -> Iterator[gin_config.ConfigurableReference]:
    for item in gin_config._iterate_flattened_values(value):
        if isinstance(item, gin_config.ConfigurableReference):
            yield item


def _check_value(key: Key, value: Any, where: str) -> None:
    if key.selector == MACRO or value is gin.REQUIRED:
        return
    hints = typing.get_type_hints(constructor(gin_config._REGISTRY[key.selector].wrapped))
    if key.parameter in hints and not matches(value, hints[key.parameter]):
        wanted = _describe(hints[key.parameter])
        raise InputError(f"{where}: {key} = {shown(value)} is of the wrong type: it should be {wanted}.")
    if not _in_range(value, hints.get(key.parameter)):
        raise InputError(
            f"{where}: {key} = {shown(value)} is out of range: floats have 32 bits, ints 64, 31 in place "
            "of a float."
        )


def _in_range(value: Any, hint: Any) -> bool:
    """Whether all numbers in a value can be computed with."""
    if isinstance(value, (tuple, list)):
        return all(_in_range(item, hint) for item in value)
    if isinstance(value, int):
        kinds = {hint, *typing.get_args(hint)}
        return abs(value) < 2 ** (31 if float in kinds and int not in kinds else 63)
    if isinstance(value, float):
        return value == 0 or SMALLEST_FLOAT <= abs(value) <= LARGEST_FLOAT
    return True


def _check_required(node: Node, bindings: Bindings) -> None:
    scopes, selector = node
    entry = gin_config._REGISTRY[selector]
    if entry.module == "gin":
        return
    for name, parameter in parameters(entry.wrapped).items():
        needed = parameter.default in (gin.REQUIRED, inspect.Parameter.empty)
        bound = any(Key(scope, selector, name) in bindings for scope in prefixes(scopes))
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
        wanted = _called(hint)
        if wanted is None:
            return value.evaluate and _makes(value.configurable.wrapped, origin or hint)
        return not value.evaluate and _makes(value.configurable.wrapped, wanted)
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
    if _called(hint) is not None:
        return False  # only a reference gives a class or a function
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    return not getattr(hint, "_is_protocol", False)


def _called(hint: Any) -> Any:
    """What a hint for a class or a function wants from its call; None for the hint of another thing.

    `@NAME` gives a class or a function, and `@NAME()` what it makes.
    """
    if (typing.get_origin(hint) or hint) not in (type, collections.abc.Callable):
        return None
    return (typing.get_args(hint) or (Any,))[-1]


def _makes(configurable: Callable | type, wanted: Any) -> bool:
    """Whether a call of a configurable gives what is wanted: a class, a protocol, or anything."""
    made = configurable
    if not inspect.isclass(configurable):
        made = typing.get_type_hints(configurable).get("return", Any)
    if wanted is Any or made is Any:
        return True
    if not isinstance(wanted, type):
        return False
    if getattr(wanted, "_is_protocol", False):
        return all(hasattr(made, name) for name, member in vars(wanted).items() if inspect.isfunction(member))
    return issubclass(made, wanted)


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(option) for option in arguments)
    if (wanted := _called(hint)) is not None:
        return _references_to(wanted, "")
    if hint is type(None):
        return "None"
    if origin is tuple and arguments[-1:] != (...,):
        return f"a tuple ({', '.join(map(_describe, arguments))})"
    if origin in (tuple, collections.abc.Sequence):
        return f"a tuple (X, ...), each X {_describe(arguments[0])}"
    if isinstance(hint, type) and not arguments:
        known = {int: "an int", float: "a float", str: "a string", bool: "True or False"}
        return known.get(hint) or _references_to(hint, "()")
    return str(hint).replace("typing.", "").replace("collections.abc.", "")


def _references_to(wanted: Any, brackets: str) -> str:
    """The references that give what is wanted, brackets behind the names where it is what they make."""
    entries = [entry for _, entry in gin_config._REGISTRY.items() if entry.module != "gin"]
    names = sorted(entry.name for entry in entries if _makes(entry.wrapped, wanted))
    return f"one of {', '.join(f'@{name}{brackets}' for name in names)}"
