"""The error that an exact sampler raises instead of returning a biased sample."""

from __future__ import annotations


class NotCoalesced(RuntimeError):
    """Coupling from the past did not finish within its limit; the message says what to do.

    Attributes
    ----------
    sweeps : int
        Number of sweeps that were tried.
    differing : int
        Number of elements on which the two chains of the worst sample still differ.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import NotCoalesced, sample
    >>> try:
    ...     sample(ls.Cut(2, [(0, 1)], 40.0), 1, "cftp", seed=0, max_iter=64)
    ... except NotCoalesced as error:
    ...     print(error.sweeps, error.differing)
    64 2
    """

    def __init__(
        self, sweeps: int, differing: int, n: int, budget: float | None = None, *, pairwise: bool
    ) -> None:
        limit = "max_iter" if budget is None else "budget"
        cap = f"{sweeps}" if budget is None else f"{budget:.2g} operations, after {sweeps} sweeps"
        instead = (
            "the approximate samplers 'swendsen_wang' or 'gibbs', or ask for marginals: by "
            "'strips' on a grid, or coupled_marginals"
            if pairwise
            else "the approximate sampler 'gibbs', or ask for marginals: coupled_marginals"
        )
        super().__init__(
            f"coupling from the past did not coalesce within {limit} = {cap}: {differing} of "
            f"{n} elements still differ. Raise {limit} and keep the seed (trying other seeds "
            f"until one succeeds favours easy samples), use {instead}, which needs no coalescence"
        )
        self.sweeps = sweeps
        self.differing = differing
