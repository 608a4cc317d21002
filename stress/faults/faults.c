// Fails the n-th call of one kind on files below a folder: LD_PRELOAD=faults.so, then faults_arm().
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];  // calls on other paths never fail
static char kind[32];      // "" counts nothing
static long calls, first;  // calls so far; the first that fails, 0 for none
static int error, lasting; // errno of a failure; whether all later calls fail too

void faults_arm(const char *below, const char *call, long number, int code, int keep) {
    snprintf(folder, sizeof folder, "%s", below);
    snprintf(kind, sizeof kind, "%s", call);
    calls = 0, first = number, error = code, lasting = keep;
}

long faults_calls(void) { return calls; }

static int is_below(const char *path) { return path && strncmp(path, folder, strlen(folder)) == 0; }

static int is_below_descriptor(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int fails(const char *call, int below) {
    if (!kind[0] || strcmp(call, kind) || !below) return 0;
    calls++;
    if (!first || (lasting ? calls < first : calls != first)) return 0;
    errno = error;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_DESCRIPTOR(result, name, call, parameters, ...)                                                             \
    result name parameters {                                                                                           \
        return fails(call, is_below_descriptor(descriptor)) ? -1 : REAL(name)(__VA_ARGS__);                            \
    }
#define ON_PATH(result, name, call, parameters, ...)                                                                   \
    result name parameters { return fails(call, is_below(path)) ? -1 : REAL(name)(__VA_ARGS__); }

ON_DESCRIPTOR(ssize_t, write, "write", (int descriptor, const void *content, size_t size), descriptor, content, size)
ON_DESCRIPTOR(ssize_t, writev, "write", (int descriptor, const struct iovec *parts, int count), descriptor, parts, count)
ON_DESCRIPTOR(ssize_t, pwrite64, "write", (int descriptor, const void *content, size_t size, off64_t place), descriptor,
              content, size, place)
ON_DESCRIPTOR(ssize_t, read, "read", (int descriptor, void *content, size_t size), descriptor, content, size)
ON_DESCRIPTOR(int, fsync, "fsync", (int descriptor), descriptor)
ON_DESCRIPTOR(int, fdatasync, "fsync", (int descriptor), descriptor)
ON_DESCRIPTOR(int, ftruncate, "truncate", (int descriptor, off_t size), descriptor, size)
ON_DESCRIPTOR(int, ftruncate64, "truncate", (int descriptor, off64_t size), descriptor, size)
ON_DESCRIPTOR(int, flock, "flock", (int descriptor, int operation), descriptor, operation)
ON_DESCRIPTOR(int, fchmod, "chmod", (int descriptor, mode_t mode), descriptor, mode)
ON_PATH(int, truncate, "truncate", (const char *path, off_t size), path, size)
ON_PATH(int, truncate64, "truncate", (const char *path, off64_t size), path, size)
ON_PATH(int, chmod, "chmod", (const char *path, mode_t mode), path, mode)
ON_PATH(int, mkdir, "mkdir", (const char *path, mode_t mode), path, mode)
ON_PATH(int, rmdir, "remove", (const char *path), path)
ON_PATH(int, unlink, "remove", (const char *path), path)
ON_PATH(int, rename, "rename", (const char *path, const char *target), path, target)

int unlinkat(int descriptor, const char *path, int flags) {
    int below = is_below(path) || (path[0] != '/' && is_below_descriptor(descriptor));
    return fails("remove", below) ? -1 : REAL(unlinkat)(descriptor, path, flags);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        int mode = va_arg(rest, int);                                                                                  \
        va_end(rest);                                                                                                  \
        return fails((flags & O_ACCMODE) == O_RDONLY ? "open to read" : "open to write", is_below(path))               \
                   ? -1                                                                                                \
                   : REAL(name)(path, flags, mode);                                                                    \
    }
OPEN(open)
OPEN(open64)
