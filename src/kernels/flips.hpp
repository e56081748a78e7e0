// The weighted log loss of the labels of single elements, and its slopes, from one maximal flow per draw.
//
// With V(y) = (theta + z)'y - sum_e w_e |y_i - y_j| and logistic noise z, element d of the maximiser is 1
// with probability sigma(m_d) given the noise of the others; m_d + z_d = max V with y_d = 1 - max V with y_d
// = 0. One of the two is the maximum itself. For the other, its maximal flow is continued with d as a source
// of unlimited capacity (a sink if the label of d is 1): the nodes that d reaches in the residual graph when
// no path is left are those that change with it (P. Kohli and P. Torr, "Measuring uncertainty in graph cut
// solutions", CVIU 112, 2008). That is a search around d, after which the flow is put back.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "noise.hpp"
#include "sparse.hpp"

namespace LOGSUPER_ISA {

class FlipSolver : public SparseSolver<int64_t> {
    struct Change {
        int32_t arc;  // -1 for the excess of a node
        int32_t node;
        int64_t amount;
    };
    std::vector<int32_t> via_, reached_;  // via_: the arc by which a search reached a node
    std::vector<int64_t> seen_;  // the last search that reached a node
    std::vector<Change> changes_;
    int64_t search_ = 0;

   public:
    explicit FlipSolver(const SparseShape& graph) : SparseSolver(graph), via_(graph.n), seen_(graph.n) {}

    // The nodes that change their labels if d does; valid until the next call.
    const std::vector<int32_t>& flip(int32_t d) {
        while (augment_from(d)) {
        }
        for (const Change& change : changes_) {
            if (change.arc < 0) {
                excess_[change.node] -= change.amount;
            } else {
                residual_[change.arc] += change.amount;
                residual_[g_.reverse[change.arc]] -= change.amount;
            }
        }
        changes_.clear();
        return reached_;
    }
    bool flipped(int32_t i) const { return seen_[i] == search_; }

   private:
    // The arc along which flow leaves d (label 0) or comes to it (label 1) if a search passes a.
    int32_t along(int32_t a, bool one) const { return one ? g_.reverse[a] : a; }

    // Searches from d among the nodes of the same label; false if no node takes or has any flow.
    bool augment_from(int32_t d) {
        const bool one = label(d);
        ++search_;
        seen_[d] = search_;
        reached_.assign(1, d);
        for (size_t k = 0; k < reached_.size(); ++k) {
            const int32_t i = reached_[k];
            poll(8 + 4 * (g_.first[i + 1] - g_.first[i]));
            for (int32_t a = g_.first[i]; a < g_.first[i + 1]; ++a) {
                const int32_t j = g_.head[a];
                if (seen_[j] == search_ || label(j) != one || !residual_[along(a, one)]) continue;
                seen_[j] = search_;
                via_[j] = a;
                reached_.push_back(j);
                if (excess_[j]) {
                    push(d, j, one);
                    return true;
                }
            }
        }
        return false;
    }
    int32_t before(int32_t i) const { return g_.head[g_.reverse[via_[i]]]; }
    void push(int32_t d, int32_t j, bool one) {
        int64_t amount = one ? excess_[j] : -excess_[j];
        for (int32_t i = j; i != d; i = before(i)) amount = std::min(amount, residual_[along(via_[i], one)]);
        for (int32_t i = j; i != d; i = before(i)) {
            const int32_t a = along(via_[i], one);
            residual_[a] -= amount;
            residual_[g_.reverse[a]] += amount;
            changes_.push_back({a, i, amount});
        }
        const int64_t taken = one ? -amount : amount;
        excess_[j] += taken;
        changes_.push_back({-1, j, taken});
    }
};

struct FlipProblems {
    int64_t problems = 0, nodes = 0, edges = 0, samples = 0;
    const int64_t* ends = nullptr;    // (edges, 2)
    const double* weights = nullptr;  // (problems or 1, edges)
    bool shared = false;              // by all problems
    const double* theta = nullptr;    // (problems, nodes)
    const uint8_t* labels = nullptr;  // (problems, nodes); above 1 where there is none
    const double* costs = nullptr;    // (problems, nodes, 2): of a false one and of a false zero
    const uint64_t* numbers = nullptr;  // (problems,): which stream each problem has
    uint64_t key = 0;
    uint32_t first_sample = 0;
    double* values = nullptr;  // (problems,): the losses
    double* fields = nullptr;  // (problems, nodes): their derivatives in theta
    double* cuts = nullptr;    // (problems, edges): minus those in the weights
};

// One problem per unit of work.
class FlipJob {
    const FlipProblems& p_;
    const SparseShape graph_;
    std::vector<int32_t> edge_;  // of each arc

   public:
    struct Scratch {
        std::unique_ptr<FlipSolver> solver;
        int64_t weights_of = -1;
        std::vector<double> field, right, each;  // (nodes,), (nodes,), (samples, nodes)
    };

    explicit FlipJob(const FlipProblems& p) : p_(p), graph_(p.nodes, p.ends, p.edges), edge_(2 * p.edges) {
        for (int64_t e = 0; e < p.edges; ++e)
            edge_[graph_.arc[e]] = edge_[graph_.reverse[graph_.arc[e]]] = static_cast<int32_t>(e);
    }

