/* The volume's control socket for checkpoints: found in the kernel's table of mounts, asked in lines of JSON.
 *
 * The kernel tells the daemon who asks (the credentials of the socket's peer), so there is nothing to log in with. */
#define _GNU_SOURCE
#include "entrepot_checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A path of 4096 bytes fits, also if each of them has to be written as \u00XX. */
enum { LINE_BYTES = 32768, PATH_BYTES = 4096, TIMEOUT_S = 60, COMMIT_TIMEOUT_S = 3600 };

static _Thread_local char error_text[4 * 1024];

/* Where a path lies: the mount point, the state directory of its volume, and the path below the mount point. */
struct place {
    char at[PATH_BYTES];
    char state[PATH_BYTES];
    char below[PATH_BYTES];
};

/* One request, and the line that answers it. */
struct call {
    struct place place;
    char request[LINE_BYTES];
    size_t request_bytes;
    int too_long;
    char answer[LINE_BYTES];
};

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error_text, sizeof error_text, format, args);
    va_end(args);
    return code;
}

const char *entrepot_checkpoint_error(void)
{
    return error_text;
}

/* --- which volume --- */

/* The kernel writes blanks, tabs, line ends and backslashes as three octal digits. */
static void unescape(char *field)
{
    char *to = field;
    for (char *from = field; *from; to++) {
        int octal = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;
        *to = octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
        from += octal ? 4 : 1;
    }
    *to = 0;
}

/* Whether root or this user mounted it: any user can mount something that names itself a volume. */
static int is_trusted(const char *options)
{
    const char *user = strstr(options, ",user_id=");
    if (!user)
        return 0;
    unsigned long uid = strtoul(user + strlen(",user_id="), NULL, 10);
    return uid == 0 || uid == geteuid();
}

/* Mount point and state directory of a line of the kernel's table, if it is a mount that can be trusted. */
static int is_volume(char *line, char **at, char **state)
{
    char *after = strstr(line, " - "), *field = line;
    if (!after || strncmp(after + 3, "fuse.entrepot ", 14) != 0)
        return 0;
    for (int n = 0; n < 4 && field; n++) {
        field = strchr(field, ' ');
        field = field ? field + 1 : NULL;
    }
    if (!field || field > after)
        return 0;
    char *device = after + 3 + 14, *options = strchr(device, ' ');
    if (!options || !is_trusted(options))
        return 0;
    *options = 0;
    field[strcspn(field, " ")] = 0;
    unescape(device);
    unescape(field);
    device = strchr(device, '#');
    if (!device || device[1] != '/' || strlen(field) >= PATH_BYTES || strlen(device) >= PATH_BYTES)
        return 0;
    *at = field;
    *state = device + 1;
    return 1;
}

/* What of `path` is below `at`, or NULL. */
static const char *below(const char *path, const char *at)
{
    size_t len = strcmp(at, "/") == 0 ? 0 : strlen(at);
    if (strncmp(path, at, len) != 0 || (path[len] != '/' && path[len] != 0))
        return NULL;
    return path[len] == '/' ? path + len + 1 : path + len;
}

/* Path with its symbolic links followed; of one that is not there its directory must be. `make`: it is made then. */
static int real(const char *path, int make, char *to)
{
    if (!path || !*path)
        path = ".";
    if (strlen(path) >= PATH_BYTES)
        return fail(ENTREPOT_WRONG_INPUT, "the path is longer than %d bytes; nothing was changed. Give a shorter one",
                    PATH_BYTES - 1);
    if (make && mkdir(path, 0777) != 0 && errno != EEXIST && errno != ENOENT)
        return fail(errno == EACCES ? ENTREPOT_DENIED : ENTREPOT_FAILED,
                    "%s cannot be made: %s; nothing was begun. Check the path", path, strerror(errno));
    /* PATH_MAX is as long on Linux. */
    if (realpath(path, to))
        return ENTREPOT_OK;
    int is_wrong = errno == ENOENT || errno == ENOTDIR;
    int code = is_wrong ? ENTREPOT_WRONG_INPUT : errno == EACCES ? ENTREPOT_DENIED : ENTREPOT_FAILED;
    return fail(code, "%s: %s; nothing was changed. Check the path", path, strerror(errno));
}

