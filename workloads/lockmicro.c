/* The cost of one lock and unlock.
 *
 *   lockmicro [-t THREADS] [-m MUTEXES] [-n OPERATIONS of each thread] [-a]
 *
 * One thread and one mutex: the plain uncontended loop. Otherwise each
 * operation locks a mutex chosen at random and adds one under it. The main
 * thread only waits, so the process always has more than one thread: without
 * a second one glibc locks without atomic instructions. -a measures that case,
 * the uncontended loop alone in its process. Prints one line with its own time
 * in it, so the output of a replay differs. */
#include "kernel.h"

#define BATCHES 50
#define MUTEXES_MAX 65536

struct counter {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	uint64_t value;
};

static int threads = 2;
static long mutexes = 1, operations = 1000000;
static struct counter *counters;
static pthread_barrier_t barrier;

static void add(struct counter *counter)
{
	pthread_mutex_lock(&counter->lock);
	counter->value++;
	pthread_mutex_unlock(&counter->lock);
}

static void *work(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument;
	kernel_barrier(&barrier);
	for (long i = 0; i < operations; i++)
		add(&counters[(kernel_random(&seed) >> 32) * (uint64_t)mutexes >> 32]);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

/* The median of batches: one interruption doesn't count. */
static void *uncontended(void *result)
{
	double batches[BATCHES];
	long each = operations / BATCHES;
	for (int b = 0; b < BATCHES; b++) {
		double started = kernel_now();
		for (long i = 0; i < each; i++)
			add(&counters[0]);
		batches[b] = (kernel_now() - started) * 1e9 / (double)each;
	}
	qsort(batches, BATCHES, sizeof *batches, by_size);
	*(double *)result = batches[BATCHES / 2];
	return NULL;
}

static double contended(void)
{
	pthread_t handles[KERNEL_THREADS_MAX];
	double started = kernel_now();
	for (int t = 0; t < threads; t++)
		KERNEL_DO(pthread_create(&handles[t], NULL, work, (void *)(uintptr_t)t));
	for (int t = 0; t < threads; t++)
		KERNEL_DO(pthread_join(handles[t], NULL));
	return (kernel_now() - started) * 1e9 / ((double)operations * threads);
}

static double measured(int alone)
{
	double ns;
	pthread_t handle;
	if (threads != 1 || mutexes != 1)
		return contended();
	if (alone) {
		uncontended(&ns);
	} else {
		KERNEL_DO(pthread_create(&handle, NULL, uncontended, &ns));
		KERNEL_DO(pthread_join(handle, NULL));
	}
	return ns;
}

int main(int argc, char **argv)
{
	int option, alone = 0;
	while ((option = getopt(argc, argv, "t:m:n:a")) != -1) {
		switch (option) {
		case 't': threads = (int)kernel_number("lockmicro", optarg, 1, KERNEL_THREADS_MAX); break;
		case 'm': mutexes = kernel_number("lockmicro", optarg, 1, MUTEXES_MAX); break;
		case 'n': operations = kernel_number("lockmicro", optarg, BATCHES, 1L << 40); break;
		case 'a': alone = 1; break;
		default: kernel_fail(2, "usage: lockmicro [-t threads] [-m mutexes] [-n operations] [-a]");
		}
	}
	operations = operations / BATCHES * BATCHES;
	counters = kernel_memory(mutexes, sizeof *counters);
	for (long m = 0; m < mutexes; m++)
		KERNEL_DO(pthread_mutex_init(&counters[m].lock, NULL));
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
	double ns = measured(alone);
	uint64_t sum = 0;
	for (long m = 0; m < mutexes; m++)
		sum += counters[m].value;
	KERNEL_VERIFY(sum == (uint64_t)(operations * threads), "%llu additions", (unsigned long long)sum);
	printf("lockmicro threads=%d mutexes=%ld ns_per_op=%.2f\n", threads, mutexes, ns);
	return 0;
}
