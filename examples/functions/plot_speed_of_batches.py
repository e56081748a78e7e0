"""
Many problems in one call
=========================

Learning solves thousands of small problems with one structure. :func:`logsuper.prepare` looks at
the structure once; each call then solves a whole batch in compiled code. The example measures what
a problem costs on this machine, alone and in company.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls


def best_time(call, repeats=5):
    """Return the shortest of several times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


shape = (50, 50)
s = ls.prepare(ls.grid_cuts(shape))
clean = ls.make_silhouettes(64, shape, seed=0)
theta = ls.Flips(0.1).log_odds(ls.Flips(0.1).sample(clean, seed=0)).reshape(64, -1)

# %%
# The batch
# ---------
# Time per image of 50 x 50 pixels against the size of the batch, for three strengths of coupling:
# the cost of a call is shared, and strong couplings take longer.

sizes = [1, 2, 4, 8, 16, 32, 64]
figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
for weight, colour in ((0.5, "#0072B2"), (1.0, "#009E73"), (2.0, "#D55E00")):
    alpha = [weight, weight]
    seconds = [best_time(lambda m=m, a=alpha: s.maximize(theta[:m], a)) / m for m in sizes]
    print(
        f"weight {weight}: {1e6 * seconds[0]:.0f} us alone, {1e6 * seconds[-1]:.0f} us in a batch"
    )
    axis.plot(sizes, 1e6 * np.array(seconds), "o-", color=colour, label=f"weight {weight}")
axis.set_xscale("log", base=2)
axis.set_xticks(sizes, sizes)
axis.set_ylim(bottom=0)
axis.set_xlabel("problems in a call")
axis.set_ylabel("microseconds per problem")
axis.set_title("Exact cuts of 50 x 50 pixels, one thread")
axis.legend(frameon=False)
axis.grid(alpha=0.3)

# %%
# The size
# --------
# Time per pixel against the size of the image. In small images the cost of the call itself
# dominates; in large ones a few nanoseconds per pixel are left, as cuts of noisy images are local.

sides = [16, 32, 64, 128, 256, 512]
figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
nanoseconds = []
for side in sides:
    mask = ls.make_silhouettes(1, (side, side), seed=1)[0]
    odds = ls.Flips(0.1).log_odds(ls.Flips(0.1).sample(mask, seed=1)).reshape(1, -1)
    grid = ls.prepare(ls.grid_cuts((side, side)))
    seconds = best_time(lambda grid=grid, odds=odds: grid.maximize(odds, [1.0, 1.0]))
    nanoseconds.append(1e9 * seconds / side**2)
    print(f"{side:4} x {side:4}: {1000 * seconds:8.3f} ms, {nanoseconds[-1]:6.1f} ns per pixel")
axis.plot(sides, nanoseconds, "o-", color="#0072B2")
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xticks(sides, sides)
axis.set_xlabel("side of the image (pixels)")
axis.set_ylabel("nanoseconds per pixel")
axis.set_title("One exact cut, weight 1")
axis.grid(alpha=0.3)
plt.show()
