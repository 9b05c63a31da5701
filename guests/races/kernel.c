// What one thread hands to another through the kernel, by each thing there that a thread can wait at or ask.
// WAY early|late: the giver writes before it gives, or behind it; the taker reads behind what it took.
#include "twins.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static long data;
static const char *how;
static int is_late;
static int way[2], poller, set, queue;
static mqd_t named;
static pid_t child;
static pid_t taker_id;
static pthread_t taker_thread;
static volatile sig_atomic_t struck;
static int word_of_futex;
static char name[64], other_name[64];
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int among(const char *const *names)
{
    for (; *names; names++)
        if (is(how, *names))
            return 1;
    return 0;
}
#define one_of(...) among((const char *const[]){__VA_ARGS__, NULL})

static void receive(void)
{
    struct { long kind; char text; } message;
    must_be(msgrcv(queue, &message, 1, 0, 0) == 1);
}

static void futex(int operation, int value)
{
    must_be(syscall(SYS_futex, &word_of_futex, operation, value, NULL, NULL, 0) >= 0 || errno == EAGAIN || errno == EINTR);
}

static struct flock region(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}

// ---- giving

static void give(void)
{
    struct { long kind; char text; } message = {1, 0};
    union sigval value = {.sival_int = 1};
    eventfd_t one = 1;
    if (one_of("pipe", "select", "poll", "epoll", "fionread", "two_writers"))
        must_be(write(way[1], "x", 1) == 1);
    else if (is(how, "end"))
        must_be(close(way[1]) == 0);
    else if (is(how, "socket"))
        must_be(send(way[1], "x", 1, 0) == 1);
    else if (is(how, "shutdown"))
        must_be(shutdown(way[1], SHUT_WR) == 0);
    else if (is(how, "eventfd"))
        must_be(write(way[1], &one, sizeof one) == sizeof one);
    else if (one_of("sigwait", "sigwaitinfo", "sigtimedwait", "sigpending", "raw_sigwait", "signalfd", "signalfd_polled"))
        must_be(kill(getpid(), SIGUSR1) == 0);
    else if (one_of("handler", "thread_sigwait"))
        must(pthread_kill(taker_thread, SIGUSR1));
    else if (is(how, "thread_queued"))
        must(pthread_sigqueue(taker_thread, SIGUSR1, value));
    else if (is(how, "queued"))
        must_be(sigqueue(getpid(), SIGUSR1, value) == 0);
    else if (one_of("raw_kill", "raw_handler"))
        must_be(syscall(SYS_tgkill, getpid(), taker_id, SIGUSR1) == 0);
    else if (is(how, "flock"))
        must_be(flock(way[1], LOCK_UN) == 0);
    else if (is(how, "flock_closed"))
        must_be(close(way[1]) == 0);
    else if (is(how, "raw_flock"))
        must_be(syscall(SYS_flock, way[1], LOCK_UN) == 0);
    else if (one_of("ofd", "ofd_tried")) {
        struct flock region_ = region(F_UNLCK);
        must_be(fcntl(way[1], F_OFD_SETLK, &region_) == 0);
    } else if (is(how, "message"))
        must_be(msgsnd(queue, &message, 1, 0) == 0);
    else if (is(how, "set"))
        must_be(semop(set, &(struct sembuf){0, 1, 0}, 1) == 0);
    else if (is(how, "queue"))
        must_be(mq_send(named, "x", 1, 0) == 0);
    else if (is(how, "futex")) {
        __atomic_store_n(&word_of_futex, 1, __ATOMIC_RELAXED); // race woken
        futex(FUTEX_WAKE_PRIVATE, 1);
    } else if (one_of("child", "pidfd", "waitid"))
        must_be(kill(child, SIGUSR1) == 0);
    else if (is(how, "fifo"))
        must_be((way[1] = open(name, O_WRONLY)) >= 0);
    else if (one_of("made", "made_stream", "made_stat", "watched"))
        must_be(close(open(name, O_CREAT | O_EXCL | O_WRONLY, 0600)) == 0);
    else if (is(how, "removed"))
        must_be(unlink(name) == 0);
    else if (is(how, "renamed"))
        must_be(rename(other_name, name) == 0);
    else if (is(how, "folder"))
        must_be(mkdir(name, 0700) == 0);
    else if (is(how, "size"))
        must_be(ftruncate(way[1], 100) == 0);
    else if (is(how, "listen"))
        must_be(listen(way[1], 1) == 0);
    else
        must_be(0);
}

// ---- taking

static void nap(void)
{
    pause_for(100000);
}

static sigset_t usr1(void)
{
    sigset_t signals;
    must_be(sigemptyset(&signals) == 0 && sigaddset(&signals, SIGUSR1) == 0);
    return signals;
}

