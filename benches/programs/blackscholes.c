/* Prices of European options by the Black-Scholes formula; prints their sum and how far put-call parity is missed.
 * usage: blackscholes OPTIONS ROUNDS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct option { double spot, strike, rate, volatility, years, call, put; };

static unsigned long long state = 0x2545f4914f6cdd1dull;

double between(double low, double high) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return low + (high - low) * (double)(state >> 11) / (double)(1ull << 53);
}

/* Distribution function of the standard normal, by a polynomial in 1 / (1 + cx) times the density: error < 1e-7. */
double cumulative_normal(double x) {
    static const double b[] = {0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429};
    double k = 1 / (1 + 0.2316419 * fabs(x)), sum = 0;
    for (int i = 4; i >= 0; i--) sum = (sum + b[i]) * k;
    double tail = exp(-x * x / 2) * 0.39894228040143268 * sum;
    return x < 0 ? tail : 1 - tail;
}

double first_argument(const struct option *o) {
    double spread = o->volatility * sqrt(o->years);
    return (log(o->spot / o->strike) + (o->rate + o->volatility * o->volatility / 2) * o->years) / spread;
}

void price(struct option *o) {
    double d1 = first_argument(o), d2 = d1 - o->volatility * sqrt(o->years);
    double present = o->strike * exp(-o->rate * o->years);
    o->call = o->spot * cumulative_normal(d1) - present * cumulative_normal(d2);
    o->put = present * cumulative_normal(-d2) - o->spot * cumulative_normal(-d1);
}

void price_all(struct option *all, int n) {
    for (int i = 0; i < n; i++) price(&all[i]);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100000, rounds = argc > 2 ? atoi(argv[2]) : 20;
    struct option *all = malloc(n * sizeof *all);
    for (int i = 0; i < n; i++)
        all[i] = (struct option){between(20, 120), between(20, 120), between(0.01, 0.1), between(0.1, 0.6), between(0.1, 2), 0, 0};
    for (int i = 0; i < rounds; i++) price_all(all, n);
    double sum = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        double parity = all[i].call - all[i].put - all[i].spot + all[i].strike * exp(-all[i].rate * all[i].years);
        sum += all[i].call + all[i].put;
        worst = fmax(worst, fabs(parity));
    }
    printf("%d options, sum %.4f, parity missed by %.1e\n", n, sum, worst);
    free(all);
}
