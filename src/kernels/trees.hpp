// Sums of decision trees, such as boosting grows them, for many rows of features.
//
// A tree of moderate size is not descended. Of its leaves, from left to right, there is one bit each, in
// one word or several: whether a row can still reach it. Every node that sends the row to the right clears
// the leaves on its left, and the row ends in the first leaf that remains (C. Lucchese et al., "QuickScorer:
// a fast algorithm to rank documents with additive ensembles of regression trees", 2015). Nodes are visited
// in any order, without branches, for several vectors of rows at a time. Larger trees are descended by
// several rows side by side.
//
// A row gets the values of the trees in their order, whatever the other rows and threads do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "interrupt.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

// Nodes of trees, those of a tree one after the other, each child behind its parent.
struct TreeNodes {
    int64_t trees, nodes, width;
    const int32_t* roots;
    const int32_t* feature;  // -1 in a leaf
    const float* threshold;  // rows with at most this go to the left; NaN goes to the right
    const int32_t *left, *right;
    const double* value;  // of leaves
};

class TreeSum {
   public:
    // Rows that are treated at once: few enough for the registers to have a word for each.
    static constexpr int64_t kRows = 8 * kLanes<float>;
    // Rows of a task.
    static constexpr int64_t kTask = 4 * kRows;

    // For each feature in use kRows rows, one after the other.
    using Scratch = std::vector<float>;

   private:
    static constexpr int64_t kBits = 32;
    // Words of the largest tree that is not descended. The time is proportional to the leaves; from more
    // leaves on, descending is faster.
    static constexpr int64_t kWords = 8;
    // Rows that descend a large tree side by side.
    static constexpr int64_t kSide = 8;

    // A node that clears leaves of a word.
    struct Split {
        float threshold;
        int32_t column;
        int32_t kept;  // bits of the leaves that are not on its left
    };
    struct Word {
        int64_t first, end;  // of the splits
    };
    // A node of a large tree. A leaf has itself as children; `value` is its place, in a leaf.
    struct Node {
        float threshold;
        int32_t column, left, right, value;
    };
    struct Tree {
        bool small;
        int64_t first, end;  // of the words, or of the nodes
        int64_t value;       // place of its first leaf
    };

    int64_t width_;
    std::vector<int32_t> used_;  // features that any tree looks at
    std::vector<Tree> trees_;
    std::vector<Split> splits_;
    std::vector<Word> words_;
    std::vector<Node> nodes_;
    std::vector<double> values_;  // of the leaves of each tree, from left to right

   public:
    // The arrays may be a stranger's: what is not a tree is refused.
    explicit TreeSum(const TreeNodes& given) : width_(given.width) {
        const int64_t n = given.nodes;
        refuse(given.trees < 1 || given.roots[0] != 0, "the first tree must begin at node 0");
        std::vector<int32_t> column = number_columns(given);
        std::vector<int32_t> leaves(n), first(n);  // of the part of its tree below a node
        std::vector<uint8_t> known(n);             // whether the node has a parent
        for (int64_t t = 0; t < given.trees; ++t) {
            const int64_t root = given.roots[t], end = t + 1 < given.trees ? given.roots[t + 1] : n;
            refuse(root < 0 || end <= root || end > n, "roots must increase, up to the number of nodes");
            for (int64_t i = root; i < end; ++i) {
                poll(4);
                if (given.feature[i] < 0) continue;
                for (const int64_t child : {int64_t{given.left[i]}, int64_t{given.right[i]}}) {
                    refuse(child <= i || child >= end, "a child must lie behind its parent, in its tree");
                    refuse(known[child], "a node has two parents");
                    known[child] = 1;
                }
            }
            for (int64_t i = end - 1; i >= root; --i) {
                poll(4);
                leaves[i] = given.feature[i] < 0 ? 1 : leaves[given.left[i]] + leaves[given.right[i]];
            }
            first[root] = 0;
            known[root] = 1;
            add_tree(given, root, end, column, leaves, first, known);
        }
    }

    int64_t width() const { return width_; }
    Scratch scratch() const { return Scratch(used_.size() * kRows); }

    // Adds what the trees say of the rows first .. last - 1 to their sums. Row r of feature f is
    // columns[f * count + r].
    void add(Scratch& x, const float* columns, int64_t count, int64_t first, int64_t last,
             double* sums) const {
        for (int64_t r = first; r < last; r += kRows) {
            const int64_t rows = std::min(kRows, last - r);
            for (size_t c = 0; c < used_.size(); ++c) {
                std::copy_n(columns + used_[c] * count + r, rows, x.data() + c * kRows);
                poll(8);
            }
            double sum[kRows] = {};
            std::copy_n(sums + r, rows, sum);
            for (const Tree& tree : trees_)
                if (tree.small)
                    add_small(tree, x.data(), sum);
                else
                    add_large(tree, x.data(), sum);
            std::copy_n(sum, rows, sums + r);
        }
    }

   private:
    static void refuse(bool condition, const char* what) {
        if (condition) throw std::invalid_argument(what);
    }

    // For each node the place of its feature among those in use.
    std::vector<int32_t> number_columns(const TreeNodes& given) {
        std::unordered_map<int32_t, int32_t> places;
        std::vector<int32_t> column(given.nodes);
        for (int64_t i = 0; i < given.nodes; ++i) {
            poll(32);
            const int32_t f = given.feature[i];
            refuse(f < -1 || f >= given.width, "there is no such feature");
            if (f < 0) continue;
            const auto [found, first] = places.try_emplace(f, static_cast<int32_t>(used_.size()));
            if (first) used_.push_back(f);
            column[i] = found->second;
        }
        return column;
    }