static void take_signal(void)
{
    sigset_t signals = usr1(), pending, none;
    siginfo_t told;
    int number;
    if (is(how, "sigwait") || is(how, "thread_sigwait"))
        must(sigwait(&signals, &number));
    else if (is(how, "sigtimedwait"))
        must_be(sigtimedwait(&signals, &told, &(struct timespec){60, 0}) == SIGUSR1);
    else if (is(how, "raw_sigwait") || is(how, "raw_kill"))
        must_be(syscall(SYS_rt_sigtimedwait, &signals, &told, NULL, 8) == SIGUSR1);
    else if (is(how, "sigpending")) {
        do
            must_be(sigpending(&pending) == 0);
        while (!sigismember(&pending, SIGUSR1) && (nap(), 1));
    } else if (one_of("handler", "raw_handler")) {
        must_be(sigemptyset(&none) == 0);
        while (!struck)
            must_be(sigsuspend(&none) != 0 && errno == EINTR);
    } else
        must_be(sigwaitinfo(&signals, &told) == SIGUSR1);
}

static void take_ready(void)
{
    struct pollfd ready = {.fd = way[0], .events = POLLIN};
    struct epoll_event event;
    fd_set read_set;
    int left = 0;
    if (is(how, "select")) {
        FD_ZERO(&read_set);
        FD_SET(way[0], &read_set);
        must_be(select(way[0] + 1, &read_set, NULL, NULL, NULL) == 1);
    } else if (is(how, "epoll"))
        must_be(epoll_wait(poller, &event, 1, -1) == 1);
    else if (is(how, "fionread")) {
        while (ioctl(way[0], FIONREAD, &left) == 0 && left == 0)
            nap();
    } else
        must_be(poll(&ready, 1, -1) == 1);
}

// Others make files in that folder, too.
static void await_name(void)
{
    _Alignas(struct inotify_event) char told[4096];
    for (;;) {
        ssize_t got = read(way[0], told, sizeof told);
        must_be(got > 0);
        for (char *at = told; at < told + got;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            if (event->len > 0 && is(event->name, strrchr(name, '/') + 1))
                return;
            at += sizeof *event + event->len;
        }
    }
}

static void take(void)
{
    struct signalfd_siginfo told;
    struct stat found;
    char text[8192];
    eventfd_t count;
    siginfo_t end;
    int status;
    if (one_of("select", "poll", "epoll", "signalfd_polled", "fionread"))
        take_ready();
    else if (is(how, "two_writers")) {
        // Most likely the second of the two, which says nothing to it.
        pause_for(10000000);
        must_be(write(way[1], "y", 1) == 1);
    } else if (is(how, "pipe"))
        must_be(read(way[0], text, 1) == 1);
    else if (is(how, "end"))
        must_be(read(way[0], text, 1) == 0);
    else if (is(how, "socket"))
        must_be(recv(way[0], text, 1, 0) == 1);
    else if (is(how, "shutdown"))
        must_be(recv(way[0], text, 1, 0) == 0);
    else if (is(how, "eventfd"))
        must_be(read(way[0], &count, sizeof count) == sizeof count);
    else if (is(how, "signalfd"))
        must_be(read(way[0], &told, sizeof told) == sizeof told && told.ssi_signo == SIGUSR1);
    else if (one_of("flock", "flock_closed"))
        must_be(flock(way[0], LOCK_EX) == 0);
    else if (is(how, "raw_flock"))
        must_be(syscall(SYS_flock, way[0], LOCK_EX) == 0);
    else if (is(how, "ofd")) {
        struct flock region_ = region(F_WRLCK);
        must_be(fcntl(way[0], F_OFD_SETLKW, &region_) == 0);
    } else if (is(how, "ofd_tried")) {
        struct flock region_ = region(F_RDLCK);
        while (fcntl(way[0], F_OFD_SETLK, &region_) != 0)
            nap();
    } else if (is(how, "message"))
        receive();
    else if (is(how, "set"))
        must_be(semop(set, &(struct sembuf){0, -1, 0}, 1) == 0);
    else if (is(how, "queue"))
        must_be(mq_receive(named, text, sizeof text, NULL) == 1);
    else if (is(how, "futex")) {
        while (__atomic_load_n(&word_of_futex, __ATOMIC_RELAXED) == 0) // race waited
            futex(FUTEX_WAIT_PRIVATE, 0);
    } else if (is(how, "child"))
        must_be(waitpid(child, &status, 0) == child);
    else if (is(how, "waitid"))
        must_be(waitid(P_PID, (id_t)child, &end, WEXITED) == 0);
    else if (is(how, "pidfd"))
        must_be(poll(&(struct pollfd){.fd = way[0], .events = POLLIN}, 1, -1) == 1);
    else if (is(how, "fifo"))
        must_be((way[0] = open(name, O_RDONLY)) >= 0);
    else if (is(how, "made")) {
        while ((way[0] = open(name, O_RDONLY)) < 0)
            nap();
    } else if (is(how, "made_stream")) {
        FILE *stream;
        while ((stream = fopen(name, "r")) == NULL)
            nap();
        must_be(fclose(stream) == 0);
    } else if (one_of("made_stat", "renamed", "folder")) {
        while (stat(name, &found) != 0)
            nap();
    } else if (is(how, "removed")) {
        while (access(name, F_OK) == 0)
            nap();
    } else if (is(how, "watched"))
        await_name();
    else if (is(how, "size")) {
        while (fstat(way[1], &found) == 0 && found.st_size == 0)
            nap();
    } else if (is(how, "listen")) {
        while (connect(way[0], (struct sockaddr *)&address, sizeof address) != 0)
            nap();
    } else
        take_signal();
}

