"""What is known of the machine."""

from types import SimpleNamespace

import pytest

from seqmodels.errors import InputError
from seqmodels.training.hardware import check_memory, data_sheet, memory_errors, product_ceiling


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "bfloat16", (312e12, "A100")),
        ("NVIDIA H100 80GB HBM3", "float32", (67e12, "H100")),
        ("NVIDIA L4", "bfloat16", (121e12, "L4")),
        ("NVIDIA L40S", "bfloat16", None),
        ("TPU v5 lite", "bfloat16", (197e12, "TPU v5 lite")),
        ("TPU v5", "bfloat16", (459e12, "TPU v5")),
        ("cpu", "float32", None),
    ],
)
def test_the_data_sheet_of_a_device_is_found_by_its_whole_name(kind, dtype, expected):
    assert data_sheet(kind, dtype) == expected


def test_a_step_that_the_machine_cannot_hold_is_refused_before_it_runs():
    """The system would kill the process in the middle of it, without a word."""

    def compiled(temporaries):
        sizes = dict.fromkeys(("argument", "output", "alias"), 2**30)
        needs = {f"{name}_size_in_bytes": size for name, size in {**sizes, "temp": temporaries}.items()}
        return SimpleNamespace(memory_analysis=lambda: SimpleNamespace(**needs))

    check_memory(compiled(0))
    check_memory(SimpleNamespace(memory_analysis=lambda: None))
    with (
        pytest.raises(InputError, match=r"131,080 GiB of .* GiB\): lower train.batch_size = 8"),
        memory_errors(batch_size=8, row_length=32, accumulation=1),
    ):
        check_memory(compiled(2**47 // 8))


def test_the_ceiling_of_an_unknown_device_is_measured():
    flops, source = product_ceiling("float32", size=256, repetitions=3)
    assert flops > 1e8 and source == "measured on products of 256"