    // `known` has the nodes with a parent, and the root. Others are not reached, nor are those below them.
    void add_tree(const TreeNodes& given, int64_t root, int64_t end, const std::vector<int32_t>& column,
                  const std::vector<int32_t>& leaves, std::vector<int32_t>& first,
                  std::vector<uint8_t>& known) {
        const int64_t place = static_cast<int64_t>(values_.size());
        values_.resize(values_.size() + leaves[root]);
        for (int64_t i = root; i < end; ++i) {
            poll(8);
            const int32_t a = given.left[i], b = given.right[i];
            if (given.feature[i] < 0) {
                if (known[i]) values_[place + first[i]] = given.value[i];
            } else if (known[i]) {
                first[a] = first[i];
                first[b] = first[i] + leaves[a];
            } else {
                known[a] = known[b] = 0;
            }
        }
        const auto inside = [&](int64_t i) { return known[i] && given.feature[i] >= 0; };
        if (leaves[root] > kBits * kWords) {
            const int64_t start = static_cast<int64_t>(nodes_.size());
            for (int64_t i = root; i < end; ++i) {
                poll(8);
                const int64_t left = inside(i) ? given.left[i] : i, right = inside(i) ? given.right[i] : i;
                nodes_.push_back({given.threshold[i], inside(i) ? column[i] : 0,
                                  static_cast<int32_t>(left - root), static_cast<int32_t>(right - root),
                                  first[i]});
            }
            trees_.push_back({false, start, static_cast<int64_t>(nodes_.size()), place});
            return;
        }
        const int64_t start = static_cast<int64_t>(words_.size());
        for (int64_t low = 0; low < leaves[root]; low += kBits) {
            const int64_t start_of_word = static_cast<int64_t>(splits_.size());
            for (int64_t i = root; i < end; ++i) {
                poll(8);
                if (!inside(i)) continue;
                const uint32_t cleared =
                    bits_below(first[i] + leaves[given.left[i]] - low) & ~bits_below(first[i] - low);
                if (cleared)
                    splits_.push_back({given.threshold[i], column[i], static_cast<int32_t>(~cleared)});
            }
            words_.push_back({start_of_word, static_cast<int64_t>(splits_.size())});
        }
        trees_.push_back({true, start, static_cast<int64_t>(words_.size()), place});
    }

    static uint32_t bits_below(int64_t n) {
        return n <= 0 ? 0 : n >= kBits ? ~uint32_t{0} : (uint32_t{1} << n) - 1;
    }

    // The number of the lowest bit of each word that is not 0: the exponent of a number with that bit only,
    // which is negative if it is the last one.
    static LOGSUPER_INLINE VecInt32 lowest_bit(VecInt32 words) {
        const VecInt32 lowest = words & (VecInt32)(VecUInt32{} - (VecUInt32)words);
        const VecFloat32 power = __builtin_convertvector(lowest, VecFloat32);
        return (((VecInt32)power >> 23) & 255) - 127;
    }

    void add_small(const Tree& tree, const float* x, double* sum) const {
        constexpr int kLane = kLanes<float>, kVectors = kRows / kLane;
        int32_t leaf[kRows];
        // From the last word to the first, which decides.
        for (int64_t w = tree.end - 1; w >= tree.first; --w) {
            VecInt32 reached[kVectors];
            for (VecInt32& words : reached) words = VecInt32{} - 1;
            const Split* const end = splits_.data() + words_[w].end;
            for (const Split* s = splits_.data() + words_[w].first; s != end; ++s) {
                const VecFloat32 threshold = VecFloat32{} + s->threshold;
                const VecInt32 kept = VecInt32{} + s->kept;
                const float* const row = x + s->column * kRows;
                for (int v = 0; v < kVectors; ++v)
                    reached[v] &= kept | (VecInt32)(load<float>(row + v * kLane) <= threshold);
            }
            const int32_t low = static_cast<int32_t>((w - tree.first) * kBits);
            for (int v = 0; v < kVectors; ++v) {
                VecInt32 found = lowest_bit(reached[v]) + low;
                if (w + 1 < tree.end) found = reached[v] != 0 ? found : load<int32_t>(leaf + v * kLane);
                store<int32_t>(leaf + v * kLane, found);
            }
            poll((words_[w].end - words_[w].first) * kVectors + 4 * kRows);
        }
        // Some word has a bit left: that of the leaf that the row belongs to.
        const double* const value = values_.data() + tree.value;
        for (int64_t j = 0; j < kRows; ++j) sum[j] += value[leaf[j]];
    }

    void add_large(const Tree& tree, const float* x, double* sum) const {
        const Node* const nodes = nodes_.data() + tree.first;
        const double* const value = values_.data() + tree.value;
        for (int64_t j = 0; j < kRows; j += kSide) {
            int32_t at[kSide] = {};
            for (int32_t moved = 1; moved;) {
                moved = 0;
                for (int64_t i = 0; i < kSide; ++i) {
                    const Node& node = nodes[at[i]];
                    const int32_t left = node.left, right = node.right;
                    const int32_t next = x[node.column * kRows + j + i] <= node.threshold ? left : right;
                    moved |= next ^ at[i];
                    at[i] = next;
                }
                poll(4 * kSide);
            }
            for (int64_t i = 0; i < kSide; ++i) sum[j + i] += value[nodes[at[i]].value];
        }
    }
};

}  // namespace LOGSUPER_ISA