/* The innermost volume that an absolute path lies in. */
static int above(const char *path, struct place *place)
{
    FILE *table = fopen("/proc/self/mountinfo", "re");
    if (!table)
        return fail(ENTREPOT_FAILED, "/proc/self/mountinfo: %s; nothing was changed. Mount /proc", strerror(errno));
    char *line = NULL, *at, *state;
    size_t room = 0, longest = 0;
    place->at[0] = 0;
    while (getline(&line, &room, table) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (!is_volume(line, &at, &state) || !below(path, at) || strlen(at) < longest)
            continue;
        longest = strlen(at);
        snprintf(place->at, sizeof place->at, "%s", at);
        snprintf(place->state, sizeof place->state, "%s", state);
        snprintf(place->below, sizeof place->below, "%s", below(path, at));
    }
    free(line);
    fclose(table);
    if (place->at[0])
        return ENTREPOT_OK;
    return fail(ENTREPOT_WRONG_INPUT,
                "%s lies in no volume that is mounted here; nothing was changed. "
                "Name a path below a mount point, or start the volume with `entrepot up`",
                path);
}

/* Where `path` lies. One that is only to name the volume is not looked at if its names do: a mount may hang. */
static int find(const char *path, int make, struct place *place)
{
    char absolute[2 * PATH_BYTES], here[PATH_BYTES];
    if (!make && !(path && strstr(path, "..")) && getcwd(here, sizeof here)) {
        int is_absolute = path && *path == '/';
        int len = snprintf(absolute, sizeof absolute, "%s/%s", is_absolute ? "" : here, path ? path + is_absolute : "");
        if (len > 0 && (size_t)len < sizeof absolute && above(absolute, place) == ENTREPOT_OK)
            return ENTREPOT_OK;
    }
    int code = real(path, make, here);
    return code ? code : above(here, place);
}

/* --- writing a request --- */

static void add(struct call *call, const char *text, size_t len)
{
    if (call->request_bytes + len >= sizeof call->request) {
        call->too_long = 1;
        return;
    }
    memcpy(call->request + call->request_bytes, text, len);
    call->request_bytes += len;
}

static void add_text(struct call *call, const char *text)
{
    add(call, text, strlen(text));
}

static void add_quoted(struct call *call, const char *value)
{
    char escaped[8];
    add_text(call, "\"");
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if (*c == '"' || *c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", *c);
        else if (*c < ' ')
            snprintf(escaped, sizeof escaped, "\\u%04x", *c);
        else
            snprintf(escaped, sizeof escaped, "%c", *c);
        add_text(call, escaped);
    }
    add_text(call, "\"");
}

/* `"key":"value",` */
static void add_string(struct call *call, const char *key, const char *value)
{
    add_quoted(call, key);
    add_text(call, ":");
    add_quoted(call, value);
    add_text(call, ",");
}

/* `"key":value,`, or nothing for 0. */
static void add_number(struct call *call, const char *key, uint64_t value)
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":%" PRIu64 ",", key, value);
    if (value)
        add_text(call, text);
}

/* --- reading an answer --- */

static const char *after_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* What follows a string, or NULL where it has no end. `at` is its opening quote. */
static const char *after_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && !*++at)
            return NULL;
    return *at ? at + 1 : NULL;
}

/* What follows a value of any kind. */
static const char *after_value(const char *at)
{
    int depth = 0;
    do {
        at = after_blanks(at);
        if (*at == '"') {
            at = after_string(at);
            if (!at)
                return NULL;
        } else if (*at == '{' || *at == '[') {
            depth++, at++;
        } else if (*at == '}' || *at == ']') {
            depth--, at++;
        } else if (*at == ',' || *at == ':') {
            at++;
        } else {
            size_t len = strcspn(at, ",:]}\" \t\r\n");
            if (!len)
                return NULL;
            at += len;
        }
    } while (depth > 0);
    return at;
}

