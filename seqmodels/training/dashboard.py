"""What TensorBoard lays side by side for all runs it is given: charts in groups, in the custom scalars tab.

Charts of the same group and title are one chart of all runs. Tags are regular expressions, which TensorBoard
matches with the beginning of a tag; each names one of the curves that a run of its kind logs.
"""

Charts = dict[str, tuple[str, ...]]
"""Regular expressions of tags, by the title of their chart."""

_TRAINING: Charts = {
    "loss, by tokens": ("by_tokens/train/loss$",),
    "loss, by update": ("train/loss$",),
    "gradient norm": ("train/gradient_norm$",),
    "learning rate": ("train/learning_rate$",),
}
_SPEED: Charts = {
    "tokens a second": ("train/tokens_per_second$",),
    "seconds an update, and of them waiting for data": ("train/step_time$", "train/data_wait$"),
    "share of the device's arithmetic": ("train/mfu$",),
}
_OF_TEXT: dict[str, Charts] = {
    "Training": {"bits per byte, by tokens": ("by_tokens/train/bits_per_byte$",)},
    "Validation": {
        "bits per byte, by tokens": ("by_tokens/eval/bits_per_byte$",),
        "loss of training and of validation": ("train/loss$", "eval/loss$"),
    },
    "Recall": {"gain of a passage's second copy (bits a token)": (r"eval/repeat_gain_\d+$",)},
}
_OF_TASKS: dict[str, Charts] = {
    "Recall": {
        "recall area, by tokens": ("by_tokens/eval/recall_area$",),
        "recall area along every sweep": (r"eval/recall_area(_\w+)?$",),
        "horizon50 (tokens)": ("eval/recall_horizon50$",),
    },
}
_BY_KIND = {"text": (_OF_TEXT,), "recall": (_OF_TASKS,), "mixture": (_OF_TEXT, _OF_TASKS)}


def layout(kind: str) -> dict[str, Charts]:
    """The groups of charts of a run on data of a kind ("text", "recall" or "mixture"), in order."""
    groups: dict[str, Charts] = {"Training": dict(_TRAINING), "Validation": {}, "Recall": {}}
    for part in _BY_KIND[kind]:
        for group, charts in part.items():
            groups[group] |= charts
    groups["Speed"] = dict(_SPEED)
    return {group: charts for group, charts in groups.items() if charts}
