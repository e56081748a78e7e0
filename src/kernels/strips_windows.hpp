// Windows of a grid: some columns, all rows, and a field in place of what lies left and right of them.
//
// In a log-supermodular model the probability of a 1 can only rise when a field rises (Holley's
// inequality). Whatever the columns outside a window do, they act on its border pixels with some
// field between a lower and an upper one; putting in the two bounds brackets every log-odds inside.
#pragma once

#include <algorithm>
#include <type_traits>

#include "strips.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// f(x) = sum of weights over neighbours that differ - t'x on an image of h rows and w columns.
struct Grid {
    int64_t h = 0, w = 0;
    const double *t = nullptr, *across = nullptr, *down = nullptr;  // (h, w), (h, w - 1), (h - 1, w)
};

template <class D>
struct GridWeights {
    std::vector<double> unary, across, down;

    explicit GridWeights(const Grid& grid)
        : unary(grid.h * grid.w), across(grid.h * (grid.w - 1)), down((grid.h - 1) * grid.w) {
        for (size_t i = 0; i < unary.size(); ++i) unary[i] = D::weight(grid.t[i]);
        for (size_t i = 0; i < across.size(); ++i) across[i] = D::weight(-grid.across[i]);
        for (size_t i = 0; i < down.size(); ++i) down[i] = D::weight(-grid.down[i]);
    }
};

struct Model {
    Grid grid;
    GridWeights<Plain> plain;
    GridWeights<Logs> logs;

    explicit Model(const Grid& g) : grid(g), plain(g), logs(g) {}

    template <class D>
    const GridWeights<D>& weights() const {
        if constexpr (std::is_same_v<D, Plain>)
            return plain;
        else
            return logs;
    }
};

// Columns start .. start + columns - 1, with fields on the first and the last of them (null: none).
struct Span {
    int64_t start = 0, columns = 0;
    const double *left = nullptr, *right = nullptr;  // (h,)

    // The most by which the logarithms of weights within a row can differ.
    double spread(const Grid& g) const {
        double most = 0;
        for (int64_t r = 0; r < g.h; ++r) {
            double sum = (left ? std::abs(left[r]) : 0) + (right ? std::abs(right[r]) : 0);
            for (int64_t c = start; c < start + columns; ++c) {
                sum += std::abs(g.t[r * g.w + c]);
                if (c > start) sum += g.across[r * (g.w - 1) + c - 1];
                if (r > 0) sum += g.down[(r - 1) * g.w + c];
            }
            most = std::max(most, sum);
        }
        return most;
    }
};

// What rounding can do to a log-odds. A site multiplies each plain weight by a few numbers that are off
// by a few units in the last place, 12 halves of one in all; to logarithms it adds eight times numbers
// no larger than twice the spread. The final sums of up to 2^n terms and two logarithms come on top.
inline double rounding(const Grid& g, int n, double spread) {
    constexpr double kHalfUlp = 1.1102230246251565e-16;
    const double a_site = spread <= kSafeSpread ? 12 : 12 + 16 * spread;
    return kHalfUlp * (static_cast<double>(g.h) * n * a_site + std::ldexp(1.0, n) + 4 * spread + 8);
}

// Rows between the profiles that are kept: all of them while they fit into a quarter of a gigabyte.
inline int64_t rows_apart(int64_t h, int n) {
    if (h <= (int64_t{1} << 25) >> n) return h;
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(h))));
}

struct WindowScratch {
    std::vector<Site> sites, clamped;
    std::vector<double> store, alpha, spare, left, right;
};

// The transfer over the rows of one window; `n` columns, of which those beyond the span are free and
// alone: four columns at least, for whole vectors even where one of them is clamped.
template <class D>
class Window {
    WindowScratch& scratch_;
    int64_t h_, size_;
    int n_, used_;

    const Site* row(int64_t r) const { return scratch_.sites.data() + r * n_; }
    double* stored(int64_t i) const { return scratch_.store.data() + i * size_; }

    // beta[r] -> beta[r - 1].
    void up(int64_t r, const double* in, double* out) {
        poll_at_row(r, D::kSteps * n_ * size_);
        backward_sites<D>(row(r), n_, 0, n_, shrink_of<D>(in, size_), in, out, scratch_.spare.data());
    }

