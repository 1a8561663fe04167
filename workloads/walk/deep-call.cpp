// A rendering program whose time is in one slow computation, far below function pointers and virtual calls. Fix: the
// computation is looked up in a table.
#include "truth.h"
#include <memory>
#include <vector>

static int t_slow, t_cheap;
static volatile double sink;

__attribute__((noinline)) static double slow_gamma(double x) {
    uint64_t y = truth_mixed((uint64_t)(x * 1000), 3000);
    return (double)(y % 1000) * 0.001;
}

__attribute__((noinline)) static double table_gamma(double x) { return x * 0.5; }

struct Shader {
    virtual ~Shader() = default;
    virtual double shade(double x) const = 0;
};

struct GammaShader final : Shader {
    double (*gamma)(double);
    explicit GammaShader(double (*how)(double)) : gamma(how) {}
    __attribute__((noinline)) double shade(double x) const override {
        double y = 0;
        TRUTH_TIMED(t_slow, y = gamma(x));
        return y + 1;
    }
};

struct FlatShader final : Shader {
    __attribute__((noinline)) double shade(double x) const override {
        uint64_t y = 0;
        TRUTH_TIMED(t_cheap, y = truth_mixed((uint64_t)x, 900));
        return (double)(y % 10);
    }
};

using Pass = double (*)(const Shader &, double);
__attribute__((noinline)) static double first_pass(const Shader &shader, double x) { return shader.shade(x) * 2; }
__attribute__((noinline)) static double second_pass(const Shader &shader, double x) { return shader.shade(x + 1) * 3; }

struct Scene {
    std::vector<std::unique_ptr<Shader>> shaders;
    std::vector<Pass> passes;
    __attribute__((noinline)) double draw_line(double y) const {
        double sum = 0;
        for (int x = 0; x < 20; x++)
            for (const auto &shader : shaders)
                sum += passes[(size_t)x % passes.size()](*shader, x + y);
        return sum;
    }
    __attribute__((noinline)) double draw() const {
        double sum = 0;
        for (int y = 0; y < 10; y++)
            sum += draw_line(y);
        return sum;
    }
};

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    t_slow = truth_function("slow_gamma");
    t_cheap = truth_function("FlatShader::shade");
    Scene scene;
    scene.shaders.push_back(std::make_unique<GammaShader>(truth.fixed ? table_gamma : slow_gamma));
    scene.shaders.push_back(std::make_unique<FlatShader>());
    // One way dominates, so that one chain holds the time.
    scene.passes.assign(10, first_pass);
    scene.passes[7] = second_pass;
    for (; truth_running(); truth.operations++)
        sink = sink + scene.draw();
    truth_print();
}
