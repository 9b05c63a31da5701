/* What every benchmark kernel shares: arguments, threads, random numbers,
 * verification, the result line.
 *
 *   KERNEL [-t THREADS] [-n SIZE] [-r ROUNDS] [-s] [-v]
 *
 * -s takes the kernel's small size (under 0.1 s), for tests. -v prints the wall
 * time to stderr. Standard output holds one line, without any time in it, so
 * that a replay can be compared with its recording byte by byte:
 *
 *   NAME threads=T size=N rounds=R result=HEX (any order | this order)
 *
 * "any order": every correct run prints this value. "this order": the value
 * depends on the order of the locks (rounding, who came first), so two plain
 * runs may differ, and a replay must not.
 *
 * The kernels synchronise by pthread calls only: no atomics, no spinning, no
 * data races. Exit status 1: the answer is wrong; 2: bad arguments, or a
 * system call failed. */
#ifndef KERNEL_H
#define KERNEL_H

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_THREADS_MAX 64
#define CACHE_LINE 64

/* What to run. */
struct kernel {
	const char *name;
	int threads;
	long size;
	long rounds;
	int verbose;
	double started;
};

/* A kernel's own sizes: the normal one runs 2 to 5 s with two threads. */
struct kernel_sizes {
	long size, rounds;
	long small_size, small_rounds;
};

__attribute__((noreturn, format(printf, 2, 3))) static inline void kernel_fail(int status, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

/* A pthread call that must return 0. */
#define KERNEL_DO(call)                                                                    \
	do {                                                                               \
		int error_ = (call);                                                       \
		if (error_ != 0)                                                           \
			kernel_fail(2, "%s:%d: %s: %s", __FILE__, __LINE__, #call,         \
				    strerror(error_));                                     \
	} while (0)

/* The answer is right, or the program ends with status 1. */
#define KERNEL_VERIFY(condition, ...)                                                      \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "wrong answer (%s): ", #condition);                \
			kernel_fail(1, __VA_ARGS__);                                       \
		}                                                                          \
	} while (0)

static inline double kernel_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline long kernel_number(const char *name, const char *text, long least, long most)
{
	char *end;
	long value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || value < least || value > most)
		kernel_fail(2, "%s: `%s` is not a number from %ld to %ld", name, text, least, most);
	return value;
}

static inline struct kernel kernel_arguments(int argc, char **argv, const char *name, struct kernel_sizes sizes)
{
	struct kernel k = { .name = name, .threads = 2, .size = sizes.size, .rounds = sizes.rounds };
	int option;
	while ((option = getopt(argc, argv, "t:n:r:sv")) != -1) {
		switch (option) {
		case 't': k.threads = (int)kernel_number(name, optarg, 1, KERNEL_THREADS_MAX); break;
		case 'n': k.size = kernel_number(name, optarg, 1, 1L << 32); break;
		case 'r': k.rounds = kernel_number(name, optarg, 1, 1L << 32); break;
		case 's': k.size = sizes.small_size; k.rounds = sizes.small_rounds; break;
		case 'v': k.verbose = 1; break;
		default: kernel_fail(2, "usage: %s [-t threads] [-n size] [-r rounds] [-s] [-v]", name);
		}
	}
	if (optind != argc)
		kernel_fail(2, "%s: unexpected argument `%s`", name, argv[optind]);
	k.started = kernel_now();
	return k;
}

/* The one line of standard output. `bits` is the result, every bit of it. */
static inline void kernel_result(const struct kernel *k, uint64_t bits, int any_order)
{
	printf("%s threads=%d size=%ld rounds=%ld result=%016llx (%s order)\n", k->name, k->threads, k->size,
	       k->rounds, (unsigned long long)bits, any_order ? "any" : "this");
	if (k->verbose)
		fprintf(stderr, "%s: %.3f s\n", k->name, kernel_now() - k->started);
}

/* Zeroed, aligned to a cache line; never freed, the process ends soon. */
static inline void *kernel_memory(size_t count, size_t each)
{
	size_t bytes = (count * each + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *memory = aligned_alloc(CACHE_LINE, bytes);
	if (memory == NULL)
		kernel_fail(2, "no memory for %zu bytes", bytes);
	return memset(memory, 0, bytes);
}

struct kernel_part {
	void (*work)(int thread);
	int thread;
};

static inline void *kernel_start(void *argument)
{
	struct kernel_part *part = argument;
	part->work(part->thread);
	return NULL;
}

/* Runs work(0) … work(threads - 1) at the same time and waits for all. */
static inline void kernel_parallel(int threads, void (*work)(int thread))
{
	pthread_t handles[KERNEL_THREADS_MAX];
	struct kernel_part parts[KERNEL_THREADS_MAX];
	for (int t = 1; t < threads; t++) {
		parts[t] = (struct kernel_part){ work, t };
		KERNEL_DO(pthread_create(&handles[t], NULL, kernel_start, &parts[t]));
	}
	work(0);
	for (int t = 1; t < threads; t++)
		KERNEL_DO(pthread_join(handles[t], NULL));
}

/* Waits until every thread has arrived. */
static inline void kernel_barrier(pthread_barrier_t *barrier)
{
	int result = pthread_barrier_wait(barrier);
	if (result != PTHREAD_BARRIER_SERIAL_THREAD)
		KERNEL_DO(result);
}

/* The part [first, last) of `count` things that belongs to `thread`. */
static inline void kernel_share(long count, int threads, int thread, long *first, long *last)
{
	*first = count * thread / threads;
	*last = count * (thread + 1) / threads;
}

/* SplitMix64: a stream of its own for each seed, the same in every run. */
static inline uint64_t kernel_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double kernel_uniform(uint64_t *state)
{
	return (double)(kernel_random(state) >> 11) * 0x1p-53;
}

/* Folds `value` into the digest `digest`; the order of the calls matters. */
static inline uint64_t kernel_digest(uint64_t digest, uint64_t value)
{
	uint64_t state = digest ^ value;
	return kernel_random(&state);
}

static inline uint64_t kernel_bits(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

#endif
