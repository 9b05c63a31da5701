//! Programs in which `relive races` is to find something, or nothing.
//!
//! Apart from what is asked about them because they are C.

/// What it prints here, where the count is not what it raced for: now and then a call is lost.
pub(crate) const TALLIED: &str = "999000 in 2000 calls\n";
/// A block of the heap that its threads use, one of them after it was given back, and a status of its own.
pub(crate) const BLOCK: &str = "#include <pthread.h>
#include <stdlib.h>
struct node { long before[3]; volatile int value; };
static struct node *node;
static void *user(void *argument) {
    node->value = 1;
    return argument;
}
static void *other(void *argument) {
    node->value = 2;
    return argument;
}
static struct node *make(void) { return malloc(sizeof *node); }
int main(void) {
    pthread_t threads[2];
    node = make();
    pthread_create(&threads[0], NULL, user, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    free(node);
    return 3;
}
";

/// In a recording the reader sleeps until the writer is done. No replay sleeps: there it reads first, and leaves out the lock.
pub(crate) const LATE: &str = "#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int ready;
static volatile long sum;
static void *writer(void *argument) {
    for (long n = 0; n < 50000000; n++) sum += n;
    ready = 1;
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, writer, NULL);
    sleep(2);
    if (ready) {
        pthread_mutex_lock(&lock);
        puts(\"ready\");
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    return 0;
}
";

/// Two threads with a lock each write to a variable on the stack of the first.
pub(crate) const HELD: &str = "#include <pthread.h>
static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static __attribute__((noinline)) void enter(int which) {
    pthread_mutex_lock(&locks[which]);
}
static void *adder(void *argument) {
    int *result = argument;
    enter(0);
    *result += 7;
    pthread_mutex_unlock(&locks[0]);
    return argument;
}
static void *setter(void *argument) {
    double *share = (double *)((int *)argument + 2);
    int *result = argument;
    enter(1);
    *result = 40;
    *share = 0.5;
    pthread_mutex_unlock(&locks[1]);
    return argument;
}
struct results { int sum, unused; double share; };
int main(void) {
    struct results results = { 0 };
    pthread_t threads[2];
    pthread_create(&threads[0], 0, adder, &results);
    pthread_create(&threads[1], 0, setter, &results);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return results.sum > 100;
}
";

/// Readers count themselves; nothing of it is inlined, and the function that does it has no frame of its own.
pub(crate) const READERS: &str = "#include <pthread.h>
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int readers;
static void add(void) { readers++; }
static void count(void) { add(); }
static void *reader(void *argument) {
    pthread_rwlock_rdlock(&table);
    count();
    pthread_rwlock_unlock(&table);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], 0, reader, 0);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return 0;
}
";