    // Keep the beta of the last row of each part in stored(part).
    void mark(int64_t apart, int64_t parts) {
        scratch_.store.resize((parts + apart) * size_);
        std::fill_n(stored(parts - 1), size_, D::kOne);
        for (int64_t part = parts - 1; part > 0; --part) {
            const double* in = stored(part);
            const int64_t first = part * apart;
            for (int64_t r = std::min(first + apart, h_) - 1; r >= first; --r) {
                double* to = r == first ? stored(part - 1) : scratch_.alpha.data() + (r & 1) * size_;
                up(r, in, to);
                in = to;
            }
        }
    }

   public:
    static int padded(int64_t columns) { return static_cast<int>(std::max<int64_t>(4, columns)); }

    Window(const Model& model, const Span& span, WindowScratch& scratch)
        : scratch_(scratch),
          h_(model.grid.h),
          n_(padded(span.columns)),
          used_(static_cast<int>(span.columns)) {
        size_ = int64_t{1} << n_;
        const Grid& g = model.grid;
        const GridWeights<D>& weights = model.weights<D>();
        scratch.sites.assign(h_ * n_, Site{{D::kOne, D::kOne}, {D::kOne, D::kOne}, D::kOne});
        for (int64_t r = 0; r < h_; ++r)
            for (int64_t k = 0; k < span.columns; ++k) {
                const int64_t c = span.start + k;
                Site& site = scratch.sites[r * n_ + k];
                double one = weights.unary[r * g.w + c];
                if (k == 0 && span.left) one = D::times(one, D::weight(span.left[r]));
                if (k == span.columns - 1 && span.right) one = D::times(one, D::weight(span.right[r]));
                const double differ = k > 0 ? weights.across[r * (g.w - 1) + c - 1] : D::kOne;
                site.zero[1] = differ;
                site.one[0] = D::times(one, differ);
                site.one[1] = one;
                if (k == 0) site.one[0] = one;
                if (r > 0) site.flip = weights.down[(r - 1) * g.w + c];
            }
        scratch.alpha.resize(2 * size_);
        scratch.spare.resize(2 * size_);
    }

