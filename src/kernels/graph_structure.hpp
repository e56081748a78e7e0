// Arbitrary graphs as structures: an edge list, solved by the sparse or the dense solver.
#pragma once

#include <utility>
#include <vector>

#include "dense.hpp"
#include "divide.hpp"
#include "sparse.hpp"
#include "structure.hpp"
#include "tiers.hpp"

namespace LOGSUPER_ISA {

// Function k has weight[t] on edge edge[t] for start[k] <= t < start[k + 1].
struct GraphTerms {
    std::vector<int64_t> start;
    std::vector<int32_t> edge;
    std::vector<double> weight;
};

class GraphStructure final : public Structure {
   public:
    const std::vector<int64_t> ends;  // (m, 2)
    const SparseShape graph;
    const bool dense;
    const GraphTerms terms;

    GraphStructure(int64_t nodes, std::vector<int64_t> edges, bool dense, GraphTerms terms)
        : ends(std::move(edges)),
          graph(nodes, ends.data(), static_cast<int64_t>(ends.size()) / 2),
          dense(dense),
          terms(std::move(terms)) {}
    int64_t nodes() const override { return graph.n; }
    int64_t edges() const override { return graph.m; }
    int functions() const override { return static_cast<int>(terms.start.size()) - 1; }
    std::unique_ptr<Worker> worker() const override;
    WorkspaceBytes workspace(SolveKind kind) const override;
};

template <class T>
struct SparseView : SparseSolver<T> {
    const GraphStructure& structure;
    explicit SparseView(const GraphStructure& s) : SparseSolver<T>(s.graph), structure(s) {}
    static int64_t bytes(const GraphStructure& s) { return SparseSolver<T>::bytes(s.graph); }
    void apply(const WeightRange& range, const std::vector<double>& w) {
        this->set_weights(range, [&](int64_t e) { return w[e]; });
    }
    T edge_weight(int64_t e) const { return this->weight(e); }
    void erase_edge(int64_t e) { this->erase(e); }
};

template <class T>
struct DenseView : DenseSolver<T> {
    const GraphStructure& structure;
    explicit DenseView(const GraphStructure& s) : DenseSolver<T>(s.graph.n), structure(s) {}
    static int64_t bytes(const GraphStructure& s) { return DenseSolver<T>::bytes(s.graph.n); }
    void apply(const WeightRange& range, const std::vector<double>& w) {
        this->set_weights(range, [&](auto&& put) {
            polled(structure.graph.m, 16,
                   [&](int64_t e) { put(structure.ends[2 * e], structure.ends[2 * e + 1], w[e]); });
        });
    }
    T edge_weight(int64_t e) const { return this->weight(structure.ends[2 * e], structure.ends[2 * e + 1]); }
    void erase_edge(int64_t e) { this->erase(structure.ends[2 * e], structure.ends[2 * e + 1]); }
};

// The view of the graph that `divide` needs.
template <class Solver>
struct GraphRegions {
    Solver& solver;
    const GraphStructure& structure;

    int64_t nodes() const { return structure.graph.n; }
    int64_t slots() const { return structure.graph.n; }
    int64_t slot(int64_t i) const { return i; }
    int64_t units(double field) const { return static_cast<int64_t>(std::nearbyint(field * solver.scale())); }
    void add(int64_t i, int64_t units) { solver.add(i, units); }
    void solve(const std::vector<int32_t>&) { solver.resume(); }
    bool label(int64_t i) const { return solver.label(i); }
    double excess(int64_t i) const { return static_cast<double>(solver.excess(i)) / solver.scale(); }
    template <class Found>
    void visit_cut(Found&& found) const {
        polled(structure.graph.m, 8, [&](int64_t e) {
            const int64_t i = structure.ends[2 * e], j = structure.ends[2 * e + 1];
            if (solver.label(i) == solver.label(j)) return;
            const int64_t w = solver.edge_weight(e);
            if (w) found(i, j, static_cast<double>(w) / solver.scale(), e);
        });
    }
    void erase(int64_t e) { solver.erase_edge(e); }
    void erased() {}
};

template <template <class> class View>
class GraphWorker final : public Worker {
    const GraphStructure& structure_;
    Tiers<View<int32_t>, View<int64_t>> tiers_;
    int64_t largest_degree_ = 0;  // in edges
    const double* factors_ = nullptr;
    bool factors_per_function_ = false;
    std::vector<double> weights_, degrees_;
    mutable std::vector<uint8_t> bytes_;

   public:
    explicit GraphWorker(const GraphStructure& structure)
        : structure_(structure),
          weights_(structure.graph.m),
          degrees_(structure.graph.n),
          bytes_(structure.graph.n) {
        CallMonitor::reserve(own_bytes(structure));
        const auto& first = structure.graph.first;
        for (int64_t i = 0; i < structure.graph.n; ++i)
            largest_degree_ = std::max<int64_t>(largest_degree_, first[i + 1] - first[i]);
    }

    void set_weights(const ProblemWeights& weights, bool wide) override {
        tiers_.reset(measure(weights), wide);
    }

    int64_t held_bytes() const override { return own_bytes(structure_) + tiers_.held_bytes(structure_); }

