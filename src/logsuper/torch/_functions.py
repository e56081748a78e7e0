r"""Autograd functions over `logsuper.learning`: a batch goes to the solver in one call.

Tensors may live on any device and have any floating type; the solver works on the processor in
double precision, and results return to where theta came from. Gradients are of first order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from logsuper import learning
from logsuper._base import FloatArray, Seed
from logsuper.solvers import Prepared

try:
    import torch
    from torch.autograd.function import once_differentiable
except ImportError as error:  # the package itself does without
    raise ImportError(
        "logsuper.torch needs PyTorch, which is not installed: pip install 'logsuper[torch]'"
    ) from error

__all__ = ["perturbed_loss", "perturbed_means", "total_variation"]


def perturbed_loss(
    theta: torch.Tensor,
    edge_weights: torch.Tensor,
    y: torch.Tensor,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_samples: int = 16,
    sigma: float = 1.0,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> torch.Tensor:
    r"""Return the Fenchel-Young loss of perturbed cuts, differentiable in theta and edge weights.

    See `logsuper.learning.perturbed_loss` for the formula. The gradient is exact for the noise that
    was drawn: that of a convex function, if all pixels have labels.

    Parameters
    ----------
    theta : Tensor of shape (n,) or (M, n); (H, W) or (M, H, W) on a grid
        Fields, such as the output of a network.
    edge_weights : Tensor of shape (E,) or (M, E)
        Weights >= 0, such as ``softplus`` of the output of a network, in the order of
        ``logsuper.prepare(logsuper.grid_cuts(shape, neighbors)).edges``.
    y : Tensor of the shape of theta
        Labels 0 or 1; NaN where there is none.
    structure, shape, neighbors, n_samples, sigma, seed, n_jobs
        As in `logsuper.learning.perturbed_loss`. Give another seed at each step.

    Returns
    -------
    Tensor of shape () or (M,)
        One loss per problem.

    Examples
    --------
    >>> import torch
    >>> from logsuper.torch import perturbed_loss
    >>> theta = torch.zeros(2, 3, 3, requires_grad=True)
    >>> loss = perturbed_loss(theta, torch.full((12,), 0.5), torch.ones(2, 3, 3), shape=(3, 3))
    >>> loss.mean().backward()
    >>> bool((theta.grad < 0).all())  # more of it makes ones more probable
    True
    """
    find = functools.partial(
        learning.perturbed_loss,
        structure=structure,
        shape=shape,
        neighbors=neighbors,
        n_samples=n_samples,
        sigma=sigma,
        seed=seed,
        n_jobs=n_jobs,
    )
    found: torch.Tensor = _Loss.apply(theta, edge_weights, y, find)
    return found


def perturbed_means(
    theta: torch.Tensor,
    edge_weights: torch.Tensor,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_samples: int = 16,
    sigma: float = 1.0,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> torch.Tensor:
    r"""Return the mean maximiser of perturbed cuts, a differentiable cut.

    The gradient is an unbiased estimate by Stein's identity (a score function), from the samples of
    the forward pass: see `logsuper.learning.PerturbedMeans.pull_back`. It is noisier than that of
    `perturbed_loss`; take more samples.

    Parameters
    ----------
    theta, edge_weights, structure, shape, neighbors, sigma, seed, n_jobs
        As in `perturbed_loss`.
    n_samples : int, default 16
        At least 2.

    Returns
    -------
    Tensor of the shape of theta
        In [0, 1].

    Examples
    --------
    >>> import torch
    >>> from logsuper.torch import perturbed_means
    >>> theta = torch.zeros(1, requires_grad=True)
    >>> p = perturbed_means(theta, torch.ones(0), shape=(1,), n_samples=10_000)
    >>> p.sum().backward()
    >>> abs(theta.grad.item() - 0.25) < 0.05  # that of the logistic function is 1/4
    True
    """
    find = functools.partial(
        learning.perturbed_means,
        structure=structure,
        shape=shape,
        neighbors=neighbors,
        n_samples=n_samples,
        sigma=sigma,
        seed=seed,
        n_jobs=n_jobs,
    )
    found: torch.Tensor = _Layer.apply(theta, edge_weights, find, "mean")
    return found


def total_variation(
    theta: torch.Tensor,
    edge_weights: torch.Tensor,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_jobs: int | None = None,
) -> torch.Tensor:
    r"""Denoise by total variation, :math:`\operatorname{argmin}_x\frac12\|x-\theta\|^2+f_w(x)`.

    Exact, with exact gradients: see `logsuper.learning.total_variation`.

    Parameters
    ----------
    theta, edge_weights, structure, shape, neighbors, n_jobs
        As in `perturbed_loss`.

    Returns
    -------
    Tensor of the shape of theta

    Examples
    --------
    >>> import torch
    >>> from logsuper.torch import total_variation
    >>> theta = torch.tensor([2.0, 0.0, 0.5], requires_grad=True)
    >>> x = total_variation(theta, torch.ones(2), shape=(3,))
    >>> x.detach()
    tensor([1.0000, 0.7500, 0.7500])
    >>> x[1].backward()
    >>> theta.grad
    tensor([0.0000, 0.5000, 0.5000])
    """
    find = functools.partial(
        learning.total_variation,
        structure=structure,
        shape=shape,
        neighbors=neighbors,
        n_jobs=n_jobs,
    )
    found: torch.Tensor = _Layer.apply(theta, edge_weights, find, "values")
    return found


# ------------------------------------------------------------------------------------------ inside


class _Loss(torch.autograd.Function):
    """A loss whose gradients are found with it."""

    @staticmethod
    def forward(ctx: Any, theta: Any, edge_weights: Any, y: Any, find: Any) -> Any:
        found = find(_array(theta, "theta"), _array(edge_weights, "edge_weights"), _array(y, "y"))
        ctx.save_for_backward(
            _like(found.d_theta, theta), _like(found.d_edge_weights, edge_weights)
        )
        ctx.shared = edge_weights.shape
        return _like(found.loss, theta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        d_theta, d_weights = ctx.saved_tensors
        per_problem = gradient.reshape(gradient.shape + (1,) * (d_theta.ndim - gradient.ndim))
        weights = gradient.to(d_weights).unsqueeze(-1) * d_weights
        return per_problem * d_theta, _reduce(weights, ctx.shared), None, None


class _Layer(torch.autograd.Function):
    """A result of `logsuper.learning` that can pull gradients back."""

    @staticmethod
    def forward(ctx: Any, theta: Any, edge_weights: Any, find: Any, name: str) -> Any:
        ctx.found = find(_array(theta, "theta"), _array(edge_weights, "edge_weights"))
        ctx.kinds = theta.detach()[:0], edge_weights.detach()[:0], edge_weights.shape
        return _like(getattr(ctx.found, name), theta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        theta, weights, shared = ctx.kinds
        d_theta, d_weights = ctx.found.pull_back(_array(gradient, "gradient"))
        return _like(d_theta, theta), _reduce(_like(d_weights, weights), shared), None, None


def _reduce(rows: Any, shape: Any) -> Any:
    """Return the gradient of weights that all problems share as the sum over problems."""
    return rows if rows.shape == shape else rows.sum(dim=0)


def _array(tensor: Any, name: str) -> FloatArray:
    """Return a tensor as a double-precision array."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())


def _like(array: Any, tensor: Any) -> Any:
    """Return an array as a tensor of the type and on the device of another."""
    return torch.as_tensor(np.asarray(array)).to(tensor.device, tensor.dtype)
