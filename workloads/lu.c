/* Blocked LU factorisation without pivoting, after SPLASH's lu: the blocks are
 * dealt to the threads in two dimensions, and a barrier ends each phase of
 * each step (diagonal, perimeter, interior). */
#include "kernel.h"

#define BLOCK 16

typedef double block[BLOCK][BLOCK];

static struct kernel kernel;
static int blocks; /* in one row */
static block *matrix;
static int rows_of_threads, columns_of_threads;
static pthread_barrier_t barrier;

static block *at(int i, int j)
{
	return &matrix[(size_t)i * blocks + j];
}

static int owner(int i, int j)
{
	return i % rows_of_threads * columns_of_threads + j % columns_of_threads;
}

static void factor(block *d)
{
	for (int k = 0; k < BLOCK; k++)
		for (int i = k + 1; i < BLOCK; i++) {
			(*d)[i][k] /= (*d)[k][k];
			for (int j = k + 1; j < BLOCK; j++)
				(*d)[i][j] -= (*d)[i][k] * (*d)[k][j];
		}
}

/* b := L(d)⁻¹ b, for a block right of the diagonal. */
static void solve_lower(block *b, block *d)
{
	for (int k = 0; k < BLOCK; k++)
		for (int i = k + 1; i < BLOCK; i++)
			for (int j = 0; j < BLOCK; j++)
				(*b)[i][j] -= (*d)[i][k] * (*b)[k][j];
}

/* b := b U(d)⁻¹, for a block below the diagonal. */
static void solve_upper(block *b, block *d)
{
	for (int i = 0; i < BLOCK; i++)
		for (int k = 0; k < BLOCK; k++) {
			(*b)[i][k] /= (*d)[k][k];
			for (int j = k + 1; j < BLOCK; j++)
				(*b)[i][j] -= (*b)[i][k] * (*d)[k][j];
		}
}

static void subtract_product(block *target, block *left, block *right)
{
	for (int i = 0; i < BLOCK; i++) {
		double row[BLOCK];
		memcpy(row, (*target)[i], sizeof row);
		for (int k = 0; k < BLOCK; k++)
			for (int j = 0; j < BLOCK; j++)
				row[j] -= (*left)[i][k] * (*right)[k][j];
		memcpy((*target)[i], row, sizeof row);
	}
}

static void work(int thread)
{
	for (int k = 0; k < blocks; k++) {
		if (owner(k, k) == thread)
			factor(at(k, k));
		kernel_barrier(&barrier);
		for (int i = k + 1; i < blocks; i++) {
			if (owner(k, i) == thread)
				solve_lower(at(k, i), at(k, k));
			if (owner(i, k) == thread)
				solve_upper(at(i, k), at(k, k));
		}
		kernel_barrier(&barrier);
		for (int i = k + 1; i < blocks; i++)
			for (int j = k + 1; j < blocks; j++)
				if (owner(i, j) == thread)
					subtract_product(at(i, j), at(i, k), at(k, j));
		kernel_barrier(&barrier);
	}
}

/* result += M x for the part of the matrix that `part` chooses: 0 all, -1 L, 1 U. */
static void times(double *result, const double *x, int part)
{
	for (int i = 0; i < blocks; i++)
		for (int j = 0; j < blocks; j++)
			for (int r = 0; r < BLOCK; r++)
				for (int c = 0; c < BLOCK; c++) {
					int row = i * BLOCK + r, column = j * BLOCK + c;
					double value = (*at(i, j))[r][c];
					if (part < 0)
						value = row > column ? value : row == column;
					else if (part > 0)
						value = row <= column ? value : 0;
					result[row] += value * x[column];
				}
}

static uint64_t round_of(uint64_t seed)
{
	long n = (long)blocks * BLOCK;
	double *x = kernel_memory(n, sizeof *x), *wanted = kernel_memory(n, sizeof *x);
	double *half = kernel_memory(n, sizeof *x), *got = kernel_memory(n, sizeof *x);
	for (int i = 0; i < blocks; i++)
		for (int j = 0; j < blocks; j++)
			for (int r = 0; r < BLOCK; r++)
				for (int c = 0; c < BLOCK; c++)
					(*at(i, j))[r][c] = kernel_uniform(&seed) - 0.5 + (i == j && r == c ? (double)n : 0);
	for (long i = 0; i < n; i++)
		x[i] = kernel_uniform(&seed);
	times(wanted, x, 0);
	kernel_parallel(kernel.threads, work);
	times(half, x, 1);
	times(got, half, -1);
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
	kernel = kernel_arguments(argc, argv, "lu", (struct kernel_sizes){ 2048, 3, 192, 1 });
	blocks = (int)((kernel.size + BLOCK - 1) / BLOCK);
	for (rows_of_threads = 1; rows_of_threads * rows_of_threads <= kernel.threads; rows_of_threads++)
		;
	do
		rows_of_threads--;
	while (kernel.threads % rows_of_threads != 0);
	columns_of_threads = kernel.threads / rows_of_threads;
	matrix = kernel_memory((size_t)blocks * blocks, sizeof *matrix);
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	uint64_t digest = 0;
	for (long r = 0; r < kernel.rounds; r++)
		digest = kernel_digest(digest, round_of((uint64_t)r));
	kernel_result(&kernel, digest, 1);
	return 0;
}
