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

// The ends of the edges, grouped by element: element i has the ends start[i] .. start[i + 1] - 1, those
// towards smaller elements before middle[i]. A forward pass sends from middle[i] on, a backward pass before
// it. End s leads to element other[s], along edge edge[s]; twin[s] is the other end of that edge.
struct EdgeEnds {
    int64_t n, m;
    std::vector<int32_t> start, middle, other, twin, edge;

    EdgeEnds(int64_t n, const int64_t* pairs, int64_t m)
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

    // Steps per element for polls, given the steps per end.
    int64_t steps(int64_t per_end) const { return 64 + per_end * (2 * m / std::max<int64_t>(1, n)); }

    // Index of the message that arrives at end s in an array of 2 m messages, the first m of which go to the
    // greater element of their edge.
    int64_t incoming(int32_t s) const { return other[s] < other[twin[s]] ? edge[s] : m + edge[s]; }

    // The elements by colour, so that successive elements are seldom neighbours in the graph.
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

    // Numbers per edge as numbers per end.
    std::vector<double> by_end(const double* by_edge) const {
        std::vector<double> at(2 * m);
        for (int64_t s = 0; s < 2 * m; ++s) at[s] = by_edge[edge[s]];
        return at;
    }
};

struct LogModel {
    const double* t;    // (n,) fields
    const double* k;    // (m,) couplings
    const double* rho;  // (m,) edge probabilities
    double damping;
};

// Messages as log-odds, with edge probabilities rho: u_ij = m_k(b_i - u_ji), b_i = t_i + sum rho u.
class LogMessages {
    const EdgeEnds& ends_;
    const double* t_;
    std::vector<double> k_, least_, rho_, u_;
    double damping_;

   public:
    // u: (2 m,) the messages to start from
    LogMessages(const EdgeEnds& ends, const LogModel& model, const double* u)
        : ends_(ends),
          t_(model.t),
          k_(ends.by_end(model.k)),
          least_(k_),
          rho_(ends.by_end(model.rho)),
          u_(k_),
          damping_(model.damping) {
        for (double& v : least_) v = std::exp(-v);
        for (int64_t s = 0; s < 2 * ends.m; ++s) u_[s] = u[ends.incoming(s)];
    }

    double belief(int64_t i) const {
        double b = t_[i];
        for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) b += rho_[s] * u_[s];
        return b;
    }

    // The message that end s sends, how much it differs from the last one, and sending it.
    double message(double belief, int32_t s) const { return map(belief - u_[s], s); }
    double change(double message, int32_t s) const { return std::abs(message - u_[ends_.twin[s]]); }
    void send(double message, int32_t s) {
        double& u = u_[ends_.twin[s]];
        u += damping_ * (message - u);
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

// Two sets of messages at once, as odds, with rho = 1: (B + e^-k U) / (B e^-k + U), where B are the odds of
// the sender and U is the message that it received along the edge; this needs neither exponentials nor
// logarithms. For models whose log-odds |t_i| + sum k stay within the range of the exponents of float64.
class OddsMessages {
    const EdgeEnds& ends_;
    std::vector<double> field_, least_;
    std::vector<Float64x2> u_;

   public:
    // Starts from all messages at their minimum, -k, and from all at their maximum, k.
    OddsMessages(const EdgeEnds& ends, const double* t, const double* k)
        : ends_(ends), field_(t, t + ends.n), least_(k, k + ends.m), u_(2 * ends.m) {
        for (double& v : field_) v = std::exp(v);
        for (double& v : least_) v = std::exp(-v);
        least_ = ends.by_end(least_.data());
        for (int64_t s = 0; s < 2 * ends.m; ++s) u_[s] = Float64x2{least_[s], 1.0 / least_[s]};
    }

    Float64x2 belief(int64_t i) const {
        Float64x2 b = {field_[i], field_[i]};
        for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) b *= u_[s];
        return b;
    }

    Float64x2 message(Float64x2 belief, int32_t s) const {
        return (belief + least_[s] * u_[s]) / (belief * least_[s] + u_[s]);
    }
    double change(Float64x2 message, int32_t s) const {
        const Float64x2 ratio = message / u_[ends_.twin[s]] - 1.0;
        return std::max(std::abs(ratio[0]), std::abs(ratio[1]));
    }
    void send(Float64x2 message, int32_t s) { u_[ends_.twin[s]] = message; }

    void write(double* u) const {
        for (int64_t s = 0; s < 2 * ends_.m; ++s)
            for (int lane = 0; lane < 2; ++lane)
                u[2 * ends_.m * lane + ends_.incoming(s)] = std::log(u_[s][lane]);
    }
};

// The largest change of a message if all were sent again.
template <class Messages>
double residual(const EdgeEnds& ends, const Messages& messages) {
    double worst = 0;
    polled(ends.n, ends.steps(64), [&](int64_t i) {
        const auto belief = messages.belief(i);
        for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s)
            worst = std::max(worst, messages.change(messages.message(belief, s), s));
    });
    return worst;
}

