/* Checkpoints of a program on an Entrepot volume with a burst buffer.
 * C11 and Linux, nothing else: compile entrepot_checkpoint.c with your program.
 *
 *   char from[4096];
 *   if (entrepot_checkpoint_newest("wave", ".", from, sizeof from, 0) == ENTREPOT_OK)
 *       load(from);
 *   if (entrepot_checkpoint_begin("wave", "run7/step-12", NULL, 0) != ENTREPOT_OK)
 *       fprintf(stderr, "%s\n", entrepot_checkpoint_error());
 *   save("run7/step-12");
 *   if (entrepot_checkpoint_commit("wave", ".", 0, 0) != ENTREPOT_OK)
 *       fprintf(stderr, "%s\n", entrepot_checkpoint_error());
 *
 * A version counts from the return of `commit` on, not before; the version before it stays the newest till then. All
 * its files must be closed by then. A program of several processes (MPI) calls these in one of them: rank 0 begins, all
 * wait at a barrier and write, all wait at another one when their files are closed, and rank 0 commits.
 *
 * `path` is a path in the volume; NULL is the working directory. A call waits for the daemon for `timeout_s` seconds at
 * most; 0 stands for 60, and in `commit` for 3600. It returns one of the codes below, which are those of the command
 * line. Several threads may call at the same time. */
#ifndef ENTREPOT_CHECKPOINT_H
#define ENTREPOT_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum entrepot_code {
    ENTREPOT_OK = 0,
    ENTREPOT_FAILED = 1,
    ENTREPOT_WRONG_INPUT = 2,
    ENTREPOT_NO_DAEMON = 3,
    ENTREPOT_DENIED = 4,
    ENTREPOT_NOT_FOUND = 5,
    ENTREPOT_BUSY = 6
};

/* What is known of a version; zeros and NULL where nothing is. */
struct entrepot_version {
    const char *name; /* NULL: the time */
    uint64_t bytes;
    uint64_t mtbf_s; /* seconds that the program runs between failures */
    uint64_t nodes;  /* or on how many nodes it runs */
};

/* Begins a version whose files lie at or below `path`. If that is not there it is made, as a directory; the directory
 * above it must be. BUSY: one is begun already. If an earlier run left it, give that up with `commit`. */
int entrepot_checkpoint_begin(const char *app, const char *path, const struct entrepot_version *version, int timeout_s);

/* Says that the version is complete, and returns when it is durable. With `abandon` it is given up and never counts.
 * NOT_FOUND: none is begun. */
int entrepot_checkpoint_commit(const char *app, const char *path, int abandon, int timeout_s);

/* The directory of the newest complete version. NOT_FOUND: there is none, so begin from nothing. */
int entrepot_checkpoint_newest(const char *app, const char *path, char *directory, size_t directory_bytes,
                               int timeout_s);

/* Seconds to compute between two checkpoints, after Daly. NOT_FOUND: not known yet. That is so before the first
 * checkpoint, and as long as neither `mtbf_s` nor `nodes` was said and no restart was seen. */
int entrepot_checkpoint_advised_interval(const char *app, const char *path, double *seconds, int timeout_s);

/* What the last call of this thread that failed says: cause, consequence and next step. */
const char *entrepot_checkpoint_error(void);

#ifdef __cplusplus
}
#endif

#endif
