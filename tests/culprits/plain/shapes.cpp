// Measures shapes by a virtual function. Those of one class take nearly all the time.
#include "../own_clock.h"
#include <cmath>
#include <memory>
#include <vector>

static double in_splines = 0;

struct Shape {
    virtual ~Shape() = default;
    virtual double length() const = 0;
};

struct Line : Shape {
    double dx, dy;
    Line(double dx, double dy) : dx(dx), dy(dy) {}
    double length() const override { return std::sqrt(dx * dx + dy * dy); }
};

struct Arc : Shape {
    double radius, angle;
    Arc(double radius, double angle) : radius(radius), angle(angle) {}
    double length() const override { return radius * angle; }
};

struct Spline : Shape {
    double a, b, c;
    Spline(double a, double b, double c) : a(a), b(b), c(c) {}
    double length() const override {
        double sum = 0, before = 0;
        for (int i = 1; i <= 2000; i++) {
            double t = i / 2000.0, y = t * (a + t * (b + t * c)); // culprit
            sum += std::sqrt(0.00000025 + (y - before) * (y - before)); // culprit
            before = y;
        }
        return sum;
    }
};

static std::vector<std::unique_ptr<Shape>> drawing(long count) {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (long i = 0; i < count; i++) {
        double size = double(scrambled(uint64_t(i)) % 1000);
        if (i % 20 == 0)
            shapes.push_back(std::make_unique<Spline>(size, -size, 1));
        else if (i % 2)
            shapes.push_back(std::make_unique<Line>(size, 1));
        else
            shapes.push_back(std::make_unique<Arc>(size, 0.5));
    }
    return shapes;
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 12);
    double begin = seconds(), sum = 0;
    auto shapes = drawing(300000);
    for (long round = 0; round < rounds; round++)
        for (size_t i = 0; i < shapes.size(); i++) {
            if (i % 20) {
                sum += shapes[i]->length();
                continue;
            }
            double start = seconds();
            sum += shapes[i]->length();
            in_splines += seconds() - start;
        }
    return tell(in_splines, begin, sum);
}
