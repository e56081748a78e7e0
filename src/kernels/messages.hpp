// Belief propagation and mean field for f(x) = sum_e w_e |x_i - x_j| - t'x, element by element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "interrupt.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

typedef double Two __attribute__((vector_size(16)));
typedef uint64_t TwoBits __attribute__((vector_size(16)));

// The ends of the edges by element: those towards smaller elements first, so that a pass forward
// sends from `middle` on, and a pass backward up to it. What comes in at end s goes out at twin[s].
struct Ends {
    int64_t n, m;
    std::vector<int32_t> start, middle, other, twin, edge;

    Ends(int64_t n, const int64_t* pairs, int64_t m)
        : n(n), m(m), start(n + 1), middle(n), other(2 * m), twin(2 * m), edge(2 * m) {
        for (int64_t k = 0; k < 2 * m; ++k) ++start[pairs[k] + 1];
        for (int64_t i = 0; i < n; ++i) start[i + 1] += start[i];
        std::vector<int32_t> next(start.begin(), start.end() - 1), below(m);
        for (int64_t e = 0; e < m; ++e) below[e] = next[pairs[2 * e + 1]]++;
        middle = next;
        polled(m, 16, [&](int64_t e) {
            const int32_t above = next[pairs[2 * e]]++;
            other[below[e]] = static_cast<int32_t>(pairs[2 * e]);
            other[above] = static_cast<int32_t>(pairs[2 * e + 1]);
            twin[below[e]] = above;
            twin[above] = below[e];
            edge[below[e]] = edge[above] = static_cast<int32_t>(e);
        });
    }

    // For polls: what an element takes that does so many steps for each of its ends.
    int64_t steps(int64_t per_end) const { return 64 + per_end * (2 * m / std::max<int64_t>(1, n)); }

    // Where the message that comes in at end s is in a list of both directions of the edges, the
    // first m of which go to the greater element.
    int64_t incoming(int32_t s) const { return other[s] < other[twin[s]] ? edge[s] : m + edge[s]; }

    // The elements such that neighbours in the list are seldom neighbours in the graph: by colours.
    std::vector<int32_t> by_colour() const {
        std::vector<int32_t> colour(n), first(1), order(n), taken(n + 1, -1);
        for (int32_t i = 0; i < n; ++i) {
            for (int32_t s = start[i]; s < middle[i]; ++s) taken[colour[other[s]]] = i;
            while (taken[colour[i]] == i) ++colour[i];
            if (colour[i] + 2 > static_cast<int32_t>(first.size())) first.resize(colour[i] + 2);
            ++first[colour[i] + 1];
        }
        for (size_t c = 1; c < first.size(); ++c) first[c] += first[c - 1];
        for (int32_t i = 0; i < n; ++i) order[first[colour[i]]++] = i;
        return order;
    }

    std::vector<double> spread(const double* by_edge) const {
        std::vector<double> at(2 * m);
        for (int64_t s = 0; s < 2 * m; ++s) at[s] = by_edge[edge[s]];
        return at;
    }
};

// Messages as log-odds, with edge probabilities rho: u_ij = m_k(b_i - u_ji), b_i = t_i + sum rho u.
class LogMessages {
    const Ends& ends_;
    const double* t_;
    std::vector<double> k_, least_, rho_, u_;
    double damping_;

   public:
    LogMessages(const Ends& ends, const double* t, const double* k, const double* rho, double damping,
                const double* u)
        : ends_(ends),
          t_(t),
          k_(ends.spread(k)),
          least_(k_),
          rho_(ends.spread(rho)),
          u_(k_),
          damping_(damping) {
        for (double& v : least_) v = std::exp(-v);
        for (int64_t s = 0; s < 2 * ends.m; ++s) u_[s] = u[ends.incoming(s)];
    }

    double belief(int64_t i) const {
        double b = t_[i];
        for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) b += rho_[s] * u_[s];
        return b;
    }

    double made(double belief, int32_t s) const { return map(belief - u_[s], s); }
    double off(double made, int32_t s) const { return std::abs(made - u_[ends_.twin[s]]); }
    void put(double made, int32_t s) {
        double& u = u_[ends_.twin[s]];
        u += damping_ * (made - u);
    }

    void write(double* u) const {
        for (int64_t s = 0; s < 2 * ends_.m; ++s) u[ends_.incoming(s)] = u_[s];
    }

   private:
    // m_k(l) = log((e^l + e^-k) / (e^(l-k) + 1)), odd in l: with one exponential and one logarithm.
    double map(double l, int32_t s) const {
        const double size = std::abs(l), e = std::exp(-size), sum = least_[s] + e;
        const double m = sum > 1e-290 ? std::log((1.0 + e * least_[s]) / sum)
                                      : std::min(size, k_[s]) - std::log1p(std::exp(-std::abs(size - k_[s])));
        return std::copysign(m, l);
    }
};

