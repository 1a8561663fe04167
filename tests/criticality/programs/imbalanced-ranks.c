// An MPI program: in each step the last rank has three times the work; the others spin in the reduction meanwhile.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((noinline)) static uint64_t heavy_part(uint64_t x, long rounds) {
    for (long i = 0; i < rounds; i++)
        x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t mine = rank, sum = 0;
    double begin = MPI_Wtime(), work = 0;
    for (int step = 0; step < 60; step++) {
        double at = MPI_Wtime();
        mine = heavy_part(mine + sum, rank == ranks - 1 ? 9000000 : 3000000);
        work += MPI_Wtime() - at;
        MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("rank %d of %d elapsed %.6f work %.6f\n", rank, ranks, MPI_Wtime() - begin, work);
    MPI_Finalize();
}
