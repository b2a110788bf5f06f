/* Stands between a process and its disk, as far as one folder goes: it records what is written and synced there,
 * beside what is sent to sockets, and fails what it is told to fail. Loaded with LD_PRELOAD; does nothing before
 * `disk_begin`. One lock is held over each call and its record: the record has the calls in the order in which they
 * took effect. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MAX_FD = 4096 };

/* Shared with whoever watches: `tests/reliability/disk.py` has the same. */
struct control {
    volatile int64_t calls;     /* writes, truncations and syncs so far */
    volatile int64_t countdown; /* the call that fails, counted from 1; 0: none does */
    volatile int64_t error;     /* with which errno */
    volatile int64_t lasts;     /* whether all calls after it fail too */
    volatile int64_t room;      /* so many bytes may files still grow by; -1: as many as they like */
    volatile int64_t failed;    /* calls that were failed */
};

struct record {
    char what;
    int32_t file;
    int64_t at;
    int64_t length; /* of what follows */
} __attribute__((packed));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct control *control;
static char folder[PATH_MAX];
static size_t folder_length;
static int log_fd = -1;
static int32_t files[MAX_FD]; /* by descriptor; 0: not ours */
static int32_t opened;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

int disk_begin(const char *data_folder, const char *control_file, const char *log_file) {
    int fd = REAL(open64)(control_file, O_RDWR);
    if (fd < 0) return -1;
    struct control *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) return -1;
    if (*log_file && (log_fd = REAL(open64)(log_file, O_WRONLY | O_CREAT | O_APPEND, 0600)) < 0) return -1;
    folder_length = strlen(data_folder);
    memcpy(folder, data_folder, folder_length + 1);
    control = shared;
    return 0;
}

static int is_ours(const char *path) {
    return control && strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || !path[folder_length]);
}

static int32_t file_of(int fd) { return control && fd >= 0 && fd < MAX_FD ? files[fd] : 0; }

static void note(char what, int32_t file, int64_t at, const void *data, size_t length) {
    if (log_fd < 0) return;
    struct record head = {what, file, at, (int64_t)length};
    if (REAL(write)(log_fd, &head, sizeof head) < 0 || REAL(write)(log_fd, data, length) < 0) perror("disk record");
}

static void note_path(char what, int32_t file, const char *path) {
    note(what, file, 0, path + folder_length, strlen(path + folder_length));
}

/* With the lock: whether this call has to fail; errno says how. */
static int fails(int64_t growth) {
    control->calls++;
    if (control->countdown > 0) {
        control->countdown--;
        if (control->countdown == 0) {
            if (control->lasts) control->countdown = 1;
            control->failed++;
            errno = (int)control->error;
            return 1;
        }
    }
    if (control->room >= 0 && growth > 0) {
        if (growth > control->room) {
            control->failed++;
            errno = ENOSPC;
            return 1;
        }
        control->room -= growth;
    }
    return 0;
}

static int64_t size_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_size : 0;
}

static int64_t positive(int64_t number) { return number > 0 ? number : 0; }

/* -- opening and names -- */

static int note_opened(int fd, const char *path) {
    if (fd < 0 || fd >= MAX_FD || !is_ours(path)) return fd;
    pthread_mutex_lock(&lock);
    files[fd] = ++opened;
    note_path('o', opened, path);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags)                                        \
    mode_t mode = 0;                                       \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {               \
        va_list rest;                                      \
        va_start(rest, flags);                             \
        mode = (mode_t)va_arg(rest, int);                  \
        va_end(rest);                                      \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return note_opened(REAL(open)(path, flags, mode), path);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return note_opened(REAL(open64)(path, flags, mode), path);
}

int openat(int at, const char *path, int flags, ...) {
    MODE(flags)
    return note_opened(REAL(openat)(at, path, flags, mode), path);
}

int openat64(int at, const char *path, int flags, ...) {
    MODE(flags)
    return note_opened(REAL(openat64)(at, path, flags, mode), path);
}

