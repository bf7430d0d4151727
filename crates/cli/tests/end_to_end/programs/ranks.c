/* An MPI program that writes a checkpoint: rank 0 begins and commits it for all. Run by ../programs.rs.
 * usage: ranks APP DIRECTORY */
#include "entrepot_checkpoint.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char state[1 << 20];

static void must(int code, const char *what)
{
    if (code == ENTREPOT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, entrepot_checkpoint_error());
    MPI_Abort(MPI_COMM_WORLD, code);
}

int main(int argc, char **argv)
{
    char path[4096];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, ENTREPOT_WRONG_INPUT);
    if (rank == 0)
        must(entrepot_checkpoint_begin(argv[1], argv[2], NULL, 0), "begin");
    MPI_Barrier(MPI_COMM_WORLD);

    memset(state, 'a' + rank, sizeof state);
    snprintf(path, sizeof path, "%s/rank-%d", argv[2], rank);
    FILE *file = fopen(path, "w");
    int written = file && fwrite(state, sizeof state, 1, file) == 1;
    if (!file || fclose(file) != 0 || !written)
        MPI_Abort(MPI_COMM_WORLD, ENTREPOT_FAILED);

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        must(entrepot_checkpoint_commit(argv[1], argv[2], 0, 0), "commit");
    MPI_Finalize();
    return 0;
}
