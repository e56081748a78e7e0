// Bounds on log-odds from windows of a grid, their gradient, and log Z of a whole grid.
#pragma once

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

#include "strips_windows.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// Column c of an (h, w) array as a vector.
inline const double* column_of(const double* a, int64_t c, const Grid& g, std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r) out[r] = a[r * g.w + c];
    return out.data();
}

// log((e^q + e^-a) / (e^(q - a) + 1)), a >= 0.
inline double act_of(double q, double a) {
    if (std::abs(q) > kSafeSpread) return Logs::plus(q, -a) - Logs::plus(q - a, 0.0);
    const double odds = std::exp(q), differ = std::exp(-a);
    return std::log((odds + differ) / (odds * differ + 1.0));
}

// The field on column c of column c - 1, clamped at the reference.
inline const double* clamped_field(const uint8_t* reference, int64_t c, const Grid& g,
                                   std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r)
        out[r] = (reference[r * g.w + c - 1] ? 1 : -1) * g.across[r * (g.w - 1) + c - 1];
    return out.data();
}

// Bounds from one side (bound = 0: lower, 1: upper) on the field with which the columns from c on act on the
// pixels of column c - 1: field[r, c] for the columns c >= 1 that are needed, and those that these depend on;
// the others are not written. By supermodularity the field on one pixel is extreme if the others of column c
// - 1 are all 0 or all 1; it depends on the rest only through the log-odds q of its neighbour without it, as
// log((e^q + e^-a) / (e^(q - a) + 1)). The columns beyond the window act with the field found before, from
// the right edge on.
inline void bound_fields(const Model& model, int64_t window, int bound, std::vector<char> needed,
                         WindowScratch& scratch, double* field) {
    const Grid& g = model.grid;
    for (int64_t c = 1; c + window < g.w; ++c) needed[c + window] |= needed[c];
    const double sign = bound ? 1.0 : -1.0;
    std::vector<double> odds(g.h);
    for (int64_t c = g.w - 1; c > 0; --c) {
        if (!needed[c]) continue;
        Span span{c, std::min(window, g.w - c)};
        scratch.left.resize(g.h);
        for (int64_t r = 0; r < g.h; ++r) scratch.left[r] = sign * g.across[r * (g.w - 1) + c - 1];
        span.left = scratch.left.data();
        if (c + window < g.w) span.right = column_of(field, c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            win.columns(1, odds.data(), 1);
            for (int64_t r = 0; r < g.h; ++r) {
                const double a = g.across[r * (g.w - 1) + c - 1];
                const double q = odds[r] - scratch.left[r] + sign * error;
                field[r * g.w + c] = std::clamp(act_of(q, a) + sign * error, -a, a);
            }
        });
    }
}

// Arrays with a lower ([0]) and an upper ([1]) bound.
using Bounds = double* const[2];
using ConstBounds = const double* const[2];

// A chain of conditionals: each pixel given the reference at all pixels before it, column by column.
struct ChainTask {
    const Model& model;
    int64_t window;
    const uint8_t* reference;  // (h, w)
    int threads;
};

// For each pixel, bounds on its log-odds in the chain. fields: those of bound_fields.
inline void bound_chain(const ChainTask& task, ConstBounds& fields, Bounds& odds) {
    const Model& model = task.model;
    const int64_t window = task.window;
    const uint8_t* const reference = task.reference;
    const Grid& g = model.grid;
    run_team<WindowScratch>(2 * g.w, task.threads, [&](WindowScratch& scratch, int64_t i) {
        const int64_t c = i / 2, bound = i % 2;
        const bool exact = c + window >= g.w;
        if (exact && bound) return;  // the other task does both
        Span span{c, std::min(window, g.w - c)};
        if (c > 0) span.left = clamped_field(reference, c, g, scratch.left);
        if (!exact) span.right = column_of(fields[bound], c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            double* out = odds[bound] + c;
            win.chain(reference + c, out, g.w);
            for (int64_t r = 0; r < g.h; ++r) {
                if (exact) odds[1][c + r * g.w] = out[r * g.w] + error;
                out[r * g.w] += bound ? error : -error;
            }
        });
    });
}

