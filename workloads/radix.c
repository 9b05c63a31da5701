/* Parallel radix sort, after SPLASH's radix: the largest key is found under a
 * mutex; then for each digit every thread counts its own part, barrier, every
 * thread adds up where its keys go, barrier, every thread moves its keys,
 * barrier. The totals of a digit are added up under a mutex of its own. */
#include "kernel.h"

#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
#define STRIPES 16 /* mutexes over the totals */

static struct kernel kernel;
static uint32_t *keys, *sorted;
static pthread_barrier_t barrier;
static long (*counts)[DIGITS]; /* of each thread */

static struct {
	pthread_mutex_t lock;
	uint32_t largest;
	uint64_t digest;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
	pthread_mutex_t lock;
	long totals[DIGITS / STRIPES];
} stripes[STRIPES];

static long total(int digit)
{
	return stripes[digit / (DIGITS / STRIPES)].totals[digit % (DIGITS / STRIPES)];
}

/* The sum of mixed keys: the same for every arrangement of them. */
static uint64_t digest_of(const uint32_t *from, long first, long last)
{
	uint64_t sum = 0;
	for (long i = first; i < last; i++)
		sum += kernel_digest(0, from[i]);
	return sum;
}

static void fill(long first, long last, uint64_t round)
{
	uint32_t largest = 0;
	for (long i = first; i < last; i++) {
		uint64_t seed = round << 40 | (uint64_t)i;
		keys[i] = (uint32_t)kernel_random(&seed) >> 4;
		if (keys[i] > largest)
			largest = keys[i];
	}
	uint64_t digest = digest_of(keys, first, last);
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	if (largest > shared.largest)
		shared.largest = largest;
	shared.digest += digest;
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
}

static void count(int thread, const uint32_t *from, long first, long last, int shift)
{
	long *mine = counts[thread];
	memset(mine, 0, sizeof counts[thread]);
	for (long i = first; i < last; i++)
		mine[from[i] >> shift & (DIGITS - 1)]++;
	for (int s = 0; s < STRIPES; s++) {
		int stripe = (s + thread) % STRIPES;
		KERNEL_DO(pthread_mutex_lock(&stripes[stripe].lock));
		for (int d = 0; d < DIGITS / STRIPES; d++)
			stripes[stripe].totals[d] += mine[stripe * (DIGITS / STRIPES) + d];
		KERNEL_DO(pthread_mutex_unlock(&stripes[stripe].lock));
	}
}

static void move(int thread, uint32_t *to, const uint32_t *from, long first, long last, int shift)
{
	long places[DIGITS], before = 0;
	for (int d = 0; d < DIGITS; d++) {
		places[d] = before;
		for (int t = 0; t < thread; t++)
			places[d] += counts[t][d];
		before += total(d);
	}
	for (long i = first; i < last; i++)
		to[places[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

static void work(int thread)
{
	long first, last;
	kernel_share(kernel.size, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		fill(first, last, (uint64_t)round);
		kernel_barrier(&barrier);
		uint32_t largest = shared.largest;
		uint32_t *from = keys, *to = sorted;
		for (int shift = 0; shift < 32 && largest >> shift != 0; shift += DIGIT_BITS) {
			count(thread, from, first, last, shift);
			kernel_barrier(&barrier);
			move(thread, to, from, first, last, shift);
			kernel_barrier(&barrier);
			if (thread == 0)
				for (int s = 0; s < STRIPES; s++)
					memset(stripes[s].totals, 0, sizeof stripes[s].totals);
			kernel_barrier(&barrier);
			uint32_t *other = from;
			from = to;
			to = other;
		}
		if (thread == 0) {
			KERNEL_VERIFY(digest_of(from, 0, kernel.size) == shared.digest, "keys were lost");
			for (long i = 1; i < kernel.size; i++)
				KERNEL_VERIFY(from[i - 1] <= from[i], "key %ld is out of order", i);
			if (round + 1 < kernel.rounds)
				shared.digest = 0;
			shared.largest = 0;
		}
		kernel_barrier(&barrier);
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "radix", (struct kernel_sizes){ 1L << 22, 36, 1L << 14, 2 });
	keys = kernel_memory(kernel.size, sizeof *keys);
	sorted = kernel_memory(kernel.size, sizeof *sorted);
	counts = kernel_memory(kernel.threads, sizeof *counts);
	for (int s = 0; s < STRIPES; s++)
		KERNEL_DO(pthread_mutex_init(&stripes[s].lock, NULL));
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	kernel_result(&kernel, shared.digest, 1);
	return 0;
}