    static WorkspaceBytes workspace(const GraphStructure& structure, SolveKind kind) {
        const WorkspaceBytes solvers = decltype(tiers_)::workspace(structure, kind);
        const int64_t n = structure.graph.n, more = kind.min_norm ? divide_bytes(n, n) : 0;
        const int64_t own = own_bytes(structure) + more;
        return {own + solvers.least, own + solvers.most};
    }

    void solve(const double* theta, Tie tie) override {
        tiers_.solve(theta, structure_.graph.n, tie,
                     [&](auto& solver, const auto& range) { apply(solver, range); });
    }
    Precision precision() const override { return tiers_.precision(); }
    void labels(uint8_t* out) const override {
        tiers_.with_answer([&](const auto& solver) {
            for (int64_t i = 0; i < structure_.graph.n; ++i) out[i] = solver.label(i);
        });
    }
    double dot(const double* theta) const override {
        const int64_t n = structure_.graph.n;
        Float64x4 sum = {};
        tiers_.with_answer([&](const auto& solver) {
            for (int64_t i = 0; i < n; i += 64) {
                uint64_t bits = 0;
                for (int64_t j = i; j < std::min(n, i + 64); ++j)
                    bits |= static_cast<uint64_t>(solver.label(j)) << (j - i);
                add_chosen(theta + i, bits, n - i, sum);
            }
        });
        return total(sum);
    }

    void statistics(double* stats) const override {
        labels(bytes_.data());
        const uint8_t* const y = bytes_.data();
        const int64_t* const ends = structure_.ends.data();
        const GraphTerms& terms = structure_.terms;
        // Listing the cut edges first, without a branch, leaves a chain of additions that is as long as the
        // cut, in the order of the edges.
        constexpr int64_t kBlock = 512;
        int64_t cut[kBlock];
        for (int k = 0; k < structure_.functions(); ++k) {
            double sum = 0;
            for (int64_t t = terms.start[k]; t < terms.start[k + 1];) {
                const int64_t stop = std::min(t + kBlock, terms.start[k + 1]);
                poll(8 * (stop - t));
                int64_t count = 0;
                for (; t < stop; ++t) {
                    const int64_t e = terms.edge[t];
                    cut[count] = t;
                    count += y[ends[2 * e]] ^ y[ends[2 * e + 1]];
                }
                for (int64_t c = 0; c < count; ++c)
                    sum += terms.weight[cut[c]] * factor(k, terms.edge[cut[c]]);
            }
            stats[k] = sum;
        }
    }

    ParametricResult min_norm_point(const ProblemWeights& weights, const double* theta, double* s) override {
        const int64_t n = structure_.graph.n;
        WeightRange range = measure(weights);
        if (range.largest_degree == 0) return without_edges(theta, n, s);
        cap_for_regions(range, theta, n);
        auto& solver = tiers_.separate(range, [&](auto& solver, const auto& range) { apply(solver, range); });
        solver.clear_flow();
        GraphRegions<View<int64_t>> view{solver, structure_};
        return divide(view, theta, s);
    }

   private:
    static int64_t own_bytes(const GraphStructure& s) { return 8 * s.graph.m + 9 * s.graph.n; }

    WeightRange measure(const ProblemWeights& weights) {
        factors_ = weights.factors;
        factors_per_function_ = weights.factors_per_function;
        std::fill(weights_.begin(), weights_.end(), 0.0);
        std::fill(degrees_.begin(), degrees_.end(), 0.0);
        const GraphTerms& terms = structure_.terms;
        for (int k = 0; k < structure_.functions(); ++k)
            polled(terms.start[k + 1] - terms.start[k], 8, [&](int64_t i) {
                const int64_t t = terms.start[k] + i;
                weights_[terms.edge[t]] += weights.alpha[k] * terms.weight[t] * factor(k, terms.edge[t]);
            });
        WeightRange range;
        polled(structure_.graph.m, 16, [&](int64_t e) {
            const double w = weights_[e];
            if (w > 0) range.smallest = std::min(range.smallest, w);
            degrees_[structure_.ends[2 * e]] += w;
            degrees_[structure_.ends[2 * e + 1]] += w;
        });
        for (double degree : degrees_) range.largest_degree = std::max(range.largest_degree, degree);
        refuse_overflow(range);
        range.most_edges = largest_degree_;
        return range;
    }
    double factor(int function, int64_t e) const {
        return factors_ ? factors_[(factors_per_function_ ? function * structure_.graph.m : 0) + e] : 1.0;
    }
    template <class Solver>
    void apply(std::unique_ptr<Solver>& solver, const WeightRange& range) {
        if (!solver) {
            CallMonitor::reserve(Solver::bytes(structure_));
            solver = std::make_unique<Solver>(structure_);
        }
        solver->apply(range, weights_);
    }
};

inline std::unique_ptr<Worker> GraphStructure::worker() const {
    if (dense) return std::make_unique<GraphWorker<DenseView>>(*this);
    return std::make_unique<GraphWorker<SparseView>>(*this);
}

inline WorkspaceBytes GraphStructure::workspace(SolveKind kind) const {
    if (dense) return GraphWorker<DenseView>::workspace(*this, kind);
    return GraphWorker<SparseView>::workspace(*this, kind);
}

}  // namespace LOGSUPER_ISA