// Gradients with the shapes of t, across and down.
struct GridGradient {
    double *t, *across, *down;
};

// The gradient of -sum_d log p(reference_d | reference before d), where each probability is an upper or a
// lower bound from its window with column c + window all 0 or all 1: by monotonicity the upper one has the
// pixel's own value there (sign = 1), the lower one the other value (sign = -1).
//
// Over a run of equal values in a column the probabilities multiply to a ratio of two sums over the window,
// with the column clamped down to the end and to the beginning of the run; the derivatives of their
// logarithms are moments.
inline void chain_gradient(const ChainTask& task, double sign, const GridGradient& gradient) {
    const Model& model = task.model;
    const int64_t window = task.window;
    const uint8_t* const reference = task.reference;
    const Grid& g = model.grid;
    struct Part {
        std::vector<Moments> moments;
        std::vector<double> beyond;  // gradient in the weights of the edges across the right border
    };
    std::vector<Part> parts(g.w);
    run_team<WindowScratch>(g.w, task.threads, [&](WindowScratch& scratch, int64_t c) {
        Part& part = parts[c];
        Span span{c, std::min(window, g.w - c)};
        const int64_t last = c + span.columns - 1;
        part.moments.assign(g.h * span.columns, Moments{0, 0, 0});
        part.beyond.assign(g.h, 0.0);
        if (c > 0) span.left = clamped_field(reference, c, g, scratch.left);
        const auto add = [&](double factor, double side, int64_t clamped) {
            if (last + 1 < g.w) {
                scratch.right.resize(g.h);
                for (int64_t r = 0; r < g.h; ++r) scratch.right[r] = side * g.across[r * (g.w - 1) + last];
                span.right = scratch.right.data();
                for (int64_t r = 0; r < g.h; ++r)
                    part.beyond[r] -= side * part.moments[(r + 1) * span.columns - 1].one;
            }
            with_window(model, span, scratch, [&](auto& win, double) {
                win.clamp(reference + c, g.w, clamped);
                win.add_moments(factor, part.moments.data());
            });
            if (last + 1 < g.w)
                for (int64_t r = 0; r < g.h; ++r)
                    part.beyond[r] += side * part.moments[(r + 1) * span.columns - 1].one;
        };
        for (int64_t begin = 0, end; begin < g.h; begin = end) {
            end = begin + 1;
            const uint8_t value = reference[begin * g.w + c];
            // without a border the ratios cancel over the whole column
            while (end < g.h && (last + 1 == g.w || reference[end * g.w + c] == value)) ++end;
            const double side = value ? sign : -sign;
            add(1.0, side, begin);
            add(-1.0, side, end);
        }
    });
    for (int64_t c = 0; c < g.w; ++c) {  // in a fixed order, whichever thread did a part
        const int64_t columns = std::min(window, g.w - c), last = c + columns - 1;
        for (int64_t r = 0; r < g.h; ++r) {
            const Moments* row = parts[c].moments.data() + r * columns;
            for (int64_t k = 0; k < columns; ++k) {
                gradient.t[r * g.w + c + k] += row[k].one;
                if (k > 0) gradient.across[r * (g.w - 1) + c + k - 1] -= row[k].differ;
                if (r > 0) gradient.down[(r - 1) * g.w + c + k] -= row[k].flip;
            }
            if (c > 0)
                gradient.across[r * (g.w - 1) + c - 1] += (reference[r * g.w + c - 1] ? 1 : -1) * row[0].one;
            if (last + 1 < g.w) gradient.across[r * (g.w - 1) + last] += parts[c].beyond[r];
        }
    }
}

// How marginals are bounded: windows that begin `step` columns apart, and one at the right edge; what is
// beyond them acts by fields from windows of `reach` columns.
struct MarginalTask {
    int64_t window, reach, step;
    int threads;
};

// The grid with its columns in the opposite order.
struct Mirrored {
    std::vector<double> t, across, down;
    Grid grid;