/* The value of a key of an object, or NULL. */
static const char *value_of(const char *object, const char *key)
{
    size_t len = strlen(key);
    if (!object || *object != '{')
        return NULL;
    const char *at = after_blanks(object + 1);
    while (*at == '"') {
        const char *name = at + 1, *end = after_string(at);
        if (!end)
            return NULL;
        at = after_blanks(end);
        if (*at != ':')
            return NULL;
        at = after_blanks(at + 1);
        if ((size_t)(end - 1 - name) == len && memcmp(name, key, len) == 0)
            return at;
        at = after_value(at);
        if (!at)
            return NULL;
        at = after_blanks(at);
        if (*at == ',')
            at = after_blanks(at + 1);
    }
    return NULL;
}

/* \uXXXX as UTF-8; how many bytes, 0 for what is none. */
static size_t unicode(const char *digits, char *to)
{
    unsigned c = 0;
    for (int n = 0; n < 4; n++) {
        const char *hex = "0123456789abcdef", *found = digits[n] ? strchr(hex, digits[n] | 32) : NULL;
        if (!found)
            return 0;
        c = c * 16 + (unsigned)(found - hex);
    }
    if (c < 0x80)
        return to[0] = (char)c, 1;
    if (c < 0x800)
        return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
    return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
}

/* A string as it is meant. Its length, or -1 where it is none or does not fit. */
static long string(const char *at, char *to, size_t room)
{
    size_t len = 0;
    if (!at || *at != '"' || room == 0)
        return -1;
    for (at++; *at && *at != '"'; at++) {
        char bytes[4] = {*at};
        size_t count = 1;
        if (*at == '\\') {
            static const char from[] = "nrtbf", meant[] = "\n\r\t\b\f";
            const char *known = *++at ? strchr(from, *at) : NULL;
            bytes[0] = known ? meant[known - from] : *at;
            if (*at == 'u') {
                count = unicode(at + 1, bytes);
                at += 4;
            }
            if (!count || !bytes[0])
                return -1;
        }
        if (len + count >= room)
            return -1;
        memcpy(to + len, bytes, count);
        len += count;
    }
    to[len] = 0;
    return *at == '"' ? (long)len : -1;
}

/* --- asking --- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define NOT_KNOWN \
    "the request may have been carried out. Look at `entrepot status` and at the daemon's log"

static int late(const struct call *call)
{
    return fail(ENTREPOT_NO_DAEMON, "the daemon of %s did not answer in time; " NOT_KNOWN, call->place.at);
}

static int broken(const struct call *call, const char *cause)
{
    return fail(ENTREPOT_NO_DAEMON, "the connection to the daemon of %s broke: %s; " NOT_KNOWN, call->place.at, cause);
}

/* The number of root outside of a container whose user namespace does not have it; root's outside of containers. */
static uid_t root_outside(void)
{
    unsigned long long inside = 0, outside = 0, count = 0;
    unsigned uid = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    int has_map = map && fscanf(map, "%llu %llu %llu", &inside, &outside, &count) == 3;
    if (map)
        fclose(map);
    if (!has_map || (inside == 0 && outside == 0 && count == 4294967295))
        return 0;
    FILE *overflow = fopen("/proc/sys/kernel/overflowuid", "re");
    if (overflow && fscanf(overflow, "%u", &uid) != 1)
        uid = 0;
    if (overflow)
        fclose(overflow);
    return uid;
}

/* Refuses a daemon of a user other than root and this one, before the first byte is sent. */
static int check_listener(int fd, const char *path)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return fail(ENTREPOT_FAILED, "the kernel does not report who listens on %s: %s; nothing was sent there. "
                    "Call it again", path, strerror(errno));
    if (peer.uid == 0 || peer.uid == geteuid() || peer.uid == root_outside())
        return ENTREPOT_OK;
    return fail(ENTREPOT_DENIED, "user %u listens on %s, neither root nor you; nothing was sent there. "
                "Name another volume", (unsigned)peer.uid, path);
}

