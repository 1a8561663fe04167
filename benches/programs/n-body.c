/* Gravity among N bodies by direct summation, leapfrog steps; prints the relative change of energy.
 * usage: n-body BODIES STEPS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct vector { double x, y, z; };
struct body { struct vector at, speed, pull; double mass; };

static unsigned long long state = 88172645463325252ull;

double uniform(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / (double)(1ull << 53);
}

struct vector difference(const struct vector *a, const struct vector *b) {
    return (struct vector){a->x - b->x, a->y - b->y, a->z - b->z};
}

/* Softened, so that close meetings stay finite. */
double inverse_cube(const struct vector *d) {
    double square = d->x * d->x + d->y * d->y + d->z * d->z + 1e-4;
    return 1.0 / (square * sqrt(square));
}

void attract(struct body *a, struct body *b) {
    struct vector d = difference(&b->at, &a->at);
    double w = inverse_cube(&d);
    double wa = w * b->mass, wb = w * a->mass;
    a->pull.x += wa * d.x, a->pull.y += wa * d.y, a->pull.z += wa * d.z;
    b->pull.x -= wb * d.x, b->pull.y -= wb * d.y, b->pull.z -= wb * d.z;
}

void pulls(struct body *all, int n) {
    for (int i = 0; i < n; i++) all[i].pull = (struct vector){0, 0, 0};
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) attract(&all[i], &all[j]);
}

void kick(struct body *b, double dt) {
    b->speed.x += b->pull.x * dt, b->speed.y += b->pull.y * dt, b->speed.z += b->pull.z * dt;
}

void drift(struct body *b, double dt) {
    b->at.x += b->speed.x * dt, b->at.y += b->speed.y * dt, b->at.z += b->speed.z * dt;
}

void step(struct body *all, int n, double dt) {
    for (int i = 0; i < n; i++) kick(&all[i], dt / 2), drift(&all[i], dt);
    pulls(all, n);
    for (int i = 0; i < n; i++) kick(&all[i], dt / 2);
}

double energy(const struct body *all, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const struct vector *v = &all[i].speed;
        sum += 0.5 * all[i].mass * (v->x * v->x + v->y * v->y + v->z * v->z);
        for (int j = i + 1; j < n; j++) {
            struct vector d = difference(&all[i].at, &all[j].at);
            sum -= all[i].mass * all[j].mass / sqrt(d.x * d.x + d.y * d.y + d.z * d.z + 1e-4);
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 200, steps = argc > 2 ? atoi(argv[2]) : 1000;
    struct body *all = calloc(n, sizeof *all);
    for (int i = 0; i < n; i++) {
        all[i].at = (struct vector){uniform() - 0.5, uniform() - 0.5, uniform() - 0.5};
        all[i].speed = (struct vector){uniform() - 0.5, uniform() - 0.5, uniform() - 0.5};
        all[i].mass = (0.5 + uniform()) / n;
    }
    pulls(all, n);
    double before = energy(all, n);
    for (int i = 0; i < steps; i++) step(all, n, 1e-4);
    double after = energy(all, n);
    printf("%d bodies, %d steps, energy changed by %.1e\n", n, steps, fabs((after - before) / before));
    free(all);
}