    explicit Mirrored(const Grid& g) {
        const auto reverse = [](const double* from, int64_t rows, int64_t columns) {
            std::vector<double> to(from, from + rows * columns);
            for (int64_t r = 0; r < rows; ++r)
                std::reverse(to.begin() + r * columns, to.begin() + (r + 1) * columns);
            return to;
        };
        t = reverse(g.t, g.h, g.w);
        across = reverse(g.across, g.h, g.w - 1);
        down = reverse(g.down, g.h - 1, g.w);
        grid = Grid{g.h, g.w, t.data(), across.data(), down.data()};
    }
};

// Bounds on the log-odds of all pixels, (h, w): the tightest of all windows.
inline void bound_marginals(const Model& model, const MarginalTask& task, Bounds& odds) {
    const Grid& g = model.grid;
    const int64_t window = std::min(task.window, g.w), last = g.w - window;
    std::vector<int64_t> starts;
    for (int64_t c = 0; c < last; c += task.step) starts.push_back(c);
    starts.push_back(last);
    // fields from the right in the grid, and in its mirror image; each by its lower and its upper bound
    std::vector<double> fields[2][2];
    if (last > 0) {
        const Mirrored mirrored(g);
        const Model mirror(mirrored.grid);
        std::vector<char> needed[2] = {std::vector<char>(g.w), std::vector<char>(g.w)};
        for (int64_t c : starts) {
            if (c < last) needed[0][c + window] = 1;
            if (c > 0) needed[1][g.w - c] = 1;
        }
        for (auto& side : fields)
            for (auto& field : side) field.resize(g.h * g.w);
        run_team<WindowScratch>(4, task.threads, [&](WindowScratch& scratch, int64_t unit) {
            const int64_t side = unit / 2, bound = unit % 2;
            bound_fields(side ? mirror : model, task.reach, static_cast<int>(bound), needed[side], scratch,
                         fields[side][bound].data());
        });
    }
    for (int bound = 0; bound < 2; ++bound)
        std::fill_n(odds[bound], g.h * g.w, (bound ? 1 : -1) * std::numeric_limits<double>::infinity());
    std::mutex mutexes[2];  // the largest and the smallest of numbers do not depend on their order
    const int64_t units = 2 * static_cast<int64_t>(starts.size());
    run_team<WindowScratch>(units, task.threads, [&](WindowScratch& scratch, int64_t unit) {
        const int64_t c = starts[unit / 2], bound = unit % 2;
        Span span{c, window};
        if (c > 0) span.left = column_of(fields[1][bound].data(), g.w - c, g, scratch.left);
        if (c < last) span.right = column_of(fields[0][bound].data(), c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            scratch.odds.resize(g.h * window);
            win.columns(static_cast<int>(window), scratch.odds.data(), window);
            const std::lock_guard<std::mutex> lock(mutexes[bound]);
            for (int64_t r = 0; r < g.h; ++r)
                for (int64_t k = 0; k < window; ++k) {
                    const double found = scratch.odds[r * window + k];
                    double& best = odds[bound][r * g.w + c + k];
                    best = bound ? std::min(best, found + error) : std::max(best, found - error);
                }
        });
    });
}

// Runs job(image, threads) for all images: one thread for each, or all for one after the other if there are
// fewer images than threads.
template <class Job>
void for_each_image(int64_t images, int threads, const Job& job) {
    struct None {};
    if (images >= team_size(threads))
        run_team<None>(images, threads, [&](None&, int64_t m) { job(m, 1); });
    else
        for (int64_t m = 0; m < images; ++m) job(m, threads);
}

// log Z of the whole grid, and the log-odds (h, w) of its pixels unless they are null.
inline double transfer(const Model& model, double* odds) {
    double log_z = 0;
    WindowScratch scratch;
    const int64_t w = model.grid.w;
    with_window(model, Span{0, w}, scratch,
                [&](auto& win, double) { log_z = win.columns(odds ? static_cast<int>(w) : 0, odds, w); });
    return log_z;
}

}  // namespace LOGSUPER_ISA
