"""The long convolution's own: its filter, and a history that must fit and is not copied."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import LongConvolution
from tests.mixers.subjects import agree, normal, relative_rms


def make(width=32, **settings):
    """(mixer, the same compiled: (x, state, segment_ids) -> (y, state))."""
    mixer = LongConvolution(width, rngs=nnx.Rngs(0), **settings)
    graphdef, params = nnx.split(mixer, nnx.Param)
    run = jax.jit(
        lambda x, state=None, ids=None: nnx.merge(graphdef, params)(x, state=state, segment_ids=ids)
    )
    return mixer, run


def test_the_filter_is_one_function_of_the_distance():
    """Asked for more distances it begins alike: a filter that knew the row's length would not decode."""
    mixer, _ = make()
    agree(mixer.filter(700)[:40], mixer.filter(40))
    # The window alone bounds it: far away the slowest channel has faded, and the fastest long before.
    rates = np.exp(np.asarray(mixer.rate_log[...]))
    assert rates.min() >= 0.00099
    assert rates.max() <= 0.1001
    assert np.abs(mixer.filter(20_000)[-1]).max() < 1e-6


def test_forms_agree_over_long_rows():
    """FFTs err by the size of all that they are given: held to 1e-5 where halves of 512 tokens are met."""
    x = normal(1, 1000, 32)
    outputs = [make(method=method)[1](x)[0] for method in LongConvolution.methods]
    assert relative_rms(*outputs) < 1e-5


def test_a_full_history_is_refused_with_its_numbers():
    mixer, _ = make()
    _, state = mixer(normal(2, 5, 32))  # without a state, the one returned is full
    message = "The history of LongConvolution has room for 5 tokens and row 0 would hold 6; pass init_state"
    with pytest.raises(InputError, match=re.escape(message)):
        mixer(normal(2, 1, 32), state=state)


@pytest.mark.parametrize("piece", [1, 2])
def test_compiled_code_past_the_end_gives_nan(piece):
    """Never plausible numbers: the row that overflows is NaN from then on, the other goes on."""
    mixer, run = make()
    x = normal(2, 6, 32)
    ids = jnp.asarray([[1, 1, 1, 1], [0, 0, 1, 1]], jnp.int32)
    _, state = run(x[:, :4], mixer.init_state(2, 4), ids)
    y, state = run(x[:, 4 : 4 + piece], state)
    assert jnp.isnan(y[0]).all()
    agree(y[1], run(x[1:, 2 : 4 + piece])[0][0, -piece:])


def test_a_decode_step_copies_no_history():
    """One slot is written in place and the history is read where it lies, in time linear in its length."""
    graphdef, params = nnx.split(LongConvolution(64, rngs=nnx.Rngs(0)), nnx.Param)
    step = jax.jit(lambda x, state: nnx.merge(graphdef, params)(x, state=state), donate_argnums=1)
    flops = []
    for slots in (512, 1024):
        state = LongConvolution(64, rngs=nnx.Rngs(0)).init_state(16, slots)
        compiled = step.lower(jnp.zeros((16, 1, 64)), state).compile()
        memory = compiled.memory_analysis()
        assert memory.alias_size_in_bytes >= state.history.nbytes
        assert memory.temp_size_in_bytes < state.history.nbytes / 2
        flops.append(compiled.cost_analysis()["flops"])
    assert flops[1] < 2.1 * flops[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, "LongConvolution.hidden is 0; it must be at least 1"),
        ({"conv_width": 0}, "LongConvolution.conv_width is 0; it must be at least 1"),
        (
            {"method": "parallel"},
            "LongConvolution.method is 'parallel'; it must be one of auto, blockwise, fft",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        LongConvolution(32, rngs=nnx.Rngs(0), **settings)
