/* Ranks on several hosts write records of one file by MPI-IO, and each reads what the next rank wrote.
 * usage: mpi FILE RECORDS independent|collective|strided */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = 47008, WORDS = RECORD / 8 };

static void must(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	fprintf(stderr, "%s: %s\n", what, text);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t word(int rank, int record, int n)
{
	return ((uint64_t)rank << 48) ^ ((uint64_t)record << 24) ^ (uint64_t)n;
}

/* Each rank talks to each: MPICH over UCX may wait for ever at its end for a connection that was begun and not used. */
static void meet(int ranks)
{
	int *to = calloc(ranks, sizeof *to), *from = calloc(ranks, sizeof *from);

	for (int n = 0; n < 3; n++)
		MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
	free(to);
	free(from);
}

int main(int argc, char **argv)
{
	int rank, ranks, records, wrong = 0, all_wrong;
	MPI_File file;
	MPI_Offset size;

	MPI_Init(&argc, &argv);
	if (argc != 4)
		MPI_Abort(MPI_COMM_WORLD, 2);
	records = atoi(argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	meet(ranks);
	must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");

	/* Record k of rank r lies at place k * ranks + r. */
	uint64_t *bytes = malloc((size_t)records * RECORD);
	for (int k = 0; k < records; k++)
		for (int n = 0; n < WORDS; n++)
			bytes[(size_t)k * WORDS + n] = word(rank, k, n);
	if (strcmp(argv[3], "strided") == 0) {
		MPI_Datatype mine;
		MPI_Type_vector(records, RECORD, RECORD * ranks, MPI_BYTE, &mine);
		MPI_Type_commit(&mine);
		must(MPI_File_set_view(file, (MPI_Offset)rank * RECORD, MPI_BYTE, mine, "native", MPI_INFO_NULL), "view");
		must(MPI_File_write(file, bytes, records * RECORD, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		must(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
		MPI_Type_free(&mine);
	} else {
		for (int k = 0; k < records; k++) {
			MPI_Offset at = ((MPI_Offset)k * ranks + rank) * RECORD;
			uint64_t *record = bytes + (size_t)k * WORDS;
			must(strcmp(argv[3], "collective") == 0
				     ? MPI_File_write_at_all(file, at, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE)
				     : MPI_File_write_at(file, at, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE),
			     "write");
		}
	}
	must(MPI_File_sync(file), "sync");
	MPI_Barrier(MPI_COMM_WORLD);
	must(MPI_File_sync(file), "sync");

	int next = (rank + 1) % ranks;
	for (int k = 0; k < records; k++) {
		MPI_Status status;
		int got;
		must(MPI_File_read_at(file, ((MPI_Offset)k * ranks + next) * RECORD, bytes, RECORD, MPI_BYTE, &status), "read");
		MPI_Get_count(&status, MPI_BYTE, &got);
		int differs = got != RECORD;
		for (int n = 0; n < WORDS && !differs; n++)
			differs = bytes[n] != word(next, k, n);
		wrong += differs;
	}
	must(MPI_File_get_size(file, &size), "size");
	wrong += size != (MPI_Offset)records * ranks * RECORD;
	must(MPI_File_close(&file), "close");
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %d wrong\n", ranks, all_wrong);
	free(bytes);
	meet(ranks);
	MPI_Finalize();
	return all_wrong != 0;
}
