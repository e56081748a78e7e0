// Grids as structures: which weights, which integers, and what the labels cost.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "divide.hpp"
#include "grid.hpp"
#include "structure.hpp"
#include "tiers.hpp"

namespace LOGSUPER_ISA {

class GridStructure final : public Structure {
   public:
    GridShape shape;
    std::vector<GridPlane> planes;
    int n_functions = 0;
    bool all_uniform = true;
    std::vector<int64_t> row_base[kMaxOffsets];  // first edge of offset k in each row
    int64_t n_edges = 0;

    // steps: (depth, height, width) of each offset; the first one is (0, 0, 1).
    GridStructure(int64_t depth, int64_t height, int64_t width, const int64_t* steps, int offsets,
                  int functions, std::vector<GridPlane> weights)
        : planes(std::move(weights)), n_functions(functions) {
        shape.depth = depth;
        shape.height = height;
        shape.width = width;
        shape.rows = depth * height;
        shape.used_words = (width + 63) / 64;
        // Rows that are a power of two apart would fall on the same lines of the cache.
        shape.words = shape.used_words % 8 ? shape.used_words : shape.used_words + 1;
        shape.stride = shape.words * 64;
        shape.offsets = offsets;
        for (int k = 0; k < offsets; ++k) {
            shape.depth_step[k] = steps[3 * k];
            shape.height_step[k] = steps[3 * k + 1];
            shape.column_step[k] = steps[3 * k + 2];
            shape.row_step[k] = steps[3 * k] * height + steps[3 * k + 1];
            shape.guard_rows = std::max(shape.guard_rows, shape.row_step[k]);
            row_base[k].resize(shape.rows);
            for (int64_t r = 0; r < shape.rows; ++r) {
                int64_t first, last;
                shape.range(k, r, first, last);
                row_base[k][r] = n_edges - first;
                n_edges += std::max<int64_t>(0, last - first);
            }
        }
        for (const auto& plane : planes) all_uniform &= plane.array.empty();
    }
    int64_t nodes() const override { return shape.size(); }
    int64_t edges() const override { return n_edges; }
    int functions() const override { return n_functions; }
    std::unique_ptr<Worker> worker() const override;
    Room room(bool wide, bool min_norm) const override;
};

// The grid as `divide` wants to see it: a slot is the place of a node in the padded rows.
template <int K>
struct GridRegions {
    GridSolver<int64_t, K>& solver;
    const GridShape& shape;

