// The max-flow solvers on tiny graphs, against enumeration.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"
#include "graph_structure.hpp"
#include "grid_structure.hpp"

using namespace LOGSUPER_ISA;

namespace {

std::mt19937 random_bits(5);

// Multiples of 1/4 up to 2, a quarter of them 0: ties are frequent, and sums exact.
double random_weight() {
    const unsigned r = random_bits();
    return r % 4 ? static_cast<double>(r / 4 % 9) / 4 : 0.0;
}
double random_field() { return static_cast<double>(random_bits() % 17) / 4 - 2; }

struct Problem {
    int64_t n;
    std::vector<int64_t> ends;
    std::vector<double> weights, theta;

    double cut(uint32_t y) const {
        double sum = 0;
        for (size_t e = 0; e < weights.size(); ++e)
            if ((y >> ends[2 * e] & 1) != (y >> ends[2 * e + 1] & 1)) sum += weights[e];
        return sum;
    }
    double value(uint32_t y) const {
        double sum = -cut(y);
        for (int64_t i = 0; i < n; ++i)
            if (y >> i & 1) sum += theta[i];
        return sum;
    }
};

void check_solves(const Problem& p, Worker& worker) {
    double best = -INFINITY;
    uint32_t smallest = 0, largest = 0;  // maximisers form a lattice
    for (uint32_t y = 0; y < 1u << p.n; ++y) {
        const double value = p.value(y);
        if (value > best) smallest = largest = y;
        if (value == best) smallest &= y, largest |= y;
        best = std::max(best, value);
    }
    for (bool wide : {false, true}) {
        const double alpha = 1;
        worker.set_weights({&alpha, nullptr, false}, wide);
        for (Tie tie : {Tie::kMinimal, Tie::kMaximal}) {
            worker.solve(p.theta.data(), tie);
            std::vector<uint8_t> labels(p.n);
            worker.labels(labels.data());
            uint32_t y = 0;
            for (int64_t i = 0; i < p.n; ++i) y |= static_cast<uint32_t>(labels[i]) << i;
            CHECK(y == (tie == Tie::kMinimal ? smallest : largest));
            double cut = 0;
            worker.statistics(&cut);
            CHECK(cut == p.cut(y) && worker.dot(p.theta.data()) - cut == best);
        }
    }
    // s is in B(f): s(A) <= f(A) for all A, with equality for all elements; the gap proves its norm minimal.
    const double alpha = 1;
    std::vector<double> s(p.n);
    const ParametricResult result = worker.min_norm_point({&alpha, nullptr, false}, p.theta.data(), s.data());
    CHECK(check::near(result.gap, 0, 1e-9));
    for (uint32_t a = 0; a < 1u << p.n; ++a) {
        double sum = 0;
        for (int64_t i = 0; i < p.n; ++i)
            if (a >> i & 1) sum += s[i];
        CHECK(sum <= -p.value(a) + 1e-9);
        if (a == (1u << p.n) - 1) CHECK(check::near(sum, -p.value(a), 1e-9));
    }
}

void check_graphs(bool dense) {
    for (int trial = 0; trial < 40; ++trial) {
        Problem p{2 + trial % 7, {}, {}, {}};
        for (int64_t i = 0; i < p.n; ++i)
            for (int64_t j = i + 1; j < p.n; ++j)
                if (random_bits() % 2) {
                    p.ends.insert(p.ends.end(), {i, j});
                    p.weights.push_back(random_weight());
                }
        for (int64_t i = 0; i < p.n; ++i) p.theta.push_back(random_field());
        const int64_t m = static_cast<int64_t>(p.weights.size());
        GraphTerms terms{{0, m}, {}, p.weights};
        for (int64_t e = 0; e < m; ++e) terms.edge.push_back(static_cast<int32_t>(e));
        const GraphStructure structure(p.n, p.ends, dense, terms);
        check_solves(p, *structure.worker());
    }
}

void check_grids(const std::vector<int64_t>& steps, int64_t depth, int64_t height, int64_t width) {
    const int offsets = static_cast<int>(steps.size() / 3);
    const GridShape shape(depth, height, width, steps.data(), offsets);
    for (int trial = 0; trial < 20; ++trial) {
        Problem p{shape.size(), {}, {}, {}};
        const bool uniform = trial % 2;
        std::vector<GridPlane> planes;
        for (int k = 0; k < offsets; ++k) {
            GridPlane plane{0, k, random_weight(), {}};
            for (int64_t i = 0; !uniform && i < p.n; ++i) plane.array.push_back(random_weight());
            for (int64_t i = 0; i < p.n; ++i) {
                const ColumnRange columns = shape.range(k, i / width);
                if (i % width < columns.first || i % width >= columns.last) continue;
                p.ends.insert(p.ends.end(), {i, i + shape.row_step[k] * width + shape.column_step[k]});
                p.weights.push_back(uniform ? plane.value : plane.array[i]);
            }
            planes.push_back(plane);
        }
        for (int64_t i = 0; i < p.n; ++i) p.theta.push_back(random_field());
        const GridStructure structure(shape, 1, planes);
        CHECK(structure.edges() == static_cast<int64_t>(p.weights.size()));
        check_solves(p, *structure.worker());
    }
}

}  // namespace

TEST(sparse_graphs_agree_with_enumeration) { check_graphs(false); }
TEST(dense_graphs_agree_with_enumeration) { check_graphs(true); }
TEST(grids_of_four_neighbours_agree_with_enumeration) {
    check_grids({0, 0, 1, 0, 1, 0}, 1, 3, 3);
    check_grids({0, 0, 1, 0, 1, 0}, 1, 1, 9);
    check_grids({0, 0, 1, 0, 1, 0}, 1, 9, 1);
}
TEST(grids_of_eight_neighbours_agree_with_enumeration) {
    check_grids({0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, -1}, 1, 3, 3);
}
TEST(volumes_agree_with_enumeration) { check_grids({0, 0, 1, 0, 1, 0, 1, 0, 0}, 2, 2, 2); }

TEST(a_field_with_a_nan_is_refused) {
    const GraphStructure structure(1, {}, false, {{0, 0}, {}, {}});
    const double alpha = 1, theta = NAN;
    const auto worker = structure.worker();
    worker->set_weights({&alpha, nullptr, false}, false);
    CHECK_THROWS(std::invalid_argument, worker->solve(&theta, Tie::kMinimal));
}

TEST(quantised_weights_cannot_overflow) {
    for (double largest : {1e-300, 1e-3, 1.0, 3.0, 1e12, 1e300}) {
        WeightRange range;
        range.largest_degree = largest;
        const Quantiser<int32_t> narrow(range);
        const Quantiser<int64_t> wide(range);
        CHECK(narrow.bound < 0x1p30 && wide.bound < 0x1p61);
        int exponent = 0;
        CHECK(std::frexp(narrow.scale, &exponent) == 0.5);  // a power of two
    }
}
