// Linear filters of images by a small window of weights, and the derivatives in these weights.
#pragma once

#include <cstdint>

#include "interrupt.hpp"

namespace LOGSUPER_ISA {

// Images of shape size[0] x size[1] x size[2], padded by margins of radius[...] on each side.
struct Margins {
    int64_t images;
    int64_t size[3];
    int64_t radius[3];

    int64_t padded(int axis) const { return size[axis] + 2 * radius[axis]; }
    int64_t window(int axis) const { return 2 * radius[axis] + 1; }

    // Calls visit(image, row of all images, row of the window, start of the row in the padded images) for
    // each row of each image and each row of the window.
    template <class Visit>
    void visit_rows(Visit&& visit) const {
        for (int64_t i = 0; i < images; ++i)
            for (int64_t z = 0; z < size[0]; ++z)
                for (int64_t y = 0; y < size[1]; ++y) {
                    poll(size[2] * window(0) * window(1) * window(2));
                    for (int64_t dz = 0; dz < window(0); ++dz)
                        for (int64_t dy = 0; dy < window(1); ++dy)
                            visit(i, (i * size[0] + z) * size[1] + y, dz * window(1) + dy,
                                  ((i * padded(0) + z + dz) * padded(1) + y + dy) * padded(2));
                }
    }
};

// field[i] = sum over the window of weights * neighbours; `field` starts at 0.
inline void filter_images(const Margins& m, const double* padded, const double* weights, double* field) {
    const int64_t width = m.size[2], taps = m.window(2);
    m.visit_rows([&](int64_t, int64_t row, int64_t window, int64_t start) {
        double* out = field + row * width;
        for (int64_t dx = 0; dx < taps; ++dx) {
            const double w = weights[window * taps + dx];
            const double* in = padded + start + dx;
            for (int64_t x = 0; x < width; ++x) out[x] += w * in[x];
        }
    });
}

// sums[i]: for each position in the window, the sum over the image of x * neighbour; starts at 0.
inline void correlate_images(const Margins& m, const double* padded, const double* x, double* sums) {
    const int64_t width = m.size[2], taps = m.window(2), window_size = m.window(0) * m.window(1) * taps;
    m.visit_rows([&](int64_t i, int64_t row, int64_t window, int64_t start) {
        const double* a = x + row * width;
        for (int64_t dx = 0; dx < taps; ++dx) {
            const double* b = padded + start + dx;
            double lanes[8] = {};  // independent sums, for vector units
            int64_t k = 0;
            for (; k + 8 <= width; k += 8)
                for (int64_t j = 0; j < 8; ++j) lanes[j] += a[k + j] * b[k + j];
            for (; k < width; ++k) lanes[0] += a[k] * b[k];
            const double left = (lanes[0] + lanes[4]) + (lanes[1] + lanes[5]);
            sums[i * window_size + window * taps + dx] +=
                left + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
        }
    });
}

}  // namespace LOGSUPER_ISA
