"""A pytest plugin: what importing the example in the package and naming its reference would do."""

from tests.mixers.example import exponential_average, reference  # noqa: F401  (importing registers it)
from tests.mixers.references import REFERENCES

REFERENCES["ExponentialAverage"] = reference.exponential_average
