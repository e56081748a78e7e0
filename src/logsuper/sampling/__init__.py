"""Exact and approximate samplers, and estimators based on samples."""

from logsuper.sampling._budget import Progress as Progress
from logsuper.sampling._cftp import NotCoalesced as NotCoalesced
from logsuper.sampling._cftp import sample_fields as sample_fields
from logsuper.sampling._marginals import coupled_marginals as coupled_marginals
from logsuper.sampling._marginals import marginals as marginals
from logsuper.sampling._methods import ESTIMATORS as ESTIMATORS
from logsuper.sampling._methods import SAMPLERS as SAMPLERS
from logsuper.sampling._methods import log_partition as log_partition
from logsuper.sampling._methods import sample as sample
