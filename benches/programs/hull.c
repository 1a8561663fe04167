/* Convex hull of random points in a disk by quickhull; prints the number of corners and the hull's area.
 * usage: hull POINTS ROUNDS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct point { double x, y; };

static unsigned long long state = 0x9e3779b97f4a7c15ull;

double uniform(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / (double)(1ull << 53);
}

/* Twice the area of the triangle a, b, p: positive if p lies left of the line from a to b. */
double side(const struct point *a, const struct point *b, const struct point *p) {
    return (b->x - a->x) * (p->y - a->y) - (b->y - a->y) * (p->x - a->x);
}

struct point *farthest(struct point *set, int n, const struct point *a, const struct point *b) {
    struct point *best = set;
    double most = -1;
    for (int i = 0; i < n; i++) {
        double d = side(a, b, &set[i]);
        if (d > most) most = d, best = &set[i];
    }
    return best;
}

/* Moves the points left of the line a, b to the front and counts them. */
int keep_left(struct point *set, int n, const struct point *a, const struct point *b) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (side(a, b, &set[i]) > 0) {
            struct point other = set[kept];
            set[kept++] = set[i], set[i] = other;
        }
    return kept;
}

/* Appends the corners strictly between a and b, all of `set` being left of that line. */
void arc(struct point *set, int n, struct point a, struct point b, struct point *hull, int *corners) {
    if (n == 0) return;
    struct point top = *farthest(set, n, &a, &b);
    int first = keep_left(set, n, &a, &top);
    arc(set, first, a, top, hull, corners);
    hull[(*corners)++] = top;
    int second = keep_left(set + first, n - first, &top, &b);
    arc(set + first, second, top, b, hull, corners);
}

int quickhull(struct point *set, int n, struct point *hull) {
    struct point left = set[0], right = set[0];
    for (int i = 1; i < n; i++) {
        if (set[i].x < left.x) left = set[i];
        if (set[i].x > right.x) right = set[i];
    }
    int corners = 0;
    hull[corners++] = left;
    int above = keep_left(set, n, &left, &right);
    arc(set, above, left, right, hull, &corners);
    hull[corners++] = right;
    int below = keep_left(set + above, n - above, &right, &left);
    arc(set + above, below, right, left, hull, &corners);
    return corners;
}

double area(const struct point *hull, int n) {
    double sum = 0;
    for (int i = 1; i + 1 < n; i++) sum += side(&hull[0], &hull[i], &hull[i + 1]);
    return fabs(sum) / 2;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100000, rounds = argc > 2 ? atoi(argv[2]) : 10;
    struct point *given = malloc(n * sizeof *given), *set = malloc(n * sizeof *set), *hull = malloc(n * sizeof *hull);
    for (int i = 0; i < n; i++) {
        double angle = 2 * M_PI * uniform(), radius = sqrt(uniform());
        given[i] = (struct point){radius * cos(angle), radius * sin(angle)};
    }
    int corners = 0;
    for (int i = 0; i < rounds; i++) {
        memcpy(set, given, n * sizeof *set);
        corners = quickhull(set, n, hull);
    }
    printf("%d points, %d corners, area %.6f of %.6f\n", n, corners, area(hull, corners), M_PI);
    free(given), free(set), free(hull);
}