// Sweeps, each forward and backward over the elements, until the residual, which is returned, is at most tol.
// Without damping and from extreme messages they are monotone, like simultaneous updates of all messages.
template <class Messages>
double propagate(const EdgeEnds& ends, Messages& messages, int64_t sweeps, double tol) {
    double worst = 0;
    const int64_t steps = ends.steps(32);
    const auto send = [&](int64_t i, int32_t from, int32_t to) {
        if (from == to) return;
        const auto belief = messages.belief(i);
        for (int32_t s = from; s < to; ++s) {
            const auto message = messages.message(belief, s);
            worst = std::max(worst, messages.change(message, s));
            messages.send(message, s);
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

// e^x within two ulps, for |x| <= 700: 2^k e^r with |r| <= log(2) / 2, and the series of e^r, even and odd
// powers separately.
LOGSUPER_INLINE Float64x2 exponential(Float64x2 x) {
    constexpr double kRound = 6755399441055744.0;  // 1.5 2^52: adding it rounds to an integer
    constexpr double kEven[] = {1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 0.5, 1.0};
    constexpr double kOdd[] = {1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6, 1.0};
    const Float64x2 whole = x * 1.4426950408889634 + kRound, k = whole - kRound;
    const Float64x2 r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10, square = r * r;
    Float64x2 even = square * (1.0 / 479001600) + kEven[0], odd = square * (1.0 / 6227020800.0) + kOdd[0];
    for (int i = 1; i < 6; ++i) {
        even = even * square + kEven[i];
        odd = odd * square + kOdd[i];
    }
    return (Float64x2)((UInt64x2)(even + r * odd) + ((UInt64x2)whole << 52));
}

LOGSUPER_INLINE Float64x2 expit(Float64x2 h) {
    const Float64x2 low = h < -700.0 ? Float64x2{} - 700.0 : h;
    return 1.0 / (1.0 + exponential(-(low > 700.0 ? Float64x2{} + 700.0 : low)));
}

// Mean field: coordinate ascent of H(q) - E_q f, from two starts at once.
class MeanField {
    const EdgeEnds& ends_;
    const std::vector<int32_t> order_;
    const std::vector<double> w_;
    std::vector<double> field_;  // t_i - sum_j w_ij
    std::vector<Float64x2> logits_, q_;
    std::vector<uint8_t> outdated_;  // whether a neighbour has changed since the last update
    double largest_ = 1.0;  // bound on 1 + |value| at any q

   public:
    MeanField(const EdgeEnds& ends, const double* t, const double* w)
        : ends_(ends),
          order_(ends.by_colour()),
          w_(ends.by_end(w)),
          field_(t, t + ends.n),
          logits_(ends.n),
          q_(ends.n),
          outdated_(ends.n) {
        for (int64_t i = 0; i < ends.n; ++i) {
            largest_ += std::abs(t[i]) + 1.0;
            for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s) {
                field_[i] -= w_[s];
                largest_ += w_[s];
            }
        }
    }

    // The two rows of log-odds to start from and to write to, and the values that they end at.
    struct Pair {
        double *logits[2], *values[2];
    };

    // Sweeps until none improves a value by more than tol (1 + |value|), at most `sweeps`; returns their
    // number.
    int64_t ascend(const Pair& pair, int64_t sweeps, double tol) {
        double* const* const logits = pair.logits;
        for (int64_t i = 0; i < ends_.n; ++i) {
            logits_[i] = Float64x2{logits[0][i], logits[1][i]};
            q_[i] = expit(logits_[i]);
        }
        std::fill(outdated_.begin(), outdated_.end(), 1);
        // elements that are not updated could together gain a tenth of the tolerance
        double share = 0.1 * tol / static_cast<double>(ends_.n);
        int64_t sweep = 0;
        Float64x2 value = {}, scale = Float64x2{} + largest_;
        for (bool done = false; !done;) {
            poll(16);
            const Float64x2 gains = improve(share), allowed = tol * scale;
            const bool last = ++sweep == sweeps, small = gains[0] <= allowed[0] && gains[1] <= allowed[1];
            if (!small && !last) continue;
            // a value costs more than a sweep, and hardly changes after the first one
            value = values_now();
            scale = 1.0 + Float64x2{std::abs(value[0]), std::abs(value[1])};
            share = 0.1 * tol * std::min(scale[0], scale[1]) / static_cast<double>(ends_.n);
            done = last || (gains[0] <= tol * scale[0] && gains[1] <= tol * scale[1]);
        }
        for (int lane = 0; lane < 2; ++lane) {
            *pair.values[lane] = value[lane];
            for (int64_t i = 0; i < ends_.n; ++i) logits[lane][i] = logits_[i][lane];
        }
        return sweep;
    }

   private:
    Float64x2 improve(double least) {
        constexpr int64_t kBlock = 1024;
        Float64x2 gains = {};
        for (int64_t first = 0; first < ends_.n; first += kBlock) {
            gains = improve(first, std::min(first + kBlock, ends_.n), least, gains);
            poll(kBlock * ends_.steps(2));
        }
        return gains;
    }

    // Sets elements to their best q_i given the others, unless that gains at most `least`; returns `gains`
    // plus a bound on the gain of the values. An update gains the divergence of the old q_i from the new one,
    // at most the difference of q times that of the log-odds.
    Float64x2 improve(int64_t first, int64_t last, double least, Float64x2 gains) {
        for (int64_t k = first; k < last; ++k) {
            const int32_t i = order_[k];
            if (!outdated_[i]) continue;
            outdated_[i] = 0;
            Float64x2 pull = {};
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) pull += w_[s] * q_[ends_.other[s]];
            const Float64x2 h = field_[i] + 2.0 * pull, q = expit(h), gain = (q - q_[i]) * (h - logits_[i]);
            if (gain[0] <= least && gain[1] <= least) continue;
            gains += gain;
            logits_[i] = h;
            q_[i] = q;
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s) outdated_[ends_.other[s]] = 1;
        }
        return gains;
    }

    // sum_i H(q_i) + q_i (t_i - sum_j w_ij (1 - q_j)), as every edge is visited from both of its ends
    Float64x2 values_now() const {
        Float64x2 sum = {};
        polled(ends_.n, ends_.steps(2), [&](int64_t i) {
            Float64x2 pull = {}, entropy = {};
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
