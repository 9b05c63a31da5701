/* Blocked Cholesky factorisation with a task queue, after SPLASH's cholesky:
 * a mutex and a condition variable around the queue, a mutex for each block.
 *
 * A = L Lᵀ, n × n, in blocks of BLOCK × BLOCK. Three tasks: FACTOR a diagonal
 * block, SOLVE a block below it, UPDATE block (i,j) by the finished blocks
 * (i,k) and (j,k). Updates of one block come in any order, so the last bits of
 * the result depend on the order of its mutex. */
#include "kernel.h"

#define BLOCK 24

enum action { FACTOR, SOLVE, UPDATE };

struct task {
	enum action action;
	int i, j, k;
};

struct block {
	double cell[BLOCK][BLOCK];
	pthread_mutex_t lock; /* cell, while updates are open */
	int open;             /* updates still to come; under queue.lock, as done */
	int done;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct task *tasks;
	long count, capacity;
	int waiting;
	int finished;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER };

static int blocks; /* in one row */
static struct block **matrix;

static struct block *at(int i, int j)
{
	return matrix[(size_t)i * (i + 1) / 2 + j];
}

/* With queue.lock held. */
static void push(enum action action, int i, int j, int k)
{
	if (queue.count == queue.capacity) {
		queue.capacity = queue.capacity ? 2 * queue.capacity : 1024;
		queue.tasks = realloc(queue.tasks, (size_t)queue.capacity * sizeof *queue.tasks);
		if (queue.tasks == NULL)
			kernel_fail(2, "no memory for %ld tasks", queue.capacity);
	}
	queue.tasks[queue.count++] = (struct task){ action, i, j, k };
	if (queue.waiting > 0)
		KERNEL_DO(pthread_cond_signal(&queue.filled));
}

/* With queue.lock held: the task that (i,j) waits for no longer, if any. */
static void push_when_ready(int i, int j)
{
	if (at(i, j)->open > 0)
		return;
	if (i == j)
		push(FACTOR, i, i, i);
	else if (at(j, j)->done)
		push(SOLVE, i, j, j);
}

static int pop(struct task *task)
{
	KERNEL_DO(pthread_mutex_lock(&queue.lock));
	while (queue.count == 0 && !queue.finished) {
		queue.waiting++;
		KERNEL_DO(pthread_cond_wait(&queue.filled, &queue.lock));
		queue.waiting--;
	}
	int some = queue.count > 0;
	if (some)
		*task = queue.tasks[--queue.count];
	KERNEL_DO(pthread_mutex_unlock(&queue.lock));
	return some;
}

static void factor(double (*a)[BLOCK])
{
	for (int j = 0; j < BLOCK; j++) {
		for (int k = 0; k < j; k++)
			for (int i = j; i < BLOCK; i++)
				a[i][j] -= a[i][k] * a[j][k];
		KERNEL_VERIFY(a[j][j] > 0, "the pivot is %g", a[j][j]);
		double root = sqrt(a[j][j]);
		for (int i = j; i < BLOCK; i++)
			a[i][j] /= root;
	}
	for (int i = 0; i < BLOCK; i++)
		for (int j = i + 1; j < BLOCK; j++)
			a[i][j] = 0;
}

/* a := a · diagonal⁻ᵀ */
static void solve(double (*a)[BLOCK], double (*diagonal)[BLOCK])
{
	for (int i = 0; i < BLOCK; i++)
		for (int j = 0; j < BLOCK; j++) {
			double sum = a[i][j];
			for (int k = 0; k < j; k++)
				sum -= a[i][k] * diagonal[j][k];
			a[i][j] = sum / diagonal[j][j];
		}
}

/* product := left · rightᵀ */
static void multiply(double (*product)[BLOCK], double (*left)[BLOCK], double (*right)[BLOCK])
{
	double turned[BLOCK][BLOCK];
	for (int i = 0; i < BLOCK; i++)
		for (int j = 0; j < BLOCK; j++)
			turned[j][i] = right[i][j];
	for (int i = 0; i < BLOCK; i++) {
		double row[BLOCK] = { 0 };
		for (int k = 0; k < BLOCK; k++)
			for (int j = 0; j < BLOCK; j++)
				row[j] += left[i][k] * turned[k][j];
		memcpy(product[i], row, sizeof row);
	}
}

static void update(const struct task *task)
{
	double product[BLOCK][BLOCK];
	struct block *target = at(task->i, task->j);
	multiply(product, at(task->i, task->k)->cell, at(task->j, task->k)->cell);
	KERNEL_DO(pthread_mutex_lock(&target->lock));
	for (int i = 0; i < BLOCK; i++)
		for (int j = 0; j < BLOCK; j++)
			target->cell[i][j] -= product[i][j];
	KERNEL_DO(pthread_mutex_unlock(&target->lock));
}