    // Log-odds of the first `wanted` columns, out[r * stride + k], and log Z of the window.
    //
    // beta[r], the weight of all rows below r for every profile of row r, comes from below and meets
    // alpha[r] from above. Where there are too many rows to keep, only every `apart`-th beta is kept
    // and those between are found again.
    double columns(int wanted, double* out, int64_t stride) {
        const int64_t apart = wanted ? rows_apart(h_, n_) : h_, parts = (h_ + apart - 1) / apart;
        if (wanted) mark(apart, parts);
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        double shrink = D::kOne, units = 0;
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t first = part * apart, last = std::min(first + apart, h_) - 1;
            if (wanted) {
                std::copy_n(stored(part), size_, stored(parts + last - first));
                for (int64_t i = parts + last - first; i > parts; --i)
                    up(i - parts + first, stored(i), stored(i - 1));
            }
            if (part == 0) std::fill_n(alpha, size_, D::kOne);
            for (int64_t r = first; r <= last; ++r) {
                poll_at_row(r, D::kSteps * n_ * size_);
                forward_sites<D>(row(r), n_, 0, n_, shrink, alpha, next, spare);
                std::swap(alpha, next);
                units += D::units(shrink);
                shrink = shrink_of<D>(alpha, size_);
                if (!wanted) continue;
                const double* beta = stored(parts + r - first);
                log_odds_of_columns<D>(alpha, beta, n_, wanted, out + r * stride, spare);
            }
        }
        // the first row doubles the weight once for each column, an unused column once for each row
        const double doubled = n_ + static_cast<double>(n_ - used_) * static_cast<double>(h_);
        return log_sum<D>(alpha, size_) - D::kUnit * units - Plain::kUnit * doubled;
    }

    // Log-odds of the pixels of the first column, each given that those above it are as in the
    // reference: out[r * stride]. reference[r * stride] is 0 or 1.
    void chain(const uint8_t* reference, double* out, int64_t stride) {
        const int m = n_ - 1;  // columns that stay free
        const int64_t size = size_ / 2;
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        scratch_.store.resize(h_ * size_);
        // gamma[r]: the weight of the rest of row r and of all rows below, for the new value of the
        // first column (lowest bit) and the old ones of the others.
        std::fill_n(alpha, size_, D::kOne);
        for (int64_t r = h_ - 1; r >= 0; --r) {
            poll_at_row(r, D::kSteps * n_ * size_);
            backward_sites<D>(row(r), n_, 1, n_, shrink_of<D>(alpha, size_), alpha, stored(r), spare);
            if (r > 0) backward_sites<D>(row(r), n_, 0, 1, D::kOne, stored(r), alpha, spare);
        }
        std::fill_n(alpha, size, D::kOne);
        double shrink = D::kOne;
        scratch_.clamped.resize(m);
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, D::kSteps * n_ * size_);
            const Site& first = row(r)[0];
            const double pull = D::log(first.flip);  // the pixel above, where there is one
            const double above = r > 0 && reference[(r - 1) * stride] ? -pull : pull;
            out[r * stride] = log_odds_below<D>(alpha, stored(r), size) + D::log(first.one[0]) + above;
            if (r == h_ - 1) break;
            std::copy_n(row(r) + 1, m, scratch_.clamped.begin());
            Site& beside = scratch_.clamped[0];
            const int value = reference[r * stride] != 0;
            beside.zero[0] = beside.zero[1] = row(r)[1].zero[value];
            beside.one[0] = beside.one[1] = row(r)[1].one[value];
            forward_sites<D>(scratch_.clamped.data(), m, 0, m, shrink, alpha, next, spare);
            std::swap(alpha, next);
            shrink = shrink_of<D>(alpha, size);
        }
    }

    // Clamp the pixels above row `rows` of the first column at the reference.
    void clamp(const uint8_t* reference, int64_t stride, int64_t rows) {
        for (int64_t r = 0; r < rows; ++r) {
            Site& site = scratch_.sites[r * n_];
            double* never = reference[r * stride] ? site.zero : site.one;
            never[0] = never[1] = D::kNever;
        }
    }

    // Add the moments of all pixels of the span, times a factor, to out[r * columns + k].
    void add_moments(double factor, Moments* out) {
        scratch_.store.resize((h_ + n_) * size_);
        std::fill_n(stored(h_ - 1), size_, D::kOne);
        for (int64_t r = h_ - 1; r > 0; --r) up(r, stored(r), stored(r - 1));
        double *alpha = scratch_.alpha.data(), *next = alpha + size_;
        std::fill_n(alpha, size_, D::kOne);
        double shrink = D::kOne;
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, 2 * D::kSteps * n_ * size_);
            const Site* sites = row(r);
            const double* after = stored(r);
            for (int k = n_ - 1; k > 0; --k) {
                backward_site<D>(sites[k], k == n_ - 1 ? shrink_of<D>(after, size_) : D::kOne, size_ / 2,
                                 after, stored(h_ + k));
                after = stored(h_ + k);
            }
            for (int k = 0; k < n_; ++k) {
                if (k < used_) {
                    const double* behind = k == n_ - 1 ? stored(r) : stored(h_ + k + 1);
                    const Moments found = site_moments<D>(sites[k], size_ / 2, alpha, behind);
                    Moments& sum = out[r * used_ + k];
                    sum.one += factor * found.one;
                    if (k > 0) sum.differ += factor * found.differ;
                    if (r > 0) sum.flip += factor * found.flip;
                }
                forward_site<D>(sites[k], shrink, size_ / 2, alpha, next);
                std::swap(alpha, next);
                shrink = D::kOne;
            }
            shrink = shrink_of<D>(alpha, size_);
        }
    }
};

// Run use(window, rounding) with the numbers that the span is safe with.
template <class Use>
void with_window(const Model& model, const Span& span, WindowScratch& scratch, Use&& use) {
    const double spread = span.spread(model.grid);
    const double error = rounding(model.grid, Window<Logs>::padded(span.columns), spread);
    if (spread <= kSafeSpread) {
        Window<Plain> window(model, span, scratch);
        use(window, error);
    } else {
        Window<Logs> window(model, span, scratch);
        use(window, error);
    }
}

// Column c of an (h, w) array as a vector.
inline const double* column_of(const double* a, int64_t c, const Grid& g, std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r) out[r] = a[r * g.w + c];
    return out.data();
}

// The field of column c - 1, clamped at the reference, on column c.
inline const double* clamped_field(const uint8_t* reference, int64_t c, const Grid& g,
                                   std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r)
        out[r] = (reference[r * g.w + c - 1] ? 1 : -1) * g.across[r * (g.w - 1) + c - 1];
    return out.data();
}

