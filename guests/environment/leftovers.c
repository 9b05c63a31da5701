/* What the stack holds below a program's frames, after operations of each kind: whoever reads a variable
   that was never set, or looks through a stack as a collector does, sees it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 2048

static const char *chosen;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore, other_semaphore;
static int ends[2], round_trip[2];
static volatile int handled;
static unsigned long long seen;
/* What the loader's saving of vector registers, while it binds a function, begins with. */
static int headers;

/* A place for a breakpoint: what differs is seen in gdb, where a replay stops at the write that would say so. */
__attribute__((noinline)) void dumped(int distance, uint64_t word) {
    fprintf(stderr, "%d %016lx\n", distance, word);
}

/* Reads what nobody has written: that is what it is for. */
__attribute__((noinline, optimize("O1"))) static uint64_t below(int print) {
    volatile uint64_t words[WORDS];
    uint64_t hash = 14695981039346656037u;
    for (int at = 0; at < WORDS; at++) {
        uint64_t word = words[at];
        if (print && word)
            dumped((WORDS - at) * 8, word);
        hash = (hash ^ word) * 1099511628211u;
        headers += word >> 63 && !(word << 1 & ~0x1dcull);
    }
    return hash;
}

/* Fills it, so that whatever is found there was left since. */
__attribute__((noinline, optimize("O1"))) static void fill(void) {
    volatile uint64_t words[WORDS];
    for (int at = 0; at < WORDS; at++)
        words[at] = 0;
    (void)words[0];
}

static void nothing(void) {}

