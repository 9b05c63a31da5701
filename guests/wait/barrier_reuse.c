// The thread with the SERIAL value destroys the barrier on departure and uses its
// memory for something else while others are still on their way out of the call:
// whoever touches the barrier after its effect is found out.
#include "../transcript.h"

union place {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    unsigned char bytes[64];
};

static union place *places;
static int threads;
static int rounds;
static struct transcript serial;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        union place *place = &places[round];
        jitter();
        int result = pthread_barrier_wait(&place->barrier);
        if (result != PTHREAD_BARRIER_SERIAL_THREAD) {
            must(result);
            continue;
        }
        must(pthread_barrier_destroy(&place->barrier));
        memset(place, 0xa5, sizeof *place);
        for (unsigned byte = 0; byte < sizeof place->bytes; byte++)
            must_be(place->bytes[byte] == 0xa5);
        if (round % 2) {
            must(pthread_mutex_init(&place->mutex, NULL));
            must(pthread_mutex_lock(&place->mutex));
            must(pthread_mutex_unlock(&place->mutex));
            must(pthread_mutex_destroy(&place->mutex));
        }
        note(&serial, who);
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    places = (union place *)calloc(rounds, sizeof *places);
    for (int round = 0; round < rounds; round++)
        must(pthread_barrier_init(&places[round].barrier, NULL, threads));
    crew(threads, worker);
    for (int round = 0; round < rounds; round++)
        for (unsigned byte = 0; round % 2 == 0 && byte < sizeof places->bytes; byte++)
            must_be(places[round].bytes[byte] == 0xa5);
    free(places);
    show("serial", &serial);
    return 0;
}
