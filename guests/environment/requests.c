// Asynchronous input, output and look-ups by several threads: waited for, asked for, told by a signal, by a callback, and
// in lists.
//
// usage: requests THREADS ROUNDS

#include "../transcript.h"
#include <aio.h>
#include <fcntl.h>
#include <netdb.h>
#include <semaphore.h>
#include <signal.h>

enum { PIECES = 4, BYTES = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static sem_t told[MOST_THREADS];
static volatile sig_atomic_t signals;
static int rounds;

static void write_down(unsigned what)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, what);
    must(pthread_mutex_unlock(&mutex));
}

static void callback(union sigval value)
{
    write_down(50 + value.sival_int);
    must_be(sem_post(&told[value.sival_int]) == 0);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_code == SI_ASYNCIO && info->si_value.sival_int == 7)
        signals++;
}

static struct sigevent by_thread(int who)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = callback};
    event.sigev_value.sival_int = who;
    return event;
}

static void wait_for(struct aiocb *block)
{
    const struct aiocb *list[] = {NULL, block};
    struct timespec span = {10, 0};
    while (aio_error(block) == EINPROGRESS)
        must_be(aio_suspend(list, 2, &span) == 0 || errno == EINTR);
}

// Writes in pieces, one after the other by their file, and reads what is there.
static void transfer(int who, int file)
{
    char out[PIECES][BYTES], in[PIECES][BYTES];
    struct aiocb blocks[2 * PIECES];
    struct aiocb *list[2 * PIECES];
    memset(blocks, 0, sizeof blocks);
    for (int piece = 0; piece < 2 * PIECES; piece++) {
        struct aiocb *block = list[piece] = &blocks[piece];
        block->aio_fildes = file;
        block->aio_buf = piece < PIECES ? out[piece] : in[piece - PIECES];
        block->aio_nbytes = BYTES;
        block->aio_offset = BYTES * (piece % PIECES);
        block->aio_lio_opcode = piece < PIECES ? LIO_WRITE : LIO_READ;
        block->aio_sigevent.sigev_notify = SIGEV_NONE;
        if (piece < PIECES)
            memset(out[piece], 'a' + (who + piece) % 26, BYTES);
    }
    must_be(aio_write(&blocks[0]) == 0);
    struct sigevent all = by_thread(who);
    must_be(lio_listio(LIO_NOWAIT, list + 1, 2 * PIECES - 1, &all) == 0);
    must_be(sem_wait(&told[who]) == 0);
    for (int piece = 0; piece < 2 * PIECES; piece++) {
        wait_for(&blocks[piece]);
        must_be(aio_error(&blocks[piece]) == 0 && aio_return(&blocks[piece]) == BYTES);
    }
    must_be(memcmp(in, out, sizeof in) == 0);
    must_be(lio_listio(LIO_WAIT, list + PIECES, PIECES, NULL) == 0);
    struct aiocb sync = {.aio_fildes = file, .aio_sigevent = by_thread(who)};
    must_be(aio_fsync(O_SYNC, &sync) == 0);
    must_be(sem_wait(&told[who]) == 0);
    must_be(aio_error(&sync) == 0 && aio_cancel(file, NULL) >= 0);
    blocks[0].aio_fildes = -1;
    must_be(aio_read(&blocks[0]) == 0);
    wait_for(&blocks[0]);
    must_be(aio_error(&blocks[0]) == EBADF && aio_return(&blocks[0]) == -1);
    must_be(aio_cancel(-1, NULL) == -1 && errno == EBADF);
}

// Reads a pipe that somebody writes to later, and chance.
static void read_ahead(int who)
{
    int ends[2], dice = open("/dev/urandom", O_RDONLY);
    unsigned char chance[8];
    char byte = 0;
    must_be(pipe(ends) == 0 && dice >= 0);
    struct aiocb ahead = {.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1};
    struct aiocb thrown = {.aio_fildes = dice, .aio_buf = chance, .aio_nbytes = sizeof chance};
    ahead.aio_sigevent = by_thread(who);
    thrown.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    thrown.aio_sigevent.sigev_value.sival_int = 7;
    must_be(aio_read(&ahead) == 0 && aio_read(&thrown) == 0);
    wait_for(&thrown);
    for (unsigned at = 0; at < sizeof chance; at++)
        write_down(chance[at]);
    const struct aiocb *list[] = {&ahead};
    must_be(aio_suspend(list, 1, &(struct timespec){0, 1000}) == -1 && (errno == EAGAIN || errno == EINTR));
    must_be(aio_error(&ahead) == EINPROGRESS && aio_cancel(ends[0], &ahead) == AIO_NOTCANCELED);
    must_be(write(ends[1], "x", 1) == 1);
    must_be(sem_wait(&told[who]) == 0);
    must_be(aio_error(&ahead) == 0 && byte == 'x');
    close(ends[0]), close(ends[1]), close(dice);
}

static void look_up(int who)
{
    struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST};
    struct gaicb requests[2] = {{.ar_name = "127.0.0.1", .ar_request = &numeric}, {.ar_name = "no number"}};
    struct gaicb *list[] = {&requests[0], NULL, &requests[1]};
    requests[1].ar_request = &numeric;
    struct sigevent event = by_thread(who);
    must_be(getaddrinfo_a(GAI_NOWAIT, list, 3, &event) == 0);
    int waited = gai_suspend((const struct gaicb *const *)list, 3, NULL);
    must_be(waited == 0 || waited == EAI_ALLDONE);
    must_be(sem_wait(&told[who]) == 0);
    must_be(gai_error(&requests[0]) == 0 && gai_error(&requests[1]) == EAI_NONAME);
    must_be(gai_cancel(&requests[0]) != 0);
    freeaddrinfo(requests[0].ar_result);
    must_be(getaddrinfo_a(GAI_WAIT, list, 1, NULL) == 0 && gai_error(&requests[0]) == 0);
    freeaddrinfo(requests[0].ar_result);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    char name[64];
    snprintf(name, sizeof name, "requests-%d-%d", getpid(), who);
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    must_be(file >= 0 && unlink(name) == 0);
    for (int round = 0; round < rounds; round++) {
        transfer(who, file);
        read_ahead(who);
        look_up(who);
        write_down(who);
    }
    close(file);
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 3);
    rounds = number(argc, argv, 2, 3);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int who = 0; who < threads; who++)
        must_be(sem_init(&told[who], 0, 0) == 0);
    crew(threads, worker);
    must_be(signals > 0);
    show("requests", &transcript);
    return 0;
}
