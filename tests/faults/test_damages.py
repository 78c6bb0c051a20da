"""The campaign of damages, in short."""

from scripts.faults import damages


def test_no_damaged_checkpoint_is_loaded_and_no_run_is_lost(tmp_path):
    outcomes = damages.strike(8, tmp_path)
    assert outcomes[damages.SILENT] == outcomes[damages.LOST] == 0
    assert outcomes[damages.FELL_BACK] > 0
