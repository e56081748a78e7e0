// Max-flow on regular grids: chain sweeps, bit-parallel search trees, then Boykov-Kolmogorov.
//
// A grid has `rows` rows of `width` nodes (a volume of shape (Z, H, W) has Z * H rows) and one array of edges
// per offset of its stencil: edge k of node b joins b and b + step(k).
//  1. Sweeps (grid_sweeps.hpp). Pushing the excess of each node along one direction,
//     flow' = clip(flow + excess, -w, w), solves every chain of that direction exactly. Offsets between rows
//     are vectorised along the row, the offset within a row across rows (blocks are transposed in registers).
//     One forward and one backward pass over the memory sweep all directions both ways.
//  2. Bit planes (set by the sweeps), 64 nodes per word: excess > 0, excess < 0, residual arcs.
//  3. Both search trees grow 64 nodes at a time (grid_trees.hpp); each node keeps the direction of its
//  parent.
//  4. Where the trees touch, augmenting paths remain: Boykov & Kolmogorov (2004) finishes (grid_search.hpp),
//     starting only from the nodes in contact.
// Each step is a class that owns its own work space; the numbers (grid_numbers.hpp) and bit planes
// (grid_planes.hpp) of the problem are shared by reference.
#pragma once

#include <vector>

#include "cuts.hpp"
#include "grid_search.hpp"
#include "grid_sweeps.hpp"
#include "grid_trees.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
class GridSolver {
    const GridLayout<K> layout_;
    GridNumbers<T, K> numbers_;
    GridPlanes<K> planes_;
    GridTrees<K> trees_;
    GridSearch<T, K> search_;
    GridSweeps<T, K> sweeps_;

    void finish(Tie tie) {
        trees_.grow();
        search_.run(tie);
        if (tie == Tie::kMaximal) planes_.complement_sink();
    }

   public:
    // About what the constructor allocates.
    static int64_t bytes(const GridShape& shape) {
        constexpr int64_t kBlock = kLanes<T>;
        constexpr int64_t kNumbers = 2 * K + 2;
        constexpr int64_t kPlanes =
            GridPlanes<K>::kPlanes + GridSearch<T, K>::kPlanes + GridTrees<K>::kParentBits;
        const int64_t rows = (shape.rows + kBlock - 1) / kBlock * kBlock + 2 * shape.guard_rows;
        return rows * shape.stride * (kNumbers * static_cast<int64_t>(sizeof(T)) + 8) +
               rows * shape.words * kPlanes * 8;
    }

    explicit GridSolver(const GridShape& shape)
        : layout_(shape),
          numbers_(layout_),
          planes_(layout_),
          trees_(planes_),
          search_(numbers_, planes_, trees_),
          sweeps_(numbers_, planes_, search_.workspace()) {}
    GridSolver(const GridSolver&) = delete;
    GridSolver& operator=(const GridSolver&) = delete;

    double scale() const { return numbers_.scale; }
    T excess(int64_t b) const { return numbers_.excess.data[b]; }
    T weight(int k, int64_t b) const { return numbers_.weight[k].data[b]; }
    const uint64_t* labels() const { return planes_.source.data; }  // words of bits, as laid out by the shape

    template <class Weigh>
    void set_weights(const WeightRange& range, Weigh&& weigh) {
        numbers_.set_weights(range, weigh);
    }
    void set_uniform_weights(const WeightRange& range, const double* weights,
                             const std::vector<int64_t>& closed) {
        numbers_.set_uniform_weights(range, weights, closed);
    }

    // False, and no labels, if the integers are too coarse for this field (unless `force`).
    bool solve(const double* theta, Tie tie, bool force) {
        if (!sweeps_.start(theta) && !force) return false;
        sweeps_.backward();
        finish(tie);
        return true;
    }

    // Nodes without an edge take no part in the flow; their label is the sign of theta, however small.
    void label_isolated(const double* theta, Tie tie) {
        for (int64_t r = 0; r < layout_.rows; ++r) {
            poll_at_row(r, layout_.width * 4 * K);
            for (int64_t c = 0; c < layout_.width; ++c) {
                const int64_t b = r * layout_.stride + c;
                if (numbers_.is_isolated(b)) label_alone(b, theta[r * layout_.width + c], tie);
            }
        }
    }
    void label_alone(int64_t b, double theta, Tie tie) {
        if (std::isnan(theta)) refuse_nan();
        if (label_of(theta, tie))
            set_bit(planes_.source, b);
        else
            clear_bit(planes_.source, b);
    }

    // Calls found(k, b) for every edge (b, b + step(k)) between different labels.
    template <class Found>
    void visit_cut(Found&& found) const {
        planes_.visit_cut([&](int k, int64_t at, uint64_t cut) {
            for (; cut; cut &= cut - 1) found(k, at * 64 + count_trailing_zeros(cut));
        });
    }
    void count_cut(int64_t* counts) const {
        std::fill(counts, counts + K, 0);
        planes_.visit_cut([&](int k, int64_t, uint64_t cut) { counts[k] += count_ones(cut); });
    }

    // ---- A flow in stages: clear it, then repeatedly add to the excess, make it maximal and erase edges.
    void clear_flow() { numbers_.clear_flow(); }
    void add(int64_t b, T amount) { numbers_.excess.data[b] += amount; }
    // Visits only rows with one of the given nodes; no other node may have excess.
    void resume(const std::vector<int32_t>& nodes) {
        sweeps_.resume(nodes);
        finish(Tie::kMinimal);
    }
    void erase(int k, int64_t b) {
        numbers_.weight[k].data[b] = numbers_.flow[k].data[b] = 0;
        planes_.close_edge(k, b);  // rows that are skipped keep their planes
    }
    void refresh_weights() { numbers_.refresh_weights(); }
};

}  // namespace LOGSUPER_ISA