/// Nodes of the heap, each with a flag that nobody declared atomic and what it guards.
pub(crate) const NODES: &str = "#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
struct node { int data; volatile int ready; };
static struct node *nodes[5];
static struct node *make(void) { return calloc(1, sizeof(struct node)); }
static void publish(struct node *node) {
    node->data = 42;
    node->ready = 1;
}
static void *writer(void *argument) {
    for (int n = 0; n < 5; n++) publish(nodes[n]);
    return argument;
}
static void *reader(void *argument) {
    int sum = 0;
    for (int n = 0; n < 5; n++) {
        while (!nodes[n]->ready) sched_yield();
        sum += nodes[n]->data;
    }
    return sum == 210 ? argument : nodes;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 5; n++) nodes[n] = make();
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// Two threads write many bytes at once, by a string instruction and by a vector.
pub(crate) const WIDE: &str = "#include <pthread.h>
#include <string.h>
typedef char vector __attribute__((vector_size(16), aligned(1)));
static __attribute__((aligned(64))) char area[64];
static char other[200];
static void *filler(void *argument) {
    void *to = area;
    unsigned long count = 12;
    __asm__ volatile(\"rep stosl\" : \"+D\"(to), \"+c\"(count) : \"a\"(0x04030201) : \"memory\");
    memset(other, 'x', sizeof other);
    return argument;
}
static void *layer(void *argument) {
    *(volatile vector *)(area + 41) = (vector){ 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' };
    volatile char seen = other[100];
    return seen ? argument : 0;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, filler, 0);
    pthread_create(&threads[1], 0, layer, 0);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return 0;
}
";

/// A variable that nobody declared atomic guards another one.
pub(crate) const FLAG: &str = "#include <pthread.h>
#include <sched.h>
static volatile int ready;
static int data;
static void *writer(void *argument) {
    data = 42;
    ready = 1;
    return argument;
}
static void *reader(void *argument) {
    while (!ready) sched_yield();
    return data == 42 ? argument : &data;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// Two threads with names of their own set two variables by one function, called in one line, and a thread-local one of the
/// first thread.
pub(crate) const NAMED: &str = "#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
static sem_t named;
static short cold, colder;
static __thread double share;
static double *whose;
static __attribute__((noinline)) void set(short *what, short value) {
    *what = value;
}
static void *chief(void *argument) {
    prctl(PR_SET_NAME, \"chief\", 0, 0, 0);
    set(&cold, -7), set(&colder, -7);
    *whose = 1.5;
    return argument;
}
static void *helper(void *argument) {
    sem_wait(&named);
    set(&cold, -8), set(&colder, -8);
    *whose = 2.5;
    return argument;
}
int main(void) {
    pthread_t threads[2];
    whose = &share;
    sem_init(&named, 0, 0);
    pthread_create(&threads[0], NULL, chief, NULL);
    pthread_create(&threads[1], NULL, helper, NULL);
    pthread_setname_np(threads[1], \"helper\");
    sem_post(&named);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// A mutex that one thread locks again and again, and another one unlocks, by the clock alone.
pub(crate) const HANDED: &str = r"
#include <pthread.h>
#include <time.h>

enum { ROUNDS = 20 };
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *goes_through(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        // So long that the other one, whose waits take no time in a replay, is there first.
        for (volatile int step = 0; step < 100000; step++)
            ;
        pthread_mutex_lock(&gate);
    }
    return argument;
}

int main(void)
{
    struct timespec short_while = {0, 10000}, while_of_lock = {0, 200000};
    pthread_t through;
    pthread_create(&through, NULL, goes_through, NULL);
    for (int opened = 0; opened < ROUNDS; opened++) {
        while (pthread_mutex_trylock(&gate) == 0) {
            pthread_mutex_unlock(&gate);
            nanosleep(&short_while, NULL);
        }
        nanosleep(&while_of_lock, NULL);
        pthread_mutex_unlock(&gate);
    }
    pthread_join(through, NULL);
    return 0;
}
";

/// A library with thread-local variables, whatever `NAME` is.
pub(crate) const LIBRARY: &str = "static __thread long before[3];
static __thread struct { int of, NAME; } kept;
long *NAME(void) { before[0]++; return (long *)&kept; }
";

/// A thread gets those of two libraries lent.
pub(crate) const LENT: &str = "#include <pthread.h>
long *left(void), *right(void);
static __thread long own;
static void *write_all(void *of)
{
    long **lent = of;
    ((int *)lent[0])[1] = 7;
    ((int *)lent[1])[1] = 7;
    return 0;
}
int main(void)
{
    long *lent[] = { left(), right() };
    own = 1;
    pthread_t thread;
    pthread_create(&thread, 0, write_all, lent);
    ((int *)lent[0])[1] = 8;
    ((int *)lent[1])[1] = 8;
    pthread_join(thread, 0);
    return own != 1;
}
";

/// One thread reads a number in each of its critical sections; the other one writes it in one of its own: if there is an
/// argument, while the first one goes on, which it does until it sees that; else behind all of them.
pub(crate) const OFTEN: &str = "#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(64) int number;
static _Alignas(64) int rounds;
static void write_behind(int wanted) {
    for (int passed = 0; passed < wanted;) {
        pthread_mutex_lock(&lock);
        passed = rounds;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    number++;
    pthread_mutex_unlock(&lock);
}
static void *reader(void *argument) {
    int seen = 0;
    for (int n = 0; n < 600 || (argument && seen < 5); n++) {
        pthread_mutex_lock(&lock);
        seen = number;
        rounds++;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}
int main(int count, char **words) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, reader, words[1])) abort();
    if (count == 1) pthread_join(thread, NULL);
    for (int n = 1; n <= 5; n++) write_behind(count > 1 ? n * 100 : 0);
    if (count > 1) pthread_join(thread, NULL);
    return 0;
}
";

/// Blocks of the heap that are handed over by a member whose type is atomic.
pub(crate) const BOXES: &str = "#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
struct box { atomic_int ready; int *data; };
static void give(struct box *box, int value) {
    *box->data = value;
    atomic_store_explicit(&box->ready, 1, memory_order_release);
}
static int take(struct box *box) {
    while (!atomic_load_explicit(&box->ready, memory_order_acquire)) sched_yield();
    return *box->data;
}
static void *giver(void *boxes) {
    for (int n = 0; n < 5; n++) give((struct box *)boxes + n, n + 1);
    return 0;
}
int main(void) {
    struct box *boxes = calloc(5, sizeof *boxes);
    for (int n = 0; n < 5; n++) boxes[n].data = malloc(sizeof(int));
    pthread_t thread;
    pthread_create(&thread, 0, giver, boxes);
    int sum = 0;
    for (int n = 0; n < 5; n++) sum += take(boxes + n);
    pthread_join(thread, 0);
    return sum != 15;
}
";

/// A list whose members race, each in a line of its own.
pub(crate) const ITEMS: &str = "#include <pthread.h>
#include <stdlib.h>
enum color { RED, GREEN = 5 };
struct item { double weight; enum color color; short tags[4]; };
struct list { long count; struct item *head; };
static void *change(void *argument) {
    struct list *list = argument;
    struct item *item = list->head;
    item->weight = 1.5;
    item->color = GREEN;
    item->tags[2] = -7;
    return 0;
}
int main(void) {
    struct list list = { 1, calloc(1, sizeof(struct item)) };
    pthread_t thread;
    pthread_create(&thread, 0, change, &list);
    change(&list);
    pthread_join(thread, 0);
    return 0;
}
";
