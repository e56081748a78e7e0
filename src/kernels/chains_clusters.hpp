// Swendsen-Wang moves with fields: open bonds join neighbours with equal values, clusters get one new value.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "chains.hpp"

namespace LOGSUPER_ISA {

struct ClusterScratch {
    std::vector<int32_t> root;
    std::vector<double> field;
    std::vector<float> noise;
};

class Clusters {
    const int64_t n_;
    std::vector<int32_t> ends_;      // (edges, 2)
    std::vector<double> threshold_;  // a bond between equal values is open if its noise is below

   public:
    Clusters(int64_t n, std::vector<int32_t> ends, std::vector<double> threshold)
        : n_(n), ends_(std::move(ends)), threshold_(std::move(threshold)) {}

    int64_t size() const { return n_; }

    // One move: bonds from the noise of `bonds`, new values of the clusters from that of the sample after it.
    void move(ClusterScratch& scratch, uint8_t* state, const double* theta, const NoiseStream& bonds) const {
        const int64_t edges = static_cast<int64_t>(threshold_.size());
        auto& root = scratch.root;
        scratch.noise.resize(padded(std::max(n_, edges)));
        root.resize(n_);
        std::iota(root.begin(), root.end(), 0);
        fill_noise(bonds, edges, scratch.noise.data());
        polled(edges, 16, [&](int64_t e) {
            const int32_t i = ends_[2 * e], j = ends_[2 * e + 1];
            if (state[i] == state[j] && scratch.noise[e] < threshold_[e]) join(root.data(), i, j);
        });
        // The root is the smallest element of a cluster: its noise decides.
        scratch.field.assign(n_, 0.0);
        polled(n_, 16, [&](int64_t i) { scratch.field[root[i] = find(root.data(), root[i])] += theta[i]; });
        fill_noise({bonds.key, bonds.problem, bonds.sample + 1}, n_, scratch.noise.data());
        for (int64_t i = 0; i < n_; ++i) state[i] = scratch.noise[root[i]] < scratch.field[root[i]];
    }

   private:
    static int32_t find(int32_t* root, int32_t i) {
        while (root[i] != i) i = root[i] = root[root[i]];
        return i;
    }
    static void join(int32_t* root, int32_t i, int32_t j) {
        i = find(root, i);
        j = find(root, j);
        root[std::max(i, j)] = std::min(i, j);
    }
};

}  // namespace LOGSUPER_ISA
