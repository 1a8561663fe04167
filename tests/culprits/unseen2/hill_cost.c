// What it costs to climb a hill, summed up in many steps. A part of route_costs.
double hill_cost(double height, double length) {
    double cost = 0;
    for (int step = 1; step <= 200; step++)
        cost += height / (length + step) / (1 + cost); // culprit
    return cost;
}
