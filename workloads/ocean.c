/* Grid solver in the manner of SPLASH's ocean: red-black successive
 * over-relaxation of a Poisson equation, the rows dealt to the threads, a
 * barrier after each colour, the residual added up under a mutex.
 *
 * A round is a time step: the right-hand side changes and the grid is relaxed
 * until the residual is small. The residual's last bits depend on the order of
 * the mutex, and with them could the number of sweeps. The exact solution is a
 * polynomial of degree three, for which the five-point formula has no error. */
#include "kernel.h"

#define TOLERANCE 1e-9

static struct kernel kernel;
static long side; /* points inside the border, in each direction */
static double *grid;
static double relaxation;
static pthread_barrier_t barrier;

static struct {
	pthread_mutex_t lock;
	double residual[2]; /* of this sweep, and of the next */
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t digest;

static double *at(long row, long column)
{
	return &grid[row * (side + 2) + column];
}

static double exact(long row, long column, double step)
{
	double x = (double)column / (double)(side + 1), y = (double)row / (double)(side + 1);
	return step * (x * x * y - 0.5 * y * y) + x * y * y;
}

/* The five-point sum of `exact`, that is its Laplacian times the square of the mesh width. */
static double source(long row, long column, double step)
{
	double h = 1.0 / (double)(side + 1), x = (double)column * h, y = (double)row * h;
	return h * h * (step * (2 * y - 1) + 2 * x);
}

/* Relaxes the points of one colour; returns the sum of the squares of the residuals. */
static double sweep(long first, long last, int colour, double step)
{
	double sum = 0;
	for (long row = first; row < last; row++)
		for (long column = 1 + ((row + colour) & 1); column <= side; column += 2) {
			double *point = at(row, column);
			double residual = point[-1] + point[1] + point[-(side + 2)] + point[side + 2] - 4 * *point -
					  source(row, column, step);
			*point += 0.25 * relaxation * residual;
			sum += residual * residual;
		}
	return sum;
}

static void set_border(double step)
{
	for (long i = 0; i <= side + 1; i++) {
		*at(0, i) = exact(0, i, step);
		*at(side + 1, i) = exact(side + 1, i, step);
		*at(i, 0) = exact(i, 0, step);
		*at(i, side + 1) = exact(i, side + 1, step);
	}
}

static void verify(double step)
{
	for (long row = 1; row <= side; row++)
		for (long column = 1; column <= side; column++) {
			double error = fabs(*at(row, column) - exact(row, column, step));
			KERNEL_VERIFY(error < 1e-5, "point %ld,%ld is off by %g", row, column, error);
		}
}

static long relax(int thread, long first, long last, double step)
{
	for (long sweeps = 0;; sweeps++) {
		int now = (int)(sweeps & 1);
		double sum = sweep(first, last, 0, step);
		kernel_barrier(&barrier);
		sum += sweep(first, last, 1, step);
		KERNEL_DO(pthread_mutex_lock(&shared.lock));
		shared.residual[now] += sum;
		KERNEL_DO(pthread_mutex_unlock(&shared.lock));
		kernel_barrier(&barrier);
		double residual = shared.residual[now];
		if (thread == 0)
			shared.residual[1 - now] = 0;
		kernel_barrier(&barrier);
		if (thread == 0)
			digest = kernel_digest(digest, kernel_bits(residual));
		if (sqrt(residual) < TOLERANCE)
			return sweeps;
		KERNEL_VERIFY(sweeps < 100 * side, "no convergence, residual %g", residual);
	}
}

static void work(int thread)
{
	long first, last;
	kernel_share(side, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		double step = 1 + (double)round;
		if (thread == 0) {
			set_border(step);
			shared.residual[0] = shared.residual[1] = 0;
		}
		kernel_barrier(&barrier);
		relax(thread, first + 1, last + 1, step);
		kernel_barrier(&barrier);
		if (thread == 0)
			verify(step);
		kernel_barrier(&barrier);
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "ocean", (struct kernel_sizes){ 512, 2, 32, 2 });
	side = kernel.size;
	relaxation = 2 / (1 + sin(M_PI / (double)(side + 1)));
	grid = kernel_memory((size_t)(side + 2) * (side + 2), sizeof *grid);
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	kernel_result(&kernel, digest, kernel.threads < 3);
	return 0;
}