/* With queue.lock held: what a finished task makes possible. */
static void finish(const struct task *task)
{
	int i = task->i, j = task->j;
	switch (task->action) {
	case UPDATE:
		at(i, j)->open--;
		push_when_ready(i, j);
		return;
	case FACTOR:
		at(i, i)->done = 1;
		for (int below = i + 1; below < blocks; below++)
			push_when_ready(below, i);
		if (i == blocks - 1) {
			queue.finished = 1;
			KERNEL_DO(pthread_cond_broadcast(&queue.filled));
		}
		return;
	case SOLVE:
		at(i, j)->done = 1;
		for (int other = j + 1; other < blocks; other++)
			if (at(other, j)->done)
				push(UPDATE, other > i ? other : i, other > i ? i : other, j);
	}
}

static void work(int thread)
{
	struct task task;
	(void)thread;
	while (pop(&task)) {
		switch (task.action) {
		case FACTOR: factor(at(task.i, task.i)->cell); break;
		case SOLVE: solve(at(task.i, task.j)->cell, at(task.j, task.j)->cell); break;
		case UPDATE: update(&task);
		}
		KERNEL_DO(pthread_mutex_lock(&queue.lock));
		finish(&task);
		KERNEL_DO(pthread_mutex_unlock(&queue.lock));
	}
}

/* result += M x, or Mᵀ x, for the lower triangle M as it is stored. */
static void triangle_times(double *result, const double *x, int transposed)
{
	for (int i = 0; i < blocks; i++)
		for (int j = 0; j <= i; j++)
			for (int r = 0; r < BLOCK; r++)
				for (int c = 0; c < BLOCK && i * BLOCK + r >= j * BLOCK + c; c++) {
					int row = i * BLOCK + r, column = j * BLOCK + c;
					if (transposed)
						result[column] += at(i, j)->cell[r][c] * x[row];
					else
						result[row] += at(i, j)->cell[r][c] * x[column];
				}
}

/* A symmetric matrix that its diagonal dominates; only the lower triangle is kept. */
static void fill(uint64_t seed, long n)
{
	for (int i = 0; i < blocks; i++)
		for (int j = 0; j <= i; j++) {
			struct block *block = at(i, j);
			block->open = j;
			block->done = 0;
			for (int r = 0; r < BLOCK; r++)
				for (int c = 0; c < BLOCK; c++)
					block->cell[r][c] = kernel_uniform(&seed) - 0.5;
			for (int r = 0; i == j && r < BLOCK; r++)
				block->cell[r][r] = (double)n;
		}
}

static uint64_t round_of(const struct kernel *k, long n, uint64_t seed)
{
	double *x = kernel_memory(n, sizeof *x), *wanted = kernel_memory(n, sizeof *x);
	double *half = kernel_memory(n, sizeof *x), *got = kernel_memory(n, sizeof *x);
	fill(seed, n);
	for (long i = 0; i < n; i++)
		x[i] = kernel_uniform(&seed);
	triangle_times(wanted, x, 0);
	triangle_times(wanted, x, 1);
	for (long i = 0; i < n; i++) /* both triangles held the diagonal */
		wanted[i] -= (double)n * x[i];
	queue.finished = 0;
	push(FACTOR, 0, 0, 0);
	kernel_parallel(k->threads, work);
	triangle_times(half, x, 1);
	triangle_times(got, half, 0);
	uint64_t digest = 0;
	for (long i = 0; i < n; i++) {
		KERNEL_VERIFY(fabs(got[i] - wanted[i]) < 1e-9 * (double)n, "row %ld is %g, not %g", i, got[i], wanted[i]);
		digest = kernel_digest(digest, kernel_bits(got[i]));
	}
	free(x);
	free(wanted);
	free(half);
	free(got);
	return digest;
}

int main(int argc, char **argv)
{
	struct kernel k = kernel_arguments(argc, argv, "cholesky", (struct kernel_sizes){ 2400, 4, 240, 1 });
	uint64_t digest = 0;
	blocks = (int)((k.size + BLOCK - 1) / BLOCK);
	size_t count = (size_t)blocks * (blocks + 1) / 2;
	matrix = kernel_memory(count, sizeof *matrix);
	for (size_t b = 0; b < count; b++) {
		matrix[b] = kernel_memory(1, sizeof **matrix);
		KERNEL_DO(pthread_mutex_init(&matrix[b]->lock, NULL));
	}
	for (long r = 0; r < k.rounds; r++)
		digest = kernel_digest(digest, round_of(&k, (long)blocks * BLOCK, (uint64_t)r));
	kernel_result(&k, digest, k.threads == 1);
	return 0;
}
