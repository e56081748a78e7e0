// Transfer matrices, messages and filters on tiny models, against enumeration and plain loops.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "filters.hpp"
#include "messages.hpp"
#include "strips_bounds.hpp"

using namespace LOGSUPER_ISA;

namespace {

std::mt19937 random_bits(11);
double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_bits()) / 4294967296.0;
}
std::vector<double> uniforms(int64_t n, double low, double high) {
    std::vector<double> out(n);
    for (double& v : out) v = uniform(low, high);
    return out;
}

struct Enumerated {
    double log_z;
    std::vector<double> log_odds;
};

Enumerated enumerate(const std::vector<double>& t, const std::vector<int64_t>& ends,
                     const std::vector<double>& w) {
    const size_t n = t.size();
    double z = 0;
    std::vector<double> ones(n), odds(n);
    for (uint32_t x = 0; x < 1u << n; ++x) {
        double log = 0;
        for (size_t i = 0; i < n; ++i) log += x >> i & 1 ? t[i] : 0;
        for (size_t e = 0; e < w.size(); ++e)
            if ((x >> ends[2 * e] & 1) != (x >> ends[2 * e + 1] & 1)) log -= w[e];
        z += std::exp(log);
        for (size_t i = 0; i < n; ++i) ones[i] += x >> i & 1 ? std::exp(log) : 0;
    }
    for (size_t i = 0; i < n; ++i) odds[i] = std::log(ones[i] / (z - ones[i]));
    return {std::log(z), odds};
}

}  // namespace

TEST(transfer_matrices_agree_with_enumeration) {
    for (int64_t h : {1, 3, 4})
        for (int64_t w : {1, 2, 3}) {
            const auto t = uniforms(h * w, -2, 2), across = uniforms(h * (w - 1), 0, 2);
            const auto down = uniforms((h - 1) * w, 0, 2);
            std::vector<int64_t> ends;
            std::vector<double> weights;
            for (int64_t i = 0; i < h * w; ++i) {
                if (i % w + 1 < w) {
                    ends.insert(ends.end(), {i, i + 1});
                    weights.push_back(across[i / w * (w - 1) + i % w]);
                }
                if (i / w + 1 < h) {
                    ends.insert(ends.end(), {i, i + w});
                    weights.push_back(down[i]);
                }
            }
            const Enumerated exact = enumerate(t, ends, weights);
            const Model model(Grid{h, w, t.data(), across.data(), down.data()});
            std::vector<double> odds(h * w);
            CHECK(check::near(transfer(model, odds.data()), exact.log_z, 1e-12));
            for (int64_t i = 0; i < h * w; ++i) CHECK(check::near(odds[i], exact.log_odds[i], 1e-11));
            // Windows of one column bracket the log-odds of the first pixel, which no other precedes.
            std::vector<double> fields[2] = {odds, odds}, bounds[2] = {odds, odds};
            WindowScratch scratch;
            for (int bound : {0, 1})
                bound_fields(model, 1, bound, std::vector<char>(w, 1), scratch, fields[bound].data());
            const std::vector<uint8_t> reference(h * w);
            ConstBounds found = {fields[0].data(), fields[1].data()};
            Bounds out = {bounds[0].data(), bounds[1].data()};
            bound_chain({model, 1, reference.data(), 2}, found, out);
            CHECK(bounds[0][0] <= exact.log_odds[0] && exact.log_odds[0] <= bounds[1][0]);
            CHECK((bounds[1][0] - bounds[0][0] > 1e-9) == (h > 1 && w > 1));  // a row is a chain: exact
            // Overlapping windows bracket all log-odds, whatever the number of threads.
            for (int64_t window : {1, 2, 3}) {
                std::vector<double> first[2] = {odds, odds}, second[2] = {odds, odds};
                bound_marginals(model, {window, 1, 1, 1}, {first[0].data(), first[1].data()});
                bound_marginals(model, {window, 1, 1, 3}, {second[0].data(), second[1].data()});
                CHECK(first[0] == second[0] && first[1] == second[1]);
                for (int64_t i = 0; i < h * w; ++i)
                    CHECK(first[0][i] <= exact.log_odds[i] && exact.log_odds[i] <= first[1][i]);
            }
        }
}

