// Vector operations against scalar ones.
#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "simd.hpp"

using namespace LOGSUPER_ISA;

namespace {

std::mt19937_64 random_bits(1);

template <class T>
std::vector<T> random_integers(int64_t n) {
    std::vector<T> out(n);
    for (T& v : out) v = static_cast<T>(random_bits() % 7) - 3;
    return out;
}

template <class T>
void check_integers() {
    constexpr int lanes = kLanes<T>;
    const auto a = random_integers<T>(64), b = random_integers<T>(64);
    for (int i = 0; i < 64; i += lanes) {
        const Vec<T> low = vmin(load(&a[i]), load(&b[i])), high = vmax(load(&a[i]), load(&b[i]));
        for (int j = 0; j < lanes; ++j) {
            CHECK(low[j] == std::min(a[i + j], b[i + j]));
            CHECK(high[j] == std::max(a[i + j], b[i + j]));
        }
    }
    const uint64_t bits = bits_of_64<T>([&](int i) { return load(&a[i]) > load(&b[i]); });
    for (int i = 0; i < 64; ++i) CHECK((bits >> i & 1) == (a[i] > b[i]));

    // A block within rows of 20 numbers: its columns are loaded and stored, the rest is left alone.
    const int64_t stride = 20;
    const auto rows = random_integers<T>(lanes * stride);
    auto copy = rows;
    Vec<T> columns[lanes];
    load_columns(&rows[3], stride, columns);
    for (int i = 0; i < lanes; ++i)
        for (int j = 0; j < lanes; ++j) CHECK(columns[j][i] == rows[i * stride + 3 + j]);
    std::fill(copy.begin(), copy.end(), T{9});
    store_columns(&copy[3], stride, columns);
    for (int64_t k = 0; k < lanes * stride; ++k) {
        const int64_t j = k % stride - 3;
        CHECK(copy[k] == (0 <= j && j < lanes ? rows[k] : T{9}));
    }
}

}  // namespace

TEST(vectors_of_int32_agree_with_scalars) { check_integers<int32_t>(); }
TEST(vectors_of_int64_agree_with_scalars) { check_integers<int64_t>(); }

TEST(chosen_finite_numbers_are_added) {
    const double inf = std::numeric_limits<double>::infinity();
    for (int64_t count : {1, 3, 4, 5, 63, 64}) {
        std::vector<double> theta(count);  // no number behind the end may be read
        for (double& v : theta) v = static_cast<double>(random_bits() % 1000) / 8;
        theta[count / 2] = inf;
        const uint64_t inside = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
        for (uint64_t bits : {inside, random_bits() & inside, uint64_t{0}}) {
            double expected = 0;
            for (int64_t i = 0; i < count; ++i)
                if (bits >> i & 1 && theta[i] < inf) expected += theta[i];
            Float64x4 sum = {};
            add_chosen(theta.data(), bits, count, sum);
            CHECK(total(sum) == expected);  // eighths: the additions are exact
        }
    }
}