// The field with which column c and all beyond it act on the pixels of column c - 1, bounded from one
// side (bound = 0 or 1): field[r, c] for c >= 1, column 0 untouched. By supermodularity the field on
// one pixel is extreme when the others of column c - 1 are all 0 or all 1; it depends on the rest only
// through the log-odds q of its neighbour without it, as log((e^q + e^-a) / (e^(q - a) + 1)). The
// columns beyond the window act with the field found before, from the right edge on.
inline void bound_fields(const Model& model, int64_t window, int bound, WindowScratch& scratch,
                         double* field) {
    const Grid& g = model.grid;
    const double sign = bound ? 1.0 : -1.0;
    std::vector<double> odds(g.h);
    for (int64_t c = g.w - 1; c > 0; --c) {
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
                const double act = Logs::plus(q, -a) - Logs::plus(q - a, 0.0) + sign * error;
                field[r * g.w + c] = std::clamp(act, -a, a);
            }
        });
    }
}

// For each pixel, bounds on the log-odds given the reference at all pixels before it, column by column.
inline void bound_chain(const Model& model, int64_t window, const uint8_t* reference,
                        const double* const fields[2], int threads, double* const odds[2]) {
    const Grid& g = model.grid;
    run_team<WindowScratch>(2 * g.w, threads, [&](WindowScratch& scratch, int64_t task) {
        const int64_t c = task / 2, bound = task % 2;
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

// The gradient of -sum_d log p(reference_d | reference before d), each probability the upper one of its
// window when column c + window is all 0 or all 1, or the lower one: by monotony the one with the pixel's
// own value there (sign = 1), or with the other value (sign = -1).
//
// Over a run of equal values in a column the probabilities multiply up to a ratio of two sums over the
// window, with the column clamped down to the end and to the beginning of the run; the derivatives of
// their logarithms are moments. grad_t, grad_across and grad_down have the shapes of the grid's parts.
inline void chain_gradient(const Model& model, int64_t window, const uint8_t* reference, double sign,
                           int threads, double* grad_t, double* grad_across, double* grad_down) {
    const Grid& g = model.grid;
    struct Part {
        std::vector<Moments> moments;
        std::vector<double> beyond;  // gradient in the weights of the edges across the right border
    };
    std::vector<Part> parts(g.w);
    run_team<WindowScratch>(g.w, threads, [&](WindowScratch& scratch, int64_t c) {
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
    for (int64_t c = 0; c < g.w; ++c) {  // in this order, whoever did the parts
        const int64_t columns = std::min(window, g.w - c), last = c + columns - 1;
        for (int64_t r = 0; r < g.h; ++r) {
            const Moments* row = parts[c].moments.data() + r * columns;
            for (int64_t k = 0; k < columns; ++k) {
                grad_t[r * g.w + c + k] += row[k].one;
                if (k > 0) grad_across[r * (g.w - 1) + c + k - 1] -= row[k].differ;
                if (r > 0) grad_down[(r - 1) * g.w + c + k] -= row[k].flip;
            }
            if (c > 0)
                grad_across[r * (g.w - 1) + c - 1] += (reference[r * g.w + c - 1] ? 1 : -1) * row[0].one;
            if (last + 1 < g.w) grad_across[r * (g.w - 1) + last] += parts[c].beyond[r];
        }
    }
}

// Bounds on the log-odds of all pixels of windows that begin at the given columns: (windows, h, window).
// left[b][r, c] acts on column c from before it, right[b][r, c] on column c - 1 from c on.
inline void bound_windows(const Model& model, int64_t window, const int64_t* starts, int64_t windows,
                          const double* const left[2], const double* const right[2], int threads,
                          double* const odds[2]) {
    const Grid& g = model.grid;
    run_team<WindowScratch>(2 * windows, threads, [&](WindowScratch& scratch, int64_t task) {
        const int64_t i = task / 2, bound = task % 2, c = starts[i];
        Span span{c, window};
        if (c > 0) span.left = column_of(left[bound], c, g, scratch.left);
        if (c + window < g.w) span.right = column_of(right[bound], c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            double* out = odds[bound] + i * g.h * window;
            win.columns(static_cast<int>(window), out, window);
            for (int64_t k = 0; k < g.h * window; ++k) out[k] += bound ? error : -error;
        });
    });
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