    int64_t nodes() const { return shape.size(); }
    int64_t slots() const { return shape.rows * shape.stride; }
    int64_t slot(int64_t i) const { return i / shape.width * shape.stride + i % shape.width; }
    void add(int64_t b, double field) {
        solver.add(b, static_cast<int64_t>(std::nearbyint(field * solver.scale)));
    }
    void solve(const std::vector<int32_t>& open) { solver.resume(open); }
    bool label(int64_t b) const { return solver.labels()[b >> 6] >> (b & 63) & 1; }
    double excess(int64_t b) const { return static_cast<double>(solver.excess(b)) / solver.scale; }
    template <class Found>
    void visit_cut(Found&& found) const {
        solver.visit_cut([&](int k, int64_t b) {
            const int64_t w = solver.weight(k, b);
            if (w)
                found(b, b + shape.step(k), static_cast<double>(w) / solver.scale,
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
    bool in_place_ = false, wide_ = false;  // do the tiers have uniform weights, these?
    double kept_[K] = {};
    const double* factors_ = nullptr;
    bool per_function_ = false;

   public:
    explicit GridWorker(const GridStructure& structure) : structure_(structure), shape_(structure.shape) {}

    void set_weights(const double* alpha, const double* factors, bool per_function, bool wide) override {
        const WeightRange range = measure(alpha, factors, per_function);
        // The same weights again, as when images come one by one: nothing to be written.
        if (uniform_ && in_place_ && wide == wide_ && std::equal(by_offset_, by_offset_ + K, kept_)) return;
        tiers_.reset(range, wide);
        in_place_ = uniform_;
        wide_ = wide;
        std::copy(by_offset_, by_offset_ + K, kept_);
    }

    int64_t held() const override { return tiers_.held(shape_); }

    static Room room(const GridShape& shape, bool wide, bool min_norm) {
        return decltype(tiers_)::room(shape, wide, min_norm);
    }

    void solve(const double* theta, Tie tie) override {
        const auto with_weights = [&](auto& solver, const auto& range) { apply(solver, range); };
        if (no_edges_)
            tiers_.skip(with_weights);
        else
            tiers_.solve(theta, shape_.size(), tie, with_weights);
        if (may_be_isolated_) tiers_.with_answer([&](auto& solver) { solver.label_isolated(theta, tie); });
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
        Double4 sum = {};
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

    ParametricResult min_norm_point(const double* alpha, const double* factors, bool per_function,
                                    const double* theta, double* s) override;

   private:
    // The range of the weights; where each offset has one weight, that weight.
    WeightRange measure(const double* alpha, const double* factors, bool per_function) {
        alpha_.assign(alpha, alpha + structure_.n_functions);
        std::fill(by_offset_, by_offset_ + K, 0.0);
        factors_ = factors;
        per_function_ = per_function;
        uniform_ = structure_.all_uniform && !factors;
        WeightRange range;
        if (uniform_) {
            for (const auto& plane : structure_.planes)
                by_offset_[plane.offset] += alpha[plane.function] * plane.value;
            for (int k = 0; k < K; ++k) note(range, by_offset_[k], by_offset_[k]);
        } else {
            row_.resize(shape_.width);
            for (int k = 0; k < K; ++k) {
                double largest = 0, smallest = std::numeric_limits<double>::infinity();
                for (int64_t r = 0; r < shape_.rows; ++r) {
                    int64_t first, last;
                    poll_at_row(r, 4 * shape_.width);
                    shape_.range(k, r, first, last);
                    weigh(k, r, first, last, row_.data());
                    for (int64_t c = first; c < last; ++c) {
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
        return range;
    }
    // The weights of offset k in columns [first, last) of row r.
    void weigh(int k, int64_t r, int64_t first, int64_t last, double* out) const {
        std::fill(out + first, out + last, 0.0);
        for (const auto& plane : structure_.planes) {
            const double a = alpha_[plane.function];
            if (plane.offset != k || a == 0) continue;
            const double* factor = factors_;
            if (factor)
                factor +=
                    (per_function_ ? plane.function * structure_.n_edges : 0) + structure_.row_base[k][r];
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
        return factors_[(per_function_ ? function * structure_.n_edges : 0) + edge];
    }
    template <class Solver>
    void apply(std::unique_ptr<Solver>& solver, const WeightRange& range) {
        if (!solver) {
            Watch::reserve(Solver::bytes(shape_));
            solver = std::make_unique<Solver>(shape_);
        }
        if (uniform_)
            solver->set_uniform_weights(range, by_offset_);
        else
            solver->set_weights(range, [&](int k, int64_t r, int64_t first, int64_t last) {
                weigh(k, r, first, last, row_.data());
                return row_.data();
            });
    }
    // Eight bits to eight bytes of 0 or 1.
    static uint64_t spread_bits(uint64_t byte) {
        const uint64_t copies = byte * 0x0101010101010101ull & 0x8040201008040201ull;
        return ((copies + 0x00406070787c7e7full) & 0x8080808080808080ull) >> 7;
    }
};

// use(constant of type int) with the number of offsets.
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

inline Room GridStructure::room(bool wide, bool min_norm) const {
    Room room = with_offsets(
        shape.offsets, [&](auto K) { return GridWorker<decltype(K)::value>::room(shape, wide, min_norm); });
    const int64_t more = min_norm ? room_to_divide(shape.rows * shape.stride, nodes()) : 0;
    return {room.least + more, room.most + more};
}

template <int K>
ParametricResult GridWorker<K>::min_norm_point(const double* alpha, const double* factors, bool per_function,
                                               const double* theta, double* s) {
    const int64_t n = shape_.size();
    WeightRange range = measure(alpha, factors, per_function);
    if (no_edges_) return without_edges(theta, n, s);
    cap_for_regions(range, theta, n);
    auto& solver = tiers_.separate(range, [&](auto& solver, const auto& range) { apply(solver, range); });
    solver.clear_flow();
    GridRegions<K> view{solver, shape_};
    return divide(view, theta, s);
}

}  // namespace LOGSUPER_ISA
