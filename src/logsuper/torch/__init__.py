"""Cuts and total variation as differentiable functions of PyTorch tensors.

This room needs PyTorch, which the package itself does not: ``pip install 'logsuper[torch]'``.
"""

from logsuper.torch._functions import perturbed_loss, perturbed_means, total_variation

__all__ = ["perturbed_loss", "perturbed_means", "total_variation"]
