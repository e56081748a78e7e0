// Belief propagation and mean field for f(x) = sum_e w_e |x_i - x_j| - t'x, element by element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd.hpp"

namespace LOGSUPER_ISA {

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
        for (int64_t e = 0; e < m; ++e) {
            const int32_t above = next[pairs[2 * e]]++;
            other[below[e]] = static_cast<int32_t>(pairs[2 * e]);
            other[above] = static_cast<int32_t>(pairs[2 * e + 1]);
            twin[below[e]] = above;
            twin[above] = below[e];
            edge[below[e]] = edge[above] = static_cast<int32_t>(e);
        }
    }

    // Where the message that comes in at end s is in a list of both directions of the edges, the
    // first m of which go to the greater element.
    int64_t incoming(int32_t s) const { return other[s] < other[twin[s]] ? edge[s] : m + edge[s]; }

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
        : ends_(ends), t_(t), k_(ends.spread(k)), least_(k_), rho_(ends.spread(rho)), u_(k_), damping_(damping) {
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
typedef double Two __attribute__((vector_size(16)));

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
    for (int64_t i = 0; i < ends.n; ++i) {
        const auto belief = messages.belief(i);
        for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s)
            worst = std::max(worst, messages.off(messages.made(belief, s), s));
    }
    return worst;
}

// Sweeps, each forward and backward over the elements, until the residual, which is returned, is at
// most tol. Undamped from extreme messages they are monotone, as those of all messages at once are.
template <class Messages>
double propagate(const Ends& ends, Messages& messages, int64_t sweeps, double tol) {
    double worst = 0;
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
        for (int64_t i = 0; i < ends.n; ++i) send(i, ends.middle[i], ends.start[i + 1]);
        for (int64_t i = ends.n - 1; i >= 0; --i) send(i, ends.start[i], ends.middle[i]);
        if (worst <= tol && (worst = residual(ends, messages)) <= tol) return worst;
    }
    return residual(ends, messages);
}

// Mean field: coordinate ascent of H(q) - E_q f from several starts side by side.
class MeanField {
    const Ends& ends_;
    const int64_t rows_;
    std::vector<double> w_, field_, logits_, q_, now_;
    double scale_ = 1.0;  // at least 1 + |value| at any q

   public:
    MeanField(const Ends& ends, const double* t, const double* w, int64_t rows, const double* logits)
        : ends_(ends), rows_(rows), w_(ends.spread(w)), field_(t, t + ends.n), logits_(rows * ends.n),
          q_(logits_.size()), now_(rows) {
        for (int64_t i = 0; i < ends.n; ++i) {
            scale_ += std::abs(t[i]) + 1.0;
            for (int32_t s = ends.start[i]; s < ends.start[i + 1]; ++s) {
                field_[i] -= w_[s];
                scale_ += w_[s];
            }
            for (int64_t r = 0; r < rows; ++r) {
                const double h = logits[r * ends.n + i];
                logits_[i * rows + r] = h;
                q_[i * rows + r] = expit(h);
            }
        }
        for (double& v : w_) v *= 2.0;
    }

    // Sweeps, in turn forward and backward, until none improves a value by more than tol (1 +
    // |value|) or there were as many as allowed; returns their number.
    int64_t ascend(int64_t sweeps, double tol, double* values) {
        std::vector<double> gains(rows_);
        for (int64_t sweep = 1;; ++sweep) {
            std::fill(gains.begin(), gains.end(), 0.0);
            for (int64_t k = 0; k < ends_.n; ++k) update(sweep % 2 ? k : ends_.n - 1 - k, gains.data());
            // values cost more than a sweep: only once they can be the last ones
            const bool last = sweep == sweeps;
            if (!last && *std::max_element(gains.begin(), gains.end()) > tol * scale_) continue;
            bool done = true;
            for (int64_t r = 0; r < rows_; ++r) {
                values[r] = value(r);
                done = done && gains[r] <= tol * (1.0 + std::abs(values[r]));
            }
            if (done || last) return sweep;
        }
    }

    void write(double* logits) const {
        for (int64_t i = 0; i < ends_.n; ++i)
            for (int64_t r = 0; r < rows_; ++r) logits[r * ends_.n + i] = logits_[i * rows_ + r];
    }

   private:
    static double expit(double h) { return 1.0 / (1.0 + std::exp(-h)); }

    // The best q_i, the others given. The value rises by the divergence of the old q_i from the new
    // one, at most the difference of q times that of the log-odds.
    LOGSUPER_INLINE void update(int64_t i, double* gains) {
        std::fill(now_.begin(), now_.end(), field_[i]);
        for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s)
            for (int64_t r = 0; r < rows_; ++r) now_[r] += w_[s] * q_[ends_.other[s] * rows_ + r];
        for (int64_t r = 0; r < rows_; ++r) {
            double &h = logits_[i * rows_ + r], &q = q_[i * rows_ + r];
            const double next = expit(now_[r]);
            gains[r] += (next - q) * (now_[r] - h);
            h = now_[r];
            q = next;
        }
    }

    // sum_i H(q_i) + q_i (t_i - sum_j w_ij (1 - q_j)), as edges are met from both of their ends
    double value(int64_t r) const {
        double sum = 0;
        for (int64_t i = 0; i < ends_.n; ++i) {
            const double h = logits_[i * rows_ + r], q = q_[i * rows_ + r], size = std::abs(h);
            const double e = std::exp(-size);
            double slope = field_[i];
            for (int32_t s = ends_.start[i]; s < ends_.start[i + 1]; ++s)
                slope += 0.5 * w_[s] * q_[ends_.other[s] * rows_ + r];
            sum += std::log1p(e) + size * e / (1.0 + e) + q * slope;
        }
        return sum;
    }
};

}  // namespace LOGSUPER_ISA
