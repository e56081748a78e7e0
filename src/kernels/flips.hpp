// What holding single elements at their labels costs, for all elements from one maximal flow.
//
// With V(y) = (theta + z)'y - sum_e w_e |y_i - y_j|, labels x and costs c,
//     L = sum_d c_d [ max_y V(y) - max_{y: y_d = x_d} V(y) ]
// and its derivatives in theta and w. Elements whose maximiser agrees with their label contribute nothing.
// For any other element d, the maximal flow of the first maximum is continued with d as a source of unlimited
// capacity (a sink if x_d = 0): the nodes that d then reaches in the residual graph are those that change
// with it (P. Kohli and P. Torr, "Measuring uncertainty in graph cut solutions", CVIU 112, 2008). That is a
// search around d, after which the flow is put back.
#pragma once

#include <algorithm>
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
    const double* costs = nullptr;    // (problems, nodes)
    const uint64_t* numbers = nullptr;  // (problems,): which stream each problem has
    uint64_t key = 0;
    uint32_t first_sample = 0;
    double* values = nullptr;  // (problems, samples): L
    double* fields = nullptr;  // (problems, nodes): the sum over the samples of dL / dtheta
    double* cuts = nullptr;    // (problems, edges): that of -dL / dw
};

class FlipJob {
    const FlipProblems& p_;
    const SparseShape graph_;
    std::vector<int32_t> edge_;  // of each arc

   public:
    struct Scratch {
        std::unique_ptr<FlipSolver> solver;
        std::vector<double> field;
        int64_t weights_of = -1;
    };

    explicit FlipJob(const FlipProblems& p) : p_(p), graph_(p.nodes, p.ends, p.edges), edge_(2 * p.edges) {
        for (int64_t e = 0; e < p.edges; ++e)
            edge_[graph_.arc[e]] = edge_[graph_.reverse[graph_.arc[e]]] = static_cast<int32_t>(e);
    }

    void run(Scratch& scratch, int64_t m) const {
        if (!scratch.solver) scratch.solver = std::make_unique<FlipSolver>(graph_);
        FlipSolver& solver = *scratch.solver;
        const int64_t which = p_.shared ? 0 : m;
        const double* const weights = p_.weights + which * p_.edges;
        if (scratch.weights_of != which) {
            solver.set_weights(measure(weights), [&](int64_t e) { return weights[e]; });
            scratch.weights_of = which;
        }
        scratch.field.resize(p_.nodes);
        double* const field = scratch.field.data();
        for (int64_t s = 0; s < p_.samples; ++s) {
            const uint32_t number = static_cast<uint32_t>(p_.first_sample + s);
            perturb_field({p_.key, p_.numbers[m], number}, p_.theta + m * p_.nodes, p_.nodes, p_.nodes,
                          field);
            solver.solve(field, Tie::kMinimal, true);
            double total = 0;
            for (int64_t d = 0; d < p_.nodes; ++d) {
                const uint8_t x = p_.labels[m * p_.nodes + d];
                const double cost = p_.costs[m * p_.nodes + d];
                if (x > 1 || cost == 0 || solver.label(d) == (x == 1)) continue;
                total += cost * loss(solver, m, static_cast<int32_t>(d), cost, weights, field);
            }
            p_.values[m * p_.samples + s] = total;
            poll(4 * p_.nodes);
        }
    }

   private:
    // max V - max of V with the other label of d, and what it adds to the derivatives.
    double loss(FlipSolver& solver, int64_t m, int32_t d, double cost, const double* weights,
                const double* field) const {
        const double sign = solver.label(d) ? 1 : -1;  // how far y_j exceeds its new value
        double gap = 0;
        for (const int32_t j : solver.flip(d)) {
            gap += sign * field[j];
            p_.fields[m * p_.nodes + j] += cost * sign;
            for (int32_t a = graph_.first[j]; a < graph_.first[j + 1]; ++a) {
                if (solver.flipped(graph_.head[a])) continue;
                const double change = solver.label(j) != solver.label(graph_.head[a]) ? 1 : -1;
                gap -= change * weights[edge_[a]];
                p_.cuts[m * p_.edges + edge_[a]] += cost * change;
            }
        }
        return gap;
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
