"""Exact and approximate samplers, and estimators based on samples."""

from logsuper.sampling._budget import Progress
from logsuper.sampling._cftp import sample_fields as sample_fields  # for other rooms
from logsuper.sampling._errors import NotCoalesced
from logsuper.sampling._marginals import coupled_marginals
from logsuper.sampling._marginals import marginals
from logsuper.sampling._methods import ESTIMATORS
from logsuper.sampling._methods import SAMPLERS
from logsuper.sampling._methods import log_partition
from logsuper.sampling._methods import sample

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
