// Threads that the program did not create itself: callbacks of a timer, of a
// message queue, of asynchronous input and of a look-up with SIGEV_THREAD, which lock.
#include "../transcript.h"
#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <semaphore.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static sem_t fired;
static int rounds;

static void callback(union sigval value)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, 20 + value.sival_int);
    must(pthread_mutex_unlock(&mutex));
    must_be(sem_post(&fired) == 0);
}

static struct sigevent by_thread(int value)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = callback;
    event.sigev_value.sival_int = value;
    return event;
}

static void timers(void)
{
    timer_t ids[3];
    for (int which = 0; which < 3; which++) {
        struct sigevent event = by_thread(which);
        struct itimerspec once = {{0, 0}, {0, 200000 + 100000 * which}};
        must_be(timer_create(CLOCK_MONOTONIC, &event, &ids[which]) == 0);
        must_be(timer_settime(ids[which], 0, &once, NULL) == 0);
    }
    for (int which = 0; which < 3; which++)
        must_be(sem_wait(&fired) == 0);
    for (int which = 0; which < 3; which++)
        must_be(timer_delete(ids[which]) == 0);
}

static void asynchronous_read(void)
{
    static char bytes[3][16];
    struct aiocb blocks[3];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    must_be(zero >= 0);
    memset(blocks, 0, sizeof blocks);
    for (int which = 0; which < 3; which++) {
        blocks[which].aio_fildes = zero;
        blocks[which].aio_buf = bytes[which];
        blocks[which].aio_nbytes = sizeof bytes[which];
        blocks[which].aio_sigevent = by_thread(which);
        must_be(aio_read(&blocks[which]) == 0);
    }
    for (int which = 0; which < 3; which++)
        must_be(sem_wait(&fired) == 0);
    for (int which = 0; which < 3; which++)
        must_be(aio_return(&blocks[which]) == sizeof bytes[which]);
    close(zero);
}

static void message_queue(void)
{
    char name[64];
    char byte[8];
    struct mq_attr attributes = {0, 4, 8, 0, {0}};
    snprintf(name, sizeof name, "/relive-guest-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
    must_be(queue != (mqd_t)-1);
    must_be(mq_unlink(name) == 0);
    struct sigevent event = by_thread(5);
    must_be(mq_notify(queue, &event) == 0);
    must_be(mq_send(queue, "x", 1, 0) == 0);
    must_be(sem_wait(&fired) == 0);
    must_be(mq_receive(queue, byte, sizeof byte, NULL) == 1);
    must_be(mq_close(queue) == 0);
}

static void look_up(void)
{
    struct addrinfo numeric;
    struct gaicb request;
    struct gaicb *requests[] = {&request};
    struct sigevent event = by_thread(7);
    memset(&numeric, 0, sizeof numeric);
    memset(&request, 0, sizeof request);
    numeric.ai_flags = AI_NUMERICHOST;
    request.ar_name = "127.0.0.1";
    request.ar_request = &numeric;
    must_be(getaddrinfo_a(GAI_NOWAIT, requests, 1, &event) == 0);
    must_be(sem_wait(&fired) == 0);
    must_be(gai_error(&request) == 0);
    freeaddrinfo(request.ar_result);
}

static void *worker(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        pause_for(10000);
    }
    return NULL;
}

// THREADS ROUNDS timer|aio|lookup|mq
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    pthread_t ids[MOST_THREADS];
    rounds = number(argc, argv, 2, 30);
    const char *how = word(argc, argv, 3, "timer");
    must_be(sem_init(&fired, 0, 0) == 0);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    if (is(how, "timer"))
        timers();
    else if (is(how, "aio"))
        asynchronous_read();
    else if (is(how, "lookup"))
        look_up();
    else
        message_queue();
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    return 0;
}
