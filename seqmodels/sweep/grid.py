"""What a sweep trains: every config at every learning rate with every seed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels import config
from seqmodels.config_checks import LARGEST_FLOAT, resolve
from seqmodels.config_reader import Key, check_there
from seqmodels.errors import InputError


class Member(NamedTuple):
    """One run of a sweep; config: its label."""

    config: str
    learning_rate: float
    seed: int

    @property
    def name(self) -> str:
        """That of its run directory."""
        return f"{self.config}_lr{self.learning_rate!r}_seed{self.seed}"


class Recipe(NamedTuple):
    """A config of a sweep: all that its members share.

    label: tells it from the others. file: of the config. flags: "NAME = VALUE" each, set on top of the file.
    optimizer: the name under which gin knows the optimizer. text: the config before a rate and a seed are
    chosen. members: in order.
    """

    label: str
    file: str
    flags: tuple[str, ...]
    optimizer: str
    text: str
    members: tuple[Member, ...]

    def choices(self, member: Member) -> list[str]:
        """What tells a member from the others, as flags."""
        return [
            f"{self.optimizer}.learning_rate = {member.learning_rate!r}",
            f"train.seed = {member.seed}",
        ]


def labels(files: Sequence[str]) -> dict[str, str]:
    """A label for each config file: its name, with as many of its folders as tell it from the others.

    Raises InputError for a file that is not there, or is given twice.
    """
    for file in files:
        check_there(Path(file))
    parts = {file: Path(file).resolve().with_suffix("").parts for file in files}
    if len({Path(file).resolve() for file in files}) < len(files):
        raise InputError("a config file is given twice: its members would be the same.")
    for depth in range(1, max(map(len, parts.values())) + 1):
        named = {"_".join(whole[-depth:]).strip("/"): file for file, whole in parts.items()}
        if len(named) == len(files):
            return named
    raise InputError("two config files have the same name; rename one, which names its runs.")


def numbers(option: str, text: str | None, kind: type[int] | type[float]) -> tuple[Any, ...] | None:
    """The numbers of an option, written with commas between them, in order; None where it is not given.

    Raises InputError for one that is no number, out of range or given twice, or where there is none.
    """
    if text is None:
        return None
    found = []
    for word in text.split(","):
        try:
            value = kind(word)
        except ValueError:
            value = None
        fits = value is not None and (0 < value <= LARGEST_FLOAT if kind is float else 0 <= value < 2**32)
        if not fits:
            wanted = "learning rates above 0, such as 1e-3,3e-3"
            if kind is int:
                wanted = f"seeds of 0 to {2**32 - 1}, such as 0,1,2"
            raise InputError(f"{option} {text}: {word!r} is none of the {wanted}.")
        if value in found:
            raise InputError(f"{option} {text}: {word} is given twice, and its members would be the same.")
        found.append(value)
    return tuple(sorted(found))


def recipe(
    label: str,
    file: str,
    flags: Sequence[str],
    learning_rates: Sequence[float] | None,
    seeds: Sequence[int] | None,
) -> Recipe:
    """A config with its members; it is the one loaded last. Rates and seeds are by default the config's own.

    Raises InputError where the config is wrong, sets what the grid sets too, or where nothing gives a rate.
    """
    loaded = config.load([file], flags)
    bound = {str(key): (key, binding) for key, binding in loaded.bindings.items()}
    reference = _value(loaded, *bound["train.optimizer"])
    optimizer = "/".join([*reference.scopes, reference.configurable.name])
    name = f"{optimizer}.learning_rate"
    for option, given, set_by in (
        ("--learning-rates", learning_rates, name),
        ("--seeds", seeds, "train.seed"),
    ):
        if given is not None and any(flag.startswith(f"{set_by} =") for flag in flags):
            raise InputError(f"{option} and --gin.{set_by} set the same; leave one of them out.")
    if learning_rates is None:
        if name not in bound:
            raise InputError(
                f"--learning-rates is not given, and {file} sets no {name}: there is no learning rate."
            )
        learning_rates = (float(_value(loaded, *bound[name])),)
    if seeds is None:
        seeds = (_value(loaded, *bound["train.seed"]) if "train.seed" in bound else 0,)
    members = tuple(Member(label, rate, seed) for rate in learning_rates for seed in seeds)
    return Recipe(label, file, tuple(flags), optimizer, loaded.text, members)


def _value(loaded: config.Config, key: Key, binding: Any) -> Any:
    return resolve(binding.value, loaded.bindings, binding.where)