// Two sets of messages at once, as odds, rho = 1: (B + e^-k U) / (B e^-k + U), B the odds of the
// sender and U its own message back, which takes neither exponentials nor logarithms. For models
// whose log-odds |t_i| + sum k stay within the exponents of float64.
class OddsMessages {
    const Ends& ends_;
    std::vector<double> field_, least_;
    std::vector<Two> u_;

   public:
    // From all messages at their least, -k, and from all at their greatest, k.
    OddsMessages(const Ends& ends, const double* t, const double* k)
        : ends_(ends), field_(t, t + ends.n), least_(k, k + ends.m), u_(2 * ends.m) {
        for (double& v : field_) v = std::exp(v);
        for (double& v : least_) v = std::exp(-v);
        least_ = ends.spread(least_.data());
        for (int64_t s = 0; s < 2 * ends.m; ++s) u_[s] = Two{least_[s], 1.0 / least_[s]};
    }

    Two belief(int64_t i) const {
        Two b = {field_[i], field_[i]};
        for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) b *= u_[s];
        return b;
    }

    Two made(Two belief, int32_t s) const {
        return (belief + least_[s] * u_[s]) / (belief * least_[s] + u_[s]);
    }
    double off(Two made, int32_t s) const {
        const Two ratio = made / u_[ends_.twin[s]] - 1.0;
        return std::max(std::abs(ratio[0]), std::abs(ratio[1]));
    }
    void put(Two made, int32_t s) { u_[ends_.twin[s]] = made; }

    void write(double* u) const {
        for (int64_t s = 0; s < 2 * ends_.m; ++s)
            for (int lane = 0; lane < 2; ++lane)
                u[2 * ends_.m * lane + ends_.incoming(s)] = std::log(u_[s][lane]);
    }
};

// How far the messages are from a fixed point.
template <class Messages>
double residual(const Ends& ends, const Messages& messages) {
    double worst = 0;
    polled(ends.n, ends.steps(64), [&](int64_t i) {
        const auto belief = messages.belief(i);
        for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s)
            worst = std::max(worst, messages.off(messages.made(belief, s), s));
    });
    return worst;
}

// Sweeps, each forward and backward over the elements, until the residual, which is returned, is at
// most tol. Undamped from extreme messages they are monotone, as those of all messages at once are.
template <class Messages>
double propagate(const Ends& ends, Messages& messages, int64_t sweeps, double tol) {
    double worst = 0;
    const int64_t steps = ends.steps(32);
    const auto send = [&](int64_t i, int32_t from, int32_t to) {
        if (from == to) return;
        const auto belief = messages.belief(i);
        for (int32_t s = from; s < to; ++s) {
            const auto made = messages.made(belief, s);
            worst = std::max(worst, messages.off(made, s));
            messages.put(made, s);
        }
    };
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) {
        worst = 0;
        poll(64 * ends.m);
        polled(ends.n, steps, [&](int64_t i) { send(i, ends.middle[i], ends.start[i + 1]); });
        polled(ends.n, steps, [&](int64_t k) {
            const int64_t i = ends.n - 1 - k;
            send(i, ends.start[i], ends.middle[i]);
        });
        if (worst <= tol && (worst = residual(ends, messages)) <= tol) return worst;
    }
    return residual(ends, messages);
}

// e^x to an ulp or two, for |x| <= 700: 2^k e^r with |r| <= log(2) / 2, and the series of e^r, its
// even and its odd powers side by side.
LOGSUPER_INLINE Two exponential(Two x) {
    constexpr double kRound = 6755399441055744.0;  // 1.5 2^52: what is added to it becomes whole
    constexpr double kEven[] = {1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 0.5, 1.0};
    constexpr double kOdd[] = {1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6, 1.0};
    const Two whole = x * 1.4426950408889634 + kRound, k = whole - kRound;
    const Two r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10, square = r * r;
    Two even = square * (1.0 / 479001600) + kEven[0], odd = square * (1.0 / 6227020800.0) + kOdd[0];
    for (int i = 1; i < 6; ++i) {
        even = even * square + kEven[i];
        odd = odd * square + kOdd[i];
    }
    return (Two)((TwoBits)(even + r * odd) + ((TwoBits)whole << 52));
}