/* A connection to the daemon; what is sent over it waits no longer than that either. */
static int connected(const struct call *call, int timeout_s, int *fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path, sizeof address.sun_path, "%.*s/control.sock", PATH_BYTES, call->place.state);
    if (len < 0 || (size_t)len >= sizeof address.sun_path)
        return fail(ENTREPOT_FAILED,
                    "the path of the control socket in %s is too long; nothing was changed. "
                    "Give the volume a shorter state directory",
                    call->place.state);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return fail(ENTREPOT_FAILED, "no socket: %s; nothing was changed. Close some files", strerror(errno));
    struct timeval patience = {.tv_sec = timeout_s};
    setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (connect(*fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if (errno == EINTR)
            continue;
        int denied = errno == EACCES || errno == EPERM;
        fail(0, "no daemon answers on %s: %s; nothing was changed. %s", address.sun_path, strerror(errno),
             denied ? "Ask the operator of the volume"
                    : "Start the volume with `entrepot up VOLUME.TOML --at MOUNTPOINT`");
        close(*fd);
        return denied ? ENTREPOT_DENIED : ENTREPOT_NO_DAEMON;
    }
    int code = check_listener(*fd, address.sun_path);
    if (code != ENTREPOT_OK)
        close(*fd);
    return code;
}

/* The next line, into `answer`; what was read of the one after it stays behind it, `have` bytes in all. */
static int next_line(struct call *call, int fd, int64_t ends_ms, size_t *have)
{
    for (;;) {
        char *end = memchr(call->answer, '\n', *have);
        if (end) {
            *end = 0;
            return ENTREPOT_OK;
        }
        if (*have + 1 >= sizeof call->answer)
            return broken(call, "a line is too long");
        int64_t left = ends_ms - now_ms();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int polled = left > 0 ? poll(&ready, 1, left > 1000000 ? 1000000 : (int)left) : 0;
        if (polled == 0 && ends_ms <= now_ms())
            return late(call);
        ssize_t got = polled > 0 ? recv(fd, call->answer + *have, sizeof call->answer - 1 - *have, MSG_DONTWAIT) : -1;
        if (polled > 0 && got == 0)
            return broken(call, "it hung up");
        if (got > 0)
            *have += (size_t)got;
        else if (polled != 0 && errno != EINTR && errno != EAGAIN)
            return broken(call, strerror(errno));
    }
}

/* What an answer says of a failure. */
static int refused(const char *error)
{
    char cause[1024], consequence[1024], next_step[1024];
    if (string(value_of(error, "cause"), cause, sizeof cause) < 0)
        strcpy(cause, "the daemon refused the request");
    if (string(value_of(error, "consequence"), consequence, sizeof consequence) < 0)
        strcpy(consequence, "nothing was changed");
    if (string(value_of(error, "next_step"), next_step, sizeof next_step) < 0)
        strcpy(next_step, "look at `entrepot status`");
    const char *code = value_of(error, "exit_code");
    int known = code ? atoi(code) : 0;
    return fail(known > 0 ? known : ENTREPOT_FAILED, "%s; %s. %s", cause, consequence, next_step);
}

/* Sends the request and waits for the result. */
static int ask(struct call *call, int timeout_s, const char **result)
{
    int64_t ends_ms = now_ms() + (int64_t)timeout_s * 1000;
    int fd = -1, code = connected(call, timeout_s, &fd);
    if (code)
        return code;
    for (size_t sent = 0; sent < call->request_bytes;) {
        ssize_t n = send(fd, call->request + sent, call->request_bytes - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            break; /* A daemon that is full says so and hangs up: its answer is read below. */
        sent += n > 0 ? (size_t)n : 0;
    }
    for (size_t have = 0;;) {
        code = next_line(call, fd, ends_ms, &have);
        if (code)
            break;
        const char *error = value_of(call->answer, "error");
        *result = value_of(call->answer, "result");
        if (error)
            code = refused(error);
        if (error || *result)
            break;
        size_t line = strlen(call->answer) + 1;
        have -= line;
        memmove(call->answer, call->answer + line, have);
    }
    close(fd);
    return code;
}

/* A call that has its place and the beginning of its request; NULL: `*code` says why. */
static struct call *begun(const char *command, const char *app, const char *path, int make, int *code)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        *code = fail(ENTREPOT_FAILED, "out of memory; nothing was changed. Free some");
        return NULL;
    }
    *code = app ? find(path, make, &call->place)
                : fail(ENTREPOT_WRONG_INPUT, "no application is named; nothing was changed. Name one");
    if (*code) {
        free(call);
        return NULL;
    }
    add_text(call, "{\"id\":1,");
    add_string(call, "command", command);
    add_text(call, "\"args\":{");
    return call;
}

