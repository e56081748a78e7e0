"""Exact and approximate samplers, and estimators based on samples."""

from logsuper.sampling._budget import Progress

# for other rooms
from logsuper.sampling._cftp import NotCoalesced
from logsuper.sampling._cftp import sample_fields as sample_fields
from logsuper.sampling._marginals import coupled_marginals, marginals
from logsuper.sampling._methods import ESTIMATORS, SAMPLERS, log_partition, sample

__all__ = [
    "ESTIMATORS",
    "SAMPLERS",
    "NotCoalesced",
    "Progress",
    "coupled_marginals",
    "log_partition",
    "marginals",
    "sample",
]