int close(int fd) {
    if (file_of(fd)) files[fd] = 0;
    return REAL(close)(fd);
}

int unlink(const char *path) {
    if (!is_ours(path)) return REAL(unlink)(path);
    pthread_mutex_lock(&lock);
    int result = REAL(unlink)(path);
    if (result == 0) note_path('u', 0, path);
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *from, const char *to) {
    if (!is_ours(from) || !is_ours(to)) return REAL(rename)(from, to);
    pthread_mutex_lock(&lock);
    int result = REAL(rename)(from, to);
    if (result == 0) {
        char both[2 * PATH_MAX];
        int length = snprintf(both, sizeof both, "%s%c%s", from + folder_length, 0, to + folder_length);
        note('r', 0, 0, both, (size_t)length);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    int result = REAL(mkdir)(path, mode);
    if (result == 0 && is_ours(path)) {
        pthread_mutex_lock(&lock);
        note_path('m', 0, path);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

/* -- what files hold -- */

static ssize_t write_at(int fd, const void *data, size_t length, int64_t at, int moves) {
    pthread_mutex_lock(&lock);
    ssize_t result = -1;
    if (!fails(positive(at + (int64_t)length - size_of(fd)))) {
        result = moves ? REAL(write)(fd, data, length) : REAL(pwrite64)(fd, data, length, at);
        if (result > 0) note('w', files[fd], at, data, (size_t)result);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t write(int fd, const void *data, size_t length) {
    if (!file_of(fd)) return REAL(write)(fd, data, length);
    return write_at(fd, data, length, lseek64(fd, 0, SEEK_CUR), 1);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    if (!file_of(fd)) return REAL(pwrite)(fd, data, length, at);
    return write_at(fd, data, length, at, 0);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    if (!file_of(fd)) return REAL(pwrite64)(fd, data, length, at);
    return write_at(fd, data, length, at, 0);
}

static int truncate_to(int fd, int64_t length) {
    pthread_mutex_lock(&lock);
    int64_t freed = positive(size_of(fd) - length);
    int result = fails(0) ? -1 : REAL(ftruncate64)(fd, length);
    if (result == 0) note('t', files[fd], length, "", 0);
    if (result == 0 && control->room >= 0) control->room += freed;
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t length) { return file_of(fd) ? truncate_to(fd, length) : REAL(ftruncate)(fd, length); }

int ftruncate64(int fd, off64_t length) { return file_of(fd) ? truncate_to(fd, length) : REAL(ftruncate64)(fd, length); }

static int sync_file(int fd, int (*sync)(int)) {
    pthread_mutex_lock(&lock);
    int result = fails(0) ? -1 : sync(fd);
    if (result == 0) note('s', files[fd], 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) { return file_of(fd) ? sync_file(fd, REAL(fsync)) : REAL(fsync)(fd); }

int fdatasync(int fd) { return file_of(fd) ? sync_file(fd, REAL(fdatasync)) : REAL(fdatasync)(fd); }

/* -- beside the disk -- */

ssize_t send(int fd, const void *data, size_t length, int flags) {
    if (log_fd >= 0) {
        pthread_mutex_lock(&lock);
        note('a', 0, 0, data, length);
        pthread_mutex_unlock(&lock);
    }
    return REAL(send)(fd, data, length, flags);
}

int statvfs64(const char *path, struct statvfs64 *found) {
    int result = REAL(statvfs64)(path, found);
    if (result == 0 && control && control->room >= 0)
        found->f_bavail = (fsblkcnt64_t)(control->room / (int64_t)found->f_frsize);
    return result;
}

int statvfs(const char *path, struct statvfs *found) {
    int result = REAL(statvfs)(path, found);
    if (result == 0 && control && control->room >= 0)
        found->f_bavail = (fsblkcnt_t)(control->room / (int64_t)found->f_frsize);
    return result;
}