/* The last member of the request's arguments, and its end; then what the daemon says. */
static int asked(struct call *call, const char *app, int timeout_s, int or_else_s, const char **result)
{
    add_string(call, "app", app);
    call->request_bytes -= call->too_long ? 0 : 1; /* the last comma */
    add_text(call, "}}\n");
    if (call->too_long)
        return fail(ENTREPOT_WRONG_INPUT, "the names are too long; nothing was changed. Give shorter ones");
    return ask(call, timeout_s > 0 ? timeout_s : or_else_s, result);
}

/* --- the calls --- */

int entrepot_checkpoint_begin(const char *app, const char *path, const struct entrepot_version *version, int timeout_s)
{
    const struct entrepot_version nothing = {0};
    const char *result;
    int code;
    struct call *call = begun("checkpoint.begin", app, path, 1, &code);
    if (!call)
        return code;
    version = version ? version : &nothing;
    add_string(call, "label", version->name ? version->name : "");
    add_number(call, "bytes", version->bytes);
    add_number(call, "mtbf_s", version->mtbf_s);
    add_number(call, "nodes", version->nodes);
    add_text(call, "\"paths\":[");
    add_quoted(call, call->place.below);
    add_text(call, "],");
    code = asked(call, app, timeout_s, TIMEOUT_S, &result);
    free(call);
    return code;
}

int entrepot_checkpoint_commit(const char *app, const char *path, int abandon, int timeout_s)
{
    const char *result;
    int code;
    struct call *call = begun("checkpoint.commit", app, path, 0, &code);
    if (!call)
        return code;
    add_text(call, abandon ? "\"abandon\":true," : "\"abandon\":false,");
    code = asked(call, app, timeout_s, COMMIT_TIMEOUT_S, &result);
    free(call);
    return code;
}

int entrepot_checkpoint_newest(const char *app, const char *path, char *directory, size_t directory_bytes,
                               int timeout_s)
{
    const char *result;
    char found[PATH_BYTES];
    int code;
    struct call *call = begun("checkpoint.restart", app, path, 0, &code);
    if (!call)
        return code;
    code = asked(call, app, timeout_s, TIMEOUT_S, &result);
    if (!code) {
        long len = string(value_of(result, "directory"), found, sizeof found);
        const char *between = len > 0 && strcmp(call->place.at, "/") != 0 ? "/" : "";
        int needed = len < 0 ? -1 : snprintf(directory, directory_bytes, "%s%s%s", call->place.at, between, found);
        if (needed < 0)
            code = fail(ENTREPOT_FAILED, "the daemon's answer is not valid; nothing was changed. "
                                         "Use the files that came with the daemon");
        else if ((size_t)needed >= directory_bytes)
            code = fail(ENTREPOT_WRONG_INPUT, "the directory takes %d bytes, and there is room for %zu; "
                                              "nothing was changed. Give more room", needed + 1, directory_bytes);
    }
    free(call);
    return code;
}

int entrepot_checkpoint_advised_interval(const char *app, const char *path, double *seconds, int timeout_s)
{
    const char *result;
    int code;
    struct call *call = begun("checkpoint.advise", app, path, 0, &code);
    if (!call)
        return code;
    code = asked(call, app, timeout_s, TIMEOUT_S, &result);
    if (!code) {
        const char *value = value_of(result, "advised_interval_s");
        /* A program may have set a locale in which a number has a comma. */
        locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        char *end = NULL;
        *seconds = value && plain ? strtod_l(value, &end, plain) : 0;
        if (plain)
            freelocale(plain);
        if (!end || end == value)
            code = fail(ENTREPOT_NOT_FOUND, "how often %s should write a checkpoint is not known yet; "
                                            "nothing was changed. Set `mtbf_s` or `nodes` when it begins one", app);
    }
    free(call);
    return code;
}
