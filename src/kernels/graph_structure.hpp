// Arbitrary graphs as structures: the sparse and the dense solver behind one edge list.
#pragma once

#include <utility>
#include <vector>

#include "dense.hpp"
#include "divide.hpp"
#include "sparse.hpp"
#include "structure.hpp"
#include "tiers.hpp"

namespace LOGSUPER_ISA {

class GraphStructure final : public Structure {
   public:
    std::vector<int64_t> ends;  // (m, 2)
    SparseShape graph;
    bool dense;
    int n_functions;
    // Function k has weight[t] on edge edge[t] for start[k] <= t < start[k + 1].
    std::vector<int64_t> start;
    std::vector<int32_t> edge;
    std::vector<double> weight;

    GraphStructure(int64_t nodes, std::vector<int64_t> edges, bool use_dense, std::vector<int64_t> starts,
                   std::vector<int32_t> edge_of, std::vector<double> weights)
        : ends(std::move(edges)),
          graph(nodes, ends.data(), static_cast<int64_t>(ends.size()) / 2),
          dense(use_dense),
          n_functions(static_cast<int>(starts.size()) - 1),
          start(std::move(starts)),
          edge(std::move(edge_of)),
          weight(std::move(weights)) {}
    int64_t nodes() const override { return graph.n; }
    int64_t edges() const override { return graph.m; }
    int functions() const override { return n_functions; }
    std::unique_ptr<Worker> worker() const override;
    Room room(bool wide, bool min_norm) const override;
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

// The graph as `divide` wants to see it.
template <class Solver>
struct GraphRegions {
    Solver& solver;
    const GraphStructure& structure;

    int64_t nodes() const { return structure.graph.n; }
    int64_t slots() const { return structure.graph.n; }
    int64_t slot(int64_t i) const { return i; }
    void add(int64_t i, double field) {
        solver.add(i, static_cast<int64_t>(std::nearbyint(field * solver.scale)));
    }
    void solve(const std::vector<int32_t>&) { solver.resume(); }
    bool label(int64_t i) const { return solver.label(i); }
    double excess(int64_t i) const { return static_cast<double>(solver.excess(i)) / solver.scale; }
    template <class Found>
    void visit_cut(Found&& found) const {
        polled(structure.graph.m, 8, [&](int64_t e) {
            const int64_t i = structure.ends[2 * e], j = structure.ends[2 * e + 1];
            if (solver.label(i) == solver.label(j)) return;
            const int64_t w = solver.edge_weight(e);
            if (w) found(i, j, static_cast<double>(w) / solver.scale, e);
        });
    }
    void erase(int64_t e) { solver.erase_edge(e); }
    void erased() {}
};

template <template <class> class View>
class GraphWorker final : public Worker {
    const GraphStructure& structure_;
    Tiers<View<int32_t>, View<int64_t>> tiers_;
    int64_t graph_degree_ = 0;
    const double* factors_ = nullptr;
    bool per_function_ = false;
    std::vector<double> weights_, degrees_;
    mutable std::vector<uint8_t> bytes_;

   public:
    explicit GraphWorker(const GraphStructure& structure)
        : structure_(structure),
          weights_(structure.graph.m),
          degrees_(structure.graph.n),
          bytes_(structure.graph.n) {
        Watch::reserve(own_bytes(structure));
        const auto& first = structure.graph.first;
        for (int64_t i = 0; i < structure.graph.n; ++i)
            graph_degree_ = std::max<int64_t>(graph_degree_, first[i + 1] - first[i]);
    }

    void set_weights(const double* alpha, const double* factors, bool per_function, bool wide) override {
        tiers_.reset(measure(alpha, factors, per_function), wide);
    }

    int64_t held() const override { return own_bytes(structure_) + tiers_.held(structure_); }

    static Room room(const GraphStructure& structure, bool wide, bool min_norm) {
        const Room room = decltype(tiers_)::room(structure, wide, min_norm);
        const int64_t n = structure.graph.n, more = min_norm ? room_to_divide(n, n) : 0;
        const int64_t own = own_bytes(structure) + more;
        return {own + room.least, own + room.most};
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
        Double4 sum = {};
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
        for (int k = 0; k < structure_.n_functions; ++k) {
            double sums[2] = {0, 0};  // of the edges between equal and between different labels
            polled(structure_.start[k + 1] - structure_.start[k], 8, [&](int64_t i) {
                const int64_t t = structure_.start[k] + i;
                const int64_t e = structure_.edge[t];
                sums[y[structure_.ends[2 * e]] ^ y[structure_.ends[2 * e + 1]]] +=
                    structure_.weight[t] * factor(k, e);
            });
            stats[k] = sums[1];
        }
    }

    ParametricResult min_norm_point(const double* alpha, const double* factors, bool per_function,
                                    const double* theta, double* s) override {
        const int64_t n = structure_.graph.n;
        WeightRange range = measure(alpha, factors, per_function);
        if (range.largest_degree == 0) return without_edges(theta, n, s);
        cap_for_regions(range, theta, n);
        auto& solver = tiers_.separate(range, [&](auto& solver, const auto& range) { apply(solver, range); });
        solver.clear_flow();
        GraphRegions<View<int64_t>> view{solver, structure_};
        return divide(view, theta, s);
    }

   private:
    static int64_t own_bytes(const GraphStructure& s) { return 8 * s.graph.m + 9 * s.graph.n; }

    WeightRange measure(const double* alpha, const double* factors, bool per_function) {
        factors_ = factors;
        per_function_ = per_function;
        std::fill(weights_.begin(), weights_.end(), 0.0);
        std::fill(degrees_.begin(), degrees_.end(), 0.0);
        for (int k = 0; k < structure_.n_functions; ++k)
            polled(structure_.start[k + 1] - structure_.start[k], 8, [&](int64_t i) {
                const int64_t t = structure_.start[k] + i;
                weights_[structure_.edge[t]] +=
                    alpha[k] * structure_.weight[t] * factor(k, structure_.edge[t]);
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
        range.most_edges = graph_degree_;
        return range;
    }
    double factor(int function, int64_t e) const {
        return factors_ ? factors_[(per_function_ ? function * structure_.graph.m : 0) + e] : 1.0;
    }
    template <class Solver>
    void apply(std::unique_ptr<Solver>& solver, const WeightRange& range) {
        if (!solver) {
            Watch::reserve(Solver::bytes(structure_));
            solver = std::make_unique<Solver>(structure_);
        }
        solver->apply(range, weights_);
    }
};

inline std::unique_ptr<Worker> GraphStructure::worker() const {
    if (dense) return std::make_unique<GraphWorker<DenseView>>(*this);
    return std::make_unique<GraphWorker<SparseView>>(*this);
}

inline Room GraphStructure::room(bool wide, bool min_norm) const {
    if (dense) return GraphWorker<DenseView>::room(*this, wide, min_norm);
    return GraphWorker<SparseView>::room(*this, wide, min_norm);
}

}  // namespace LOGSUPER_ISA
