"""Cases that share a test: all are run, and those that fail are named."""

import inspect

import pytest
from cases import each


def test_every_case_is_run_and_failures_are_named():
    seen = []

    @each("number", range(4))
    def odd(number, fixture):
        seen.append((number, fixture))
        if number == 3:
            pytest.skip("not this one")
        assert number % 2

    assert list(inspect.signature(odd).parameters) == ["fixture"]
    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases failed") as found:
        odd(fixture="given")
    assert seen == [(number, "given") for number in range(4)]
    notes = [note for error in found.value.exceptions for note in error.__notes__]
    assert notes == ["number = 0", "number = 2"]


def test_a_case_that_should_raise_and_does_not_is_a_failure():
    @each("number", [1, 2])
    def raises(number):
        with pytest.raises(ValueError):
            int(number)

    with pytest.raises(BaseExceptionGroup, match="2 of 2"):
        raises()


def test_all_skipped_is_skipped():
    @each("number", [1, 2])
    def skips(number):
        pytest.skip(f"no {number}")

    with pytest.raises(pytest.skip.Exception, match="no 1"):
        skips()
