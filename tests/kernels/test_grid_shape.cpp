// The memory layout of grids, and bit planes against single bits.
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "grid_planes.hpp"
#include "grid_shape.hpp"

using namespace LOGSUPER_ISA;

namespace {

constexpr int64_t kFour[] = {0, 0, 1, 0, 1, 0};
constexpr int64_t kEight[] = {0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, -1};
constexpr int64_t kVolume[] = {0, 0, 1, 0, 1, 0, 1, 0, 0};

// Whether the node k steps from (z, y, x) is inside the grid.
bool inside(const GridShape& shape, const int64_t* step, int64_t row, int64_t x) {
    const int64_t z = row / shape.height + step[0], y = row % shape.height + step[1];
    x += step[2];
    return 0 <= z && z < shape.depth && 0 <= y && y < shape.height && 0 <= x && x < shape.width;
}

}  // namespace

TEST(rows_are_padded_to_words_but_not_to_powers_of_two) {
    for (int64_t width : {1, 63, 64, 65, 511, 512, 513, 1024, 4096}) {
        const GridShape shape(1, 3, width, kFour, 2);
        CHECK(shape.used_words == (width + 63) / 64);
        CHECK(shape.stride == 64 * shape.words && shape.stride >= width);
        CHECK(shape.words % 8 != 0 && shape.words - shape.used_words <= 1);
        CHECK(shape.size() == 3 * width);
    }
}

TEST(ranges_are_the_columns_whose_neighbours_are_inside) {
    const GridShape shapes[] = {
        {1, 5, 7, kFour, 2}, {1, 5, 7, kEight, 4}, {1, 1, 1, kEight, 4}, {3, 2, 4, kVolume, 3}};
    const int64_t* const steps[] = {kFour, kEight, kEight, kVolume};
    for (int s = 0; s < 4; ++s)
        for (int k = 0; k < shapes[s].offsets; ++k)
            for (int64_t row = 0; row < shapes[s].rows; ++row) {
                const ColumnRange range = shapes[s].range(k, row);
                for (int64_t x = 0; x < shapes[s].width; ++x)
                    CHECK((range.first <= x && x < range.last) ==
                          inside(shapes[s], steps[s] + 3 * k, row, x));
            }
}

TEST(steps_that_the_compiler_knows_are_those_of_the_shape) {
    const GridShape shape(1, 5, 100, kFour, 2);
    const GridLayout<2> layout(shape);
    for (int k = 0; k < 2; ++k) {
        CHECK(layout.row_step(k) == shape.row_step[k]);
        CHECK(layout.column_step(k) == shape.column_step[k]);
        CHECK(layout.word_step(k) == shape.row_step[k] * shape.words);
        CHECK(layout.step(k) == shape.step(k));
        CHECK(layout.step_by_direction[2 * k + 1] == -shape.step(k));
    }
    CHECK(layout.step_down(1) == shape.step(1));
}

TEST(bits_between_two_ends) {
    for (int64_t first = -70; first < 70; first += 7)
        for (int64_t last = -70; last < 140; last += 5)
            for (int i = 0; i < 64; ++i)
                CHECK((bits_between(first, last) >> i & 1) == (first <= i && i < last));
}

TEST(shifted_planes_agree_with_single_bits) {
    const GridShape shape(1, 6, 150, kEight, 4);
    const GridLayout<4> layout(shape);
    GridPlanes<4> planes(layout);
    std::mt19937_64 random(3);
    for (auto* plane : {&planes.source, &planes.sink})
        for (int64_t at = 0; at < shape.rows * shape.words; ++at) plane->data[at] = random();
    for (int k = 0; k < 4; ++k)
        for (int64_t at = shape.words; at < (shape.rows - 1) * shape.words; ++at) {
            const uint64_t above = bits_above(planes.source.data, at, planes.step(k));
            const uint64_t below = bits_below(planes.source.data, planes.sink.data, at, planes.step(k));
            for (int i = 0; i < 64; ++i) {
                const int64_t b = at * 64 + i, a = b - layout.step(k);
                CHECK((above >> i & 1) == bit(planes.source, b + layout.step(k)));
                CHECK((below >> i & 1) == (bit(planes.source, a) && bit(planes.sink, a)));
            }
        }
    const int64_t b = 2 * shape.stride + 70;
    const unsigned mask = planes.neighbours(planes.source, b);
    for (int d = 0; d < 8; ++d) CHECK((mask >> d & 1) == bit(planes.source, b + layout.step_by_direction[d]));
}