static void handler(int number) {
    handled += number;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void *other(void *argument) {
    sem_wait(&semaphore);
    sem_post(&other_semaphore);
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void operate(const char *kind) {
    char bytes[64];
    if (!strcmp(kind, "mutex"))
        pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
    if (!strcmp(kind, "recursive"))
        pthread_mutex_lock(&recursive), pthread_mutex_unlock(&recursive);
    if (!strcmp(kind, "trylock") && !pthread_mutex_trylock(&mutex))
        pthread_mutex_unlock(&mutex);
    if (!strcmp(kind, "signal"))
        pthread_cond_signal(&condition);
    if (!strcmp(kind, "rwlock"))
        pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock), pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock);
    if (!strcmp(kind, "spin"))
        pthread_spin_lock(&spin), pthread_spin_unlock(&spin);
    if (!strcmp(kind, "once"))
        pthread_once(&once, nothing);
    if (!strcmp(kind, "semaphore"))
        sem_post(&other_semaphore), sem_wait(&other_semaphore);
    if (!strcmp(kind, "timed")) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&condition, &mutex, &soon);
        pthread_mutex_unlock(&mutex);
    }
    if (!strcmp(kind, "time")) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seen += now.tv_nsec;
    }
    if (!strcmp(kind, "getppid"))
        seen += getppid();
    if (!strcmp(kind, "files")) {
        struct stat status;
        int file = open("small", O_RDONLY);
        seen += read(file, bytes, sizeof bytes) + lseek(file, 0, SEEK_CUR) + fstat(file, &status);
        close(file);
        seen += access("/nowhere", F_OK) + stat("small", &status);
    }
    if (!strcmp(kind, "pipe"))
        seen += write(ends[1], "abc", 3) + read(ends[0], bytes, 3);
    if (!strcmp(kind, "select")) {
        struct timeval none = {0, 1000};
        seen += select(0, NULL, NULL, NULL, &none);
    }
    if (!strcmp(kind, "sleep"))
        usleep(1000);
    if (!strcmp(kind, "heap")) {
        void *block[40];
        for (int at = 0; at < 40; at++)
            block[at] = malloc(at * 3000);
        for (int at = 0; at < 40; at++)
            free(block[at]);
    }
    if (!strcmp(kind, "streams")) {
        FILE *file = fopen("small", "r");
        if (file && fgets(bytes, sizeof bytes, file))
            seen += fscanf(file, "%63s", bytes) + fgetc(file);
        if (file)
            fclose(file);
        snprintf(bytes, sizeof bytes, "%d", getpid());
        fputs("", stdout);
    }
    if (!strcmp(kind, "raise"))
        raise(SIGUSR1);
    if (!strcmp(kind, "mask")) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        pthread_kill(pthread_self(), SIGUSR2);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    if (!strcmp(kind, "thread")) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, other, bytes);
        sem_post(&semaphore);
        pthread_mutex_lock(&mutex);
        struct timespec late;
        clock_gettime(CLOCK_REALTIME, &late);
        late.tv_sec += 2;
        /* It may have broadcast already: then it is joined all the same. */
        pthread_mutex_unlock(&mutex);
        sem_timedwait(&other_semaphore, &late);
        pthread_join(thread, &result);
    }
    if (!strcmp(kind, "process")) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        waitpid(child, &status, 0);
        seen += status;
    }
    if (!strcmp(kind, "mappings")) {
        char *place = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(place, 4096, PROT_READ);
        madvise(place, 16384, MADV_DONTNEED);
        munmap(place, 16384);
    }
    if (!strcmp(kind, "segments")) {
        int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        char *place = shmat(segment, NULL, 0);
        *place = 1;
        shmdt(place);
        shmctl(segment, IPC_RMID, NULL);
    }
    if (!strcmp(kind, "written")) {
        int file = open("doomed", O_RDWR | O_CREAT, 0600);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        seen += fcntl(file, F_SETLK, &all) + flock(file, LOCK_SH) + posix_fallocate(file, 0, 100);
        seen += pwrite(file, bytes, 10, 20) + pread(file, bytes, 10, 20) + fsync(file) + ftruncate(file, 5);
        seen += fcntl(file, F_GETFL) + fchmod(file, 0600);
        close(file);
        seen += link("doomed", "other") + rename("other", "third") + unlink("third") + chmod("doomed", 0644);
    }
    if (!strcmp(kind, "folders")) {
        DIR *folder = opendir(".");
        while (folder && readdir(folder))
            seen++;
        if (folder)
            closedir(folder);
        char name[200];
        seen += getcwd(name, sizeof name) != NULL;
        seen += readlink("/proc/self/exe", name, sizeof name) + mkdir("inner", 0700) + rmdir("inner");
    }
    if (!strcmp(kind, "timers")) {
        struct itimerval none = {{0, 0}, {0, 0}}, before;
        struct rusage usage;
        seen += setitimer(ITIMER_REAL, &none, &before) + getrusage(RUSAGE_SELF, &usage);
    }
    if (!strcmp(kind, "polls")) {
        struct pollfd one = {round_trip[0], POLLIN, 0};
        struct epoll_event event = {EPOLLIN, {0}};
        int many = epoll_create1(0);
        seen += poll(&one, 1, 1) + epoll_ctl(many, EPOLL_CTL_ADD, round_trip[0], &event) + epoll_wait(many, &event, 1, 1);
        close(many);
    }
    if (!strcmp(kind, "actions")) {
        struct sigaction action = {.sa_handler = handler}, before;
        sigset_t none;
        sigemptyset(&none);
        seen += sigaction(SIGHUP, &action, &before) + sigprocmask(SIG_SETMASK, &none, NULL);
    }
    if (!strcmp(kind, "users")) {
        time_t now = time(NULL);
        seen += getpwuid(0) != NULL, seen += localtime(&now)->tm_sec, seen += setlocale(LC_ALL, "C") != NULL;
    }
    if (!strcmp(kind, "commands")) {
        FILE *said = popen("echo a", "r");
        if (said && fgets(bytes, sizeof bytes, said))
            pclose(said);
        seen += system("exit 3");
    }
    if (!strcmp(kind, "spawned")) {
        char *words[] = {"true", NULL};
        pid_t child;
        int status;
        seen += posix_spawnp(&child, "true", NULL, NULL, words, environ);
        waitpid(child, &status, 0);
        sem_post(&other_semaphore), sem_wait(&other_semaphore);
    }
    if (!strcmp(kind, "sockets")) {
        int pair[2];
        seen += socketpair(AF_UNIX, SOCK_STREAM, 0, pair) + send(pair[0], "ab", 2, 0) + recv(pair[1], bytes, 2, 0);
        seen += shutdown(pair[0], SHUT_WR);
        close(pair[0]);
        close(pair[1]);
    }
    if (!strcmp(kind, "jump")) {
        static sigjmp_buf back;
        if (!sigsetjmp(back, 1))
            siglongjmp(back, 1);
    }
    if (!strcmp(kind, "instructions")) {
        unsigned words[4] = {0, 0, 0, 0};
        asm volatile("cpuid" : "+a"(words[0]), "=b"(words[1]), "+c"(words[2]), "=d"(words[3]));
        asm volatile("rdtsc" : "=a"(words[0]), "=d"(words[1]));
        seen += words[0];
    }
    if (!strcmp(kind, "environment"))
        seen += getenv("HOME") != NULL, seen += getuid(), sched_yield();
}

static const char *const kinds[] = {
    "mutex", "recursive", "trylock", "signal", "rwlock", "spin", "once", "semaphore", "timed", "time", "getppid", "files",
    "pipe", "select", "sleep", "heap", "streams", "raise", "mask", "thread", "process", "environment",
    "mappings", "segments", "written", "folders", "timers", "polls", "actions", "users", "commands", "spawned", "sockets", "jump", "instructions",
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static void *all(void *name) {
    /* The loader has bound what is called, and each is there twice: first and later uses. */
    for (int turn = 0; turn < 3; turn++)
        for (int at = 0; at < KINDS; at++) {
            if (chosen && strcmp(chosen, kinds[at]))
                continue;
            fill();
            operate(kinds[at]);
            uint64_t hash = below(chosen && turn == 1);
            printf("%s %s %d %016lx\n", (char *)name, kinds[at], turn, hash);
        }
    return NULL;
}

int main(int count, char **arguments) {
    chosen = count > 1 ? arguments[1] : NULL;
    uint64_t hash = below(0);
    printf("start %016lx\n", hash);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%ld\n", now.tv_nsec);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 0);
    sem_init(&other_semaphore, 0, 0);
    if (pipe(ends) || pipe(round_trip))
        return 1;
    all("first");
    pthread_t thread;
    pthread_create(&thread, NULL, all, "second");
    pthread_join(thread, NULL);
    printf("%d\nheaders %d\n", handled, headers);
    return 0;
}
