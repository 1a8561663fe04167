// A Jacobi iteration over MPI: each rank relaxes its rows, swaps the borders with its neighbours and agrees on the error.
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 512, ROWS = 256 };

int main(int argc, char **argv) {
    static double grid[2][ROWS + 2][COLUMNS];
    int rank, ranks, steps = argc > 1 ? atoi(argv[1]) : 2000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < COLUMNS; i++)
        grid[0][0][i] = grid[1][0][i] = rank == 0;
    double error = 0;
    for (int step = 0; step < steps; step++) {
        double(*old)[COLUMNS] = grid[step % 2], (*new)[COLUMNS] = grid[(step + 1) % 2], mine = 0;
        int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
        MPI_Sendrecv(old[1], COLUMNS, MPI_DOUBLE, up, 0, old[ROWS + 1], COLUMNS, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(old[ROWS], COLUMNS, MPI_DOUBLE, down, 0, old[0], COLUMNS, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int r = 1; r <= ROWS; r++)
            for (int c = 1; c < COLUMNS - 1; c++) {
                new[r][c] = 0.25 * (old[r - 1][c] + old[r + 1][c] + old[r][c - 1] + old[r][c + 1]);
                mine = fmax(mine, fabs(new[r][c] - old[r][c]));
            }
        MPI_Allreduce(&mine, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%.3e\n", error);
    MPI_Finalize();
}