LOGSUPER_INLINE Two expit(Two h) {
    const Two low = h < -700.0 ? Two{} - 700.0 : h;
    return 1.0 / (1.0 + exponential(-(low > 700.0 ? Two{} + 700.0 : low)));
}

// Mean field: coordinate ascent of H(q) - E_q f, from two starts side by side.
class MeanField {
    const Ends& ends_;
    const std::vector<int32_t> order_;
    const std::vector<double> w_;
    std::vector<double> field_;  // t_i - sum_j w_ij
    std::vector<Two> logits_, q_;
    std::vector<uint8_t> stirred_;  // whether a neighbour has moved since the last look
    double largest_ = 1.0;  // at least 1 + |value| at any q

   public:
    MeanField(const Ends& ends, const double* t, const double* w)
        : ends_(ends),
          order_(ends.by_colour()),
          w_(ends.spread(w)),
          field_(t, t + ends.n),
          logits_(ends.n),
          q_(ends.n),
          stirred_(ends.n) {
        for (int64_t i = 0; i < ends.n; ++i) {
            largest_ += std::abs(t[i]) + 1.0;
            for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s) {
                field_[i] -= w_[s];
                largest_ += w_[s];
            }
        }
    }

    // Sweeps until none improves a value by more than tol (1 + |value|), or as many as allowed;
    // returns their number.
    int64_t ascend(double* const logits[2], int64_t sweeps, double tol, double* const values[2]) {
        for (int64_t i = 0; i < ends_.n; ++i) {
            logits_[i] = Two{logits[0][i], logits[1][i]};
            q_[i] = expit(logits_[i]);
        }
        std::fill(stirred_.begin(), stirred_.end(), 1);
        // what all elements that stay could gain together is a tenth of what ends the sweeps
        double share = 0.1 * tol / static_cast<double>(ends_.n);
        int64_t sweep = 0;
        Two value = {}, scale = Two{} + largest_;
        for (bool done = false; !done;) {
            poll(16);
            const Two gains = improve(share), allowed = tol * scale;
            const bool last = ++sweep == sweeps, small = gains[0] <= allowed[0] && gains[1] <= allowed[1];
            if (!small && !last) continue;
            // a value costs more than a sweep, and hardly moves from the first one on
            value = values_now();
            scale = 1.0 + Two{std::abs(value[0]), std::abs(value[1])};
            share = 0.1 * tol * std::min(scale[0], scale[1]) / static_cast<double>(ends_.n);
            done = last || (gains[0] <= tol * scale[0] && gains[1] <= tol * scale[1]);
        }
        for (int lane = 0; lane < 2; ++lane) {
            *values[lane] = value[lane];
            for (int64_t i = 0; i < ends_.n; ++i) logits[lane][i] = logits_[i][lane];
        }
        return sweep;
    }

   private:
    Two improve(double least) {
        constexpr int64_t kBlock = 1024;
        Two gains = {};
        for (int64_t first = 0; first < ends_.n; first += kBlock) {
            gains = improve(first, std::min(first + kBlock, ends_.n), least, gains);
            poll(kBlock * ends_.steps(2));
        }
        return gains;
    }

    // Gives elements their best q_i, the others given, unless that gains no more than `least`; returns
    // `gains` and at least what the values gain. A move gains the divergence of the old q_i from the
    // new one, at most the difference of q times that of the log-odds.
    Two improve(int64_t first, int64_t last, double least, Two gains) {
        for (int64_t k = first; k < last; ++k) {
            const int32_t i = order_[k];
            if (!stirred_[i]) continue;
            stirred_[i] = 0;
            Two pull = {};
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) pull += w_[s] * q_[ends_.other[s]];
            const Two h = field_[i] + 2.0 * pull, q = expit(h), gain = (q - q_[i]) * (h - logits_[i]);
            if (gain[0] <= least && gain[1] <= least) continue;
            gains += gain;
            logits_[i] = h;
            q_[i] = q;
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) stirred_[ends_.other[s]] = 1;
        }
        return gains;
    }

    // sum_i H(q_i) + q_i (t_i - sum_j w_ij (1 - q_j)), as edges are met from both of their ends
    Two values_now() const {
        Two sum = {};
        polled(ends_.n, ends_.steps(2), [&](int64_t i) {
            Two pull = {}, entropy = {};
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) pull += w_[s] * q_[ends_.other[s]];
            for (int lane = 0; lane < 2; ++lane) {
                const double size = std::abs(logits_[i][lane]), e = std::exp(-size);
                entropy[lane] = std::log1p(e) + size * e / (1.0 + e);
            }
            sum += entropy + q_[i] * (field_[i] + pull);
        });
        return sum;
    }
};

}  // namespace LOGSUPER_ISA
