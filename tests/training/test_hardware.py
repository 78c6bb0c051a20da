"""What is known of the machine."""

import pytest

from seqmodels.training.hardware import data_sheet, product_ceiling


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


def test_the_ceiling_of_an_unknown_device_is_measured():
    flops, source = product_ceiling("float32", size=256, repetitions=3)
    assert flops > 1e8 and source == "measured on products of 256"
