"""What is known about a mask after seeing a noisy, incomplete copy of it: everything, with proofs.

The posterior of a log-supermodular model under independent noise is log-supermodular again: its
log-likelihood and its marginals are bracketed by certificates, and its samples are exact.
"""

import numpy as np

import logsuper as ls


def main() -> None:
    image = ls.make_silhouettes(1, shape=(50, 50), seed=0)[0]
    fh, fv = ls.grid_cuts(image.shape)
    prior = ls.LogSupermodular(1.05 * fh + 2.2 * fv)
    channel = ls.Missing(0.2, ls.Flips(0.1))  # a fifth of the pixels lost, a tenth flipped
    observed = channel.sample(image, seed=0)
    posterior = prior.observe(channel, observed)

    bracket = posterior.bracket()
    print(f"log Z of the posterior: {bracket}")
    mu = posterior.marginals()
    print(f"marginals known to {np.max(mu.upper - mu.lower):.1e}, by {mu.method}")
    X = posterior.sample(10, seed=0)
    print(f"{len(X)} exact samples, of {X.sum(axis=(1, 2)).mean():.0f} pixels on average")
    print(f"expected number of pixels: {np.sum(mu):.1f}")
    for name, decoded in {"mode": posterior.mode(), "marginals > 1/2": mu > 0.5}.items():
        wrong = np.mean(decoded != image)
        print(f"{name}: {100 * wrong:.2f} % of the pixels are wrong")


if __name__ == "__main__":
    main()
