// Sums of trees: every leaf of chains and of full trees, and what is refused.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "trees.hpp"

using namespace LOGSUPER_ISA;

namespace {

struct Arrays {
    int64_t width = 1;
    std::vector<int32_t> roots, feature, left, right;
    std::vector<float> threshold;
    std::vector<double> value;

    TreeSum build() const {
        return TreeSum({static_cast<int64_t>(roots.size()), static_cast<int64_t>(feature.size()), width,
                        roots.data(), feature.data(), threshold.data(), left.data(), right.data(),
                        value.data()});
    }
    int32_t size() const { return static_cast<int32_t>(feature.size()); }
    void node(int32_t f, float t, int32_t a, int32_t b, double v) {
        feature.push_back(f);
        threshold.push_back(t);
        left.push_back(a);
        right.push_back(b);
        value.push_back(v);
    }
};

// Leaf k of the chain takes k - 1 < x <= k and is worth k + 1; every inner node is the right child of the
// last.
void add_chain(Arrays& all, int32_t leaves) {
    all.roots.push_back(all.size());
    for (int32_t k = 0; k + 1 < leaves; ++k) {
        const int32_t at = all.size();
        all.node(0, static_cast<float>(k), at + 1, at + 2, 0);
        all.node(-1, 0, 0, 0, 1 + k);
    }
    all.node(-1, 0, 0, 0, leaves);
}

std::vector<double> evaluate(const Arrays& all, const std::vector<float>& rows) {
    const TreeSum trees = all.build();
    std::vector<double> sums(rows.size());
    TreeSum::Scratch scratch = trees.scratch();
    const int64_t n = static_cast<int64_t>(rows.size());
    trees.add(scratch, rows.data(), n, 0, n / 2, sums.data());
    trees.add(scratch, rows.data(), n, n / 2, n, sums.data());
    return sums;
}

}  // namespace

TEST(every_leaf_of_a_chain_is_reached) {
    for (int32_t leaves : {1, 2, 3, 31, 32, 33, 64, 65, 255, 256, 257, 400}) {
        Arrays all;
        add_chain(all, leaves);
        std::vector<float> rows;
        for (int32_t k = 0; k < leaves + 3; ++k) rows.push_back(static_cast<float>(k) - 0.5f);
        rows.push_back(std::numeric_limits<float>::quiet_NaN());
        rows.push_back(-std::numeric_limits<float>::infinity());
        const std::vector<double> found = evaluate(all, rows);
        for (int32_t k = 0; k < leaves + 3; ++k) CHECK(found[k] == 1 + std::min(k, leaves - 1));
        CHECK(found[leaves + 3] == leaves);  // NaN goes to the right
        CHECK(found[leaves + 4] == 1);
    }
}

TEST(values_are_added_in_the_order_of_the_trees) {
    Arrays all;
    for (double v : {1e16, 1.0, -1e16, 1.0}) {
        all.roots.push_back(all.size());
        all.node(-1, 0, 0, 0, v);
    }
    for (double sum : evaluate(all, std::vector<float>(77))) CHECK(sum == 1.0);
}

TEST(what_is_no_tree_is_refused) {
    Arrays good;
    add_chain(good, 4);
    add_chain(good, 300);
    good.build();
    const int32_t n = good.size();
    const auto refuses = [&](auto change) {
        Arrays bad = good;
        change(bad);
        CHECK_THROWS(std::invalid_argument, bad.build());
    };
    refuses([](Arrays& a) { a.roots.clear(); });
    refuses([](Arrays& a) { a.roots[0] = 1; });
    refuses([](Arrays& a) { a.feature[0] = 1; });
    refuses([](Arrays& a) { a.feature[0] = -2; });
    refuses([](Arrays& a) { a.feature[1] = 0; });
    refuses([](Arrays& a) { a.left[0] = 2; });
    refuses([](Arrays& a) { a.left[2] = 1; });
    refuses([](Arrays& a) { a.right[4] = 8; });
    for (int32_t far : {-1, 0, n, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
        refuses([&](Arrays& a) { a.right[n - 3] = far; });
        if (far) refuses([&](Arrays& a) { a.roots[1] = far; });
    }
}
