// The noise: known answers of Philox4x32-10, the logistic law, independence of how it is drawn.
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "noise.hpp"

using namespace LOGSUPER_ISA;

namespace {

struct KnownAnswer {
    NoiseStream stream;
    uint32_t counter, words[4];
};

// From the distribution of Random123: counter (counter, sample, problem), key.
constexpr KnownAnswer kAnswers[] = {
    {{0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~uint64_t{0}, ~uint64_t{0}, ~0u}, ~0u, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3},
     0x243f6a88,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

}  // namespace

TEST(philox_gives_the_known_answers) {
    for (const KnownAnswer& known : kAnswers) {
        uint32_t out[4][8];
        philox8(known.stream, known.counter, out);
        for (int j = 0; j < 4; ++j) CHECK(out[j][0] == known.words[j]);
    }
}

TEST(eight_philox_blocks_are_those_of_eight_counters) {
    const NoiseStream stream{123, 456, 7};
    uint32_t all[4][8], one[4][8];
    philox8(stream, 0xfffffffd, all);  // the counter wraps around
    for (uint32_t i = 0; i < 8; ++i) {
        philox8(stream, 0xfffffffdu + i, one);
        for (int j = 0; j < 4; ++j) CHECK(all[j][i] == one[j][0]);
    }
}

TEST(a_word_becomes_its_logit) {
    const uint32_t words[8] = {0, 1, 12345, 0x7fffffff, 0x80000000, 0xdeadbeef, 0xfffffffe, 0xffffffff};
    const Float32x8 z = logistic8(words);
    for (int i = 0; i < 8; ++i) {
        const double a = words[i] + 0.5, logit = std::log(a / (4294967296.0 - a));
        CHECK(check::near(z[i], logit, 1e-6 * (1 + std::abs(logit))));
    }
    CHECK(z[0] == -z[7] && z[3] == -z[4]);
}

TEST(noise_depends_on_the_element_alone) {
    const NoiseStream stream{1, 2, 3};
    const std::vector<double> theta(200, 0.25);
    std::vector<double> all(200), some(200);
    perturb_field(stream, theta.data(), 200, 200, all.data());
    for (int64_t noisy : {0, 1, 31, 32, 33, 77, 199}) {
        perturb_field(stream, theta.data(), 200, noisy, some.data());
        for (int64_t i = 0; i < 200; ++i) CHECK(some[i] == (i < noisy ? all[i] : 0.25));
    }
    float z[32];
    logistic32(stream, 64, z);
    for (int64_t i = 0; i < 32; ++i) CHECK(all[64 + i] == 0.25 + z[i]);
}

TEST(noise_has_the_moments_of_the_logistic_law) {
    const int64_t n = 1 << 16;
    const std::vector<double> zero(n, 0.0);
    std::vector<double> z(n);
    perturb_field({9, 9, 9}, zero.data(), n, n, z.data());
    double sum = 0, squares = 0;
    for (double v : z) {
        sum += v;
        squares += v * v;
    }
    CHECK(check::near(sum / n, 0, 5 * 1.814 / 256));
    CHECK(check::near(squares / n, 3.2898681, 0.12));  // pi^2 / 3, five standard errors
}