TEST(moments_of_a_whole_window_are_derivatives_of_log_z) {
    const int64_t h = 3, w = 5, n = h * w;
    for (double scale : {1.0, 100.0}) {  // plain weights, and logarithms
        auto t = uniforms(n, -2 * scale, 2 * scale), across = uniforms(h * (w - 1), 0, scale);
        auto down = uniforms((h - 1) * w, 0, scale);
        const Grid grid{h, w, t.data(), across.data(), down.data()};
        WindowScratch scratch;
        std::vector<Moments> found(n, Moments{0, 0, 0});
        const Model model(grid);
        with_window(model, Span{0, w}, scratch,
                    [&](auto& win, double) { win.add_moments(1.0, found.data()); });
        const auto slope = [&](double& weight) {
            const double step = 1e-5 * scale, kept = weight;
            double ends[2];
            for (int side : {0, 1}) {
                weight = kept + (side ? step : -step);
                ends[side] = transfer(Model(grid), nullptr);
            }
            weight = kept;
            return (ends[1] - ends[0]) / (2 * step);
        };
        for (int64_t i = 0; i < n; ++i) {
            CHECK(check::near(found[i].one, slope(t[i]), 1e-4));
            if (i % w) CHECK(check::near(found[i].differ, -slope(across[i / w * (w - 1) + i % w - 1]), 1e-4));
            if (i >= w) CHECK(check::near(found[i].flip, -slope(down[i - w]), 1e-4));
        }
    }
}

TEST(images_of_a_batch_are_all_done_once) {
    for (int threads : {1, 2, 5}) {
        std::vector<int> done(7);
        for_each_image(7, threads, [&](int64_t m, int inner) { done[m] += inner >= 1; });
        CHECK(done == std::vector<int>(7, 1));
    }
}

TEST(beliefs_on_a_tree_are_exact) {
    const std::vector<int64_t> ends = {0, 1, 1, 2, 1, 3, 3, 4};
    const auto t = uniforms(5, -2, 2), k = uniforms(4, 0, 3);
    const std::vector<double> rho(4, 1.0);
    const Enumerated exact = enumerate(t, ends, k);
    const EdgeEnds edge_ends(5, ends.data(), 4);
    const std::vector<double> zero(8, 0.0);
    LogMessages logs(edge_ends, {t.data(), k.data(), rho.data(), 1.0}, zero.data());
    OddsMessages odds(edge_ends, t.data(), k.data());
    CHECK(propagate(edge_ends, logs, 20, 1e-12) <= 1e-12);
    CHECK(propagate(edge_ends, odds, 20, 1e-12) <= 1e-12);
    for (int64_t i = 0; i < 5; ++i) {
        CHECK(check::near(logs.belief(i), exact.log_odds[i], 1e-10));
        for (int lane = 0; lane < 2; ++lane)
            CHECK(check::near(std::log(odds.belief(i)[lane]), exact.log_odds[i], 1e-10));
    }
}

TEST(mean_field_is_a_lower_bound_and_exact_without_edges) {
    const auto t = uniforms(4, -2, 2);
    for (double weight : {0.0, 0.7}) {
        const std::vector<int64_t> ends = {0, 1, 0, 2, 1, 3, 2, 3};
        const std::vector<double> w(4, weight);
        const EdgeEnds edge_ends(4, ends.data(), 4);
        MeanField field(edge_ends, t.data(), w.data());
        std::vector<double> first(4, -1.0), second(4, 1.0);
        double values[2];
        field.ascend({{first.data(), second.data()}, {values, values + 1}}, 1000, 1e-12);
        const double log_z = enumerate(t, ends, w).log_z;
        for (double value : values) {
            CHECK(value <= log_z + 1e-12);
            if (weight == 0) CHECK(check::near(value, log_z, 1e-9));
        }
    }
}

TEST(exponentials_are_within_two_ulps) {
    for (double x : {-700.0, -1.0, -1e-9, 0.0, 0.3, 1.0, 88.0, 700.0}) {
        const double e = exponential(Float64x2{x, x})[0];
        CHECK(check::near(e / std::exp(x), 1.0, 6e-16));
    }
}

TEST(filters_agree_with_plain_loops) {
    const Margins m{2, {1, 3, 11}, {0, 1, 2}};
    const auto padded = uniforms(2 * 1 * 5 * 15, -1, 1), weights = uniforms(15, -1, 1),
               x = uniforms(66, 0, 1);
    std::vector<double> field(66), sums(30);
    filter_images(m, padded.data(), weights.data(), field.data());
    correlate_images(m, padded.data(), x.data(), sums.data());
    std::vector<double> expected(30);
    for (int64_t i = 0; i < 66; ++i) {
        const int64_t image = i / 33, row = i / 11 % 3, column = i % 11;
        double sum = 0;
        for (int64_t tap = 0; tap < 15; ++tap) {
            const double neighbour = padded[(image * 5 + row + tap / 5) * 15 + column + tap % 5];
            sum += weights[tap] * neighbour;
            expected[image * 15 + tap] += x[i] * neighbour;
        }
        CHECK(check::near(field[i], sum, 1e-12));
    }
    for (int64_t k = 0; k < 30; ++k) CHECK(check::near(sums[k], expected[k], 1e-12));
}
