/* A hash table that all threads fill: each counts the keys of a random stream
 * of its own in a table of chains. One of 256 mutexes guards every 256th
 * chain, so nearly every operation is a lock, a short walk and an unlock.
 *
 * -n is the number of keys in a round, of all threads together. */
#include "kernel.h"

#define MUTEXES 256
#define CHAINS (1 << 14)
#define KEYS (1 << 15)

struct node {
	uint64_t key, count;
	struct node *next;
};

static struct kernel kernel;
static struct node *chains[CHAINS];
static struct {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
} stripes[MUTEXES];

/* Of each thread. */
static struct counting {
	_Alignas(CACHE_LINE) struct node *unused;
	uint64_t sum;
} *counting;

/* What one occurrence of a key adds to the checked sum. */
static uint64_t weight(uint64_t key)
{
	return kernel_digest(0, key);
}

static void count(struct counting *mine, uint64_t key)
{
	uint64_t state = key;
	unsigned chain = (unsigned)kernel_random(&state) % CHAINS;
	pthread_mutex_t *lock = &stripes[chain % MUTEXES].lock;
	KERNEL_DO(pthread_mutex_lock(lock));
	struct node *node = chains[chain];
	while (node != NULL && node->key != key)
		node = node->next;
	if (node == NULL) {
		node = mine->unused++;
		*node = (struct node){ .key = key, .next = chains[chain] };
		chains[chain] = node;
	}
	node->count++;
	KERNEL_DO(pthread_mutex_unlock(lock));
}

static void work(int thread)
{
	struct counting *mine = &counting[thread];
	long first, last;
	kernel_share(kernel.size, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		uint64_t seed = (uint64_t)round << 8 | (uint64_t)thread;
		for (long i = first; i < last; i++) {
			uint64_t key = kernel_random(&seed) % KEYS;
			count(mine, key);
			mine->sum += weight(key);
		}
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "hash", (struct kernel_sizes){ 1L << 20, 40, 1L << 14, 2 });
	counting = kernel_memory(kernel.threads, sizeof *counting);
	for (int t = 0; t < kernel.threads; t++)
		counting[t].unused = kernel_memory(KEYS, sizeof(struct node));
	for (int m = 0; m < MUTEXES; m++)
		KERNEL_DO(pthread_mutex_init(&stripes[m].lock, NULL));
	kernel_parallel(kernel.threads, work);
	uint64_t occurrences = 0, sum = 0, wanted = 0;
	for (int c = 0; c < CHAINS; c++)
		for (struct node *node = chains[c]; node != NULL; node = node->next) {
			occurrences += node->count;
			sum += node->count * weight(node->key);
		}
	for (int t = 0; t < kernel.threads; t++)
		wanted += counting[t].sum;
	KERNEL_VERIFY(occurrences == (uint64_t)(kernel.size * kernel.rounds), "%llu keys",
		      (unsigned long long)occurrences);
	KERNEL_VERIFY(sum == wanted, "keys were mixed up");
	kernel_result(&kernel, sum, 1);
	return 0;
}
