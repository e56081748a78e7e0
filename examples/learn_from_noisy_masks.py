"""Learn to clean masks from noisy ones alone: nobody says what is clean, or how noisy it is."""

import numpy as np

import logsuper as ls


def main() -> None:
    clean = ls.make_silhouettes(60, shape=(40, 40), seed=0)
    noisy = ls.datasets.corrupt(clean, ls.Missing(0.05, ls.Flips(0.1)), seed=0)  # NaN: lost pixels

    denoiser = ls.MaskDenoiser(random_state=0).fit(noisy[:40])
    print(f"estimated noise {denoiser.noise_:.3f} (true: 0.1)")
    print(
        f"weights of the cuts {denoiser.alpha_.round(2)}, of the observation {denoiser.scale_:.2f}"
    )

    test, truth = noisy[40:], clean[40:]
    seen = ~np.isnan(test)
    print(f"wrong before: {np.mean(test[seen] != truth[seen]):.1%} of the pixels that were seen")
    print(f"wrong after:  {1 - denoiser.score(test, truth):.1%} of all pixels")

    p = denoiser.predict_proba(test)
    sure = np.abs(p - 0.5) > 0.45
    print(
        f"{sure.mean():.1%} of the pixels are at least 95 % sure; of these "
        f"{np.mean((p > 0.5)[sure] != truth[sure]):.2%} are wrong"
    )


if __name__ == "__main__":
    main()
