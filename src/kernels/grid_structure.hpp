// Grids as structures: weights of the functions, choice of the integers, statistics of the labels.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "divide.hpp"
#include "grid_solver.hpp"
#include "structure.hpp"
#include "tiers.hpp"

namespace LOGSUPER_ISA {

class GridStructure final : public Structure {
   public:
    const GridShape shape;
    const std::vector<GridPlane> planes;
    const int n_functions;
    bool all_uniform = true;
    std::vector<int64_t> row_base[kMaxOffsets];  // row_base[k][r] + c: number of edge k of row r and column c
    int64_t n_edges = 0;
    // Nodes that are not elements, and elements all of whose neighbours are such, as positions in padded
    // rows.
    std::vector<int64_t> closed, enclosed;

    // pixels: the nodes that the elements are, in increasing order; empty if that is all of them. Edges of
    // other nodes must weigh 0 in planes with an array.
    GridStructure(const GridShape& shape, int functions, std::vector<GridPlane> weights,
                  const std::vector<int64_t>& pixels = {})
        : shape(shape), planes(std::move(weights)), n_functions(functions), elements_(shape.size()) {
        for (int k = 0; k < shape.offsets; ++k) {
            row_base[k].resize(shape.rows);
            for (int64_t r = 0; r < shape.rows; ++r) {
                const ColumnRange columns = shape.range(k, r);
                row_base[k][r] = n_edges - columns.first;
                n_edges += std::max<int64_t>(0, columns.last - columns.first);
            }
        }
        for (const auto& plane : planes) all_uniform &= plane.array.empty();
        if (!pixels.empty()) close_others(pixels);
    }
    int64_t nodes() const override { return shape.size(); }
    int64_t elements() const override { return elements_; }
    const std::vector<ElementRun>& runs() const override { return runs_; }
    int64_t slot(int64_t node) const { return node / shape.width * shape.stride + node % shape.width; }
    // Whether the edge along offset k from a slot stays inside the grid.
    bool has_edge(int k, int64_t slot) const {
        if (slot < 0) return false;
        const int64_t row = slot / shape.stride, column = slot % shape.stride;
        const ColumnRange columns = shape.range(k, row);
        return columns.first <= column && column < columns.last;
    }
    int64_t edges() const override { return n_edges; }
    int functions() const override { return n_functions; }
    std::unique_ptr<Worker> worker() const override;
    WorkspaceBytes workspace(SolveKind kind) const override;
    bool is_grid() const override { return true; }

   private:
    int64_t elements_;
    std::vector<ElementRun> runs_;

    void close_others(const std::vector<int64_t>& pixels) {
        elements_ = static_cast<int64_t>(pixels.size());
        std::vector<uint8_t> open(shape.rows * shape.stride, 0);
        for (int64_t i = 0; i < elements_; ++i) {
            open[slot(pixels[i])] = 1;
            if (i == 0 || pixels[i] != pixels[i - 1] + 1) runs_.push_back({i, pixels[i], 0});
            ++runs_.back().count;
        }
        for (int64_t node = 0; node < nodes(); ++node) {
            const int64_t b = slot(node);
            if (!open[b]) {
                closed.push_back(b);
                continue;
            }
            bool alone = true;
            for (int k = 0; k < shape.offsets; ++k) {
                const int64_t step = shape.step(k);
                alone &= !(has_edge(k, b) && open[b + step]) && !(has_edge(k, b - step) && open[b - step]);
            }
            if (alone) enclosed.push_back(b);
        }
    }
};

// The view of the grid that `divide` needs: a slot is the position of a node in the padded rows.
template <int K>
struct GridRegions {
    GridSolver<int64_t, K>& solver;
    const GridShape& shape;

