"""Which subjects of the contract are left to `make test-all`: those whose program others vouch for."""

import pytest

from seqmodels.mixers import MIXERS

# Of these every form is always tested; of the rest, whose ops are theirs, the fastest form.
CORE = {"SoftmaxAttention", "LinearAttention", "Mamba", "GatedDeltaNet", "RWKV7"}
PLAIN_FORMS = {"sequential", "associative", "parallel"}
QUICK_VARIANTS = {"", "windowed", "alibi", "relu", "unnormalised", "learned"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        subject = getattr(item, "callspec", None) and item.callspec.params.get("subject")
        if not hasattr(subject, "variant"):
            continue
        plain = subject.method in PLAIN_FORMS and not PLAIN_FORMS.issuperset(MIXERS[subject.mixer].methods)
        if subject.variant not in QUICK_VARIANTS or (plain and subject.mixer not in CORE):
            item.add_marker(pytest.mark.slow)