// ---- the two threads

static void handle(int number)
{
    (void)number;
    struck = 1;
}

static void *giver(void *argument)
{
    if (!is_late)
        data = 1; // race given
    give();
    if (is_late)
        data = 2; // race given_late
    return argument;
}

static void *taker(void *argument)
{
    volatile long seen;
    taker_id = (pid_t)syscall(SYS_gettid);
    must_be(sem_post(argument) == 0);
    take();
    seen = data; // race taken
    (void)seen;
    return argument;
}

static void begin(void)
{
    struct flock region_ = region(F_WRLCK);
    struct epoll_event interest = {.events = EPOLLIN};
    sigset_t signals = usr1();
    must(pthread_sigmask(SIG_BLOCK, &signals, NULL));
    snprintf(name, sizeof name, "/tmp/relive-kernel-%d", (int)getpid());
    snprintf(other_name, sizeof other_name, "/tmp/relive-kernel-%d-other", (int)getpid());
    if (one_of("pipe", "end", "select", "poll", "epoll", "fionread", "two_writers"))
        must_be(pipe(way) == 0);
    if (is(how, "epoll"))
        must_be((poller = epoll_create1(0)) >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, way[0], &interest) == 0);
    if (one_of("socket", "shutdown"))
        must_be(socketpair(AF_UNIX, SOCK_STREAM, 0, way) == 0);
    if (is(how, "eventfd"))
        must_be((way[0] = way[1] = eventfd(0, 0)) >= 0);
    if (one_of("signalfd", "signalfd_polled"))
        must_be((way[0] = signalfd(-1, &signals, 0)) >= 0);
    if (one_of("handler", "raw_handler"))
        must_be(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    if (one_of("flock", "raw_flock", "flock_closed", "ofd", "ofd_tried", "size", "removed")) {
        must_be((way[1] = open(name, O_CREAT | O_RDWR, 0600)) >= 0);
        must_be((way[0] = open(name, O_RDWR)) >= 0);
    }
    if (one_of("flock", "raw_flock", "flock_closed"))
        must_be(flock(way[1], LOCK_EX) == 0);
    if (one_of("ofd", "ofd_tried"))
        must_be(fcntl(way[1], F_OFD_SETLK, &region_) == 0);
    if (is(how, "message"))
        must_be((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    if (is(how, "set"))
        must_be((set = semget(IPC_PRIVATE, 1, 0600)) >= 0 && semctl(set, 0, SETVAL, 0) == 0);
    if (is(how, "queue")) {
        must_be((named = mq_open(name + 4, O_CREAT | O_RDWR, 0600, NULL)) >= 0);
        must_be(mq_unlink(name + 4) == 0);
    }
    if (one_of("child", "pidfd", "waitid")) {
        must_be((child = fork()) >= 0);
        if (child == 0) {
            int number;
            must(sigwait(&signals, &number));
            _exit(0);
        }
    }
    if (is(how, "pidfd"))
        must_be((way[0] = (int)syscall(SYS_pidfd_open, child, 0)) >= 0);
    if (is(how, "fifo"))
        must_be(mkfifo(name, 0600) == 0);
    if (is(how, "watched"))
        must_be((way[0] = inotify_init1(0)) >= 0 && inotify_add_watch(way[0], "/tmp", IN_CREATE) >= 0);
    if (is(how, "renamed"))
        must_be(close(open(other_name, O_CREAT | O_WRONLY, 0600)) == 0);
    if (is(how, "listen")) {
        memcpy(address.sun_path, name, sizeof name);
        must_be((way[0] = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && (way[1] = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
        must_be(bind(way[1], (struct sockaddr *)&address, sizeof address) == 0);
    }
}

int main(int argc, char **argv)
{
    sem_t started;
    pthread_t thread;
    how = word(argc, argv, 1, "pipe");
    is_late = is(word(argc, argv, 2, "early"), "late");
    begin();
    must_be(sem_init(&started, 0, 0) == 0);
    must(pthread_create(&taker_thread, NULL, taker, &started));
    await(&started);
    pause_for(2000000);
    must(pthread_create(&thread, NULL, giver, NULL));
    must(pthread_join(thread, NULL));
    must(pthread_join(taker_thread, NULL));
    unlink(name);
    rmdir(name);
    if (is(how, "pidfd"))
        must_be(waitpid(child, NULL, 0) == child);
    if (is(how, "message"))
        must_be(msgctl(queue, IPC_RMID, NULL) == 0);
    if (is(how, "set"))
        must_be(semctl(set, 0, IPC_RMID) == 0);
    printf("%s\n", how);
    return 0;
}
