"""Properties tried on generated examples: some in every run of the tests, many in a campaign.

    @fuzz(content=st.binary())
    @example(content=b"\\xff")
    def test_a_file_is_read_or_refused(content, tmp_path): ...

is a test of 50 examples, the same in every run, and one marked slow of 1,000 random ones. What an example
finds stays as an `@example`: both tests begin with those. Fixtures are made once, not for each example.
"""

import inspect
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy


def fuzz(*, quick: int = 50, campaign: int = 1000, **strategies: SearchStrategy) -> Callable:
    """Decorates a test whose arguments are examples of strategies, and fixtures.

    Args:
        quick: the number of examples in every run.
        campaign: the number in the test marked slow. Where tests share an area, theirs sum up to 1,000.
    """
    counts = [
        pytest.param(quick, id="quick"),
        pytest.param(campaign, id="campaign", marks=pytest.mark.slow),
    ]

    def decorate(check: Callable) -> Callable:
        def test(examples: int, **fixtures: object) -> None:
            limits = settings(
                max_examples=examples,
                derandomize=examples == quick,
                deadline=None,  # the machine may be busy
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            )
            limits(given(**strategies)(check))(**fixtures)

        arguments = inspect.signature(check).parameters
        fixtures = [argument for name, argument in arguments.items() if name not in strategies]
        count = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([*fixtures, count])
        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return pytest.mark.parametrize("examples", counts)(test)

    return decorate