    int64_t nodes() const { return shape.size(); }
    int64_t slots() const { return shape.rows * shape.stride; }
    int64_t slot(int64_t i) const { return i / shape.width * shape.stride + i % shape.width; }
    int64_t units(double field) const { return static_cast<int64_t>(std::nearbyint(field * solver.scale())); }
    void add(int64_t b, int64_t units) { solver.add(b, units); }
    void solve(const std::vector<int32_t>& open) { solver.resume(open); }
    bool label(int64_t b) const { return solver.labels()[b >> 6] >> (b & 63) & 1; }
    double excess(int64_t b) const { return static_cast<double>(solver.excess(b)) / solver.scale(); }
    template <class Found>
    void visit_cut(Found&& found) const {
        solver.visit_cut([&](int k, int64_t b) {
            const int64_t w = solver.weight(k, b);
            if (w)
                found(b, b + shape.step(k), static_cast<double>(w) / solver.scale(),
                      std::pair<int, int64_t>(k, b));
        });
    }
    void erase(const std::pair<int, int64_t>& edge) { solver.erase(edge.first, edge.second); }
    void erased() { solver.refresh_weights(); }
};

template <int K>
class GridWorker final : public Worker {
    const GridStructure& structure_;
    const GridShape& shape_;
    Tiers<GridSolver<int32_t, K>, GridSolver<int64_t, K>> tiers_;
    bool uniform_ = false, may_be_isolated_ = false, no_edges_ = false;
    std::vector<double> row_, alpha_;
    double by_offset_[K] = {};  // the weights, where they are uniform
    bool in_place_ = false, wide_ = false;  // whether the solvers have the uniform weights kept_
    double kept_[K] = {}, kept_degree_ = 0;
    const double* factors_ = nullptr;
    bool factors_per_function_ = false;

   public:
    explicit GridWorker(const GridStructure& structure) : structure_(structure), shape_(structure.shape) {}

    void set_weights(const ProblemWeights& weights, bool wide) override {
        WeightRange range = measure(weights);
        const double degree = weights.whole_degree;
        // The same weights again, as for one image after the other: the solvers have them.
        if (uniform_ && in_place_ && wide == wide_ && degree == kept_degree_ &&
            std::equal(by_offset_, by_offset_ + K, kept_))
            return;
        if (degree > 0) {
            if (!(degree >= range.largest_degree))
                throw std::invalid_argument("degree is below that of a node");
            range.largest_degree = degree;
            refuse_overflow(range);
        }
        tiers_.reset(range, wide, degree > 0);
        kept_degree_ = degree;
        in_place_ = uniform_;
        wide_ = wide;
        std::copy(by_offset_, by_offset_ + K, kept_);
    }

    int64_t held_bytes() const override { return tiers_.held_bytes(shape_); }

    static WorkspaceBytes workspace(const GridShape& shape, SolveKind kind) {
        return decltype(tiers_)::workspace(shape, kind);
    }

    void solve(const double* theta, Tie tie) override {
        const auto with_weights = [&](auto& solver, const auto& range) { apply(solver, range); };
        if (no_edges_)
            tiers_.skip(with_weights);
        else
            tiers_.solve(theta, shape_.size(), tie, with_weights);
        if (may_be_isolated_)
            tiers_.with_answer([&](auto& solver) { solver.label_isolated(theta, tie); });
        else if (!structure_.closed.empty())
            tiers_.with_answer([&](auto& solver) {
                const double off = -std::numeric_limits<double>::infinity();
                for (int64_t b : structure_.closed) solver.label_alone(b, off, tie);
                for (int64_t b : structure_.enclosed) solver.label_alone(b, theta[node(b)], tie);
            });
    }

    Precision precision() const override { return tiers_.precision(); }
    void labels(uint8_t* out) const override {
        tiers_.with_answer([&](const auto& solver) {
            for (int64_t r = 0; r < shape_.rows; ++r) {
                const uint64_t* bits = solver.labels() + r * shape_.words;
                int64_t c = 0;
                for (; c + 8 <= shape_.width; c += 8) {
                    const uint64_t spread = spread_bits(bits[c >> 6] >> (c & 63) & 0xff);
                    std::memcpy(out + c, &spread, 8);
                }
                for (; c < shape_.width; ++c) out[c] = bits[c >> 6] >> (c & 63) & 1;
                out += shape_.width;
            }
        });
    }

