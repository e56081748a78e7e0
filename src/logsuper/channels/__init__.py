r"""What is observed of x: channels that corrupt each element independently.

A channel says :math:`p(z_d\mid x_d)`. Seen from x it only adds a modular term, the log-odds
:math:`\log p(z_d\mid1)-\log p(z_d\mid0)`, so that a posterior is again log-supermodular (eq. 6 of
the paper). An entry that is NaN, or masked, was not observed: its likelihood is 1.
"""

from logsuper.channels._base import CHANNELS, Channel
from logsuper.channels._flips import AsymmetricFlips, Flips
from logsuper.channels._gaussian import Gaussian
from logsuper.channels._missing import Missing

__all__ = ["CHANNELS", "AsymmetricFlips", "Channel", "Flips", "Gaussian", "Missing"]
