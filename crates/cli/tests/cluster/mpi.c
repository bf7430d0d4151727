/* Ranks on several hosts write records of one file by MPI-IO and close it; then each opens it and reads what all wrote.
 * usage: mpi FILE BYTES RECORDS HOW [STOP]
 * HOW is independent, collective or strided. With STOP, rank 0 says "round 1" after the first round, and rounds go on until that file is there. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, bytes, records;
static enum { INDEPENDENT, COLLECTIVE, STRIDED } how;

static void must(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File opened(const char *path, int mode)
{
	MPI_File file;

	must(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
	return file;
}

/* Word n of record k of a rank: no two are equal. */
static uint64_t word(int of, int round, int k, int n)
{
	return (uint64_t)of << 56 | (uint64_t)round << 40 | (uint64_t)k << 20 | (uint64_t)n;
}

/* Record k of rank r lies at place k * ranks + r. */
static MPI_Offset place(int of, int k)
{
	return ((MPI_Offset)k * ranks + of) * bytes;
}

static void write_records(MPI_File file, int round)
{
	int words = bytes / 8;
	uint64_t *own = malloc((size_t)records * bytes);

	for (int k = 0; k < records; k++)
		for (int n = 0; n < words; n++)
			own[(size_t)k * words + n] = word(rank, round, k, n);
	if (how == STRIDED) {
		/* One call for all records, with those of others between them. */
		MPI_Datatype mine;
		must(MPI_Type_vector(records, bytes, bytes * ranks, MPI_BYTE, &mine), "type");
		must(MPI_Type_commit(&mine), "type");
		must(MPI_File_set_view(file, place(rank, 0), MPI_BYTE, mine, "native", MPI_INFO_NULL), "view");
		must(MPI_File_write_at(file, 0, own, records * bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		must(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
		MPI_Type_free(&mine);
	}
	for (int k = 0; k < records && how != STRIDED; k++) {
		uint64_t *record = own + (size_t)k * words;
		must(how == COLLECTIVE
			     ? MPI_File_write_at_all(file, place(rank, k), record, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
			     : MPI_File_write_at(file, place(rank, k), record, bytes, MPI_BYTE, MPI_STATUS_IGNORE),
		     "write");
	}
	free(own);
}

/* How many records of all ranks are not what was written last. */
static int wrong_records(MPI_File file, int round)
{
	int wrong = 0;
	uint64_t *record = malloc(bytes);

	for (int k = 0; k < records; k++)
		for (int turn = 1; turn <= ranks; turn++) {
			int of = (rank + turn) % ranks, got, n;
			MPI_Status status;
			must(how == COLLECTIVE ? MPI_File_read_at_all(file, place(of, k), record, bytes, MPI_BYTE, &status)
					       : MPI_File_read_at(file, place(of, k), record, bytes, MPI_BYTE, &status),
			     "read");
			MPI_Get_count(&status, MPI_BYTE, &got);
			for (n = 0; n < got / 8 && record[n] == word(of, round, k, n); n++)
				;
			if (got == bytes && n == bytes / 8)
				continue;
			wrong++;
			fprintf(stderr, "rank %d, round %d: record %d of rank %d: %d bytes, word %d is %016llx\n", rank, round, k, of,
				got, n, n < got / 8 ? (unsigned long long)record[n] : 0);
		}
	free(record);
	return wrong;
}

static int wrong_size(MPI_File file)
{
	MPI_Offset size;

	must(MPI_File_get_size(file, &size), "size");
	return size != place(0, records);
}

int main(int argc, char **argv)
{
	int wrong = 0, all_wrong, round = 0, again = 0;
	MPI_File file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 5)
		MPI_Abort(MPI_COMM_WORLD, 2);
	bytes = atoi(argv[2]);
	records = atoi(argv[3]);
	how = strcmp(argv[4], "strided") == 0 ? STRIDED : strcmp(argv[4], "collective") == 0 ? COLLECTIVE : INDEPENDENT;

	do {
		round++;
		file = opened(argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR);
		write_records(file, round);
		must(MPI_File_close(&file), "close");
		MPI_Barrier(MPI_COMM_WORLD);
		file = opened(argv[1], MPI_MODE_RDONLY);
		wrong += wrong_records(file, round) + wrong_size(file);
		must(MPI_File_close(&file), "close");
		if (rank == 0 && round == 1 && argc > 5) {
			printf("round 1\n");
			fflush(stdout);
		}
		/* Nobody writes the next round while somebody reads this one. */
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			again = argc > 5 && access(argv[5], F_OK) != 0;
		MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
	} while (again);
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %d rounds, %d wrong\n", ranks, round, all_wrong);
	MPI_Finalize();
	return 0;
}