    double dot(const double* theta) const override {
        Float64x4 sum = {};
        tiers_.with_answer([&](const auto& solver) {
            for (int64_t r = 0; r < shape_.rows; ++r)
                for (int64_t word = 0; word < shape_.used_words; ++word)
                    add_chosen(theta + r * shape_.width + word * 64, solver.labels()[r * shape_.words + word],
                               shape_.width - word * 64, sum);
        });
        return total(sum);
    }

    void statistics(double* stats) const override {
        std::fill(stats, stats + structure_.n_functions, 0.0);
        tiers_.with_answer([&](const auto& solver) {
            if (structure_.all_uniform && !factors_) {
                int64_t counts[K];
                solver.count_cut(counts);
                for (int64_t b : structure_.closed)  // labelled 0, without edges
                    for (int k = 0; k < K; ++k) {
                        const int64_t step = shape_.step(k);
                        counts[k] -= structure_.has_edge(k, b) && is_one(solver, b + step);
                        counts[k] -= structure_.has_edge(k, b - step) && is_one(solver, b - step);
                    }
                for (const auto& plane : structure_.planes)
                    stats[plane.function] += plane.value * static_cast<double>(counts[plane.offset]);
                return;
            }
            solver.visit_cut([&](int k, int64_t b) {
                const int64_t row = b / shape_.stride, column = b % shape_.stride;
                const int64_t edge = structure_.row_base[k][row] + column;
                const int64_t node = row * shape_.width + column;
                for (const auto& plane : structure_.planes)
                    if (plane.offset == k)
                        stats[plane.function] += of_plane(plane, node) * factor(plane.function, edge);
            });
        });
    }

    ParametricResult min_norm_point(const ProblemWeights& weights, const double* theta, double* s) override {
        const int64_t n = shape_.size();
        WeightRange range = measure(weights);
        if (no_edges_) return without_edges(theta, n, s);
        cap_for_regions(range, theta, n);
        auto& solver = tiers_.separate(range, [&](auto& solver, const auto& range) { apply(solver, range); });
        solver.clear_flow();
        GridRegions<K> view{solver, shape_};
        return divide(view, theta, s);
    }

