"""The charts and the table by which TensorBoard compares runs, read back from a run's own event file."""

import re
import struct
from pathlib import Path

import pytest
from tensorboardX.proto import event_pb2, layout_pb2, plugin_hparams_pb2

from seqmodels.training import dashboard
from tests import commands

GROUPS = {
    "text": ["Training", "Validation", "Recall", "Speed"],
    "recall": ["Training", "Recall", "Speed"],
    "mixture": ["Training", "Validation", "Recall", "Speed"],
}


def values(run):
    """Every value of a run's event file: records of a length, its checksum, as many bytes, their checksum."""
    (file,) = Path(run).glob("events.out.tfevents.*")
    data, at = file.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield from event_pb2.Event.FromString(data[at + 12 : at + 12 + length]).summary.value
        at += 12 + length + 4


def tags(run):
    return {value.tag for value in values(run) if value.HasField("simple_value")}


@pytest.mark.parametrize("run, kind", [(commands.text_run, "text"), (commands.recall_run, "recall")])
def test_every_chart_of_a_run_has_a_curve(run, kind):
    """A chart whose tags are never logged is an empty frame, and a misspelt tag looks the same."""
    (content,) = (value for value in values(run()) if value.tag == "custom_scalars__config__")
    written = layout_pb2.Layout.FromString(content.tensor.string_val[0])
    assert [group.title for group in written.category] == GROUPS[kind]
    charts = {
        (group.title, chart.title): list(chart.multiline.tag)
        for group in written.category
        for chart in group.chart
    }
    assert charts == {
        (group, title): list(patterns)
        for group, titles in dashboard.layout(kind).items()
        for title, patterns in titles.items()
    }
    logged = tags(run())
    for title, patterns in charts.items():
        for pattern in patterns:
            assert any(re.match(pattern, tag) for tag in logged), (title, pattern)


def test_headline_charts_show_one_curve_a_run():
    """TensorBoard matches beginnings: "eval/loss" would also draw the loss of other protocols."""
    logged = {"eval/loss", "eval/loss_strided", "train/loss", "by_tokens/train/loss", "train/gradient_norm"}
    logged |= {"train/gradient_norm/embedding"}
    for group, titles in dashboard.layout("mixture").items():
        for title, patterns in titles.items():
            for pattern in patterns:
                assert sum(re.match(pattern, tag) is not None for tag in logged) <= 1, (group, title)


def test_a_mixture_has_the_charts_of_both():
    """It logs the figures of its text and of its task."""
    of_both = dashboard.layout("mixture")
    assert list(of_both) == GROUPS["mixture"]
    for kind in ("text", "recall"):
        for group, titles in dashboard.layout(kind).items():
            assert titles.items() <= of_both[group].items()


@pytest.mark.parametrize(
    "run, metric", [(commands.text_run, "eval/bits_per_byte"), (commands.recall_run, "eval/recall_area")]
)
def test_the_table_of_runs_has_settings_and_figures(run, metric):
    """TensorBoard finds a metric of the table by its tag among the run's scalars; all runs name the same."""
    found = {value.tag: value.metadata.plugin_data.content for value in values(run())}
    read = plugin_hparams_pb2.HParamsPluginData.FromString
    experiment = read(found["_hparams_/experiment"]).experiment
    named = {each.name.tag for each in experiment.metric_infos}
    assert named == {"train/loss", "eval/bits_per_byte", "eval/recall_area"}
    assert {"train/loss", metric} <= tags(run()) & named
    start = read(found["_hparams_/session_start_info"]).session_start_info.hparams
    assert start["mixers"].string_value == "LinearAttention"
    assert start["learning_rate"].number_value == 1e-3
    assert {each.name for each in experiment.hparam_infos} == set(start)
