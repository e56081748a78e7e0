#include "check.hpp"

int main() {
#if defined(__AVX2__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) {
        std::printf("skipped: this machine has no AVX2\n");
        return 0;
    }
#endif
    for (const check::Test& test : check::tests()) {
        const int before = check::failures();
        test.run();
        if (check::failures() > before) std::printf("FAILED %s\n", test.name);
    }
    std::printf("%zu C++ tests, %d checks failed\n", check::tests().size(), check::failures());
    return check::failures() ? 1 : 0;
}