   private:
    // The range of the weights; sets by_offset_ where each offset has one weight.
    WeightRange measure(const ProblemWeights& weights) {
        alpha_.assign(weights.alpha, weights.alpha + structure_.n_functions);
        std::fill(by_offset_, by_offset_ + K, 0.0);
        factors_ = weights.factors;
        factors_per_function_ = weights.factors_per_function;
        uniform_ = structure_.all_uniform && !factors_;
        WeightRange range;
        if (uniform_) {
            for (const auto& plane : structure_.planes)
                by_offset_[plane.offset] += alpha_[plane.function] * plane.value;
            for (int k = 0; k < K; ++k) note(range, by_offset_[k], by_offset_[k]);
        } else {
            row_.resize(shape_.width);
            for (int k = 0; k < K; ++k) {
                double largest = 0, smallest = std::numeric_limits<double>::infinity();
                for (int64_t r = 0; r < shape_.rows; ++r) {
                    poll_at_row(r, 4 * shape_.width);
                    const ColumnRange columns = shape_.range(k, r);
                    weigh(k, r, columns);
                    for (int64_t c = columns.first; c < columns.last; ++c) {
                        const double w = row_[c];
                        largest = std::max(largest, w);
                        smallest = std::min(smallest, w > 0 ? w : smallest);
                    }
                }
                note(range, largest, smallest);
            }
        }
        refuse_overflow(range);
        no_edges_ = range.largest_degree == 0;
        may_be_isolated_ = !uniform_ || !touches_all(by_offset_);
        // nodes beside closed ones may have edges of one offset only
        if (!structure_.closed.empty())
            may_be_isolated_ |= !std::all_of(by_offset_, by_offset_ + K, [](double w) { return w > 0; });
        return range;
    }
    int64_t node(int64_t slot) const { return slot / shape_.stride * shape_.width + slot % shape_.stride; }
    template <class Solver>
    static bool is_one(const Solver& solver, int64_t b) {
        return solver.labels()[b >> 6] >> (b & 63) & 1;
    }
    // Writes the weights of offset k in some columns of row r to row_.
    void weigh(int k, int64_t r, ColumnRange columns) {
        const auto [first, last] = columns;
        double* const out = row_.data();
        std::fill(out + first, out + last, 0.0);
        for (const auto& plane : structure_.planes) {
            const double a = alpha_[plane.function];
            if (plane.offset != k || a == 0) continue;
            const double* factor = factors_;
            if (factor)
                factor += (factors_per_function_ ? plane.function * structure_.n_edges : 0) +
                          structure_.row_base[k][r];
            const double* array = plane.array.empty() ? nullptr : plane.array.data() + r * shape_.width;
            if (array && factor)
                for (int64_t c = first; c < last; ++c) out[c] += a * array[c] * factor[c];
            else if (array)
                for (int64_t c = first; c < last; ++c) out[c] += a * array[c];
            else if (factor)
                for (int64_t c = first; c < last; ++c) out[c] += a * plane.value * factor[c];
            else
                for (int64_t c = first; c < last; ++c) out[c] += a * plane.value;
        }
    }
    static void note(WeightRange& range, double largest, double smallest) {
        range.largest_degree += 2 * largest;
        if (smallest > 0) range.smallest = std::min(range.smallest, smallest);
    }
    bool touches_all(const double* by_offset) const {
        if (by_offset[0] > 0 && shape_.width > 1) return true;
        for (int k = 1; k < K; ++k) {
            if (!(by_offset[k] > 0) || shape_.column_step[k]) continue;
            if (!shape_.depth_step[k] && shape_.height > 1) return true;
            if (!shape_.height_step[k] && shape_.depth > 1) return true;
        }
        return false;
    }
    static double of_plane(const GridPlane& plane, int64_t node) {
        return plane.array.empty() ? plane.value : plane.array[node];
    }
    double factor(int function, int64_t edge) const {
        if (!factors_) return 1;
        return factors_[(factors_per_function_ ? function * structure_.n_edges : 0) + edge];
    }
    template <class Solver>
    void apply(std::unique_ptr<Solver>& solver, const WeightRange& range) {
        if (!solver) {
            CallMonitor::reserve(Solver::bytes(shape_));
            solver = std::make_unique<Solver>(shape_);
        }
        if (uniform_)
            solver->set_uniform_weights(range, by_offset_, structure_.closed);
        else
            solver->set_weights(range, [&](int k, int64_t r, ColumnRange columns) {
                weigh(k, r, columns);
                return row_.data();
            });
    }
    // Eight bits to eight bytes of 0 or 1.
    static uint64_t spread_bits(uint64_t byte) {
        const uint64_t copies = byte * 0x0101010101010101ull & 0x8040201008040201ull;
        return ((copies + 0x00406070787c7e7full) & 0x8080808080808080ull) >> 7;
    }
};

// Calls use with the number of offsets as a compile-time constant.
template <class Use>
auto with_offsets(int offsets, Use&& use) {
    switch (offsets) {
        case 2:
            return use(std::integral_constant<int, 2>());
        case 3:
            return use(std::integral_constant<int, 3>());
        case 4:
            return use(std::integral_constant<int, 4>());
        default:
            return use(std::integral_constant<int, 13>());
    }
}

inline std::unique_ptr<Worker> GridStructure::worker() const {
    return with_offsets(shape.offsets, [&](auto K) -> std::unique_ptr<Worker> {
        return std::make_unique<GridWorker<decltype(K)::value>>(*this);
    });
}

inline WorkspaceBytes GridStructure::workspace(SolveKind kind) const {
    const WorkspaceBytes solvers = with_offsets(
        shape.offsets, [&](auto K) { return GridWorker<decltype(K)::value>::workspace(shape, kind); });
    const int64_t more = kind.min_norm ? divide_bytes(shape.rows * shape.stride, nodes()) : 0;
    return {solvers.least + more, solvers.most + more};
}

}  // namespace LOGSUPER_ISA
