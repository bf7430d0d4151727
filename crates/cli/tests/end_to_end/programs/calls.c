/* Each call of the C interface, told what it says. Run by ../programs.rs.
 * usage: calls begin APP PATH NAME | commit APP PATH | abandon APP PATH | newest APP PATH ROOM | interval APP PATH */
#include "entrepot_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    /* As many seconds as the caller waits; 0: as the interface has it. */
    const char *patience = getenv("PATIENCE_S");
    int timeout_s = patience ? atoi(patience) : 0, code = -1;
    const char *what = argc > 3 ? argv[1] : "", *app = argc > 3 ? argv[2] : "", *path = argc > 3 ? argv[3] : "";
    struct entrepot_version version = {.name = argc > 4 ? argv[4] : NULL, .mtbf_s = 3600};
    char directory[4096] = "";
    double seconds = 0;

    if (strcmp(what, "begin") == 0)
        code = entrepot_checkpoint_begin(app, path, &version, timeout_s);
    else if (strcmp(what, "commit") == 0)
        code = entrepot_checkpoint_commit(app, path, 0, timeout_s);
    else if (strcmp(what, "abandon") == 0)
        code = entrepot_checkpoint_commit(app, path, 1, timeout_s);
    else if (strcmp(what, "newest") == 0)
        code = entrepot_checkpoint_newest(app, path, directory, (size_t)atoi(version.name), timeout_s);
    else if (strcmp(what, "interval") == 0)
        code = entrepot_checkpoint_advised_interval(app, path, &seconds, timeout_s);
    if (code == ENTREPOT_OK)
        printf("%s%g\n", directory, seconds);
    else
        printf("%s\n", entrepot_checkpoint_error());
    return code;
}