    void run(Scratch& scratch, int64_t m) const {
        if (!scratch.solver) scratch.solver = std::make_unique<FlipSolver>(graph_);
        const int64_t n = p_.nodes, which = p_.shared ? 0 : m;
        const double* const weights = p_.weights + which * p_.edges;
        if (scratch.weights_of != which) {
            scratch.solver->set_weights(measure(weights), [&](int64_t e) { return weights[e]; });
            scratch.weights_of = which;
        }
        scratch.field.resize(n);
        scratch.right.assign(n, 0.0);
        scratch.each.resize(p_.samples * n);
        for (int64_t s = 0; s < p_.samples; ++s) find_margins(scratch, m, s, weights);
        double total = 0;
        for (int64_t d = 0; d < n; ++d)
            if (counts(m, d)) total += loss(m, d, scratch.right[d]);
        p_.values[m] = total;
        // The sets are found again rather than kept: they may be as large as the graph.
        for (int64_t s = 0; s < p_.samples; ++s) add_slopes(scratch, m, s);
    }

   private:
    static constexpr double kLargest = 500;  // margin, so that no probability becomes 0

    const double* costs(int64_t m, int64_t d) const { return p_.costs + 2 * (m * p_.nodes + d); }
    uint8_t label(int64_t m, int64_t d) const { return p_.labels[m * p_.nodes + d]; }
    bool counts(int64_t m, int64_t d) const { return label(m, d) <= 1 && costs(m, d)[label(m, d)] > 0; }

    // -a log q with q = a r / (a r + b (1 - r)): a is the cost of an error at this label, b that of the other
    // error, and r the mean of P(y_d = x_d). `right` is the sum of these, and becomes the slope in each of
    // them.
    double loss(int64_t m, int64_t d, double& right) const {
        const double a = costs(m, d)[label(m, d)], b = costs(m, d)[!label(m, d)];
        const double r = right / static_cast<double>(p_.samples), all = a * r + b * (1 - r);
        right = -a * b / (r * all) / static_cast<double>(p_.samples);
        return -a * std::log(a * r / all);
    }
    void solve(Scratch& scratch, int64_t m, int64_t s) const {
        const uint32_t number = static_cast<uint32_t>(p_.first_sample + s);
        perturb_field({p_.key, p_.numbers[m], number}, p_.theta + m * p_.nodes, p_.nodes, p_.nodes,
                      scratch.field.data());
        scratch.solver->solve(scratch.field.data(), Tie::kMinimal, true);
        poll(4 * p_.nodes);
    }

    // P(y_d = x_d | the noise of the others) of one sample; `gap` is m_d + z_d.
    void find_margins(Scratch& scratch, int64_t m, int64_t s, const double* weights) const {
        solve(scratch, m, s);
        FlipSolver& solver = *scratch.solver;
        const double* const field = scratch.field.data();
        for (int64_t d = 0; d < p_.nodes; ++d) {
            if (!counts(m, d)) continue;
            double gap = 0;
            for (const int32_t j : solver.flip(static_cast<int32_t>(d))) {
                gap += field[j];
                for (int32_t a = graph_.first[j]; a < graph_.first[j + 1]; ++a)
                    if (!solver.flipped(graph_.head[a]))
                        gap += solver.label(graph_.head[a]) ? weights[edge_[a]] : -weights[edge_[a]];
            }
            const double up = gap - (field[d] - p_.theta[m * p_.nodes + d]);
            const double margin = std::clamp(label(m, d) ? up : -up, -kLargest, kLargest);
            scratch.each[s * p_.nodes + d] = 1 / (1 + std::exp(-margin));
            scratch.right[d] += scratch.each[s * p_.nodes + d];
        }
    }

    void add_slopes(Scratch& scratch, int64_t m, int64_t s) const {
        solve(scratch, m, s);
        FlipSolver& solver = *scratch.solver;
        for (int64_t d = 0; d < p_.nodes; ++d) {
            if (!counts(m, d)) continue;
            const double r = scratch.each[s * p_.nodes + d];
            const double slope = (label(m, d) ? 1 : -1) * scratch.right[d] * r * (1 - r);
            if (slope == 0) continue;
            for (const int32_t j : solver.flip(static_cast<int32_t>(d))) {
                p_.fields[m * p_.nodes + j] += slope;
                for (int32_t a = graph_.first[j]; a < graph_.first[j + 1]; ++a)
                    if (!solver.flipped(graph_.head[a]))
                        p_.cuts[m * p_.edges + edge_[a]] += solver.label(graph_.head[a]) ? -slope : slope;
            }
        }
    }
    WeightRange measure(const double* weights) const {
        WeightRange range;
        range.most_edges = 0;
        for (int64_t i = 0; i < p_.nodes; ++i) {
            double degree = 0;
            for (int32_t a = graph_.first[i]; a < graph_.first[i + 1]; ++a) {
                const double w = weights[edge_[a]];
                if (w > 0) range.smallest = std::min(range.smallest, w);
                degree += w;
            }
            range.largest_degree = std::max(range.largest_degree, degree);
            range.most_edges = std::max<int64_t>(range.most_edges, graph_.first[i + 1] - graph_.first[i]);
        }
        refuse_overflow(range);
        return range;
    }
};

}  // namespace LOGSUPER_ISA
