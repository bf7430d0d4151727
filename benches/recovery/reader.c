/* Ranks that read input through a mount and compute in between, as the applications of the recovery experiments do.
 *
 * usage: reader shared|parts|own PATH BLOCK_BYTES COMPUTE_MS MARK
 * shared: every rank reads all of the one file PATH from its beginning, as all need the matrix. parts: each reads a part of
 * its own of PATH. own: rank R reads all of PATH.R.
 * After each block a rank "computes" for COMPUTE_MS (it sleeps: the measurement shall not depend on who else uses the
 * cores). Rank 0 makes the file MARK when it has read half. Rank 0 prints, in one line: seconds from the common start to
 * the last rank's end, the longest single read of any rank in milliseconds, and a checksum over all bytes read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6) {
        errno = EINVAL;
        fail("usage: reader shared|parts|own PATH BLOCK_BYTES COMPUTE_MS MARK");
    }
    int own = strcmp(argv[1], "own") == 0, parts = strcmp(argv[1], "parts") == 0;
    size_t block = strtoul(argv[3], NULL, 10);
    long compute_ms = strtol(argv[4], NULL, 10);
    char path[4096];
    snprintf(path, sizeof path, own ? "%s.%d" : "%s", argv[2], rank);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), longest = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0) fail(path);
    uint64_t blocks = ((uint64_t)stat.st_size + block - 1) / block;
    uint64_t from = parts ? blocks * rank / ranks : 0, to = parts ? blocks * (rank + 1) / ranks : blocks;
    uint64_t sum = 0;
    char *bytes = malloc(block);
    if (!bytes) fail("memory");
    for (uint64_t k = from; k < to; k++) {
        if (rank == 0 && k == from + (to - from) / 2) {
            int mark = open(argv[5], O_CREAT | O_WRONLY, 0644);
            if (mark < 0) fail(argv[5]);
            close(mark);
        }
        uint64_t offset = k * block, end = offset + block;
        if (end > (uint64_t)stat.st_size) end = stat.st_size;
        double at = MPI_Wtime();
        for (uint64_t done = offset; done < end;) {
            ssize_t n = pread(fd, bytes + (done - offset), end - done, done);
            if (n <= 0) fail("read");
            done += n;
        }
        double took = MPI_Wtime() - at;
        if (took > longest) longest = took;
        /* A sum that depends on where each byte stands, so that swapped stripes show. */
        uint64_t here = 1469598103934665603u ^ offset;
        for (uint64_t i = 0; i + 8 <= end - offset; i += 8) {
            uint64_t word;
            memcpy(&word, bytes + i, 8);
            here = (here ^ word) * 1099511628211u;
        }
        sum += here + (uint64_t)(own ? rank : 0) * 31;
        struct timespec nap = {compute_ms / 1000, compute_ms % 1000 * 1000000};
        nanosleep(&nap, NULL);
    }
    close(fd);
    double mine = MPI_Wtime() - began, all, worst;
    uint64_t total;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&longest, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.3f %.1f %016llx\n", all, worst * 1e3, (unsigned long long)total);
    MPI_Finalize();
    return 0;
}
