"""What is logged of the updates and when, and which of them end the run."""

import contextlib
import math

import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.errors import NonFiniteError
from seqmodels.training import recorder as module
from seqmodels.training.plan import Plan
from seqmodels.training.recorder import Recorder, Units
from seqmodels.training.scalars import numbers
from seqmodels.training.step import TOKENS_PER_UNIT, Metrics

NAN = math.nan
TOKENS = 32  # an update


class Page:
    """In the place of a log: keeps what it is given."""

    def __init__(self):
        self.lines, self.said = {}, []

    def scalars(self, step, tokens, values):
        self.lines[step] = {"tokens": tokens, **values}

    def show(self, step, values, seconds_left):
        pass

    def show_evaluation(self, step, values):
        pass

    def say(self, text):
        self.said.append(text)


def metrics(step, loss=2.0, norm=1.0, *, parameter=1.0, skipped=0):
    count = step * TOKENS
    return Metrics(
        loss=np.float32(loss),
        learning_rate=np.float32(1e-3),
        gradient_norm=np.float32(norm),
        tokens=np.array([count // TOKENS_PER_UNIT, count % TOKENS_PER_UNIT], np.int32),
        skipped=np.int32(skipped),
        gradient_norms={"head": np.float32(norm)},
        parameter_norms={"head": np.float32(parameter)},
        update_norms={"head": np.float32(norm)},
    )


@pytest.fixture
def clock(monkeypatch):
    """Moves only when told: clock(seconds)."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def pass_by(seconds):
        now[0] += seconds

    return pass_by


def recording(*, steps=100, log_every=1, skip_nonfinite=0):
    page = Page()
    plan = Plan(steps, log_every, steps, None, None, skip_nonfinite)
    return page, Recorder(page, Units(1e6, 1e9, None), plan, step=0, tokens=0)


def test_rates_are_those_of_the_time_that_updates_took(clock):
    """Saving is no part of them, and tokens a second times the seconds are the tokens."""
    page, recorder = recording(log_every=4)
    for step in range(1, 9):
        with recorder.waiting():
            clock(0.01)
        clock(0.09)
        if step in (2, 5):
            with recorder.excluded():
                clock(7.0)
        recorder.add(step, metrics(step))
        recorder.read(step)
    assert list(page.lines) == [4, 8]
    for line in page.lines.values():
        assert line["train/step_time"] == pytest.approx(0.1)
        assert line["train/data_wait"] == pytest.approx(0.01)
        assert line["train/tokens_per_second"] * 0.4 == pytest.approx(4 * TOKENS)
        assert line["train/mfu"] == pytest.approx(1e6 / 0.1 / 1e9)


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ({"loss": NAN}, "update 3 has a loss of nan"),
        ({"norm": math.inf}, "a gradient of norm inf. Gradient norms: head inf"),
        ({"parameter": math.inf}, "parameter norms after it: head inf"),
    ],
)
def test_the_update_that_is_not_finite_ends_the_run_and_is_the_last_line(clock, faulty, words):
    """Found late, with two more on their way: the one to name, and to look at, is the first."""
    page, recorder = recording(log_every=50)
    for step in range(1, 6):
        clock(1)
        recorder.add(step, metrics(step, **(faulty if step == 3 else {"loss": NAN} if step > 3 else {})))
    with pytest.raises(NonFiniteError, match=words):
        recorder.catch_up(5)
    recorder.close()
    assert list(page.lines) == [3] and page.lines[3]["tokens"] == 3 * TOKENS
    assert not all(map(math.isfinite, page.lines[3].values()))


def test_updates_are_skipped_up_to_their_number_and_each_is_told(clock):
    page, recorder = recording(log_every=2, skip_nonfinite=2)
    for step, skipped in enumerate((0, 1, 1, 2, 2), 1):
        clock(1)
        faulty = step in (2, 4)
        recorder.add(step, metrics(step, loss=NAN if faulty else 1.0, skipped=skipped))
        recorder.catch_up(step)
    assert [line["train/skipped"] for line in page.lines.values()] == [1, 2]
    assert [text.partition(" has ")[0] for text in page.said] == ["update 2", "update 4"]
    assert page.said[1].endswith("skipped, number 2 of at most 2.")
    recorder.add(6, metrics(6, loss=NAN, skipped=3))
    clock(1)
    with pytest.raises(NonFiniteError, match="update 6"):
        recorder.catch_up(6)


def test_what_was_skipped_before_the_policy_was_taken_back_does_not_excuse_another(clock):
    _, recorder = recording()
    clock(1)
    recorder.add(1, metrics(1, skipped=1))
    recorder.catch_up(1)
    clock(1)
    recorder.add(2, metrics(2, loss=NAN, skipped=1))
    with pytest.raises(NonFiniteError, match="update 2"):
        recorder.catch_up(2)


def test_an_error_elsewhere_leaves_the_last_update_logged(clock):
    """The line of an update is read while the next one runs: the data may fail in between."""
    page, recorder = recording()
    with pytest.raises(OSError, match="gone"), contextlib.closing(recorder):
        for step in (1, 2):
            clock(1)
            recorder.add(step, metrics(step))
            recorder.read(step - 1)
        clock(1)
        raise OSError("the data are gone")
    assert list(page.lines) == [1, 2]


def test_values_of_any_number_type_are_logged_exactly():
    values = {
        "bfloat16": jnp.bfloat16(1.2345),
        "float32": np.float32(0.1),
        "count": np.int64(2**53 + 1),
        "int": 3,
        "scalar": jnp.ones(()),
        "nan": NAN,
    }
    found, others = numbers(values)
    assert not others and all(type(value) in (int, float) for value in found.values())
    assert found["bfloat16"] == float(jnp.bfloat16(1.2345)) == 1.234375
    assert found["float32"] == float(np.float32(0.1)) and found["count"] == 2**53 + 1
    assert math.isnan(found["nan"])


def test_a_value_that_is_no_number_is_left_out_and_named_once():
    page, recorder = recording()
    values = {
        "eval/loss": 1.0,
        "mine/name": "x",
        "mine/none": None,
        "mine/list": [1, 2],
        "mine/rows": np.ones(2),
    }
    for step in (1, 2):
        assert recorder.evaluation(step, values) == {"eval/loss": 1.0}
    assert page.lines[2] == {"tokens": 0, "eval/loss": 1.0}
    assert len(page.said) == 4
    assert "warning: mine/rows is of type ndarray, no number, and is not logged." in page.said


def test_data_that_hold_up_the_updates_are_told_once(clock):
    page, recorder = recording()
    for step in range(1, 40):
        with recorder.waiting():
            clock(0.4)
        clock(0.6)
        recorder.add(step, metrics(step))
        recorder.catch_up(step)
    (text,) = page.said
    assert text.startswith("warning: 400 ms of each update's 1,000 ms are spent waiting for data.")


def test_a_slow_first_batch_and_a_hiccup_are_no_reason_to_warn(clock):
    """The first batch is waited for by every run, and one short update among many says nothing."""
    page, recorder = recording()
    for step in range(1, 100):
        with recorder.waiting():
            clock(5.0 if step == 1 else 0.05 if step % 50 == 0 else 0.0)
        clock(0.05)
        recorder.add(step, metrics(step))
        recorder.catch_up(step)
    assert not page.said
